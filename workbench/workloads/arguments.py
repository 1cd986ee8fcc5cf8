"""Is this argument a number that we can work with? Functions of this package ask here, so all refuse in one way."""

from __future__ import annotations

import numpy as np

from workbench.errors import InvalidArgument


def whole(name: str, value: object, low: int, high: int | None = None) -> int:
    """Return an argument as an int.

    Raises
    ------
    InvalidArgument
        Unless it is a whole number from ``low`` to ``high``.
    """
    number = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not number or not low <= value or (high is not None and value > high):  # type: ignore[operator]
        limits = f"{low} or more" if high is None else f"between {low} and {high:,}"
        raise InvalidArgument(f"{name}={value!r}; give a whole number {limits}")
    return int(value)  # type: ignore[call-overload, no-any-return]


def real(name: str, value: object, limits: str, low: float, high: float) -> float:
    """Return an argument as a float.

    Raises
    ------
    InvalidArgument
        Unless it is a number from ``low`` to ``high``; `limits` says that in words.
    """
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not number or not low <= value <= high:  # type: ignore[operator]
        raise InvalidArgument(f"{name}={value!r}; give {limits}")
    return float(value)  # type: ignore[arg-type]


def generator(seed: object) -> np.random.Generator:
    """A random generator; raises `InvalidArgument` unless the seed is a whole number from 0."""
    return np.random.default_rng(whole("seed", seed, 0))
