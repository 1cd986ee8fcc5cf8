"""Splitting a weight: error bounds, exactness, staleness."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.ops.router_gemm.judge import summed_terms
from workbench.errors import InvalidArgument, StaleWeight
from workbench.ops.router_gemm import router_gemm, router_reference, split_router_weight

BOUNDS = {("nearest", 2): 2**-17, ("truncate", 2): 2**-15, ("nearest", 3): 0.0, ("truncate", 3): 0.0}

# Below 2^-100 the last term would leave bf16's normal numbers; above 2^127 rounding to nearest may overflow.
normal = st.floats(2.0**-100, 2.0**127, width=32)
weights = st.lists(st.one_of(st.just(0.0), normal, normal.map(lambda w: -w)), min_size=64, max_size=64)


@pytest.mark.parametrize(("rounding", "terms"), BOUNDS)
@given(values=weights)
def test_error_bounds(rounding: str, terms: int, values: list[float]) -> None:
    weight = torch.tensor(values, dtype=torch.float32).reshape(8, 8)
    split = split_router_weight(weight, rounding, terms)
    error = (summed_terms(split) - weight.double()).abs()
    assert (error <= BOUNDS[rounding, terms] * weight.double().abs()).all()


@pytest.mark.parametrize("rounding", ["nearest", "truncate"])
def test_the_bounds_are_tight(rounding: str) -> None:
    """Within a factor of 1.1, so a worse split fails the test above."""
    weight = torch.randn(512, 512)
    relative = (summed_terms(split_router_weight(weight, rounding)) - weight.double()).abs() / weight.double().abs()
    assert relative.max() > BOUNDS[rounding, 2] / 1.1


@given(values=weights)
def test_the_first_term_is_the_rounded_weight(values: list[float]) -> None:
    weight = torch.tensor(values, dtype=torch.float32).reshape(8, 8)
    assert torch.equal(split_router_weight(weight).terms[0], weight.bfloat16())
    cut = split_router_weight(weight, "truncate").terms[0].float()
    assert (cut.abs() <= weight.abs()).all()
    assert torch.equal(cut.view(torch.int32), weight.view(torch.int32) & -65536)


def test_update_writes_into_the_same_memory() -> None:
    first, second = torch.randn(16, 64), torch.randn(16, 64)
    split = split_router_weight(first)
    address = split.terms.data_ptr()
    split.fresh = False
    assert split.update_(second) is split
    assert split.terms.data_ptr() == address
    assert split.fresh
    assert split.verify(second)
    assert not split.verify(first)


def test_a_change_in_place_is_noticed() -> None:
    weight = torch.randn(16, 64)
    split, x = split_router_weight(weight), torch.randn(2, 64).bfloat16()
    weight.mul_(2)
    with pytest.raises(StaleWeight, match=r"changed in place.*update_"):
        router_gemm(x, split, provider="torch")
    split.update_(weight)
    router_gemm(x, split, provider="torch")


def test_moved_memory_is_noticed() -> None:
    weight = torch.nn.Parameter(torch.randn(16, 64))
    split = split_router_weight(weight)
    weight.data = torch.randn(16, 64)
    with pytest.raises(StaleWeight, match="moved to other memory"):
        split.check_fresh()


def test_what_versions_do_not_show_the_contents_do() -> None:
    weight = torch.randn(16, 64)
    split = split_router_weight(weight)
    weight.data.copy_(torch.randn(16, 64))
    split.check_fresh()
    assert not split.verify(weight)


def test_inference_tensors_have_no_version() -> None:
    with torch.inference_mode():
        weight = torch.randn(16, 64)
        split = split_router_weight(weight)
        weight.mul_(2)
        split.check_fresh()
        assert not split.verify(weight)
        assert split.update_(weight).verify(weight)


def test_verify_needs_contents() -> None:
    weight = torch.randn(16, 64)
    with pytest.raises(InvalidArgument, match="weight is on the meta device and has no contents; verify once"):
        split_router_weight(weight).verify(weight.to("meta"))
    with pytest.raises(InvalidArgument, match="this router weight is on the meta device"):
        split_router_weight(weight.to("meta")).verify(weight)


@pytest.mark.parametrize(
    ("x", "weight", "match"),
    [
        (torch.randn(2, 56), torch.randn(16, 64), "x has hidden size 56 and the weight 64; they must agree"),
        (torch.randn(64), torch.randn(16, 64), r"x is \(64,\); give a tensor \[tokens, hidden\]"),
        (torch.randn(2, 64), torch.randn(2, 16, 64), r"weight is \(2, 16, 64\); give a tensor \[experts, hidden\]"),
        (torch.randn(2, 64), [[1.0]], "weight is a list"),
        (torch.randn(2, 64).to("meta"), torch.randn(16, 64), "x is on meta and the weight on cpu"),
    ],
)
def test_the_reference_refuses_what_does_not_fit(x: torch.Tensor, weight: torch.Tensor, match: str) -> None:
    with pytest.raises(InvalidArgument, match=match):
        router_reference(x, weight)


def test_verify_tells_minus_zero_and_other_shapes_apart() -> None:
    weight = torch.zeros(8, 8)
    split = split_router_weight(weight)
    assert not split.verify(-weight)
    assert not split.verify(torch.zeros(16, 8))


@pytest.mark.parametrize(
    ("weight", "match"),
    [
        (torch.randn(16, 64).bfloat16(), r"weight is torch.bfloat16.*give torch.float32"),
        (torch.randn(16), r"weight is torch.float32 \(16,\)"),
        (torch.randn(64, 16).t(), "give a contiguous tensor"),
        (torch.randn(12, 64), r"12 experts \(N\); give a multiple of 8, such as 16"),
        (torch.randn(16, 60), r"60 hidden size \(K\)"),
        (torch.randn(0, 64), r"0 experts \(N\)"),
        ([[1.0]], "weight is a list"),
    ],
)
def test_weights_that_cannot_be_split(weight: torch.Tensor, match: str) -> None:
    with pytest.raises(InvalidArgument, match=match):
        split_router_weight(weight)


def test_other_roundings_and_numbers_of_terms() -> None:
    with pytest.raises(InvalidArgument, match="rounding is 'up'; give 'nearest' or 'truncate'"):
        split_router_weight(torch.randn(8, 8), "up")
    with pytest.raises(InvalidArgument, match="terms is 4"):
        split_router_weight(torch.randn(8, 8), terms=4)
    with pytest.raises(InvalidArgument, match="Split the new one with split_router_weight"):
        split_router_weight(torch.randn(8, 8)).update_(torch.randn(16, 8))
