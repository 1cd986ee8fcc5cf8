"""What the router GEMM has to reach on an H200, asked of the shipped records; HPC-Ops' figures are references."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from benchmarks.router_targets import mean, measured, table, with_records
from benchmarks.router_tuning import CASE, table_of
from workbench import paths
from workbench.measure.router import METHOD
from workbench.measure.router_case import SHAPES, TOKENS, RouterCase
from workbench.ops.router_gemm import RouterConfig, default_config
from workbench.ops.router_gemm.tuned import PATH, Row, shipped
from workbench.records import Record, Store
from workbench.records.methods import FINALS

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "performance" / "router.md"
MEASURED = json.loads(PAGE.with_suffix(".json").read_text(encoding="utf-8"))
FIRST = json.loads(PAGE.with_name("tuning_h200_first.json").read_text(encoding="utf-8"))
"""The study that made five defaults; that day's second one, which is recorded, measured them as defaults."""

STUDY = json.loads(PAGE.with_name("tuning_h200.json").read_text(encoding="utf-8"))
CASES = [RouterCase(m, n, k) for k, n in SHAPES.values() for m in TOKENS]
UPSTREAM = ("hy3", "longcat-chat", "longcat-lite")
"""Models whose routers were measured with HPC-Ops, too: 39 of the 78 rows."""

BESIDE = [RouterCase(m, n, k) for k, n in map(SHAPES.__getitem__, UPSTREAM) for m in TOKENS]
RIVALS = ("cublas-fp32", "cublas-tf32")
DEFAULTS: dict[RouterCase, Row] = {
    RouterCase(row.m, n, k): row for (k, n), rows in shipped().shapes.items() for row in rows
}
STUDIED = {
    RouterCase(64, 192, 4096),
    RouterCase(256, 192, 4096),
    RouterCase(1, 768, 6144),
    RouterCase(1, 384, 3072),
    RouterCase(256, 384, 3072),
}
"""Rows that the first study improved."""

LEFT = {RouterCase(64, 384, 3072)}
"""Rows whose default the second study found beaten by more than 3 %, and the first one did not."""

Rows = dict[RouterCase, dict[tuple[str, str], Any]]


def product(record: Record) -> RouterCase:
    """The run and the tuner name cases differently."""
    work = record.workload
    assert work.m
    assert work.n
    assert work.k
    return RouterCase(work.m, work.n, work.k)


def config_of(record: Record) -> RouterConfig:
    """Of our kernel with two terms; the tuner has them in the workload."""
    values: dict[str, Any] = dict(record.configuration)
    assert values.pop("terms", record.workload.parameters.get("terms")) == 2
    return RouterConfig(**values)


def case_of(found: dict[str, Any]) -> RouterCase:
    """The product of a study's row."""
    (case,) = CASE.findall(found["case"])
    k, n, m = map(int, case)
    return RouterCase(m, n, k)


def of_the_default(record: Record) -> bool:
    """Whether this is its row's default as the run measured it, or as the second study did where the first made it."""
    row = DEFAULTS[product(record)]
    return config_of(record) == row.config and record.method == (FINALS if row.study else METHOD)


@pytest.fixture(scope="module")
def rows() -> Rows:
    """Records by product, and in it by kind and provider: ("timing", "cuda"), ("reference", "hpc")."""
    found: Rows = {}
    wanted = Store(paths.profiles_dir()).records(operator="router_gemm", gpu="H200", kind=["timing", "reference"])
    for _, record in wanted:
        if record.provider == "cuda" and not of_the_default(record):
            continue
        kept = found.setdefault(product(record), {})
        assert (record.kind, record.provider) not in kept, "two figures of one row"
        kept[record.kind, record.provider] = record
    return found


def us(row: dict[tuple[str, str], Any], kind: str, provider: str) -> float:
    return float(row[kind, provider].median_us)


def test_every_row_of_every_model_is_there(rows) -> None:
    assert set(rows) == set(CASES) == set(DEFAULTS)
    assert len(rows) == 78
    for row in rows.values():
        wanted = {("timing", provider) for provider in ("cuda", "triton", "cublas-bf16", *RIVALS)}
        assert {key for key in row if key[0] == "timing"} == wanted
    assert sum(("reference", "hpc") in row for row in rows.values()) == len(BESIDE) == 39


def test_the_figures_are_those_of_what_runs_by_default(rows) -> None:
    routers = [found for found in STUDY["rows"] if found["operator"] == "router_gemm"]
    studied = {case_of(found): found["default"]["median_us"] for found in routers}
    for case in CASES:
        ours = rows[case]["timing", "cuda"]
        assert config_of(ours) == default_config(case.m, case.n, case.k)
        assert ours.median_us == (studied[case] if case in STUDIED else DEFAULTS[case].median_us)


def test_faster_than_upstream_in_every_row_and_by_far_in_the_mean(rows) -> None:
    factors = [us(rows[c], "reference", "hpc") / us(rows[c], "timing", "cuda") for c in BESIDE]
    assert min(factors) > 1
    assert mean(factors) >= 1.8


@pytest.mark.parametrize("rival", RIVALS)
def test_faster_than_cublas_in_every_row(rows, rival: str) -> None:
    """Beyond both intervals where cuBLAS was timed here; and than the references."""
    compared: Counter[str] = Counter()
    for row in rows.values():
        ours = row["timing", "cuda"]
        for kind in ("timing", "reference"):
            if (kind, rival) in row:
                theirs = row[kind, rival]
                assert ours.median_us < theirs.median_us, (ours.workload.case, rival)
                assert kind == "reference" or ours.high_us < theirs.low_us
                compared[kind] += 1
    assert compared == {"timing": 78, "reference": 39}


def test_many_tokens_take_hardly_longer_than_two_plain_products(rows) -> None:
    many = [case for case in CASES if case.m >= 512]
    assert len(many) == 30
    for case in many:
        row = rows[case]
        assert us(row, "timing", "cuda") <= 1.3 * 2 * us(row, "timing", "cublas-bf16"), case.name
        if ("reference", "cublas-bf16") in row:
            assert us(row, "timing", "cuda") <= 1.3 * 2 * us(row, "reference", "cublas-bf16"), case.name


def test_errors_are_those_of_two_terms(rows) -> None:
    for row in rows.values():
        assert 1e-7 < row["timing", "cuda"].rel_error <= 6e-6
        assert 1e-7 < row["timing", "triton"].rel_error <= 6e-6


def test_the_tuned_table_is_made_from_the_measurement_and_the_study(rows) -> None:
    assert table_of(MEASURED, FIRST).to_json() == PATH.read_text(encoding="utf-8")
    before = {(k, n, row.m): row for (k, n), kept in table_of(MEASURED).shapes.items() for row in kept}
    changed = {case for case, row in DEFAULTS.items() if row != before[case.k, case.n, case.m]}
    assert changed == STUDIED == {case for case, row in DEFAULTS.items() if row.study}
    digest = MEASURED["environment"]["source_digest"]
    for case in CASES:
        ours = rows[case]["timing", "cuda"]
        assert str(ours.environment.date) == (DEFAULTS[case].study or shipped().date)
    for _, record in Store(paths.profiles_dir()).records(operator="router_gemm", provider="cuda"):
        assert record.source_digest == digest


@pytest.mark.parametrize(("study", "left"), [(FIRST, set()), (STUDY, LEFT)], ids=["first", "second"])
def test_no_default_is_beaten_by_more_than_3_percent_where_it_was_tuned(study, left) -> None:
    beaten, tuned = set(), 0
    for found in study["rows"]:
        if found["operator"] == "router_gemm":
            case = case_of(found)
            times = {RouterConfig(**each["config"]): each["median_us"] for each in found["finalists"]}
            if times[default_config(case.m, case.n, case.k)] * (1 - 0.03) > min(times.values()):
                beaten.add(case)
            tuned += 1
    assert tuned == 12
    assert beaten == left


def test_the_page_shows_the_records(rows) -> None:
    text = PAGE.read_text(encoding="utf-8")
    store = Store(paths.profiles_dir())
    times = with_records(measured(MEASURED, FIRST), store, MEASURED["environment"]["gpu"])
    for case in STUDIED:
        times[case.k, case.n, case.m]["tuned"] = us(rows[case], "timing", "cuda")
    theirs = {(case.k, case.n, case.m): us(rows[case], "reference", "hpc") for case in BESIDE}
    lines = list(table(times, theirs, "tuned"))
    assert len(lines) == 2 + 78
    assert "\n".join(lines) in text
    for case in CASES:
        shown = times[case.k, case.n, case.m]
        assert shown["tuned"] == us(rows[case], "timing", "cuda")
        for name in ("triton", "cublas-bf16", *RIVALS):
            assert shown[name] == us(rows[case], "timing", name)
    factors = [us(rows[case], "reference", "hpc") / us(rows[case], "timing", "cuda") for case in BESIDE]
    (goal,) = (line for line in text.splitlines() if line.startswith("| 1.8 times as fast"))
    assert f" {mean(factors):.2f};" in goal
    (goal,) = (line for line in text.splitlines() if line.startswith("| faster than HPC-Ops"))
    assert f"least {min(factors):.2f} " in goal
