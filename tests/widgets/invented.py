"""Timelines as a GPU might stamp them: the model's times with skewed starts, uneven SMs and late merges. Invented."""

from __future__ import annotations

import numpy as np

from workbench.measure.timeline import Timeline
from workbench.schedule import CostModel, DecodePlan


def invented(plan: DecodePlan, cost: CostModel, *, seed: int = 0) -> Timeline:
    """A timeline of a plan that differs from the model's times in everything that a real one differs in.

    The last piece of a split request leads it: it merges once its own bin is at its end and all pieces are there.
    """
    random = np.random.default_rng(seed)
    spans = plan.spans(cost)
    sm_of_slot = random.permutation(np.arange(plan.num_ctas) % cost.sms)
    pace = 1 + 0.04 * random.standard_normal(cost.sms)
    sm = sm_of_slot[spans.slot[plan.cta]]
    read = (spans.end_ns - spans.start_ns - spans.foot_ns) * np.maximum(pace[sm], 0.5)
    wait = 0.5 * spans.foot_ns * random.lognormal(0, 0.25, plan.num_descriptors)
    close = 0.25 * spans.foot_ns * random.lognormal(0, 0.2, plan.num_descriptors)
    took = (wait + read + close).astype(np.int64)

    start, free_at = np.zeros(plan.num_descriptors, np.int64), {}
    skew = random.integers(0, 900, plan.num_bins)
    for bin_ in range(plan.num_bins):  # bins of a static grid's slot follow each other
        low, high = plan.bin_offsets[bin_ : bin_ + 2].tolist()
        slot = int(spans.slot[bin_])
        clock = free_at.get(slot, 0) + int(skew[bin_])
        for at in range(low, high):
            start[at] = clock
            clock += int(took[at])
        free_at[slot] = clock
    start -= start.min(initial=clock) if plan.num_descriptors else 0
    end = start + took
    arrived = start + wait.astype(np.int64)
    streamed = end - close.astype(np.int64)

    leader = np.zeros(plan.num_descriptors, bool)
    merge_start, merge_end = (np.full(plan.num_descriptors, -1, np.int64) for _ in range(2))
    item = plan.kv_head.astype(np.int64) * plan.lengths.size + plan.request
    for which in np.unique(item[plan.split]).tolist():
        pieces = np.flatnonzero(item == which)
        last = int(pieces[np.argmax(end[pieces])])
        leader[last] = True
        in_bin = plan.cta == plan.cta[last]
        merge_start[last] = max(int(end[in_bin].max()), int(end[last]))
        merge_end[last] = max(int(end[pieces].max()), int(merge_start[last])) + 300 + 25 * pieces.size
    if plan.static_grid:  # a later bin of the slot starts where the CTA before has left it, its merge included
        leader[:] = False
        merge_start[:], merge_end[:] = -1, -1
    return Timeline(
        plan, start, arrived, streamed, (streamed + end) // 2, end, merge_start, merge_end, sm.astype(np.int32), leader
    )
