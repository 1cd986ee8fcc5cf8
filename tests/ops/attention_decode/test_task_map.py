"""What the host decides before the map kernel runs; the maps themselves are checked on a GPU."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from workbench.ops.attention_decode.config import SHARED_LIMIT
from workbench.ops.attention_decode.map_costs import costs_of, decides
from workbench.ops.attention_decode.task_map import MAX_BATCH, grid_of, map_parameters, shared_bytes
from workbench.schedule import balanced, cost_model


@given(st.integers(0, MAX_BATCH), st.integers(1, 1024), st.integers(1, 65_535), st.booleans())
def test_every_request_has_a_thread(batch: int, heads: int, ctas: int, decided: bool) -> None:
    grid, threads = grid_of(batch, heads, ctas, decided)
    assert threads % 32 == 0
    assert 32 <= threads <= 1024
    assert 1 <= grid <= 16
    parameters = map_parameters((0, 0, 0, 0), batch, batch, heads, ctas, 64, 8, 4096, [], threads)
    run, scanning = parameters.run, 32 * parameters.scan_warps
    assert 32 <= scanning <= threads
    assert run * scanning >= batch > (run - 1) * scanning or batch == run == 0


@given(st.integers(0, 2**31 - 1), st.integers(1, 65_535))
def test_division_by_the_number_of_ctas(a: int, ctas: int) -> None:
    """The kernel's quotient: the upper half of a product, one added where the rest is not below the divisor."""
    inverse = map_parameters((0, 0, 0, 0), 1, 1, 1, ctas, 64, 8, 4096, [], 32).ctas_inverse
    n = a + ctas - 1
    assert n < 2**32
    quotient = n * inverse >> 32
    quotient += n - quotient * ctas >= ctas
    assert quotient == -(-a // ctas)


def test_the_largest_batch_fits_shared_memory_on_the_usual_grids() -> None:
    for ctas in (132, 264, 396, 528):
        assert shared_bytes(MAX_BATCH, ctas, True) <= SHARED_LIMIT - 1024
        assert shared_bytes(MAX_BATCH, ctas, False) <= SHARED_LIMIT - 1024


def test_the_name_balanced_decides_by_the_cost_model_given() -> None:
    other = cost_model("H100", cache="bf16", head_dim=256)
    assert decides("balanced", 132, 64, other) == decides(balanced(other), 132, 64)
    assert decides(balanced(other), 132, 64, cost_model()) == decides(balanced(other), 132, 64)
    assert decides("balanced", 132, 64) == decides("balanced", 132, 64, cost_model())
    assert decides("balanced", 132, 64, other) != decides("balanced", 132, 64)
    assert decides("hpc-ops", 132, 64, other) == ("hpc-ops", [])


@pytest.mark.parametrize(("name", "gpu"), [("NVIDIA H100 80GB HBM3", "H100"), ("A GPU of next year", "H200")])
def test_costs_are_those_of_the_gpu_and_the_cache(monkeypatch: pytest.MonkeyPatch, name: str, gpu: str) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: name)
    device = torch.device("cuda", len(name))  # a device of its own, for the answer is kept
    assert costs_of(128, 4, torch.bfloat16, device) == cost_model(gpu, cache="bf16", group=4)
    assert costs_of(64, 8, torch.float8_e4m3fn, device) == cost_model(gpu, head_dim=64)


def test_on_a_cpu_the_costs_are_those_of_an_h200() -> None:
    assert costs_of(128, 4, torch.bfloat16, torch.device("cpu")) == cost_model("H200", cache="bf16", group=4)
