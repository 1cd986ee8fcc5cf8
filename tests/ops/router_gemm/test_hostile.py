"""Calls that a reader may get wrong without noticing: each is refused in words, or right."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch

from tests.tables.tables import table
from workbench.errors import InvalidArgument, StaleWeight, TableError
from workbench.ops.router_gemm import RouterConfig, router_gemm, router_reference, split_router_weight
from workbench.ops.router_gemm.checks import check_apart
from workbench.ops.router_gemm.providers import resolve, use_table
from workbench.ops.router_gemm.triton import TritonConfig, router_gemm_triton
from workbench.tables import Dispatch, forget_tables, save_table

WEIGHT = torch.randn(16, 64)
X = torch.randn(4, 64).bfloat16()


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("WORKBENCH_TABLES_DIR", str(tmp_path / "tables"))
    forget_tables()
    yield
    use_table(None)
    forget_tables()


@pytest.mark.parametrize(
    ("out", "match"),
    [
        ("scores", "out is a str; give a tensor"),
        ([1.0], "out is a list"),
        (torch.empty(4, 16, requires_grad=True), r"out requires a gradient.*out.detach\(\)"),
    ],
)
def test_outputs_that_cannot_be_written(out: object, match: str) -> None:
    with pytest.raises(InvalidArgument, match=match):
        router_gemm(X, split_router_weight(WEIGHT), provider="torch", out=out)  # type: ignore[arg-type]


@pytest.mark.parametrize("provider", ["torch", "bf16", "triton"])
def test_scores_do_not_go_where_activations_are_read(provider: str) -> None:
    memory = torch.randn(512).bfloat16()
    x, out = memory[:256].view(4, 64), memory.view(torch.float32)[64:128].view(4, 16)
    with pytest.raises(InvalidArgument, match="out lies in the memory of x"):
        router_gemm(x, split_router_weight(WEIGHT), provider=provider, out=out)


def test_neighbours_in_one_buffer_do_not_overlap() -> None:
    memory = torch.randn(512).bfloat16()
    x, out = memory[:256].view(4, 64), memory.view(torch.float32)[128:192].view(4, 16)
    expected = router_reference(x, WEIGHT)
    router_gemm(x, split_router_weight(WEIGHT), provider="torch", out=out)
    assert torch.allclose(out.double(), expected, atol=1e-5)


@pytest.mark.filterwarnings("ignore:.*(beta|prototype):UserWarning")
@pytest.mark.parametrize("layout", ["coo", "csr", "nested"])
def test_weights_that_are_not_dense(layout: str) -> None:
    weight = {
        "coo": WEIGHT.to_sparse,
        "csr": WEIGHT.to_sparse_csr,
        "nested": lambda: torch.nested.nested_tensor([WEIGHT, WEIGHT]),
    }[layout]()
    with pytest.raises(InvalidArgument, match="give a dense tensor"):
        split_router_weight(weight)
    with pytest.raises(InvalidArgument, match=r"x is of layout.*give a dense tensor"):
        router_gemm(weight.to(torch.bfloat16), split_router_weight(WEIGHT), provider="torch")


def test_terms_are_a_whole_number() -> None:
    with pytest.raises(InvalidArgument, match=r"terms is 2\.0"):
        split_router_weight(WEIGHT, terms=2.0)  # type: ignore[arg-type]


def test_a_split_made_in_inference_mode_is_updated_outside_and_the_reverse() -> None:
    other = torch.randn(16, 64)
    with torch.inference_mode():
        made_inside = split_router_weight(WEIGHT.clone())
    address = made_inside.terms.data_ptr()
    assert made_inside.update_(other).verify(other)
    assert made_inside.terms.data_ptr() == address
    made_outside = split_router_weight(WEIGHT)
    with torch.inference_mode():
        assert made_outside.update_(other).verify(other)
    assert made_outside.update_(WEIGHT).verify(WEIGHT)


def test_the_portable_kernel_alone_sees_stale_and_unsplit_weights() -> None:
    changed = WEIGHT.clone()
    split = split_router_weight(changed)
    changed.add_(1)
    with pytest.raises(StaleWeight, match="changed in place"):
        router_gemm_triton(X, split)
    with pytest.raises(InvalidArgument, match="weight is a Tensor; split it once"):
        router_gemm_triton(X, WEIGHT)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("config", "match"),
    [
        ("fast", "config is a str; give a TritonConfig"),
        (TritonConfig(tile_m=16.0), r"tile_m is 16\.0; give a whole number"),  # type: ignore[arg-type]
        (TritonConfig(tile_m=1 << 20), "at most 256"),
        (TritonConfig(warps=3), "warps is 3; give a power of two"),
        (TritonConfig(stages=0), "stages is 0"),
    ],
)
def test_configurations_that_triton_does_not_take(config: TritonConfig, match: str) -> None:
    with pytest.raises(InvalidArgument, match=match):
        router_gemm_triton(X, split_router_weight(WEIGHT), config=config)


def test_a_saved_table_is_used_without_more() -> None:
    """It chooses cuda up to 80 rows and cuBLAS above; `gpu` is what router_gemm says of a CUDA tensor."""
    save_table(table())
    assert resolve("auto", 16, 192, 4096, gpu="NVIDIA H200") == "cuda"
    assert resolve("auto", 500, 192, 4096, gpu="NVIDIA H200") == "torch"
    assert resolve("auto", 500, 192, 4096, gpu="NVIDIA H100 80GB HBM3") == "cuda"  # no table of that GPU
    assert resolve("auto", 500, 192, 4096) == "cuda"  # no GPU


def test_a_table_for_another_gpu_than_the_product_runs_on_is_refused() -> None:
    use_table(Dispatch("NVIDIA H200", [table()]))
    assert resolve("auto", 500, 192, 4096, gpu="NVIDIA H200") == "torch"
    with pytest.raises(TableError, match="are for NVIDIA H200, and the product runs on NVIDIA H20"):
        resolve("auto", 500, 192, 4096, gpu="NVIDIA H20")
    use_table(Dispatch("NVIDIA H200", [table()], other_gpu=True))
    assert resolve("auto", 500, 192, 4096, gpu="NVIDIA H20") == "torch"


def test_a_table_s_cuda_kernel_gives_way_where_it_does_not_run() -> None:
    use_table(Dispatch("NVIDIA H200", [table()]))
    assert resolve("auto", 16, 192, 4096, own="triton") == "triton"
    assert resolve("auto", 500, 192, 4096, own="triton") == "torch"


@pytest.mark.parametrize("given", ["dispatch.json", {(4096, 192): 64}, 5])
def test_what_is_no_table_is_refused_when_it_is_given(given: object) -> None:
    with pytest.raises(InvalidArgument, match="has no method choose"):
        use_table(given)  # type: ignore[arg-type]


def test_a_less_precise_class_is_allowed_by_name() -> None:
    class Loose:
        def choose(self, m: int, n: int, k: int, precision: str) -> str | None:
            return "bf16" if precision == "bf16" else None

    use_table(Loose())
    split = split_router_weight(WEIGHT)
    loose = router_gemm(X, split, precision="bf16")
    assert torch.equal(loose, router_gemm(X, split, provider="bf16"))
    exact = router_gemm(X, split, precision="fp32")
    assert torch.equal(exact, router_gemm(X, split, provider="torch"))
    with pytest.raises(InvalidArgument, match="precision is for provider 'auto'"):
        router_gemm(X, split, provider="torch", precision="bf16")
    with pytest.raises(InvalidArgument, match="precision is 'fp16'; give fp32"):
        router_gemm(X, split, precision="fp16")


def test_two_terms_are_not_taken_for_three() -> None:
    split = split_router_weight(WEIGHT)
    assert torch.equal(router_gemm(X, split, precision="split3"), router_gemm(X, split, provider="torch"))


def test_a_precision_is_not_dropped_for_a_configuration() -> None:
    with pytest.raises(InvalidArgument, match="config chooses the CUDA kernel"):
        router_gemm(X, split_router_weight(WEIGHT), precision="fp32", config=RouterConfig())


@pytest.mark.parametrize("given", [False, True])
def test_compiled_code_asks_no_table(given: bool) -> None:
    """A table looks at files and at M; neither belongs into a graph that serves any M."""
    split = split_router_weight(WEIGHT)
    compiled = torch.compile(lambda x: router_gemm(x, split, precision="fp32"), fullgraph=True, backend="eager")
    torch._dynamo.reset()
    use_table(Dispatch("NVIDIA H200", [table()] if given else None))
    assert torch.equal(compiled(X), router_gemm(X, split, provider="torch"))


@pytest.mark.parametrize("gap", [0, 8])
@pytest.mark.parametrize(("shift", "apart"), [(-64, True), (-62, False), (0, False), (None, False), ("end", True)])
def test_memory_that_touches_is_apart(gap: int, shift: int | str | None, apart: bool) -> None:
    """Scores of 4 x 16 in bf16 before, over and right behind 4 rows of 64; ``None``: over the last element."""
    memory, first = torch.zeros(1024).bfloat16(), 128
    x = memory[first : first + 4 * (64 + gap)].view(4, 64 + gap)[:, :64]
    end = first + 3 * (64 + gap) + 64
    at = end if shift == "end" else end - 1 if shift is None else first + int(shift)
    out = memory[at : at + 64].view(4, 16)
    with nullcontext() if apart else pytest.raises(InvalidArgument, match="out lies in the memory of x"):
        check_apart(x, out)
    check_apart(x[:0], out[:0])


@pytest.mark.parametrize("provider", [None, 5, ["torch"]])
def test_providers_are_names(provider: object) -> None:
    with pytest.raises(InvalidArgument, match=r"provider is .*; give auto"):
        router_gemm(X, split_router_weight(WEIGHT), provider=provider)  # type: ignore[arg-type]
