"""Who computes router scores, how precisely, and who does when the caller leaves it open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from workbench.errors import InvalidArgument


@dataclass(frozen=True)
class Precision:
    """A class of arithmetic.

    Attributes
    ----------
    name : str
    rank : int
        Larger is less precise.
    typical : float
        Relative error against float64 on an H200 for hidden sizes of 3,072 to 6,144.
    """

    name: str
    rank: int
    typical: float


PRECISIONS = {
    precision.name: precision
    for precision in (
        Precision("fp32", 0, 3e-7),
        Precision("split3", 1, 4e-7),
        Precision("split", 2, 6e-6),
        Precision("tf32", 3, 2.1e-4),
        Precision("bf16", 4, 2.3e-3),
    )
}
"""From the most to the least precise: FP32; three and two bf16 terms of the weight; TF32; plain bf16."""

PROVIDERS = {
    "cuda": ("split", "split3"),
    "triton": ("split", "split3"),
    "torch": ("fp32",),
    "tf32": ("tf32",),
    "bf16": ("bf16",),
}
"""Providers and the classes they compute in; ``cuda`` and ``triton`` go by the terms of the weight."""


class Table(Protocol):
    """What says which provider is fastest."""

    def choose(self, m: int, n: int, k: int, precision: str) -> str | None:
        """The provider for m tokens, n experts, hidden size k at ``precision`` or better; None where unknown."""


_table: Table | None = None


def use_table(table: Table | None) -> None:
    """Let ``provider="auto"`` go by a table; None goes back to the workbench's own kernels."""
    global _table
    _table = table


def resolve(provider: str, m: int, n: int, k: int, precision: str = "split", *, own: str = "cuda") -> str:
    """Name the provider that runs a product.

    Parameters
    ----------
    provider : str
        A name of :data:`PROVIDERS`, which is returned as it is, or ``"auto"``.
    m, n, k : int
        Tokens, experts, hidden size.
    precision : str
        The least precise class that ``"auto"`` may choose.
    own : str
        What ``"auto"`` takes where no table decides: ``"cuda"``, or ``"triton"`` where the CUDA kernel does not run;
        ``"torch"`` instead where neither is precise enough.

    Raises
    ------
    InvalidArgument
        For an unknown provider or precision, or a table that chooses a less precise one.
    """
    if provider != "auto":
        if provider not in PROVIDERS:
            raise InvalidArgument(f"provider is {provider!r}; give auto, {', '.join(PROVIDERS)}.")
        return provider
    if precision not in PRECISIONS:
        raise InvalidArgument(f"precision is {precision!r}; give {', '.join(PRECISIONS)}.")
    chosen = _table.choose(m, n, k, precision) if _table else None
    if chosen is None:
        return own if _precise_enough(own, precision) else "torch"
    if chosen not in PROVIDERS:
        raise InvalidArgument(f"the dispatch table chose {chosen!r}; providers are {', '.join(PROVIDERS)}.")
    if not _precise_enough(chosen, precision):
        raise InvalidArgument(
            f"the dispatch table chose {chosen!r}, which is less precise than {precision!r}; make the table for that "
            "class, or name the provider."
        )
    return chosen


def _precise_enough(provider: str, precision: str) -> bool:
    """Whether a provider has a class that is no less precise."""
    return any(PRECISIONS[each].rank <= PRECISIONS[precision].rank for each in PROVIDERS[provider])
