"""Stamps as the kernel would write them if it took exactly as long as a cost model says."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.measure.stamps import COLUMNS
from workbench.schedule import CostModel, DecodePlan

EPOCH = 1_764_000_000_000_000_000
"""Nanoseconds: what ``%globaltimer`` shows is of this size."""

GROUP = 8
"""Pieces that one leader adds up; kMergeGroup of the kernel."""


def piece_numbers(plan: DecodePlan) -> npt.NDArray[np.int64]:
    """Number of each descriptor among the pieces of its (KV head, request), in the order in which they run."""
    seen: dict[tuple[int, int], int] = {}
    numbers = np.zeros(plan.num_descriptors, np.int64)
    for i, item in enumerate(zip(plan.kv_head.tolist(), plan.request.tolist(), strict=True)):
        numbers[i] = seen.get(item, 0)
        seen[item] = int(numbers[i]) + 1
    return numbers


def stamps_of(
    plan: DecodePlan, cost: CostModel, *, noise: float = 0.0, step: int = 1, seed: int = 0
) -> npt.NDArray[np.uint64]:
    """Rows of stamps [num_descriptors, 10] of a call under a cost model.

    Parameters
    ----------
    noise : float
        Standard deviation of each descriptor's reading time, relative.
    step : int
        Stamps are rounded down to multiples of it, nanoseconds.
    """
    spans = plan.spans(cost)
    random = np.random.default_rng(seed)
    number = piece_numbers(plan)
    pieces = plan.chunk_counts[plan.kv_head, plan.request]
    leader = (pieces > 1) & ((number % GROUP == GROUP - 1) | (number == pieces - 1))
    factor = np.maximum(1 + noise * random.standard_normal(plan.num_descriptors), 0.1)
    rows = np.zeros((plan.num_descriptors, len(COLUMNS)), np.uint64)

    def put(at: int, **times: float) -> None:
        for name, value in times.items():
            rows[at, COLUMNS.index(name)] = (EPOCH + int(value)) // step * step

    clock = spans.bin_start_ns.astype(float)  # of each bin
    for i, bin_ in enumerate(plan.cta.tolist()):
        start, foot = clock[bin_], float(spans.foot_ns[i])
        end = start + foot + (spans.end_ns[i] - spans.start_ns[i] - foot) * factor[i]
        put(i, start=start, arrived=start + 0.6 * foot, streamed=end - 0.4 * foot, combined=end - 0.1 * foot, end=end)
        clock[bin_] = end
    merged = clock.max(initial=0) + spans.merge_ns
    for i in np.flatnonzero(leader).tolist():
        put(i, merge_start=clock[plan.cta[i]], merge_end=merged)
    values: dict[str, Any] = {"sm": spans.slot[plan.cta] % cost.sms, "leader": leader, "cta": plan.cta}
    for name, column in values.items():
        rows[:, COLUMNS.index(name)] = column
    return rows
