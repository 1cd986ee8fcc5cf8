"""Names of providers, and what ``router_gemm(provider="auto")`` is answered."""

from __future__ import annotations

import pytest

from tests.tables.tables import table
from workbench.errors import TableError
from workbench.tables import ROUTER_PROVIDERS, Dispatch, canonical, save_table


@pytest.mark.parametrize(
    ("provider", "terms", "name"),
    [
        ("torch", 2, "cublas-fp32"),
        ("torch", 3, "cublas-fp32"),
        ("tf32", 2, "cublas-tf32"),
        ("bf16", 2, "cublas-bf16"),
        ("cuda", 2, "cuda"),
        ("cuda", 3, "cuda-3terms"),
        ("triton", 3, "triton-3terms"),
        ("cublas-fp32", 2, "cublas-fp32"),
        ("hpc", 2, "hpc"),
        ("flashinfer", 2, "flashinfer"),
    ],
)
def test_one_name_for_one_implementation(provider, terms, name):
    assert canonical(provider, terms) == name


def test_names_are_those_of_the_operator():
    from workbench.ops.router_gemm.providers import PROVIDERS

    assert {known.runs_as for known in ROUTER_PROVIDERS.values() if known.runs_as} == set(PROVIDERS)


def test_auto_goes_by_one_s_own_tables():
    from workbench.ops.router_gemm.providers import resolve, use_table

    save_table(table())
    use_table(Dispatch("NVIDIA H200"))
    try:
        assert resolve("auto", 16, 192, 4096, "split") == "cuda"
        assert resolve("auto", 500, 192, 4096, "split") == "torch"
        assert resolve("auto", 500, 768, 6144, "split", own="triton") == "triton"  # no table: our own
    finally:
        use_table(None)


def test_a_provider_that_cannot_run_is_not_chosen():
    three = table(
        precision="fp32",
        providers={"cuda-3terms": "fp32", "hpc": "fp32"},
        spans=(
            table().spans[0].model_copy(update={"provider": "cuda-3terms", "high": 9}),
            table().spans[-1].model_copy(update={"provider": "hpc", "low": 10}),
        ),
    )
    dispatch = Dispatch("H200", [three])
    assert dispatch.choose(4, 192, 4096, "split3") == "cuda"
    assert dispatch.choose(4, 192, 4096, "fp32") is None  # a weight of two terms is not that accurate
    assert dispatch.choose(16, 192, 4096, "split3") is None  # upstream is no provider of router_gemm
    assert dispatch.choose(4, 192, 4096, "tf32") is None


def test_tables_of_another_gpu_are_refused_unless_told():
    with pytest.raises(TableError, match="other_gpu=True"):
        Dispatch("H20", [table()])
    assert Dispatch("H20", [table()], other_gpu=True).choose(500, 192, 4096, "split") == "torch"
    assert Dispatch("H20").choose(500, 192, 4096, "split") is None
