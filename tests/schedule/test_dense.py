"""HPC-Ops' dense buffer: against the slow oracle, against recorded buffers, and against hostile ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.schedule import oracle
from tests.schedule.strategies import costs, problems
from workbench.errors import InvalidArgument, InvalidPlan
from workbench.schedule import DecodePlan, DecodeProblem, balanced, hpc_ops, lpt, plan_decode, plan_from_bins

K = 1024


def replay(problem: DecodeProblem, max_batch: int | None = None) -> oracle.Map:
    return oracle.hpc_ops_map(
        problem.lengths.tolist(),
        problem.num_kv_heads,
        problem.num_ctas,
        problem.min_process_len,
        problem.q_len,
        max_batch,
    )


@settings(max_examples=300)
@given(problems(tiles=(64,), q_len=64), st.integers(0, 5))
def test_plan_and_buffer_equal_the_replay(problem: DecodeProblem, extra: int) -> None:
    plan = hpc_ops().plan(problem)
    slow = replay(problem, problem.batch + extra)
    assert plan.as_lists() == [
        [(d.ihead_kv, d.ibatch, d.iseq_start // 64, d.num_tile_kv) for d in own] for own in slow.bins
    ]
    assert plan.chunk.tolist() == [d.ichunk for own in slow.bins for d in own]
    assert plan.descriptors["first_token"].tolist() == [d.iseq_start for own in slow.bins for d in own]
    assert plan.descriptors["num_tokens"].tolist() == [d.num_seqkv for own in slow.bins for d in own]
    assert plan.chunk_counts.tolist() == slow.chunk_counts
    assert plan.encode(problem.batch + extra).tolist() == slow.buffer


def golden_cases(folder: Path) -> dict[str, tuple[DecodeProblem, np.ndarray]]:
    with np.load(folder / "golden" / "task_maps_given.npz") as recorded:
        cases = {}
        for name in sorted({key[:3] for key in recorded.files}):
            heads, q_len, floor, new_included, ctas = (int(v) for v in recorded[f"{name}_args"])
            lengths = recorded[f"{name}_lengths"].astype(np.int64) + (0 if new_included else q_len)
            problem = DecodeProblem(lengths, heads, ctas, 64, floor, q_len)
            cases[name] = problem, recorded[f"{name}_buffer"]
        return cases


def test_recorded_buffers_bit_for_bit(reference_data: Path) -> None:
    cases = golden_cases(reference_data)
    assert len(cases) == 60
    for name, (problem, recorded) in cases.items():
        buffer = hpc_ops().plan(problem).encode()
        assert buffer.dtype == np.int32
        np.testing.assert_array_equal(buffer, recorded, err_msg=f"case {name}")


def test_the_oracle_reproduces_recorded_buffers(reference_data: Path) -> None:
    for name, (problem, recorded) in golden_cases(reference_data).items():
        assert replay(problem).buffer == recorded.tolist(), f"case {name}"


def test_recorded_buffers_read_back(reference_data: Path) -> None:
    for name, (problem, recorded) in golden_cases(reference_data).items():
        plan = DecodePlan.decode(recorded)
        assert plan.policy == "hpc-ops", name
        np.testing.assert_array_equal(plan.lengths, problem.lengths)
        np.testing.assert_array_equal(plan.encode(), recorded)
        assert plan.q_len == problem.q_len or not problem.total_tiles


@pytest.mark.parametrize(
    ("lengths", "floor", "budget", "used", "most_chunks"),
    [
        ([512] * 64, 64, 1, 512, 8),
        ([512] * 64, 512, 8, 64, 1),
        ([4 * K] * 64, 64, 8, 512, 8),
        ([4 * K] * 64, 512, 8, 512, 8),
        ([128 * K] + [4 * K] * 31, 64, 8, 504, 256),
        ([128 * K] + [4 * K] * 31, 512, 8, 504, 256),
        ([64 * K] + [4 * K] * 15, 64, 4, 496, 256),
        ([64 * K] + [4 * K] * 15, 512, 8, 248, 128),
        ([32 * K] * 2 + [4 * K] * 30, 64, 6, 491, 86),
        ([32 * K] * 2 + [4 * K] * 30, 512, 8, 368, 64),
    ],
)
def test_check_table_of_the_h200(lengths: list[int], floor: int, budget: int, used: int, most_chunks: int) -> None:
    plan = plan_decode(lengths, num_kv_heads=1, num_ctas=528, policy="hpc-ops", min_process_len=floor)
    metrics = plan.metrics()
    assert (int(plan.encode()[0]) - 1, metrics.used_ctas, metrics.max_chunks) == (budget, used, most_chunks)
    assert metrics.max_tiles == budget


@settings(max_examples=150)
@given(problems(tiles=(64,), q_len=8), st.data())
def test_decode_gives_the_plan_back(problem: DecodeProblem, data: st.DataObject) -> None:
    policy = data.draw(st.one_of(st.just(hpc_ops()), st.just(lpt()), st.builds(balanced, costs())))
    plan = policy.plan(problem)
    buffer = plan.encode(problem.batch + data.draw(st.integers(0, 3)))
    again = DecodePlan.decode(buffer)
    assert again.as_lists() == plan.as_lists()
    assert again.lengths[: problem.batch].tolist() == problem.lengths.tolist()
    np.testing.assert_array_equal(again.encode(), buffer)


def test_a_borrowed_name_does_not_corrupt_the_buffer() -> None:
    """A plan may call itself hpc-ops and hold more descriptors in a bin than upstream ever would."""
    problem = DecodeProblem([64] * 6, 1, 6, 64, 0)
    plan = plan_from_bins(problem, "hpc-ops", [[], [(0, b, 0, 1) for b in range(6)]]).validate()
    buffer = plan.encode()
    assert buffer[0] == 7
    again = DecodePlan.decode(buffer)
    assert again.as_lists() == plan.as_lists()
    assert again.policy == "decoded"


def valid_buffer() -> np.ndarray:
    return plan_decode([700, 0, 130], num_kv_heads=2, num_ctas=3, policy="hpc-ops", min_process_len=0, q_len=2).encode()


@settings(max_examples=400)
@given(st.data())
def test_a_changed_buffer_is_refused_or_means_what_it_says(data: st.DataObject) -> None:
    """Whatever is written into it, a buffer is refused by name or reads as a valid plan that encodes to it."""
    buffer = valid_buffer()
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, buffer.size - 1))
        buffer[at] = data.draw(st.one_of(st.integers(-3, 70), st.sampled_from([2**31 - 1, -(2**31)])))
    try:
        plan = DecodePlan.decode(buffer)
    except InvalidPlan:
        return
    buffer[4] = 0
    np.testing.assert_array_equal(plan.encode(), buffer)
    assert oracle.is_partition(plan.lengths.tolist(), plan.num_kv_heads, 64, plan.as_lists())


@pytest.mark.parametrize(
    "buffer",
    [
        [],
        np.zeros(12, np.int32),
        np.full(12, -1, np.int32),
        np.zeros((3, 12), np.int32),
        np.zeros(24),
        ["a"] * 12,
        [[1], [1, 2]],
        None,
        np.full(12, 2**31 - 1, np.int32),
        np.append(valid_buffer(), 0),
        valid_buffer()[:-1],
        # one request, its only descriptor says 70 query tokens
        [2, 1, 1, 1, 0, 1, *[0] * 6, 0, 0, 0, 0, 64, -6, 1, 0, 1, 0, 0, 0, -1, -1, *[0] * 10, 1],
    ],
    ids=str,
)
def test_hostile_buffers_are_refused(buffer: object) -> None:
    with pytest.raises(InvalidPlan):
        DecodePlan.decode(buffer)


def test_only_persistent_plans_of_64_token_tiles_encode() -> None:
    with pytest.raises(InvalidArgument, match="64-token tiles; this plan has 128"):
        plan_decode([300], num_kv_heads=1, num_ctas=2, tile=128).encode()
    with pytest.raises(InvalidArgument, match=r"fixed_splits\(2\) is a static grid"):
        plan_decode([300], num_kv_heads=1, num_ctas=2, policy="fixed_splits(2)").encode()
    with pytest.raises(InvalidArgument, match="max_batch is 0"):
        plan_decode([300], num_kv_heads=1, num_ctas=2).encode(max_batch=0)
