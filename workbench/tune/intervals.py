"""From comparisons at single M to intervals of M, each with a winner or undecided.

What is measured holds at the measured M. Between two of them with the same winner, that winner is assumed, for kernels
change slowly between the steps of their tiles, and the grid has both sides of each likely step. Between two with
different winners, or beside one that is undecided, nobody is named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from workbench.tune.verdicts import Verdict


@dataclass(frozen=True)
class Interval:
    """Neighbouring M, both ends included.

    Attributes
    ----------
    low, high : int
    winner : str or None
        None: undecided.
    measured : tuple of int
        The M in it that were measured. Everything else in it is assumed.
    """

    low: int
    high: int
    winner: str | None
    measured: tuple[int, ...]

    @property
    def widest_gap(self) -> int:
        """Largest number of neighbouring M in the interval that were not measured."""
        edges = (self.low - 1, *self.measured, self.high + 1)
        return max(b - a - 1 for a, b in pairwise(edges))


@dataclass(frozen=True)
class Crossing:
    """Somewhere in ``low < M <= high`` the winner changes from one provider to another.

    Attributes
    ----------
    low, high : int
        Last M where `before` was shown to win, and first where `after` was. What is between may hold several changes.
    before, after : str
    """

    low: int
    high: int
    before: str
    after: str


def intervals_of(verdicts: Sequence[Verdict]) -> tuple[Interval, ...]:
    """Cover the M from the first to the last verdict without gap or overlap.

    Parameters
    ----------
    verdicts
        By ascending M.
    """
    pieces: list[Interval] = []
    for before, here in zip((None, *verdicts), verdicts, strict=False):
        if before is not None and before.winner != here.winner and here.m - before.m > 1:
            pieces.append(Interval(before.m + 1, here.m - 1, None, ()))
        assumed = before is not None and before.winner == here.winner
        low = before.m + 1 if before is not None and assumed else here.m
        pieces.append(Interval(low, here.m, here.winner, (here.m,)))
    merged: list[Interval] = []
    for piece in pieces:
        if merged and merged[-1].winner == piece.winner:
            last = merged.pop()
            piece = Interval(last.low, piece.high, piece.winner, last.measured + piece.measured)
        merged.append(piece)
    return tuple(merged)


def crossings_of(intervals: Sequence[Interval]) -> tuple[Crossing, ...]:
    """Changes of the winner between decided intervals, undecided ones between them skipped."""
    decided = [interval for interval in intervals if interval.winner is not None]
    return tuple(
        Crossing(a.high, b.low, str(a.winner), str(b.winner)) for a, b in pairwise(decided) if a.winner != b.winner
    )
