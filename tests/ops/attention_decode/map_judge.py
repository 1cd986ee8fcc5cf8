"""Task maps against the plans of the CPU, and batches to build them for."""

from __future__ import annotations

import numpy as np

from workbench.ops import TaskMap
from workbench.schedule import DecodePlan

LONGEST = 131_072

CONSTANTS: tuple[dict[str, int], ...] = (
    {"descriptor_ns": 0, "partial_ns": 0, "merge_ns": 0, "merge_chunk_ns": 0},
    {"descriptor_ns": 2**31 - 1, "merge_ns": 2**31 - 1},
    {"bytes_per_us": 1},
    {"bytes_per_us": 2**31 - 1, "sm_elements_per_us": 2**31 - 1},
    {"sm_bytes_per_us": 1},
    {"sm_bytes_per_us": 20_000, "merge_chunk_ns": 5_000},
)
"""Constants of the cost model at the ends of their range."""


def bins_of(task_map: TaskMap) -> list[np.ndarray]:
    """The descriptors of each bin, int32 [n, 12], in the order in which its CTA follows them."""
    rows = task_map.map.cpu().numpy()
    bins = []
    for cta in range(task_map.num_bins):
        order = [cta] if rows[cta, 3] > 0 else []
        while order and rows[order[-1], 8] >= 0:
            order.append(int(rows[order[-1], 8]))
        bins.append(rows[order])
    return bins


def assert_equal(task_map: TaskMap, plan: DecodePlan) -> None:
    """Every field of every descriptor, and what lies beside the map."""
    bins = bins_of(task_map)
    assert [len(rows) for rows in bins] == np.diff(plan.bin_offsets).tolist()
    rows, d = np.concatenate(bins), plan.descriptors
    pieces = plan.chunk_counts[d["kv_head"], d["request"]]
    expected = (
        d["request"],
        d["kv_head"],
        d["first_token"],
        d["num_tokens"],
        plan.lengths[d["request"]],
        d["chunk"],
        pieces,
    )
    for column, values in enumerate(expected):
        assert np.array_equal(rows[:, column], values), f"column {column}"
    assert np.array_equal(rows[:, 6], pieces)
    # Pieces are numbered in the order of their CTAs.
    order = np.lexsort((np.arange(len(rows)), rows[:, 0], rows[:, 1]))
    restart = np.ones(len(rows), bool)
    restart[1:] = (np.diff(rows[order, 1]) != 0) | (np.diff(rows[order, 0]) != 0)
    numbers = np.arange(len(rows)) - np.maximum.accumulate(np.where(restart, np.arange(len(rows)), 0))
    assert np.array_equal(rows[order, 5], numbers)
    # Partial results: a place of its own for each piece of a split request, in reach of its first one.
    split = rows[pieces > 1]
    slots = split[:, 7] + split[:, 5]
    assert len(set(slots.tolist())) == len(slots)
    assert not slots.size or (slots.min() >= 0 and slots.max() < task_map.num_slots)
    assert len(np.unique(split[:, [0, 1, 7]], axis=0)) == len(np.unique(split[:, [0, 1]], axis=0))
    empties = np.flatnonzero(plan.lengths == 0)
    assert int(task_map.header[0]) == len(empties)
    assert sorted(task_map.empties[: len(empties)].tolist()) == empties.tolist()


def batches(kind: int, count: int) -> list[tuple[np.ndarray, dict[str, int], int]]:
    """Lengths with the arguments of a plan: (lengths, arguments, tile)."""
    rng = np.random.default_rng(100 + kind)
    made = []
    for trial in range(count):
        batch = int(rng.choice([1, 2, 3, 7, 33, 64, 200, 513, 2048]))
        lengths = (
            rng.integers(0, 9000, batch),
            np.minimum(rng.lognormal(6, 2, batch), LONGEST),
            rng.choice([0, 1, 31, 32, 63, 64, 65, 127, 128, 129, 4096], batch),
            np.full(batch, 4096),
            rng.integers(0, 40, batch),
        )[kind].astype(np.int64)
        if trial % 3 == 0:
            lengths[rng.integers(batch)] = 100_000
        arguments = {
            "num_kv_heads": int(rng.choice([1, 2, 4, 8])),
            "num_ctas": int(rng.choice([1, 7, 132, 264, 396, 528])),
            "min_process_len": int(rng.choice([0, 64, 512, 1024])),
            "q_len": int(rng.integers(1, 5)),
        }
        made.append((lengths, arguments, int(rng.choice([32, 64, 128]))))
    return made
