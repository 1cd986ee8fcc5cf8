"""The Triton kernel in its interpreter against float64."""

from __future__ import annotations

import pytest
import torch

from tests.ops.router_gemm.judge import guarded, judge
from tests.pairwise import pairwise
from workbench.errors import InvalidArgument
from workbench.gpu.driver import probe
from workbench.ops.router_gemm import router_gemm, split_router_weight
from workbench.ops.router_gemm.triton import TritonConfig, router_gemm_triton

pytestmark = pytest.mark.skipif(not probe().problem, reason="a GPU is here: test_gpu.py runs the kernel on it")

ROWS = pairwise(
    {
        "m": (1, 16, 37),
        "n": (8, 40, 64),
        "k": (8, 72, 520),
        "terms": (2, 3),
        "rounding": ("nearest", "truncate"),
        "out": (torch.float32, torch.bfloat16),
        "gap": (0, 3),
        "promote": (64, 256),
    }
)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: "-".join(map(str, row.values())))
def test_equal_to_float64(row: dict) -> None:
    generator = torch.Generator().manual_seed(row["m"])
    x = torch.full((row["m"], row["k"] + row["gap"]), torch.nan, dtype=torch.bfloat16)[:, : row["k"]]
    x.copy_(torch.randn(x.shape, generator=generator))
    weight = split_router_weight(torch.randn(row["n"], row["k"], generator=generator), row["rounding"], row["terms"])
    out, whole = guarded(row["m"], row["n"], row["out"], "cpu")
    y = router_gemm_triton(x, weight, out=out, out_dtype=row["out"], config=TritonConfig(promote=row["promote"]))
    assert y is out
    # FP32 sums of this length stay well below the limits of a whole hidden size.
    limit = 2.5e-3 if row["out"] == torch.bfloat16 else 6e-6 if row["terms"] == 2 else 4e-7
    assert not judge(y, x, weight, limit).complaints
    assert (whole[:16] == whole[0, 0]).all()
    assert (whole[16 + row["m"] :] == whole[0, 0]).all()


def test_the_provider_is_found_by_name_and_as_the_portable_choice() -> None:
    weight = split_router_weight(torch.randn(16, 64))
    x = torch.randn(5, 64).bfloat16()
    assert torch.equal(router_gemm(x, weight, provider="triton"), router_gemm(x, weight))


def test_no_tokens() -> None:
    weight = split_router_weight(torch.randn(16, 64))
    assert router_gemm_triton(torch.empty(0, 64, dtype=torch.bfloat16), weight).shape == (0, 16)


@pytest.mark.parametrize("config", [TritonConfig(tile_m=24), TritonConfig(block=8), TritonConfig(promote=100)])
def test_sizes_that_triton_does_not_take(config: TritonConfig) -> None:
    weight = split_router_weight(torch.randn(16, 64))
    with pytest.raises(InvalidArgument, match="give a"):
        router_gemm_triton(torch.randn(5, 64).bfloat16(), weight, config=config)
