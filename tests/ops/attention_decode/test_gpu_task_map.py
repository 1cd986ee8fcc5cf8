"""Task maps built on the GPU are those of the CPU, whatever the batch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.ops.attention_decode.map_judge import CONSTANTS, LONGEST, assert_equal, batches, bins_of
from workbench.errors import InvalidArgument
from workbench.ops import AttentionConfig, build_task_map
from workbench.ops.attention_decode import upload_plan, write_dense
from workbench.schedule import cost_model, plan_decode
from workbench.schedule.policies import balanced

pytestmark = pytest.mark.gpu

POLICIES = ("balanced", "hpc-ops")


def on_gpu(lengths: np.ndarray) -> torch.Tensor:
    return torch.as_tensor(lengths, dtype=torch.int32).cuda()


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", range(5))
def test_equal_to_the_cpu(kind: int, policy: str) -> None:
    for lengths, arguments, tile in batches(kind, 40):
        config = AttentionConfig(tile=tile)
        seq_lens = on_gpu(lengths)
        task_map = build_task_map(seq_lens, max_seq_len=LONGEST, policy=policy, config=config, **arguments)
        plan = plan_decode(lengths, policy=policy, tile=tile, **arguments)
        assert_equal(task_map, plan)
        if policy == "hpc-ops" and tile == 64:
            assert np.array_equal(write_dense(task_map, seq_lens).cpu().numpy(), plan.encode())


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("heads", [1, 8])
@pytest.mark.parametrize("longest", [1, 4097])
def test_the_largest_batch(policy: str, heads: int, longest: int) -> None:
    lengths = np.random.default_rng(heads).integers(0, longest + 1, 16_384)
    task_map = build_task_map(on_gpu(lengths), num_kv_heads=heads, max_seq_len=longest, num_ctas=132, policy=policy)
    assert_equal(task_map, plan_decode(lengths, num_kv_heads=heads, num_ctas=132, policy=policy))


@pytest.mark.parametrize("policy", POLICIES)
def test_no_request_at_all(policy: str) -> None:
    task_map = build_task_map(on_gpu(np.zeros(0)), num_kv_heads=2, max_seq_len=0, policy=policy)
    assert not sum(map(len, bins_of(task_map)))


def test_costs_of_another_gpu() -> None:
    policy = balanced(costs=cost_model("H100", cache="bf16"))
    rng = np.random.default_rng(5)
    for _ in range(20):
        lengths = np.minimum(rng.lognormal(7, 1.5, 40), LONGEST).astype(np.int64)
        task_map = build_task_map(on_gpu(lengths), num_kv_heads=2, max_seq_len=LONGEST, num_ctas=264, policy=policy)
        assert_equal(task_map, plan_decode(lengths, num_kv_heads=2, num_ctas=264, policy=policy))


@pytest.mark.parametrize("cache", ["fp8", "bf16"])
def test_the_name_balanced_decides_by_the_cost_model_given(cache: str) -> None:
    cost = cost_model(cache=cache)
    rng = np.random.default_rng(8)
    for _ in range(20):
        lengths = np.minimum(rng.lognormal(7, 1.5, 60), LONGEST).astype(np.int64)
        task_map = build_task_map(on_gpu(lengths), num_kv_heads=1, max_seq_len=LONGEST, num_ctas=132, cost=cost)
        assert_equal(task_map, plan_decode(lengths, num_kv_heads=1, num_ctas=132, cost=cost))


@pytest.mark.parametrize("constants", CONSTANTS, ids=",".join)
def test_constants_at_the_ends_of_their_range(constants: dict[str, int]) -> None:
    base = cost_model()
    cost = replace(base, constants=replace(base.constants, **constants))
    for kind in range(5):
        for lengths, arguments, tile in batches(kind, 4):
            config = AttentionConfig(tile=tile)
            task_map = build_task_map(on_gpu(lengths), max_seq_len=LONGEST, config=config, cost=cost, **arguments)
            assert_equal(task_map, plan_decode(lengths, tile=tile, cost=cost, **arguments))


def test_recorded_buffers(reference_data: Path) -> None:
    with np.load(reference_data / "golden" / "task_maps_given.npz") as recorded:
        names = sorted({name[:3] for name in recorded.files})
        assert names
        for name in names:
            heads, q_len, floor, included, num_ctas = map(int, recorded[f"{name}_args"])
            lengths = recorded[f"{name}_lengths"].astype(np.int64) + (0 if included else q_len)
            seq_lens = on_gpu(lengths)
            task_map = build_task_map(
                seq_lens, num_kv_heads=heads, max_seq_len=int(lengths.max()), num_ctas=num_ctas,
                min_process_len=floor, policy="hpc-ops", q_len=q_len,
            )  # fmt: skip
            assert np.array_equal(write_dense(task_map, seq_lens).cpu().numpy(), recorded[f"{name}_buffer"]), name


@pytest.mark.parametrize("policy", POLICIES)
def test_a_captured_build_follows_the_lengths(policy: str) -> None:
    rng = np.random.default_rng(6)
    seq_lens = on_gpu(rng.integers(0, 9000, 64))
    task_map = build_task_map(seq_lens, num_kv_heads=2, max_seq_len=9000, policy=policy)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        build_task_map(seq_lens, num_kv_heads=2, max_seq_len=9000, policy=policy, out=task_map)
    for _ in range(20):
        lengths = rng.integers(0, int(rng.choice([2, 100, 9000])), 64)
        seq_lens.copy_(on_gpu(lengths))
        graph.replay()
        assert_equal(task_map, plan_decode(lengths, num_kv_heads=2, num_ctas=task_map.num_ctas, policy=policy))


def test_a_map_of_a_larger_batch_is_written_into() -> None:
    large, small = np.full(100, 3000), np.arange(0, 4000, 100)
    task_map = build_task_map(on_gpu(large), num_kv_heads=2, max_seq_len=4000)
    build_task_map(on_gpu(small), num_kv_heads=2, max_seq_len=4000, out=task_map)
    assert_equal(task_map, plan_decode(small, num_kv_heads=2, num_ctas=task_map.num_ctas))
    with pytest.raises(InvalidArgument, match="out"):
        build_task_map(on_gpu(np.full(101, 5)), num_kv_heads=2, max_seq_len=4000, out=task_map)


@pytest.mark.parametrize("policy", [*POLICIES, "lpt", "fixed_splits(8)", "fixed_chunk(4096)"])
def test_uploaded_plans_read_back(policy: str) -> None:
    lengths = np.random.default_rng(7).integers(0, 20_000, 50)
    plan = plan_decode(lengths, num_kv_heads=2, num_ctas=132, policy=policy)
    task_map = upload_plan(plan)
    assert_equal(task_map, plan)
    again = task_map.plan(lengths)
    assert np.array_equal(again.descriptors, plan.descriptors)
    assert again.static_grid == plan.static_grid or plan.num_bins == plan.num_ctas
