"""``workbench records``: lists, filters, and tells what it had to skip."""

from __future__ import annotations

import json

import pytest

from tests.records.samples import reference, timing
from workbench.records import Store
from workbench.records.methods import FINALS, STUDY


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("WORKBENCH_RECORDS_DIR", str(tmp_path / "own"))
    store = Store(tmp_path / "store")
    store.add(timing())
    store.add(timing(policy="lpt", samples_us=(19.0,), median_us=19.0, low_us=19.0, high_us=19.0))
    store.add(reference())
    return tmp_path / "store"


def test_table_names_figures_and_where_they_come_from(run, folder):
    done = run("records", "--store", folder)
    assert done.code == 0
    lines = [" ".join(line.split()) for line in done.out.splitlines()]
    assert "attention_decode on NVIDIA H200" in lines
    balanced = "64x4K fp8 workbench balanced timing pdl stages=3 21.00 20.50 22.00 1.7e-03"
    assert f"{balanced} recorded (NVIDIA H200, 2026-11-29)" in lines
    assert "M1-K4096-N192 bf16 cublas-tf32 reference 6.70 reference (somebody, NVIDIA H200, 2026-11-29)" in lines
    assert [line.split()[3] for line in lines if line.startswith("64x4K")] == ["lpt", "balanced"]  # fastest first


def test_studies_are_listed_when_asked_for(run, folder):
    for stages, method in ((4, STUDY), (6, FINALS)):
        Store(folder).add(timing(configuration={"stages": stages}, method=method))
    listed = [line for line in run("records", "--store", folder).out.splitlines() if line.startswith("64x4K")]
    assert len(listed) == 2
    assert "2 configurations timed by tuning studies: --studies lists them." in run("records", "--store", folder).out
    all_of_them = run("records", "--store", folder, "--studies").out
    assert "stages=4" in all_of_them
    assert "stages=6" in all_of_them
    assert "--studies" not in all_of_them
    assert len(json.loads(run("records", "--store", folder, "--json").out)["records"]) == 5


def test_configuration_in_short(run, folder):
    Store(folder).add(timing(policy="other", configuration={"pdl": False, "tile": 1, "order": [1, 2]}))
    out = " ".join(run("records", "--store", folder, "--policy", "other").out.split())
    assert "timing order=[1, 2] no pdl tile=1 21.00" in out


def test_json_has_the_same_rows(run, folder):
    document = json.loads(run("records", "--store", folder, "--json").out)
    assert document["problems"] == []
    assert {row["path"] for row in document["records"]} == {row["path"] for row in Store(folder).rows()}
    assert [row["median_us"] for row in document["records"]] == [19.0, 21.0, 6.7]


@pytest.mark.parametrize(
    ("words", "medians"),
    [
        (("--operator", "router_gemm"), [6.7]),
        (("--policy", "lpt", "--policy", "balanced"), [19.0, 21.0]),
        (("--provider", "nobody"), []),
        (("--gpu", "H200", "--kind", "timing", "--case", "64x4K", "--dtype", "fp8"), [19.0, 21.0]),
    ],
)
def test_filters(run, folder, words, medians):
    document = json.loads(run("records", "--store", folder, "--json", *words).out)
    assert [row["median_us"] for row in document["records"]] == medians


def test_nothing_found_is_said(run, folder):
    assert run("records", "--store", folder, "--case", "nothing").out == "No record matches.\n"


def test_skipped_files_are_told_and_the_rest_is_listed(run, folder):
    (folder / "broken.json").write_text("{")
    done = run("records", "--store", folder)
    assert done.code == 1
    assert "balanced" in done.out
    assert f"Skipped {folder / 'broken.json'}: it is no record" in done.err
    document = json.loads(run("records", "--store", folder, "--json").out)
    assert [problem["path"] for problem in document["problems"]] == [str(folder / "broken.json")]
    assert len(document["records"]) == 3


def test_an_absent_store_is_refused(refused, tmp_path):
    assert "there is no folder" in refused("records", "--store", tmp_path / "nothing")


def test_without_a_store_the_shipped_records_and_ones_own(run, folder):
    Store(folder.parent / "own").add(timing(provider="mine"))
    document = json.loads(run("records", "--json", "--operator", "attention_decode", "--case", "64x4K").out)
    providers = {row["provider"] for row in document["records"]}
    assert {"mine", "cuda", "fa3", "flashinfer", "hpc-dynamic", "read"} <= providers
