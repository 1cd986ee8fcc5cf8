"""Precision classes of the router product: how far its scores may be from exact ones.

A class is a bound on the relative error, norm(y - exact) / norm(exact) with the exact product of the bf16 activations
and FP32 weights in float64. A class allows itself and everything more accurate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from workbench.errors import InvalidArgument

CLASSES: Mapping[str, float] = MappingProxyType({"fp32": 2e-6, "split": 1e-5, "tf32": 5e-4, "bf16": 5e-3})
"""Largest relative error of each class, from the most accurate to the least.

Measured on an H200: ``fp32``, FP32 products and sums (1e-7 to 1.1e-6, growing with K and M), or the split with three
terms; ``split``, two bf16 products (2.4e-6 to 7.2e-6); ``tf32``, weights of 10 bits (2.1e-4); ``bf16``, weights of 7
bits (2.3e-3).
"""


def check_class(name: object) -> str:
    """Return the name of a precision class.

    Raises
    ------
    InvalidArgument
        There is no such class.
    """
    if not isinstance(name, str) or name not in CLASSES:
        raise InvalidArgument(f"precision {name!r} is not known; give one of {', '.join(CLASSES)}.")
    return name


def allows(limit: str, own: str) -> bool:
    """Whether a provider of class `own` may be used where `limit` is asked for.

    Raises
    ------
    InvalidArgument
        There is no such class.
    """
    order = list(CLASSES)
    return order.index(check_class(own)) <= order.index(check_class(limit))


def class_of(rel_errors: Iterable[float], declared: str | None = None) -> str | None:
    """The most accurate class that every error fits.

    Parameters
    ----------
    rel_errors
        Measured relative errors of one provider, as many as there are.
    declared
        The class by design; the answer is never more accurate.

    Returns
    -------
    str or None
        None where an error is beyond every class, or there is neither an error nor a declared class.
    """
    errors = list(rel_errors)
    order = list(CLASSES)
    measured = next((name for name in order if max(errors) <= CLASSES[name]), None) if errors else declared
    if measured is None or declared is None:
        return measured
    return max(measured, check_class(declared), key=order.index)
