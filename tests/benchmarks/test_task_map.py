"""A build that is timed keeps what its graph reads and writes: the launch's parameters are addresses only."""

from __future__ import annotations

import gc
import weakref

import pytest

torch = pytest.importorskip("torch")

from benchmarks.task_map import builder  # noqa: E402
from workbench.ops.attention_decode import upload_plan  # noqa: E402
from workbench.schedule import plan_decode  # noqa: E402


class Launches:
    """Stands for the kernel."""

    def __init__(self) -> None:
        self.threads: list[int] = []

    def launch(self, grid, threads, args, *, shared_bytes, pdl) -> None:
        self.threads.append(threads)


@pytest.mark.parametrize("policy", ["hpc-ops", "balanced"])
def test_a_call_keeps_lengths_and_map(policy) -> None:
    kernel, lengths = Launches(), torch.tensor([100, 5000], dtype=torch.int32)
    task_map = upload_plan(plan_decode([100, 5000], num_kv_heads=1, num_ctas=132, policy=policy), "cpu")
    call = builder(kernel, lengths, task_map, policy, 256)
    kept = [weakref.ref(lengths), weakref.ref(task_map)]
    del lengths, task_map
    gc.collect()
    assert all(one() is not None for one in kept)
    call()
    assert kernel.threads == [256]
    del call
    gc.collect()
    assert all(one() is None for one in kept)
