"""A timeline that a kernel could have stamped."""

from __future__ import annotations

import numpy as np

from workbench.measure.timeline import Timeline
from workbench.schedule import plan_decode

SMS = 2


def timeline() -> Timeline:
    """Two requests of 128 and 64 tokens, one on each SM: busy for 4,000 and 2,000 ns."""
    plan = plan_decode([128, 64], num_kv_heads=1, num_ctas=SMS, policy="fixed_splits(1)", min_process_len=64)
    start = np.zeros(plan.num_descriptors, np.int64)
    end = 2000 * plan.num_tiles.astype(np.int64)
    none = np.full(plan.num_descriptors, -1)
    return Timeline(
        plan,
        start_ns=start,
        arrived_ns=end // 4,
        streamed_ns=end // 2,
        combined_ns=3 * end // 4,
        end_ns=end,
        merge_start_ns=none,
        merge_end_ns=none,
        sm=np.arange(plan.num_descriptors),
        leader=np.zeros(plan.num_descriptors, bool),
    )
