"""A rule that gives a provider for every number of rows: the common form of a table, a threshold and a constant."""

from __future__ import annotations

import operator
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import numpy as np
import numpy.typing as npt

from workbench.errors import InvalidArgument


@dataclass(frozen=True)
class Choice:
    """Which provider computes a call of M rows: ``providers[i]`` from ``starts[i]`` on, up to the next start.

    Attributes
    ----------
    starts : tuple of int
        First M of each piece, ascending, the first 0.
    providers : tuple of str
        One a piece.
    label : str
        What this rule is, for a table or a legend.

    Raises
    ------
    InvalidArgument
        The pieces do not cover every M >= 0 once.
    """

    starts: tuple[int, ...]
    providers: tuple[str, ...]
    label: str

    def __post_init__(self) -> None:
        ascending = all(a < b for a, b in pairwise(self.starts))
        if not self.starts or self.starts[0] != 0 or not ascending or len(self.starts) != len(self.providers):
            raise InvalidArgument(
                f"a choice has {len(self.providers)} providers from M = {list(self.starts)[:8]} on; give ascending "
                "starts, the first 0, and one provider each"
            )

    @classmethod
    def always(cls, provider: str, label: str | None = None) -> Self:
        """One provider for every M."""
        return cls((0,), (provider,), label or f"always {provider}")

    @classmethod
    def threshold(cls, below: str, first: int, above: str, label: str) -> Self:
        """`below` for M < `first`, `above` from there on."""
        return cls((0, first), (below, above), label) if first > 0 else cls((0,), (above,), label)

    def at(self, m: int) -> str:
        """The provider for M rows.

        Raises
        ------
        InvalidArgument
            `m` is not a whole number from 0.
        """
        try:
            rows = operator.index(m)
        except TypeError:
            rows = -1
        if rows < 0:
            raise InvalidArgument(f"m={m!r}; give a whole number of rows, 0 or more")
        return self.providers[bisect_right(self.starts, rows) - 1]

    def pieces_at(self, m: npt.ArrayLike) -> npt.NDArray[np.intp]:
        """Index of the piece for each M, intp of the same shape; ``providers[index]`` is the provider."""
        piece: npt.NDArray[np.intp] = np.searchsorted(np.asarray(self.starts), np.asarray(m), side="right") - 1
        return piece

    def merged(self) -> Self:
        """The same rule without boundaries between equal providers."""
        kept = [i for i, name in enumerate(self.providers) if i == 0 or name != self.providers[i - 1]]
        return type(self)(_take(self.starts, kept), tuple(self.providers[i] for i in kept), self.label)


def _take(values: Sequence[int], kept: Sequence[int]) -> tuple[int, ...]:
    return tuple(values[i] for i in kept)
