"""Where each descriptor lies on the time axis, by the cost model."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from workbench.schedule.costs import CostModel, given_or_default
from workbench.schedule.plan import DecodePlan

Times = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Spans:
    """Predicted times of one plan, integer nanoseconds from the start of the first CTA.

    Attributes
    ----------
    slot : int32 array [num_bins]
        The resident place (0 to ``num_ctas - 1``) on which each bin runs; a persistent plan's bin ``c`` has slot ``c``.
    bin_start_ns, bin_end_ns : int64 arrays [num_bins]
    start_ns, foot_ns, end_ns : int64 arrays [num_descriptors]
        Start, length of the fixed part, and end of each descriptor.
    tile_ns : int
        Time of one tile in this plan.
    merge_ns : int
        From the last bin's end to the end of the last merge.
    cost : CostModel
        The model, with its source.
    """

    slot: npt.NDArray[np.int32] = field(repr=False)
    bin_start_ns: Times = field(repr=False)
    bin_end_ns: Times = field(repr=False)
    start_ns: Times = field(repr=False)
    foot_ns: Times = field(repr=False)
    end_ns: Times = field(repr=False)
    tile_ns: int
    merge_ns: int
    cost: CostModel

    @property
    def bins_ns(self) -> int:
        """End of the last bin."""
        return int(self.bin_end_ns.max(initial=0))

    @property
    def makespan_ns(self) -> int:
        """End of the last merge."""
        return self.bins_ns + self.merge_ns


def place(plan: DecodePlan, cost: CostModel | None = None) -> Spans:
    """Lay the descriptors of ``plan`` on the time axis.

    Bins of a persistent plan all start at 0. The CTAs of a static grid start in order, each on the slot that becomes
    free first, as the hardware's block scheduler does. Which one that is, is decided with the tile time of an even
    spread, because the plan's own tile time depends on it.
    """
    cost = given_or_default(cost)
    c = cost.constants
    total = int(plan.bin_tiles.sum())
    foot = np.where(plan.split, c.descriptor_ns + c.partial_ns, c.descriptor_ns).astype(np.int64)
    foot_sums = np.zeros(plan.num_descriptors + 1, np.int64)
    np.cumsum(foot, out=foot_sums[1:])
    bin_feet = np.diff(foot_sums[plan.bin_offsets])
    if plan.static_grid:
        bin_feet = np.where(np.diff(plan.bin_offsets) == 0, c.empty_ns, bin_feet)

    slot = np.arange(plan.num_bins, dtype=np.int32)
    most = int(plan.bin_tiles.max(initial=0))
    if plan.num_bins > plan.num_ctas:
        guess = cost.tile_ns(total, max(most, -(-total // plan.num_ctas)), plan.tile, plan.num_ctas)
        slot = first_free(bin_feet + plan.bin_tiles * guess, plan.num_ctas)
        most = int(np.bincount(slot, weights=plan.bin_tiles).max())
    tile_ns = cost.tile_ns(total, most, plan.tile, plan.num_ctas)

    busy = bin_feet + plan.bin_tiles * tile_ns
    bin_start = np.zeros(plan.num_bins, np.int64) if plan.num_bins <= plan.num_ctas else _stack(slot, busy)
    ends = np.cumsum(foot + plan.num_tiles.astype(np.int64) * tile_ns)
    before = np.append(np.int64(0), ends)[plan.bin_offsets[:-1]]
    end = ends + np.repeat(bin_start - before, np.diff(plan.bin_offsets))
    start = end - foot - plan.num_tiles.astype(np.int64) * tile_ns
    max_chunks = int(plan.chunk_counts.max(initial=0))
    return Spans(slot, bin_start, bin_start + busy, start, foot, end, tile_ns, cost.merge_ns(max_chunks), cost)


def first_free(durations: Times, slots: int) -> npt.NDArray[np.int32]:
    """The slot of each job when jobs start in order on whichever slot is free first, the lowest of equals.

    A heap of ``free time * slots + slot`` does it; where every duration is above 0 the first jobs take the slots in
    order.

    Parameters
    ----------
    durations : int64 array [jobs]
        At least one, none below 0.
    slots : int

    Returns
    -------
    int32 array [jobs]
    """
    chosen = np.arange(durations.size, dtype=np.int32)
    keys = (durations * slots).tolist()
    begun = slots if min(keys) > 0 else 0
    heap = [key + s for s, key in enumerate(keys[:begun])] or list(range(slots))
    heapq.heapify(heap)
    replace = heapq.heapreplace
    later = []
    for key in keys[begun:]:
        first = heap[0]
        later.append(first)
        replace(heap, first + key)
    chosen[begun:] = np.array(later, np.int64) % slots
    return chosen


def _stack(slot: npt.NDArray[np.int32], busy: Times) -> Times:
    """Start of each job when the jobs of a slot follow each other in order."""
    order = np.argsort(slot, kind="stable")
    ends = np.cumsum(busy[order])
    starts = ends - busy[order]
    new = np.ones(order.size, bool)
    new[1:] = slot[order][1:] != slot[order][:-1]
    base = np.maximum.accumulate(np.where(new, starts, 0))
    result = np.empty_like(busy)
    result[order] = starts - base
    return result
