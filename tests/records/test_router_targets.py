"""What the router GEMM has to reach on an H200, asked of the shipped records; HPC-Ops' figures are references."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from benchmarks.router_tuning import table_of
from workbench import paths
from workbench.measure.router_case import SHAPES, TOKENS, RouterCase
from workbench.ops.router_gemm import RouterConfig, default_config
from workbench.ops.router_gemm.tuned import PATH
from workbench.records import Store

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "performance" / "router.md"
MEASURED = json.loads(PAGE.with_suffix(".json").read_text(encoding="utf-8"))
CASES = [RouterCase(m, n, k) for k, n in SHAPES.values() for m in TOKENS]
UPSTREAM = ("hy3", "longcat-chat", "longcat-lite")
"""Models whose routers were measured with HPC-Ops, too: 39 of the 78 rows."""

BESIDE = [RouterCase(m, n, k) for k, n in map(SHAPES.__getitem__, UPSTREAM) for m in TOKENS]
RIVALS = ("cublas-fp32", "cublas-tf32")
TOO_INEXACT = {("cublas-fp32", "M8192-K7168-N256")}
"""Not timed: 1.1e-6 from float64, and that run allowed 1e-6."""

ROW = "| {k}, {n} | {m:,} |"


@pytest.fixture(scope="module")
def rows() -> dict[str, dict[tuple[str, str], dict[str, Any]]]:
    """Rows of the query by case, and in it by kind and provider: ("timing", "cuda"), ("reference", "hpc")."""
    table = Store(paths.profiles_dir()).query(operator="router_gemm", gpu="H200", kind=["timing", "reference"])
    found: dict[str, dict[tuple[str, str], dict[str, Any]]] = {}
    for row in table.to_dict("records"):
        kept = found.setdefault(row["case"], {})
        assert (row["kind"], row["provider"]) not in kept, "two figures of one row"
        kept[row["kind"], row["provider"]] = row
    return found


def us(row: dict[tuple[str, str], dict[str, Any]], kind: str, provider: str) -> float:
    return float(row[kind, provider]["median_us"])


def test_every_row_of_every_model_is_there(rows) -> None:
    assert set(rows) == {case.name for case in CASES}
    assert len(rows) == 78
    for name, row in rows.items():
        wanted = {("timing", p) for p in ("cuda", "triton", "cublas-bf16", *RIVALS) if (p, name) not in TOO_INEXACT}
        assert {key for key in row if key[0] == "timing"} == wanted
    assert sum(("reference", "hpc") in row for row in rows.values()) == len(BESIDE) == 39


def test_the_figures_are_those_of_what_runs_by_default(rows) -> None:
    for case in CASES:
        kept = json.loads(rows[case.name]["timing", "cuda"]["config"])
        assert kept.pop("terms") == 2
        assert RouterConfig(**kept) == default_config(case.m, case.n, case.k)


def test_faster_than_upstream_in_every_row_and_by_far_in_the_mean(rows) -> None:
    factors = [us(rows[c.name], "reference", "hpc") / us(rows[c.name], "timing", "cuda") for c in BESIDE]
    assert min(factors) > 1
    assert math.exp(sum(map(math.log, factors)) / len(factors)) >= 1.8


@pytest.mark.parametrize("rival", RIVALS)
def test_faster_than_cublas_in_every_row(rows, rival: str) -> None:
    """Beyond its interval where cuBLAS was timed in the same run; and than the references."""
    compared: Counter[str] = Counter()
    for row in rows.values():
        ours = row["timing", "cuda"]
        for kind in ("timing", "reference"):
            if (kind, rival) in row:
                theirs = row[kind, rival]
                assert ours["median_us"] < theirs["median_us"], (row, rival)
                assert kind == "reference" or ours["high_us"] < theirs["low_us"]
                compared[kind] += 1
    assert compared == {"timing": 78 - sum(name == rival for name, _ in TOO_INEXACT), "reference": 39}


def test_many_tokens_take_hardly_longer_than_two_plain_products(rows) -> None:
    many = [case for case in CASES if case.m >= 512]
    assert len(many) == 30
    for case in many:
        row = rows[case.name]
        assert us(row, "timing", "cuda") <= 1.3 * 2 * us(row, "timing", "cublas-bf16"), case.name
        if ("reference", "cublas-bf16") in row:
            assert us(row, "timing", "cuda") <= 1.3 * 2 * us(row, "reference", "cublas-bf16"), case.name


def test_errors_are_those_of_two_terms(rows) -> None:
    for row in rows.values():
        assert 1e-7 < row["timing", "cuda"]["rel_error"] <= 6e-6
        assert 1e-7 < row["timing", "triton"]["rel_error"] <= 6e-6


def test_the_tuned_table_is_made_from_the_measurement(rows) -> None:
    assert table_of(MEASURED).to_json() == PATH.read_text(encoding="utf-8")
    digest = MEASURED["environment"]["source_digest"]
    for _, record in Store(paths.profiles_dir()).records(operator="router_gemm", provider="cuda"):
        assert record.source_digest == digest


def test_the_page_shows_the_records(rows) -> None:
    text = PAGE.read_text(encoding="utf-8")
    for case in CASES:
        (line,) = (line for line in text.splitlines() if line.startswith(ROW.format(k=case.k, n=case.n, m=case.m)))
        assert f"**{us(rows[case.name], 'timing', 'cuda'):.2f}**" in line
