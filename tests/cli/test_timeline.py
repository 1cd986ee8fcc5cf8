from __future__ import annotations

import datetime
import json

import pytest

from tests.measure.synthetic import stamps_of
from workbench.gpu.driver import probe
from workbench.measure.timeline import Timeline
from workbench.measure.timeline_records import timeline_record
from workbench.records import Environment, Store, TimingRecord, Workload
from workbench.records.methods import PROFILED_STAMPS
from workbench.schedule import cost_model, plan_decode, resolve

needs_no_gpu = pytest.mark.skipif(not probe().problem, reason="with a GPU the command measures")
COST = cost_model()
CONFIG = {"early_map": True, "ctas_per_sm": 1, "tile": 64}


def add(store, policy, *, case="2x8K+6x1K", lengths=(8192,) * 2 + (1024,) * 6, day=2, noise=0.0, method=None):
    plan = plan_decode(list(lengths), num_kv_heads=1, num_ctas=132, policy=resolve(policy, COST))
    timeline = Timeline.from_stamps(plan, stamps_of(plan, COST, noise=noise, seed=day))
    record, content = timeline_record(
        timeline,
        environment=Environment(gpu="NVIDIA H200", date=datetime.date(2026, 1, day), sms=132),
        case=case,
        cache="fp8",
        parameters={"num_kv_heads": 1},
        configuration=CONFIG,
        makespans_us=(timeline.makespan_us,),
        call_us=(COST.constants.launch_ns + plan.spans(COST).makespan_ns) / 1e3,
        source_digest="a" * 64,
    )
    store.add(record if method is None else record.model_copy(update={"method": method}), content)
    return timeline


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


@needs_no_gpu
def test_without_a_gpu_the_newest_recorded_timelines_are_shown_as_such(run, store, tmp_path):
    add(store, "balanced", day=1)
    newest = add(store, "balanced", noise=0.2, day=3)
    add(store, "hpc-ops")
    done = run("timeline", "2x8K + 6x1K", "--store", tmp_path / "store", "--perfetto", tmp_path / "a.trace.json")
    assert done.code == 0
    assert "recorded (NVIDIA H200, 2026-01-03)" in done.out
    row = next(line for line in done.out.splitlines() if line.startswith("balanced"))
    assert f"{newest.makespan_us:,.2f}" in row
    events = json.loads((tmp_path / "a.trace.json").read_text())["traceEvents"]
    names = {e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert names == {f"{p} ({how})" for p in ("balanced", "hpc-ops") for how in ("measured", "predicted")}


@needs_no_gpu
def test_a_launch_alone_is_shown_where_there_is_nothing_else(run, store, tmp_path):
    alone = add(store, "balanced", noise=0.2, day=3, method=PROFILED_STAMPS)
    words = ("timeline", "2x8K+6x1K", "--policy", "balanced", "--store", tmp_path / "store")
    said = run(*words).out
    assert "recorded (NVIDIA H200, 2026-01-03), one launch alone" in said
    assert f"{alone.makespan_us:,.2f}" in said
    calls = add(store, "balanced", day=1)
    said = run(*words).out
    assert "alone" not in said
    assert f"{calls.makespan_us:,.2f}" in said


@needs_no_gpu
def test_a_call_as_modelled_shows_the_same_number_twice(run, store, tmp_path):
    timeline = add(store, "hpc-ops")
    done = run("timeline", "2x8K+6x1K", "--policy", "hpc-ops", "--store", tmp_path / "store")
    us = f"{timeline.makespan_us:,.2f}"
    assert f"{us} ({us})" in done.out


@needs_no_gpu
def test_neither_gpu_nor_record(run, store, tmp_path):
    (tmp_path / "store").mkdir()
    done = run("timeline", "3x4K", "--store", tmp_path / "store")
    assert done.code == 1
    assert "no recorded timeline of 3x4K" in done.err
    done = run("timeline", "3x4K", "--record", tmp_path / "other")
    assert (done.code, (tmp_path / "other").exists()) == (1, False)


@needs_no_gpu
def test_a_record_of_other_lengths_under_the_same_name_is_refused(refused, store, tmp_path):
    add(store, "balanced", lengths=(1024,) * 3)
    assert "other lengths" in refused("timeline", "2x8K+6x1K", "--policy", "balanced", "--store", tmp_path / "store")


@needs_no_gpu
def test_a_policy_that_was_not_recorded_is_named(run, store, tmp_path):
    add(store, "balanced")
    done = run("timeline", "2x8K+6x1K", "--policy", "balanced", "--policy", "lpt", "--store", tmp_path / "store")
    assert done.code == 0
    assert "No timeline of it is recorded under lpt." in done.out
    assert (
        "is recorded under"
        not in run("timeline", "2x8K+6x1K", "--policy", "balanced", "--store", tmp_path / "store").out
    )


@needs_no_gpu
def test_a_store_that_is_not_there_is_not_an_empty_one(refused, tmp_path):
    assert "there is no folder" in refused("timeline", "3x4K", "--store", tmp_path / "none")


def test_where_records_cannot_be_kept_nothing_is_measured(run, tmp_path, monkeypatch):
    from workbench.cli import timeline
    from workbench.gpu import driver

    monkeypatch.setattr(driver, "probe", lambda: driver.DriverStatus((13, 0), 1, None))
    monkeypatch.setattr(timeline, "_measured", lambda *_: pytest.fail("it began to measure"))
    (tmp_path / "file").write_text("")
    done = run("timeline", "3x4K", "--record", tmp_path / "file" / "store")
    assert done.code == 1
    assert "cannot be written" in done.err


def test_input_that_cannot_be_used(refused, tmp_path):
    assert "int4" in refused("timeline", "3x4K", "--cache", "int4")
    assert "nonsense" in refused("timeline", "3x4K", "--policy", "nonsense")
    assert "cannot be written" in refused("timeline", "3x4K", "--perfetto", tmp_path / "no" / "a.json")


@pytest.mark.gpu
def test_on_a_gpu_it_measures_and_keeps(run, tmp_path):
    done = run("timeline", "2x8K+6x1K", "--policy", "hpc-ops", "--runs", 4, "--record", tmp_path / "store")
    assert done.code == 0
    assert "measured now" in done.out
    assert [row["policy"] for row in Store(tmp_path / "store").rows(kind="timeline")] == ["hpc-ops"]


def test_fit_writes_constants_and_says_how_far_they_are(run, store, tmp_path):
    for case, lengths in (("64x1K", (1024,) * 64), ("20x4K", (4096,) * 20), ("2x16K+8x1K", (16384,) * 2 + (1024,) * 8)):
        for policy in ("balanced", "hpc-ops", "fixed_splits(8)"):
            add(store, policy, case=case, lengths=lengths)
    done = run("fit", tmp_path / "store", "--cache", "fp8", "--out", tmp_path / "h200.json")
    assert done.code == 0, done.err
    assert "on cases left out" in done.out
    from workbench.schedule import fitted

    fits = fitted.parse((tmp_path / "h200.json").read_text(), "H200")
    assert (fits["fp8"]["calls"], fits["fp8"]["timelines"]) == (9, 9)
    # The calls were made with the present constants, so the fit stays where it began.
    assert fits["fp8"]["error"]["rms"] < 0.005
    assert fits["fp8"]["constants"]["bytes_per_us"] == pytest.approx(COST.constants.bytes_per_us, rel=0.02)
    # Another provider's later record is not what was fitted to.
    later = Environment(gpu="NVIDIA H200", date=datetime.date(2026, 5, 5))
    times = {"samples_us": (20.0,), "median_us": 20.0, "low_us": 20.0, "high_us": 20.0}
    work = Workload(case="64x4K", dtype="fp8")
    store.add(TimingRecord(operator="attention_decode", provider="fa3", workload=work, environment=later, **times))
    as_json = run("fit", tmp_path / "store", "--cache", "fp8", "--json")
    assert json.loads(as_json.out) == json.loads((tmp_path / "h200.json").read_text())


def test_fit_counts_what_it_leaves_out_and_names_it_when_asked(run):
    from workbench import paths
    from workbench.measure.fit_data import observations

    shipped = Store(paths.data_dir("profiles"))
    left_out = {cache: observations(shipped, cost_model(cache=cache))[1] for cache in ("fp8", "bf16")}
    done = run("fit", paths.data_dir("profiles"))
    assert done.code == 0
    for cache, records in left_out.items():
        for reason in {record.reason for record in records}:
            count = sum(record.reason == reason for record in records)
            assert f"Left out {count:,} {cache} records: {reason}\n" in done.err
    assert len(done.err.splitlines()) < 12
    named = run("fit", paths.data_dir("profiles"), "--verbose")
    assert named.out == done.out
    assert named.err.splitlines() == [f"Left out {record}" for records in left_out.values() for record in records]


def test_fit_refuses_what_it_cannot_use(refused, run, store, tmp_path):
    assert "no folder" in refused("fit", tmp_path / "none")
    (tmp_path / "store").mkdir()
    assert "no call" in refused("fit", tmp_path / "store")
    add(store, "hpc-ops")
    done = run("fit", tmp_path / "store")
    assert done.code == 1
    assert "at least two cases" in done.err
