"""Who computes router scores, how precisely, and who does when the caller leaves it open."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from workbench.errors import InvalidArgument
from workbench.tables.providers import Dispatch


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
    """Let ``provider="auto"`` go by a table, such as `workbench.tables.Dispatch`.

    None goes back to what holds from the start: tables of one's own, where `workbench.tables.save_table` puts them, for
    the GPU that a product runs on. Compiled code asks no table, for it serves any number of tokens.

    Raises
    ------
    InvalidArgument
        It has no method ``choose``.
    """
    global _table
    if table is not None and not callable(getattr(table, "choose", None)):
        raise InvalidArgument(
            f"table is a {type(table).__name__}, which has no method choose(m, n, k, precision); give a "
            "workbench.tables.Dispatch, such as Dispatch(gpu, [load_table(path)])."
        )
    _table = table


_own_tables = lru_cache(maxsize=64)(Dispatch)


def resolve(
    provider: str,
    m: int,
    n: int,
    k: int,
    precision: str = "split",
    *,
    own: str = "cuda",
    gpu: str | None = None,
    by_table: bool = True,
) -> str:
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
    gpu : str, optional
        The GPU that the product runs on; None: none, or it is not known, so no table of one's own is asked.
    by_table : bool
        Whether tables are asked. Not in compiled code, where m may stand for any number.

    Raises
    ------
    InvalidArgument
        For an unknown provider or precision, or a table that chooses a less precise one.
    TableError
        The table in use is for another GPU, or its file is damaged.
    """
    if provider != "auto":
        if not isinstance(provider, str) or provider not in PROVIDERS:
            raise InvalidArgument(f"provider is {provider!r}; give auto, {', '.join(PROVIDERS)}.")
        return provider
    if precision not in PRECISIONS:
        raise InvalidArgument(f"precision is {precision!r}; give {', '.join(PRECISIONS)}.")
    table = _table if by_table else None
    if by_table and gpu is not None:
        if isinstance(table, Dispatch):
            table.check(gpu)
        table = table or _own_tables(gpu)
    chosen = table.choose(m, n, k, precision) if table else None
    if chosen is None or (chosen == "cuda" != own):  # the CUDA kernel does not run there
        return own if _precise_enough(own, precision) else "torch"
    if not isinstance(chosen, str) or chosen not in PROVIDERS:
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
