"""Contiguous fills of many steps at once: :mod:`workbench.schedule.fills` over a :class:`Block`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from workbench.schedule import fills
from workbench.schedule.blocks import Block, Ints, Outcome, bins_ns_of, merge_ns_of, offsets_of, reading_ns_of
from workbench.schedule.costs import CostModel


@dataclass(frozen=True, eq=False)
class Fill:
    """Bins of every step of a block, or as many of them as can be the last to end.

    ``tiles``, ``descriptors`` and ``split_pieces`` hold one entry a bin, step after step, ``rows`` the first entry of
    each step; the other arrays hold one entry a step and count all bins. ``budget``, where bins are left out: tiles of
    each bin but the last.
    """

    totals: Ints
    tiles: Ints
    descriptors: Ints
    split_pieces: Ints
    rows: Ints
    all_descriptors: Ints
    all_split_pieces: Ints
    max_chunks: Ints
    budget: Ints | None = None

    def outcome(self, cost: CostModel, tile: int, num_ctas: int) -> Outcome:
        """Times of the fill."""
        c = cost.constants
        most = np.maximum.reduceat(self.tiles, self.rows)
        counts = np.diff(self.rows, append=self.tiles.size)
        reading = cost.pace(np.repeat(self.totals, counts), tile, num_ctas).reading_ns(self.tiles)
        ends = reading + self.descriptors * c.descriptor_ns + self.split_pieces * c.partial_ns
        fixed = self.all_descriptors * c.descriptor_ns + self.all_split_pieces * c.partial_ns
        longest = np.maximum.reduceat(ends, self.rows)
        bins = bins_ns_of(cost, self.totals, tile, longest, c.descriptor_ns)
        if self.budget is None:
            all_reading = np.add.reduceat(reading, self.rows)
        else:
            all_reading = reading_ns_of(cost.pace(self.totals, tile, num_ctas), self.totals, self.budget)
        return Outcome(longest, fixed + all_reading, bins, merge_ns_of(cost, self.max_chunks), most)


def equal_fill(block: Block, budget: Ints) -> Fill:
    """Bins of ``budget[step]`` tiles, filled in order: :func:`workbench.schedule.fills.equal_cuts`.

    Only bins that can be the last to end are listed, two entries an item: the bin in which it starts, with all that
    starts there, and one bin that it has to itself. Every step must have a tile.
    """
    items = block.items
    size = budget[items.step]
    total = block.totals[items.step]
    start = items.starts[:-1] - items.starts[items.bounds[items.step]]
    first, last = start // size, (start + items.tiles - 1) // size
    chunks = last - first + 1
    split = chunks > 1

    new = np.ones(first.size, bool)
    new[1:] = (first[1:] != first[:-1]) | (items.step[1:] != items.step[:-1])
    group = np.flatnonzero(new)
    members = np.diff(group, append=first.size)
    carried = (start > first * size)[group]
    shared = np.zeros((3, first.size), np.int64)
    shared[0, group] = np.minimum(size, total - first * size)[group]
    shared[1, group] = members + carried
    shared[2, group] = carried.astype(np.int64) + split[group + members - 1]

    follower = np.zeros(first.size, bool)
    follower[:-1] = (items.step[1:] == items.step[:-1]) & (first[1:] == last[:-1])
    rest = np.where(split & ~follower, np.minimum(size, total - last * size), 0)
    own = np.where(chunks > 2, size, rest)
    alone = (own > 0).astype(np.int64)

    rows = items.bounds[:-1]
    pieces = np.where(split, chunks, 0)
    bins = [np.stack(pair, axis=1).ravel() for pair in zip(shared, (own, alone, alone), strict=True)]
    return Fill(
        block.totals,
        bins[0],
        bins[1],
        bins[2],
        2 * rows,
        np.add.reduceat(chunks, rows),
        np.add.reduceat(pieces, rows),
        np.maximum.reduceat(chunks, rows),
        budget,
    )


@dataclass(frozen=True, eq=False)
class Cuts:
    """Cut positions in the block's stream and the item that each lies in (its last tile's at a step's end).

    Attributes
    ----------
    at, item : int64 arrays [steps, num_ctas + 1]
    """

    at: Ints
    item: Ints


def equal_cuts(block: Block, budget: Ints) -> Cuts:
    """Cuts every ``budget[step]`` tiles: :func:`workbench.schedule.fills.equal_cuts`."""
    items = block.items
    steps = np.arange(block.num_ctas + 1, dtype=np.int64)
    at = np.minimum(steps * budget[:, None], block.totals[:, None]) + items.starts[items.bounds[:-1], None]
    item = np.searchsorted(items.starts, at, side="right") - 1
    return Cuts(at, np.minimum(item, items.bounds[1:, None] - 1))


def snapped(block: Block, cuts: Cuts, reach: Ints) -> Cuts:
    """Cuts within ``reach[step]`` of a request's edge moved onto it: :func:`workbench.schedule.fills.snap`."""
    starts, last = block.items.starts, block.items.bounds[1:, None] - 1
    begin, end = starts[cuts.item], starts[cuts.item + 1]
    back, ahead = cuts.at - begin, end - cuts.at
    near = np.minimum(back, ahead) <= reach[:, None]
    forward = near & (back > ahead)
    at = np.where(near, np.where(forward, end, begin), cuts.at)
    return Cuts(at, np.minimum(cuts.item + forward, last))


def weighted_cuts(block: Block, descriptor_weight: int) -> tuple[npt.NDArray[np.bool_], Cuts]:
    """Cuts into bins of equal weight: :func:`workbench.schedule.fills.weighted_cuts`.

    Returns
    -------
    bool array [steps]
        Where such a fill exists; elsewhere the cuts mean nothing.
    Cuts
    """
    items, num_bins, unit = block.items, block.num_ctas, fills.UNITS
    rows, busy = items.bounds[:-1], np.diff(items.bounds)
    exists = block.totals * unit + (busy + 2 * num_bins) * descriptor_weight <= fills.MAX_WEIGHT
    least = 2 * (unit + descriptor_weight)
    capacity = np.maximum(-(-(block.totals * unit + busy * descriptor_weight) // num_bins), least)
    piece = (capacity - descriptor_weight) // unit
    weight = offsets_of(items.tiles * unit + -(-items.tiles // piece[items.step]) * descriptor_weight)
    base = weight[rows]
    whole_step = weight[items.bounds[1:]] - base
    capacity = np.maximum(-(-whole_step // num_bins), least)
    targets = np.minimum(np.arange(num_bins + 1, dtype=np.int64) * capacity[:, None], whole_step[:, None])
    targets += base[:, None]
    last = items.bounds[1:, None] - 1
    item = np.minimum(np.searchsorted(weight, targets, side="right") - 1, last)
    whole, rest = np.divmod(targets - weight[item], (piece * unit + descriptor_weight)[:, None])
    inside = whole * piece[:, None] + np.maximum(rest - descriptor_weight, 0) // unit
    end = items.starts[item + 1]
    at = np.minimum(items.starts[item] + inside, end)
    return exists, Cuts(at, np.minimum(item + (at == end), last))


def cut_fill(block: Block, cuts: Cuts) -> Fill:
    """The bins between cuts: :func:`workbench.schedule.fills.sum_bins`."""
    items = block.items
    low, high = cuts.at[:, :-1], cuts.at[:, 1:]
    tiles = high - low
    full = tiles > 0
    first = cuts.item[:, :-1]
    # The item of the last tile: the one before where the cut lies on an edge, except at the end of the step.
    on_edge = (items.starts[cuts.item] == cuts.at)[:, 1:]
    last = cuts.item[:, 1:] - on_edge
    inside = full & (low > items.starts[first])
    chunks = np.bincount(first[inside], minlength=items.tiles.size) + 1
    split = (chunks > 1).astype(np.int64)
    split_pieces = np.where(full, split[first] + np.where(last > first, split[last], 0), 0)
    rows = items.bounds[:-1]
    return Fill(
        block.totals,
        tiles.ravel(),
        np.where(full, last - first + 1, 0).ravel(),
        split_pieces.ravel(),
        np.arange(block.steps) * block.num_ctas,
        np.add.reduceat(chunks, rows),
        split_pieces.sum(axis=1),
        np.maximum.reduceat(chunks, rows),
    )
