"""Arguments that are refused: what was given, what is allowed."""

from __future__ import annotations

import pytest
import torch

from workbench.errors import InvalidArgument
from workbench.ops.router_gemm import RouterConfig, router_gemm, router_reference, split_router_weight
from workbench.ops.router_gemm.checks import check_step

WEIGHT = split_router_weight(torch.randn(16, 64))
X = torch.randn(4, 64).bfloat16()


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (X.float(), "x is torch.float32"),
        (X[0], r"x is torch.bfloat16 \(64,\)"),
        ([1.0], "x is a list"),
        (X[:, :32], "hidden size 32 and the weight 64"),
        (torch.randn(64, 4).bfloat16().t(), "last dimension contiguous"),
        (X.to("meta"), "x is on meta and the weight on cpu"),
    ],
)
def test_activations(x: torch.Tensor, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        router_gemm(x, WEIGHT, provider="torch")


@pytest.mark.parametrize(
    ("out", "words"),
    [
        (torch.empty(4, 16).bfloat16(), "out is torch.bfloat16"),
        (torch.empty(4, 8), r"out has shape \(4, 8\)"),
        (torch.empty(16, 4).t(), "give contiguous"),
        (torch.empty(4, 16, device="meta"), "out is torch.float32 on meta"),
    ],
)
def test_out(out: torch.Tensor, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        router_gemm(X, WEIGHT, provider="torch", out=out)


def test_activations_of_a_training_step_are_refused() -> None:
    x = X.clone().requires_grad_()
    with pytest.raises(InvalidArgument, match=r"x requires a gradient .* torch\.no_grad"):
        router_gemm(x, WEIGHT, provider="torch")
    with torch.no_grad():
        scores = router_gemm(x, WEIGHT, provider="torch")
    assert torch.equal(scores, router_gemm(x.detach(), WEIGHT, provider="torch"))


def test_others() -> None:
    with pytest.raises(InvalidArgument, match="split it once with split_router_weight"):
        router_gemm(X, torch.randn(16, 64))  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match=r"out_dtype is torch\.float16"):
        router_gemm(X, WEIGHT, out_dtype=torch.float16)
    with pytest.raises(InvalidArgument, match="provider is 'cudnn'; give auto, cuda"):
        router_gemm(X, WEIGHT, provider="cudnn")
    with pytest.raises(InvalidArgument, match="config is for provider 'cuda'"):
        router_gemm(X, WEIGHT, provider="torch", config=RouterConfig())
    with pytest.raises(InvalidArgument, match="x is on cpu; move the tensors to a CUDA device"):
        router_gemm(X, WEIGHT, provider="cuda")
    with pytest.raises(InvalidArgument, match="x is on cpu; move"):
        router_gemm(X, WEIGHT, config=RouterConfig())


def test_steps_of_copies() -> None:
    check_step(torch.empty(4, 68).bfloat16()[:1, :64])  # one row lies no distance from another
    with pytest.raises(InvalidArgument, match="rows lie 132 bytes apart"):
        check_step(torch.empty(4, 66).bfloat16()[:, :64])


@pytest.mark.parametrize(("provider", "limit"), [("torch", 1e-6), ("tf32", 1e-3), ("bf16", 6e-3)])
@pytest.mark.parametrize("out_dtype", [torch.float32, torch.bfloat16])
def test_torch_computes_the_product(provider: str, limit: float, out_dtype: torch.dtype) -> None:
    out = torch.full((4, 16), torch.nan, dtype=out_dtype)
    y = router_gemm(X, WEIGHT, provider=provider, out=out, out_dtype=out_dtype)
    reference = router_reference(X, WEIGHT.weight)
    assert y is out
    assert (y.double() - reference).norm() / reference.norm() < max(limit, 4e-3 * (out_dtype == torch.bfloat16))


def test_torch_compiles_in_one_graph() -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        return router_gemm(x, WEIGHT, provider="torch") * 2

    torch._dynamo.reset()
    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(X), step(X))
