"""The operator in torch's own checks, in compiled functions and in captured graphs, on a GPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.ops.router_gemm.cases import LIMITS, Case
from tests.ops.router_gemm.judge import judge
from workbench.errors import InvalidArgument, StaleWeight
from workbench.ops.router_gemm import RouterWeight, api, router_gemm

# torch's compiler warns about its own parts.
pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("default")]


def made(m: int = 64, seed: int = 0, **values: Any) -> tuple[torch.Tensor, RouterWeight]:
    return Case(m=m, seed=seed, **values).inputs("cuda")


@pytest.mark.parametrize("terms", [2, 3])
def test_opcheck(terms: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight = made(terms=terms)
    seen: list[tuple[Any, ...]] = []
    real = api._router_gemm
    with monkeypatch.context() as patch:
        patch.setattr(api, "_router_gemm", lambda *given: (seen.append(given), real(*given)))
        router_gemm(x, weight, provider="cuda")
    torch.library.opcheck(torch.ops.workbench.router_gemm.default, seen[0])


@pytest.mark.parametrize("backend", ["inductor", "aot_eager"])
def test_compiled_in_one_graph(backend: str) -> None:
    """For two numbers of tokens, the weight an argument."""

    def step(x: torch.Tensor, weight: RouterWeight) -> torch.Tensor:
        return router_gemm(x * 2, weight) * 2

    torch._dynamo.reset()
    compiled = torch.compile(step, fullgraph=True, backend=backend)
    _, weight = made()
    for m in (5, 300, 1):
        x, _ = made(m=m, seed=m)
        expected = router_gemm(x * 2, weight, provider="cuda") * 2
        assert torch.equal(compiled(x, weight), expected)


def test_a_graph_follows_the_weight() -> None:
    """Captured once; a later update writes into the memory that the graph reads."""
    x, weight = made(m=3)
    _, other = made(m=3, seed=1)
    router_gemm(x, weight, provider="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = router_gemm(x, weight, provider="cuda")
    for source in (other.weight, weight.weight.clone()):
        weight.update_(source)
        y.fill_(torch.nan)
        graph.replay()
        assert judge(y, x, weight, LIMITS[2]).complaints == ()


def test_an_update_inside_a_graph() -> None:
    """A layer that loads its weight and routes, captured: the products wait for the split ahead of them."""
    x, weight = made(m=3, n=768, k=6144)
    loaded = weight.weight.clone()
    weight.update_(loaded)
    router_gemm(x, weight, provider="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        weight.update_(loaded)
        first = router_gemm(x, weight, provider="cuda")
        second = router_gemm(x, weight, provider="cuda")
    for seed in range(5):
        loaded.copy_(torch.randn(loaded.shape, generator=torch.Generator("cuda").manual_seed(seed), device="cuda") / 16)
        first.fill_(torch.nan), second.fill_(torch.nan)
        graph.replay()
        assert weight.verify(loaded)
        assert judge(first, x, weight, LIMITS[2]).complaints == ()
        assert torch.equal(first, second)
        weight.update_(loaded)  # so that its version counts as seen


def test_a_stale_weight_is_refused() -> None:
    x, weight = made()
    weight.weight.mul_(2)
    with pytest.raises(StaleWeight, match="changed in place"):
        router_gemm(x, weight)
    weight.update_(weight.weight)
    assert judge(router_gemm(x, weight), x, weight, LIMITS[2]).complaints == ()


def test_activations_of_the_kernel_ahead_are_waited_for() -> None:
    """Each product reads what the one before it wrote, launched as programmatic dependents."""
    x, weight = made(m=16, n=1024, k=1024)
    chained = x.clone()
    for _ in range(50):
        chained = router_gemm(chained, weight, provider="cuda", out_dtype=torch.bfloat16)
        torch.cuda.synchronize()
        chained /= chained.float().square().mean().sqrt()
    waiting = x.clone()
    for _ in range(50):
        waiting = router_gemm(waiting, weight, provider="cuda", out_dtype=torch.bfloat16)
        waiting /= waiting.float().square().mean().sqrt()
    assert torch.equal(chained, waiting)


def test_on_a_stream_of_ones_own_and_on_triton() -> None:
    x, weight = made(m=100)
    expected = router_gemm(x, weight, provider="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        y = router_gemm(x, weight, provider="cuda")
    stream.synchronize()
    assert torch.equal(y, expected)
    for terms in (2, 3):
        x, weight = made(m=100, terms=terms)
        assert judge(router_gemm(x, weight, provider="triton"), x, weight, LIMITS[terms]).complaints == ()


def test_a_view_that_copies_cannot_begin_at_is_refused() -> None:
    _, weight = made()
    x = torch.randn(65, 1024, device="cuda").bfloat16().flatten()[1 : 1 + 64 * 1024].view(64, 1024)
    with pytest.raises(InvalidArgument, match="multiple of 16 bytes"):
        router_gemm(x, weight, provider="cuda")
