"""``workbench bench router``: what it measures, prints, keeps, and says where nothing can be measured."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pytest
import typer

from tests.measure.fakes import FakeTimer
from workbench.cli import bench, bench_router
from workbench.cli.bench_router_run import RouterSession
from workbench.errors import InvalidArgument
from workbench.gpu import driver
from workbench.measure import router
from workbench.measure.router_case import MOST_TOKENS, SHAPES, TOKENS, RouterCase
from workbench.records import Environment, Store

CASES = [RouterCase(m, 16, 64) for m in (1, 5)]
CUBLAS = ("cublas-fp32", "cublas-bf16")


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "220")


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> RouterSession:
    """A run on the CPU with made-up times."""
    monkeypatch.setattr(router, "MAX_SETS", 2)
    here = Environment(gpu="NVIDIA H200", date=datetime.date(2026, 11, 30), sms=132)
    return RouterSession(
        CUBLAS, 9, 5, environment=here, timer=FakeTimer(), store=Store(tmp_path / "store"), device="cpu"
    )


def test_cases_are_every_model_at_every_number_of_tokens() -> None:
    cases = bench_router.cases_of(list(SHAPES), None)
    assert len(cases) == len(set(cases)) == len(SHAPES) * len(TOKENS)
    assert bench_router.cases_of(["4096,192", "hy3"], "16, 1,16") == [
        RouterCase(16, 192, 4096),
        RouterCase(1, 192, 4096),
    ]


@pytest.mark.parametrize("tokens", ["0", "1,two", "", "-4", str(MOST_TOKENS + 1), "1.5"])
def test_tokens_that_cannot_be_used_are_refused(tokens: str) -> None:
    with pytest.raises(InvalidArgument, match=r"--tokens .*whole numbers from 1 to 131,072"):
        bench_router.cases_of(["hy3"], tokens)


def test_a_run_shows_keeps_and_writes(
    session: RouterSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = tmp_path / "figures.json"
    bench.run(session, CASES, (), written)
    shown = capsys.readouterr().out
    assert "M5-K64-N16" in shown
    assert "Router GEMM, median us a call" in shown
    assert "4 records kept" in shown
    rows = Store(tmp_path / "store").query(operator="router_gemm")
    assert sorted(zip(rows["m"], rows["provider"], strict=True)) == [(m, p) for m in (1, 5) for p in sorted(CUBLAS)]
    document = json.loads(written.read_text())
    assert [figure["case"] for figure in document["figures"]] == [c.name for c in CASES for _ in CUBLAS]
    assert document["seed"] == 5


def test_our_kernel_without_a_gpu_is_a_fault_that_ends_in_1(
    session: RouterSession, capsys: pytest.CaptureFixture[str]
) -> None:
    session.providers = ("cuda", "cublas-fp32")
    session._compile = lambda cases: None  # type: ignore[method-assign]
    with pytest.raises(typer.Exit) as end:
        bench.run(session, CASES[:1], (), None)
    assert end.value.exit_code == 1
    assert "FAILED: cuda, M1-K64-N16" in capsys.readouterr().out


def test_references_stand_beside(session: RouterSession) -> None:
    session.references = Store()
    session.providers = ("cublas-bf16",)
    session.measure(RouterCase(1, 192, 4096))
    assert [figure.provider for figure in session.figures if figure.is_reference] == [
        "cublas-bf16", "cublas-fp32", "cublas-tf32", "hpc",
    ]  # fmt: skip


@pytest.mark.parametrize(("providers", "words"), [("cudnn", "'cudnn' is not known"), (" , ", "--providers is empty")])
def test_providers_are_checked_before_the_gpu_is_asked_for(providers: str, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        bench_router.router(["hy3"], tokens="64", providers=providers, records="none", json_file=None, seed=None)


def test_without_a_gpu_recorded_figures_are_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    status = driver.DriverStatus(None, 0, "There is no NVIDIA driver here.")
    monkeypatch.setattr(driver, "probe", lambda: status)
    with pytest.raises(typer.Exit) as end:
        bench_router.router(["hy3"], tokens="64", providers=None, records="none", json_file=None, seed=None)
    assert end.value.exit_code == 1
    shown = capsys.readouterr().out
    assert "There is no NVIDIA driver here. Nothing was measured." in shown
    assert "M64-K4096-N192" in shown
    assert "hpc (reference)" in shown
    heads, row = (line.split() for line in shown.splitlines() if line.startswith(("product", "M64-K4096-N192")))
    assert heads[1] == "cuda"
    assert row[1].endswith("*")  # and not cublas-bf16, which is another thing
    assert 1e-6 < float(row[-1]) < 6e-6
    assert "cuda - recorded (NVIDIA H200, 2026-11-30)" in shown
    assert "* fastest recorded of those within 1e-05 of float64" in shown
    assert "! clocks" not in shown
