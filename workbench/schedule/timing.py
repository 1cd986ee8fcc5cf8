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
    busy_ns, reading_ns : int
        Of all bins together: their time, and the part of it that reads tiles.
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
    busy_ns: int
    reading_ns: int
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
    free first, as the hardware's block scheduler does.

    Where the stream of all tiles takes longer than any bin would at a CTA's own pace, every time is multiplied by
    ``stream / longest bin``, so that the last bin ends with the stream: the model does not say which CTA waits when.
    """
    cost = given_or_default(cost)
    c = cost.constants
    total = int(plan.bin_tiles.sum())
    pace = cost.pace(total, plan.tile, plan.num_ctas)
    foot = np.where(plan.split, c.descriptor_ns + c.partial_ns, c.descriptor_ns).astype(np.int64)
    foot_sums, tile_sums = _sums(foot), _sums(plan.num_tiles.astype(np.int64))
    bin_feet = np.diff(foot_sums[plan.bin_offsets])
    if plan.static_grid:
        bin_feet = np.where(np.diff(plan.bin_offsets) == 0, c.empty_ns, bin_feet)
    bin_reading = pace.reading_ns(plan.bin_tiles)
    busy = bin_feet + bin_reading

    slot = np.arange(plan.num_bins, dtype=np.int32)
    bin_start = np.zeros(plan.num_bins, np.int64)
    opening = c.descriptor_ns
    if plan.num_bins > plan.num_ctas:
        slot = first_free(busy, plan.num_ctas)
        bin_start = _stack(slot, busy)
        opening = max(opening, int(bin_feet.sum()) // plan.num_ctas)

    sizes = np.diff(plan.bin_offsets)
    first = np.repeat(plan.bin_offsets[:-1], sizes)
    read = pace.reading_ns(tile_sums[1:] - tile_sums[first])
    end = np.repeat(bin_start, sizes) + foot_sums[1:] - foot_sums[first] + read
    start = end - foot - (read - pace.reading_ns(tile_sums[:-1] - tile_sums[first]))

    longest = int((bin_start + busy).max(initial=0))
    bins = max(longest, cost.stream_ns(total, plan.tile) + opening) if total else longest

    def at(times: Times) -> Times:
        return np.rint(times * (bins / longest)).astype(np.int64) if bins > longest else times

    begun = at(start)
    return Spans(
        slot,
        at(bin_start),
        at(bin_start + busy),
        begun,
        at(start + foot) - begun,
        at(end),
        stretched(int(busy.sum()), bins, longest),
        stretched(int(bin_reading.sum()), bins, longest),
        cost.merge_ns(int(plan.chunk_counts.max(initial=0))),
        cost,
    )


def stretched(time: int, bins: int, longest: int) -> int:
    """A time at a CTA's own pace, as it is where bins of ``longest`` end at ``bins``; nanoseconds, rounded down."""
    return time * bins // longest if longest else time


def _sums(values: Times) -> Times:
    """Sums before each value, and of all."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(values)])


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
