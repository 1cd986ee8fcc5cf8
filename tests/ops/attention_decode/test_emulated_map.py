"""The map kernel's own source on a CPU against the CPU's plans, word by word; and planted faults are noticed there."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.ops.attention_decode import emulation
from tests.ops.attention_decode.map_emulation import Files, MapKernel
from tests.ops.attention_decode.map_judge import CONSTANTS, LONGEST, assert_equal, batches
from workbench.ops.attention_decode import TaskMap, task_map
from workbench.schedule import CostModel, cost_model, plan_decode

pytestmark = pytest.mark.skipif(emulation.why_not() is not None, reason=str(emulation.why_not()))

POLICIES = ("balanced", "hpc-ops")

Build = Callable[..., None]


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch) -> Build:
    """Build a map as ``build_task_map`` does on a GPU, and compare it with the plan."""
    monkeypatch.setattr(torch.cuda, "device", lambda _: nullcontext())

    def run(
        lengths: np.ndarray,
        policy: str = "balanced",
        *,
        num_kv_heads: int = 1,
        num_ctas: int = 132,
        min_process_len: int = 512,
        q_len: int = 1,
        tile: int = 64,
        cost: CostModel | None = None,
        files: Files | None = None,
        seed: int = 0,
    ) -> None:
        kernel = MapKernel(files or Files.read(), seed)
        monkeypatch.setattr(task_map, "map_kernel", lambda _: kernel)
        name, costs = task_map.decides(policy, num_ctas, tile, cost)
        batch = len(lengths)
        made = TaskMap.allocate(
            num_kv_heads=num_kv_heads, q_len=q_len, tile=tile, num_ctas=num_ctas, num_bins=num_ctas, batch=batch,
            max_seq_len=LONGEST, rows=num_ctas + num_kv_heads * batch, num_slots=2 * num_ctas + 1, policy=name,
            min_process_len=min_process_len, device=torch.device("cpu"),
        )  # fmt: skip
        made.map.fill_(-7)  # a row that nobody writes shows
        task_map._launch(
            torch.as_tensor(lengths, dtype=torch.int32), made.map, made.header, made.empties, batch, num_kv_heads,
            num_ctas, tile, min_process_len // tile, LONGEST, costs, True,
        )  # fmt: skip
        plan = plan_decode(
            lengths, policy=policy, num_kv_heads=num_kv_heads, num_ctas=num_ctas, min_process_len=min_process_len,
            q_len=q_len, tile=tile, cost=cost,
        )  # fmt: skip
        assert_equal(made, plan)

    return run


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", range(5))
def test_equal_to_the_plan(kind: int, policy: str, build: Build) -> None:
    for seed, (lengths, arguments, tile) in enumerate(batches(kind, 12)):
        build(lengths, policy, tile=tile, seed=seed, **arguments)


@pytest.mark.parametrize("policy", POLICIES)
def test_batches_about_the_numbers_of_threads(policy: str, build: Build) -> None:
    rng = np.random.default_rng(11)
    for batch in (0, 1, 31, 32, 33, 63, 64, 65, 127, 128, 129, 256, 257, 1023, 1024, 1025, 2049):
        ctas = int(rng.choice([1, 30, 31, 32, 62, 131, 132, 133]))
        build(rng.integers(0, 5000, batch), policy, num_ctas=ctas, num_kv_heads=int(rng.choice([1, 3])))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("threads", [32, 64, 160, 256, 1024])
def test_any_number_of_threads(threads: int, policy: str, build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_map, "grid_of", lambda *_: (3, threads))
    rng = np.random.default_rng(threads)
    for batch in (5, 64, 130, 600):
        build(rng.integers(0, 9000, batch), policy, num_ctas=70, num_kv_heads=2)


@pytest.mark.parametrize("policy", POLICIES)
def test_the_largest_batch(policy: str, build: Build) -> None:
    build(np.random.default_rng(12).integers(0, 4098, task_map.MAX_BATCH), policy, num_kv_heads=2)


@pytest.mark.parametrize("policy", POLICIES)
def test_one_long_request_lies_in_hundreds_of_bins(policy: str, build: Build) -> None:
    for ctas in (132, 528):
        build(np.append(np.full(31, 4096), 131_072), policy, num_ctas=ctas)
        build(np.array([0, 100_000, 1, 70, 0]), policy, num_ctas=ctas, num_kv_heads=2)


@pytest.mark.parametrize("constants", CONSTANTS, ids=",".join)
def test_constants_at_the_ends_of_their_range(constants: dict[str, int], build: Build) -> None:
    base = cost_model()
    cost = replace(base, constants=replace(base.constants, **constants))
    for kind in range(5):
        for lengths, arguments, tile in batches(kind, 2):
            build(lengths, tile=tile, cost=cost, **arguments)


FAULTS = {
    "a cut is never moved ahead": ("forward = near && back > ahead", "forward = false"),
    "a partial result costs nothing": ("uint64_t(split) * unsigned(p.partial_ns)", "0"),
    "prefix sums of other warps not waited for": ("  meet_warps<2>(32 * warps);\n", ""),
    "the last request's slack": ("- stream.slack[number], first", "- stream.slack[0], first"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_fault_is_noticed(fault: str, build: Build) -> None:
    old, new = FAULTS[fault]
    files = Files.read().edited(re.escape(old), new)
    noticed = 0
    for lengths, arguments, tile in (*batches(0, 6), *batches(1, 6)):
        try:
            build(lengths, tile=tile, files=files, **arguments)
        except (AssertionError, emulation.Trouble):
            noticed += 1
    assert noticed
