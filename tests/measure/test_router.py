"""The measurement of the router GEMM: what is compared, on what, and what is kept."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.measure.fakes import FakeTimer
from workbench.errors import InvalidArgument
from workbench.measure.providers import Precision
from workbench.measure.recording import record_of
from workbench.measure.router import (
    CHECKED_SETS,
    CUBLAS,
    MAX_SETS,
    METHOD,
    SETS_BYTES,
    CudaRouter,
    PlainRouter,
    RouterCase,
    RouterInputs,
    inputs_of,
    jobs,
    measure,
    providers_of,
)
from workbench.measure.router_case import PROVIDERS, SHAPES
from workbench.ops.router_gemm import RouterConfig, default_config
from workbench.records import Environment, Store


def test_a_case_names_its_shape_model_and_size() -> None:
    case = RouterCase(16, 192, 4096)
    assert case.name == "M16-K4096-N192"
    assert case.input_bytes == 16 * 4096 * 2 + 2 * 192 * 4096 * 2
    assert case.operations == 2 * 2 * 16 * 192 * 4096
    said = case.workload
    assert (said.m, said.n, said.k, said.model, said.dtype) == (16, 192, 4096, "hy3", "bf16")
    assert RouterCase(16, 200, 4096).workload.model is None


def test_every_model_has_a_shape_of_its_own() -> None:
    assert len(set(SHAPES.values())) == len(SHAPES) == 6


def test_the_default_comes_first_and_once() -> None:
    case = RouterCase(64, 192, 4096)
    default = default_config(64, 192, 4096)
    other = RouterConfig(tile_m=64, tile_n=16, stages=4)
    found = providers_of(case, ("cuda", "cublas-bf16"), 132, [other, default, other])
    assert found == [CudaRouter(default, is_default=True), CudaRouter(other), PlainRouter("cublas-bf16")]
    assert [job.defines["TILE_N"] for job in jobs(found)] == [default.tile_n, 16]
    assert [provider.name for provider in providers_of(case)] == list(PROVIDERS)


@pytest.mark.parametrize("names", [("cuda", "cudnn"), ()])
def test_unknown_providers_are_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(InvalidArgument, match="Give some of cuda, triton, cublas-fp32"):
        providers_of(RouterCase(1, 192, 4096), names)


def test_input_sets_exceed_the_caches_and_differ() -> None:
    case = RouterCase(2, 768, 6144)
    sets = inputs_of(case, 3, "cpu")
    first, second = next(sets), next(sets)
    assert first.x.shape == (2, 6144)
    assert not torch.equal(first.weight.terms, second.weight.terms)
    assert torch.equal(next(inputs_of(case, 3, "cpu")).x, first.x)
    assert len(list(inputs_of(RouterCase(1, 8, 64), 0, "cpu"))) == MAX_SETS
    assert -(-SETS_BYTES // RouterCase(8192, 768, 6144).input_bytes) >= CHECKED_SETS


def measured(providers: list[PlainRouter], timer: FakeTimer) -> list[str]:
    outcomes, _ = measure(RouterCase(3, 16, 128), providers, timer, rounds=5, device="cpu")
    return [outcome.state for outcome in outcomes]


def test_torch_is_checked_and_timed_on_a_cpu() -> None:
    outcomes, sets = measure(
        RouterCase(3, 16, 128), [PlainRouter(name) for name in CUBLAS], FakeTimer(), rounds=5, device="cpu"
    )
    assert [outcome.state for outcome in outcomes] == ["timed"] * len(CUBLAS)
    assert sets == MAX_SETS
    errors = [outcome.errors.relative for outcome in outcomes if outcome.errors]
    assert errors[0] < 1e-6
    assert 1e-3 < errors[2] < 6e-3


class Shrunk(PlainRouter):
    """Scores too small by a part in 10,000: wrong for FP32, within what bf16 may."""

    @property
    def precision(self) -> Precision:
        return CUBLAS["cublas-fp32"][1]

    def prepare(self, inputs: RouterInputs):  # type: ignore[no-untyped-def]
        out = torch.empty(inputs.shape)
        return lambda: torch.mul(inputs.x.float() @ inputs.weight.weight.t(), 0.9999, out=out)


def test_a_wrong_product_is_not_timed() -> None:
    assert measured([Shrunk("cublas-fp32")], FakeTimer()) == ["wrong"]


def test_a_case_without_tokens_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="no token"):
        measure(RouterCase(0, 16, 128), [], FakeTimer(), device="cpu")


def test_records_have_the_columns_that_a_search_reads(tmp_path: Path) -> None:
    case = RouterCase(3, 16, 128)
    outcomes, _ = measure(case, [PlainRouter("cublas-fp32")], FakeTimer(), rounds=9, device="cpu")
    here = Environment.model_validate_json('{"gpu": "NVIDIA H200", "date": "2026-11-30"}')
    record = record_of(outcomes[0], case.workload, here, operator="router_gemm", method=METHOD, seed=0, digests={})
    assert record is not None
    store = Store(tmp_path)
    store.add(record)
    row = store.query(operator="router_gemm").iloc[0]
    assert (row["k"], row["n"], row["m"], row["provider"]) == (128, 16, 3, "cublas-fp32")
    assert row["rel_error"] < 1e-6
