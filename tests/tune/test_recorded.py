"""Figures from records: the shipped references, and one's own samples before them."""

from __future__ import annotations

import datetime
import json

import pytest

from tests.records.samples import ENVIRONMENT, reference, timing
from tests.widgets.crossover.meters import references
from workbench.errors import InvalidArgument
from workbench.records import Store, Workload
from workbench.records.methods import FINALS, STUDY
from workbench.tune import CrossoverSearch, recorded_points
from workbench.tune.recorded import evidence_digest

WORK = Workload(case="M64-K4096-N192", dtype="bf16", m=64, k=4096, n=192)


@pytest.fixture(autouse=True)
def own_folders(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("WORKBENCH_RECORDS_DIR", str(tmp_path / "own"))


def samples(*values, **changes):
    middle = sorted(values)[len(values) // 2]
    return timing(
        **{
            "operator": "router_gemm",
            "policy": None,
            "provider": "cuda",
            "workload": WORK,
            "samples_us": values,
            "median_us": middle,
            "low_us": min(values),
            "high_us": max(values),
            "rel_error": 2.4e-6,
            **changes,
        }
    )


def test_shipped_references_are_those_of_the_file(reference_data):
    lines = (reference_data / "reference" / "h200-2026-11-29.jsonl").read_text().splitlines()
    rows = [row for row in map(json.loads, lines) if row["op"] == "router" and (row["k"], row["n"]) == (6144, 768)]
    recorded = recorded_points(references(), gpu="H200", k=6144, n=768)
    found = {(p.m, name): figure for p in recorded.points for name, figure in p.assumed.items()}
    assert found == {(row["m"], row["provider"]): (row["us"], 0.02) for row in rows}
    assert recorded.references == len(rows) == 52
    assert recorded.providers == {"cublas-fp32": "fp32", "hpc": "split", "cublas-tf32": "tf32", "cublas-bf16": "bf16"}
    assert recorded.origins == ("reference (outside this project, NVIDIA H200, 2026-11-29)",)


def test_sglang_s_table_is_wrong_in_both_directions():
    """What the project's figures of an H200 are known to say about LongCat-Flash Chat and Lite."""
    chat = recorded_points(references(), gpu="H200", k=6144, n=768)
    search = CrossoverSearch(chat.providers, precision="tf32", points=chat.points)
    winner = {v.m: v.winner for v in search.verdicts()}
    assert winner[16] == "hpc"  # the table says FP32 below 64
    assert winner[4096] == "cublas-tf32"  # the table says hpc
    assert search.crossings()[0].before == "hpc"


def test_samples_come_before_references_and_the_newest_before_older(tmp_path):
    store = Store(tmp_path / "store")
    newest = ENVIRONMENT.model_copy(update={"date": datetime.date(2027, 1, 1)})
    store.add(reference(provider="cuda", workload=WORK, median_us=1.0, rel_error=2e-6, environment=newest))
    store.add(samples(9.0, 9.1, 9.2, 9.1, 9.0))
    later = ENVIRONMENT.model_copy(update={"date": datetime.date(2026, 12, 1)})
    store.add(samples(12.0, 12.1, 12.2, 12.1, 12.0, environment=later, configuration={"tile": 1}))
    store.add(samples(10.0, 10.1, 10.2, 10.1, 10.0, environment=later, configuration={"tile": 2}))
    store.add(samples(8.0, 8.1, 8.2, environment=later))  # too few
    recorded = recorded_points(store, gpu="NVIDIA H200", k=4096, n=192)
    (point,) = recorded.points
    assert point.medians(["cuda"]).tolist() == [10.1]
    assert recorded.environment == later
    assert recorded.origins == ("recorded (NVIDIA H200, 2026-12-01)",)
    assert recorded.references == 0
    assert len(recorded.notes) == 1
    assert "fewer than 5 samples" in recorded.notes[0]
    assert point.rounds(["cuda"]) == 0  # not interleaved with anybody


def test_a_study_s_times_come_behind_those_of_comparisons(tmp_path):
    """Its fastest configuration, found by many medians, is not set against one median of another provider."""
    store = Store(tmp_path / "store")
    store.add(samples(8.0, 8.1, 8.2, 8.1, 8.0, configuration={"tile": 1}, method=FINALS))
    store.add(samples(7.0, 7.1, 7.2, configuration={"tile": 2}, method=STUDY))  # given up
    (alone,) = recorded_points(store, gpu="H200", k=4096, n=192).points
    assert alone.medians(["cuda"]).tolist() == [8.1]
    store.add(samples(9.0, 9.1, 9.2, 9.1, 9.0, configuration={"tile": 3}))
    recorded = recorded_points(store, gpu="H200", k=4096, n=192)
    assert recorded.points[0].medians(["cuda"]).tolist() == [9.1]
    assert recorded.notes == ()


def test_class_is_the_worst_of_errors_and_design(tmp_path):
    store = Store(tmp_path / "store")
    other = WORK.model_copy(update={"m": 1, "case": "M1-K4096-N192"})
    for work, error in ((WORK, 2e-4), (other, 2e-7)):
        store.add(samples(*[9.0] * 5, provider="mine", workload=work, rel_error=error))
        store.add(samples(*[9.0] * 5, provider="cublas-tf32", workload=work, rel_error=2e-7))
        store.add(samples(*[9.0] * 5, provider="wild", workload=work, rel_error=0.3))
        store.add(samples(*[9.0] * 5, provider="untested", workload=work, rel_error=None))
    recorded = recorded_points(store, gpu="H200", k=4096, n=192)
    assert recorded.providers == {"cublas-tf32": "tf32", "mine": "tf32"}
    assert sorted(recorded.notes) == [
        "untested was left out: no error is known",
        "wild was left out: error 3.0e-01 is beyond every class",
    ]
    assert all(set(block.samples_us) <= set(recorded.providers) for p in recorded.points for block in p.blocks)


def test_nothing_found_says_how_to_look():
    with pytest.raises(InvalidArgument, match=r"no record of router_gemm with K 8, N 8 on H200.*workbench records"):
        recorded_points(Store(), gpu="H200", k=8, n=8)
    with pytest.raises(InvalidArgument, match="by nobody"):
        recorded_points(Store(), gpu="H200", k=4096, n=192, providers=["nobody"])
    with pytest.raises(InvalidArgument, match="deviation=2"):
        recorded_points(Store(), gpu="H200", k=4096, n=192, deviation=2)


def test_evidence_digest_names_every_figure():
    points = recorded_points(Store(), gpu="H200", k=4096, n=192).points
    assert evidence_digest(points) == evidence_digest(recorded_points(Store(), gpu="H200", k=4096, n=192).points)
    assert evidence_digest(points) != evidence_digest(points[1:])
    assert evidence_digest(points) != evidence_digest(
        recorded_points(Store(), gpu="H200", k=4096, n=192, deviation=0.01).points
    )
