"""Router GEMM as something to capture: workloads and configurations."""

from __future__ import annotations

import pytest

from workbench.capture import request
from workbench.capture.router import RouterGemm
from workbench.errors import InvalidArgument

router = RouterGemm()


def test_workload_is_that_of_records():
    work = router.describe("M64-K4096-N192")
    assert (work.case, work.m, work.k, work.n, work.dtype, work.model) == (
        "M64-K4096-N192",
        64,
        4096,
        192,
        "bf16",
        "hy3",
    )
    assert router.describe({"m": 64, "k": 4096, "n": 192}) == work


@pytest.mark.parametrize(
    "given", ["64x4096x192", {}, {"m": 64, "k": 4096}, {"m": 0, "k": 8, "n": 8}, {"m": 1, "k": 12, "n": 8}, "M1-K8-N9"]
)
def test_what_is_no_workload(given):
    with pytest.raises(InvalidArgument, match="M64-K4096-N192"):
        router.describe(given)


def test_the_default_of_the_shape_is_filled_in():
    configuration, digest = router.identity(request("router_gemm", {"stages": 3}, "M256-K4096-N192"))
    assert configuration["stages"] == 3
    assert configuration.keys() > {"tile_m", "tile_n", "split_k", "pdl"}
    assert len(digest) == 64


@pytest.mark.parametrize(
    ("provider", "given", "says"),
    [
        ("cuda", {"colour": 1}, "it can have tile_m"),
        ("cuda", {"stages": 99}, "stages"),
        ("cublas-tf32", {"stages": 3}, "tf32"),
    ],
)
def test_a_configuration_that_there_is_not(provider, given, says):
    with pytest.raises(InvalidArgument, match=says):
        router.identity(request("router_gemm", given, "M64-K4096-N192", provider))


def test_there_is_no_policy():
    with pytest.raises(InvalidArgument, match="no scheduling policy"):
        request("router_gemm", None, "M64-K4096-N192", policy="balanced")
