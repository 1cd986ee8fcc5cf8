"""The judge accepts what is right to its limits and names what is wrong."""

from __future__ import annotations

import pytest
import torch

from tests.ops.attention_decode.cases import LIMITS, Case, grid
from tests.ops.attention_decode.judge import Reference, judge
from workbench.ops.attention_decode.config import PAGE_SIZES

CASE = Case(precision="fp8", q_len=2, kv_heads=2, group=4, head_dim=64, lengths=(0, 1, 40, 300), page_size=16)


@pytest.fixture(scope="module")
def reference() -> Reference:
    return Reference.of(CASE.inputs("cpu"))


def complaints(out: torch.Tensor, lse: torch.Tensor, reference: Reference) -> str:
    return "; ".join(judge(out, lse, reference, CASE.q_len, 0.004).complaints)


def test_float64_never_looks_at_garbage(reference: Reference) -> None:
    assert not torch.isnan(reference.out).any()
    assert not torch.isnan(reference.lse).any()
    assert (
        reference.lse == -torch.inf
    ).sum() == 3 * 8  # both rows of the empty request, the first of the one-token one


def test_a_rounded_result_passes(reference: Reference) -> None:
    assert not complaints(reference.out.bfloat16(), reference.lse.float(), reference)


def test_what_is_wrong_is_named(reference: Reference) -> None:
    out, lse = reference.out.bfloat16(), reference.lse.float()
    assert "relative error" in complaints(out * 1.01, lse, reference)
    one_request = out.clone()
    one_request[2 * CASE.q_len : 3 * CASE.q_len] *= 1.02
    assert "first request 2" in complaints(one_request, lse, reference)
    empty = out.clone()
    empty[0] = 1e-4
    assert "not zero" in complaints(empty, lse, reference)
    garbage = out.clone()
    garbage[5, 3, 7] = torch.nan
    assert "1 NaN" in complaints(garbage, lse, reference)
    assert "LSE error" in complaints(out, lse + 0.02, reference)
    assert "not -inf" in complaints(out, lse.nan_to_num(0.0, neginf=-80.0), reference)
    lost = lse.clone()
    lost[-1] = torch.nan
    assert "LSE error" in complaints(out, lost, reference)


def test_the_grid_holds_every_kernel_shape_and_every_page_size_and_layout() -> None:
    cases = grid()
    assert len({case.shape for case in cases}) == 300
    assert len({(case.shape, case.page_size, case.layout, case.kv_heads) for case in cases}) >= 400
    assert {case.page_size for case in cases} == set(PAGE_SIZES)
    assert {case.layout for case in cases} == {"nhd", "hnd", "combined"}
    assert {case.deviation for case in cases} == {0.06, 1.0, 3.0}
    assert {case.ruling for case in cases} == {None, "first", "middle", "last"}
    assert all(case.used_config.why_invalid(case.shape) is None for case in cases)
    assert set(LIMITS.values()) == {0.0025, 0.004}
