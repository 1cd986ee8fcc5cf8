"""Arms against their definition in float64 and in whole numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from workbench.errors import InvalidArgument
from workbench.measure.precision_arms import ARMS, round_to_tf32, scores

FLOATS = st.floats(
    width=32, allow_nan=False, allow_infinity=False, allow_subnormal=False, min_value=-(2.0**120), max_value=2.0**120
)


def rounded(value, bits):
    """Nearest number with so many mantissa bits, ties to even, by exact arithmetic."""
    if value == 0:
        return 0.0
    step = 2.0 ** (math.frexp(value)[1] - 1 - bits)
    return round(value / step) * step  # Python rounds halves to even, and the quotient is exact


@given(st.lists(FLOATS, min_size=1, max_size=20))
def test_tf32_is_the_nearest_of_ten_bits(values):
    found = round_to_tf32(torch.tensor(values, dtype=torch.float32)).tolist()
    assert found == [rounded(value, 10) for value in values]


def test_tf32_keeps_what_is_no_number_and_every_bf16():
    special = torch.tensor([float("inf"), -float("inf"), 0.0, -0.0, 1.0])
    assert torch.equal(round_to_tf32(special).view(torch.int32), special.view(torch.int32))
    assert round_to_tf32(torch.tensor([float("nan")])).isnan().all()
    every = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int32).to(torch.int16).view(torch.bfloat16).float()
    every = every[every.isfinite()]
    assert torch.equal(round_to_tf32(every), every)


def inputs(k=512, n=32, tokens=64):
    random = torch.Generator().manual_seed(0)
    return torch.randn((tokens, k), generator=random).bfloat16(), torch.randn((n, k), generator=random) / 16


def bf16(values):
    return np.vectorize(lambda value: rounded(value, 7))(values)


def truncated(values):
    return (values.astype(np.float32).view(np.uint32) & 0xFFFF0000).view(np.float32).astype(np.float64)


OPERANDS = {
    "fp32": lambda w: w,
    "tf32": lambda w: np.vectorize(lambda value: rounded(value, 10))(w),
    "bf16": bf16,
    "split": lambda w: bf16(w) + bf16((w - bf16(w)) * 256) / 256,
    "split-truncated": lambda w: truncated(w) + truncated((w - truncated(w)) * 256) / 256,
    "split3": lambda w: w,  # 24 bits in three times 8
}


@pytest.mark.parametrize("arm", OPERANDS)
def test_emulated_arms_are_the_product_of_the_rounded_operands(arm):
    """In float64 on operands rounded by hand; what is left is the rounding of FP32 sums."""
    x, weight = inputs()
    operands = OPERANDS[arm](weight.double().numpy())
    expected = x.double().numpy() @ operands.T
    found = scores(arm, x, weight)
    assert found.dtype == torch.float32
    assert np.linalg.norm(found.double().numpy() - expected) / np.linalg.norm(expected) < 1e-6
    own = np.linalg.norm(operands - weight.double().numpy()) / np.linalg.norm(weight.double().numpy())
    assert own <= {"tf32": 2**-11, "bf16": 2**-8, "split": 2**-17, "split-truncated": 2**-15}.get(arm, 0)


@pytest.mark.parametrize("arm", ["fp32-bf16", "bf16-bf16"])
def test_bf16_scores_are_the_rounded_ones(arm):
    x, weight = inputs()
    wide = scores(arm.removesuffix("-bf16"), x, weight)
    assert torch.equal(scores(arm, x, weight), wide.bfloat16())


@pytest.mark.parametrize(("arm", "provider", "m"), [("tf32", "cublas-tf32", 256), ("bf16-bf16", "cublas-bf16", 256)])
def test_rounding_errors_are_those_measured_on_an_h200(reference_data, arm, provider, m):
    """TF32 is rounded to nearest there, not truncated: the emulated error is the measured one within 5 %."""
    import json

    lines = (reference_data / "reference" / "h200-2026-11-29.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    (measured,) = [
        row["err"]
        for row in rows
        if row["op"] == "router" and (row["k"], row["m"], row["provider"]) == (4096, m, provider)
    ]
    x, weight = inputs(k=4096, n=192, tokens=m)
    exact = x.double() @ weight.double().t()
    found = float((scores(arm, x, weight).double() - exact).norm() / exact.norm())
    assert found == pytest.approx(measured, rel=0.05)
    if arm == "tf32":
        cut = (weight.view(torch.int32) >> 13 << 13).view(torch.float32)
        assert float((x.double() @ cut.double().t() - exact).norm() / exact.norm()) > 1.5 * measured


@pytest.mark.parametrize("arm", ["split", "split-truncated", "split3"])
def test_arms_can_be_run_by_a_kernel(arm):
    """Triton's kernel, interpreted on a CPU: what a GPU does, by the same call."""
    pytest.importorskip("triton")
    x, weight = inputs(k=128, n=16, tokens=8)
    emulated, run = scores(arm, x, weight), scores(arm, x, weight, kernel="triton")
    assert float((emulated.double() - run.double()).norm() / emulated.double().norm()) < 5e-7


def test_unknown_arms_are_refused():
    with pytest.raises(InvalidArgument, match=r"fp8.*fp32, split3"):
        scores("fp8", *inputs())
    assert set(OPERANDS) | {"fp32-bf16", "bf16-bf16"} == set(ARMS)


@pytest.mark.gpu
@pytest.mark.parametrize("arm", ARMS)
def test_arms_of_a_gpu_err_as_emulated(arm):
    """What is run errs as much as what is emulated; the split arms by tensor cores that add with fewer bits."""
    x, weight = inputs(k=4096, n=192, tokens=300)
    exact = x.double() @ weight.double().t()
    errors = [
        float((found.double().cpu() - exact).norm() / exact.norm())
        for found in (scores(arm, x, weight), scores(arm, x.cuda(), weight.cuda()))
    ]
    if arm in ("fp32", "split3"):
        assert errors[1] < 1e-6
    elif arm == "split":
        assert errors[1] < 6e-6
    else:
        assert errors[1] == pytest.approx(errors[0], rel=0.1 if arm != "split-truncated" else 0.5)
