"""Many decode steps under one policy at once: what the cost model needs of each plan, without making the plans.

A trace has tens of thousands of steps, and one plan costs about a hundred small array operations. Here the steps of
a :class:`Block` lie end to end in one stream of tiles, so each operation serves all of them. The results are the
integers that :mod:`workbench.schedule.timing` finds plan by plan; the tests hold the two together.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from workbench.schedule.costs import CostModel, Pace
from workbench.schedule.timing import stretched

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Block:
    """Decode steps laid end to end.

    Attributes
    ----------
    tiles : int64 array [requests]
        Tiles of each request for one KV head, step after step.
    offsets : int64 array [steps + 1]
        Step ``s`` owns requests ``offsets[s]:offsets[s + 1]``.
    num_kv_heads, num_ctas : int
    floor_tiles : int
        The work floor in tiles.
    tile : int
        Tokens a tile.
    """

    tiles: Ints = field(repr=False)
    offsets: Ints = field(repr=False)
    num_kv_heads: int
    num_ctas: int
    floor_tiles: int
    tile: int

    @property
    def steps(self) -> int:
        """Number of steps."""
        return int(self.offsets.size) - 1

    @cached_property
    def totals(self) -> Ints:
        """Tiles of each step, all KV heads, int64 [steps]."""
        return self.num_kv_heads * np.diff(offsets_of(self.tiles)[self.offsets])

    @cached_property
    def even(self) -> Ints:
        """Tiles a bin when they are spread evenly, rounded up, int64 [steps]."""
        return -(-self.totals // self.num_ctas)

    def take(self, keep: npt.NDArray[np.bool_]) -> Block:
        """The block of some of the steps; ``keep`` is bool [steps]."""
        counts = np.diff(self.offsets)
        tiles = self.tiles[np.repeat(keep, counts)]
        offsets = offsets_of(counts[keep])
        return Block(tiles, offsets, self.num_kv_heads, self.num_ctas, self.floor_tiles, self.tile)

    @cached_property
    def items(self) -> Items:
        """The non-empty (KV head, request) pairs in stream order."""
        counts = np.diff(self.offsets)
        per_step = counts * self.num_kv_heads
        step = np.repeat(np.arange(self.steps), per_step)
        place = np.arange(step.size) - offsets_of(per_step)[step]
        tiles = self.tiles[self.offsets[step] + place % counts[step]]
        full = tiles > 0
        step, tiles = step[full], tiles[full]
        bounds = np.searchsorted(step, np.arange(self.steps + 1))
        return Items(step, tiles, offsets_of(tiles), bounds)


@dataclass(frozen=True, eq=False)
class Items:
    """Non-empty (KV head, request) pairs of a block; ``starts`` are positions in the stream of the whole block."""

    step: Ints
    tiles: Ints
    starts: Ints
    bounds: Ints


@dataclass(frozen=True, eq=False)
class Outcome:
    """Times of each step by the cost model, int64 [steps]: see :class:`workbench.schedule.timing.Spans`.

    Attributes
    ----------
    longest_ns, own_ns : int64 arrays [steps]
        At a CTA's own pace: the last bin's end, and all bins together.
    bins_ns : int64 array [steps]
        The last bin's end, not before that of the stream.
    merge_ns, most : int64 arrays [steps]
        Time after the last bin, and tiles of the fullest slot.
    """

    longest_ns: Ints
    own_ns: Ints
    bins_ns: Ints
    merge_ns: Ints
    most: Ints

    @property
    def busy_ns(self) -> Ints:
        """Time of all bins together."""
        columns = (values.tolist() for values in (self.own_ns, self.bins_ns, self.longest_ns))
        return np.array([stretched(*row) for row in zip(*columns, strict=True)], np.int64)

    @property
    def makespan_ns(self) -> Ints:
        """End of the last merge."""
        return self.bins_ns + self.merge_ns


def offsets_of(counts: Ints) -> Ints:
    """Where each run begins when runs of these lengths lie end to end, int64 [runs + 1]; the last is their sum."""
    offsets = np.zeros(counts.size + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets


def bins_ns_of(cost: CostModel, totals: Ints, tile: int, longest: Ints, opening: Ints | int) -> Ints:
    """The last bin's end where it would be ``longest`` but for the stream, of each step, int64 [steps]."""
    return np.where(totals > 0, np.maximum(longest, cost.stream_ns(totals, tile) + opening), longest)


def reading_ns_of(pace: Pace, tiles: Ints, each: Ints) -> Ints:
    """CTAs' reading times together when ``tiles`` are read ``each`` by each and the rest by one more."""
    whole, rest = np.divmod(tiles, each)
    return whole * pace.reading_ns(each) + pace.reading_ns(rest)


def merge_ns_of(cost: CostModel, max_chunks: Ints) -> Ints:
    """:meth:`CostModel.merge_ns` of each step, int64 [steps]."""
    return np.array([cost.merge_ns(chunks) for chunks in max_chunks.tolist()], np.int64)
