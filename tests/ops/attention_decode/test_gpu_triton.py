"""The Triton variant on a GPU: the same inputs, maps and limits as the CUDA kernel."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.ops.attention_decode import mutants
from tests.ops.attention_decode.cases import LIMITS, ON_GPU, PRECISIONS, UPLOADED, Case, Deal
from tests.ops.attention_decode.judge import Reference, judge
from tests.ops.attention_decode.test_gpu_task_map import assert_equal
from workbench.ops import TaskMap, build_task_map
from workbench.ops.attention_decode import attention_decode, triton
from workbench.ops.attention_decode.config import GROUPS, HEAD_DIMS, PAGE_SIZES, Q_LENS
from workbench.ops.attention_decode.triton import TritonConfig, attention_decode_triton
from workbench.schedule import cost_model, plan_decode

pytestmark = pytest.mark.gpu

LENGTHS = (2500, 0, 1, 2, 17, 64, 700, 3)

# Few, for Triton compiles each for seconds; the interpreter's tests are many.
deal = Deal(
    np.random.default_rng(30),
    group=GROUPS,
    q_len=Q_LENS,
    page_size=PAGE_SIZES,
    kv_heads=(1, 2),
    layout=("nhd", "hnd", "combined"),
    policy=(*ON_GPU, *UPLOADED),
    deviation=(0.06, 1.0, 3.0),
)
CASES = [
    Case(precision=precision, head_dim=head_dim, lengths=LENGTHS, num_ctas=20, seed=seed, **deal())
    for seed, (precision, head_dim) in enumerate(itertools.product(PRECISIONS, HEAD_DIMS))
]


def check(case: Case, config: TritonConfig | None, record_errors: Callable[[str, float, float], None]) -> None:
    inputs = case.inputs()
    task_map = case.task_map(inputs)
    out = torch.full(inputs.q.shape, torch.nan, dtype=torch.bfloat16, device="cuda")
    for _ in range(2):
        _, lse = attention_decode_triton(
            *inputs.arguments(), **inputs.keywords(), task_map=task_map, config=config, out=out, return_lse=True
        )
    verdict = judge(out, lse, Reference.of(inputs), case.q_len, LIMITS[case.precision])
    record_errors(case.precision, verdict.rel_error, verdict.lse_error)
    assert not verdict.complaints


@pytest.mark.parametrize("triton_case", CASES, ids=str)
def test_equal_to_float64(triton_case: Case, record_errors: Callable[[str, float, float], None]) -> None:
    check(triton_case, None, record_errors)


@pytest.mark.parametrize("triton_case", [c for c in CASES if c.precision != "bf16"][::4], ids=str)
def test_e4m3_decoded_by_hand(triton_case: Case, record_errors: Callable[[str, float, float], None]) -> None:
    check(triton_case, TritonConfig(fp8_bits=True), record_errors)


@pytest.mark.parametrize("triton_case", mutants.CASES, ids=str)
def test_long_requests_and_many_pieces(triton_case: Case, record_errors: Callable[[str, float, float], None]) -> None:
    check(triton_case, None, record_errors)


@pytest.mark.usefixtures("compiled")
def test_a_map_serves_both_kernels_in_turn() -> None:
    case = replace(mutants.CASES[0], seed=3)
    inputs = case.inputs()
    task_map, reference = case.task_map(inputs), Reference.of(inputs)
    for _ in range(3):
        for attend, config in ((attention_decode, case.used_config), (attention_decode_triton, None)):
            out, lse = attend(
                *inputs.arguments(), **inputs.keywords(), task_map=task_map, config=config, return_lse=True
            )
            assert judge(out, lse, reference, case.q_len, LIMITS[case.precision])


@pytest.mark.parametrize("precision", ["fp8", "bf16"])
def test_the_map_made_here_is_the_plan_by_the_costs_of_its_own_cache(
    precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case(precision=precision, head_dim=128, group=8, lengths=LENGTHS)
    made: list[TaskMap] = []
    monkeypatch.setattr(triton, "build_task_map", lambda *a, **k: made.append(build_task_map(*a, **k)) or made[-1])
    inputs = case.inputs()
    attention_decode_triton(*inputs.arguments(), **inputs.keywords())
    (task_map,) = made
    cost = cost_model(torch.cuda.get_device_name(), cache=precision)
    assert_equal(task_map, plan_decode(LENGTHS, num_kv_heads=1, num_ctas=task_map.num_bins, cost=cost))
