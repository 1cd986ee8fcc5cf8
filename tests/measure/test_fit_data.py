from __future__ import annotations

import datetime
import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from tests.measure.synthetic import stamps_of
from workbench import paths
from workbench.errors import FitError
from workbench.measure.fit import CallError, Fit, error_of
from workbench.measure.fit_data import observations
from workbench.measure.fit_file import document, to_text
from workbench.measure.timeline import Timeline
from workbench.measure.timeline_records import timeline_record
from workbench.records import Environment, Store, TimingRecord, Workload
from workbench.records.methods import PROFILED_STAMPS
from workbench.schedule import CostConstants, cost_model, fitted, plan_decode
from workbench.schedule.costs import constants

COST = cost_model()
ENVIRONMENT = Environment(gpu="NVIDIA H200", date=datetime.date(2026, 1, 2), sms=132)
CONFIG = {"early_map": True, "ctas_per_sm": 1, "tile": 64}


def timing(policy="hpc-ops", case="64x4K", **changes):
    said = {
        "provider": "cuda",
        "configuration": CONFIG,
        "workload": Workload(case=case, dtype="fp8", parameters={"num_kv_heads": 1}),
        "environment": ENVIRONMENT,
        "source_digest": "a" * 64,
        **changes,
    }
    times = {"samples_us": (20.0,), "median_us": 20.0, "low_us": 20.0, "high_us": 20.0}
    return TimingRecord(operator="attention_decode", policy=policy, **said, **times)


def stamped(policy="hpc-ops", digest="a" * 64):
    plan = plan_decode([4096] * 64, num_kv_heads=1, num_ctas=132, policy=policy)
    timeline = Timeline.from_stamps(plan, stamps_of(plan, COST))
    return timeline_record(
        timeline,
        environment=ENVIRONMENT,
        case="64x4K",
        cache="fp8",
        parameters={"num_kv_heads": 1},
        configuration=CONFIG,
        makespans_us=(timeline.makespan_us,),
        call_us=21.5,
        source_digest=digest,
    )


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


def test_a_timing_s_plan_is_made_again(store):
    store.add(timing("fixed_splits(8)"))
    (found,), left_out = observations(store, COST)
    expected = plan_decode([4096] * 64, num_kv_heads=1, num_ctas=132, policy="fixed_splits(8)")
    assert found.plan.to_json() == expected.to_json()
    assert (found.call_us, found.timeline, found.case, left_out) == (20.0, None, "64x4K", [])


def test_a_timeline_replaces_a_timing_and_brings_its_call(store):
    store.add(timing())
    store.add(*stamped())
    (found,), _ = observations(store, COST)
    assert found.call_us == 21.5
    assert found.timeline is not None
    assert found.path.startswith("timeline-")


def test_the_newest_of_a_case_and_policy_is_taken(store):
    for day, us in ((3, 30.0), (1, 10.0)):
        environment = ENVIRONMENT.model_copy(update={"date": datetime.date(2026, 1, day)})
        record = timing(environment=environment)
        store.add(record.model_copy(update={"samples_us": (us,), "median_us": us, "low_us": us, "high_us": us}))
    (found,), _ = observations(store, COST)
    assert found.call_us == 30.0


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (timing("balanced"), "which plan ran"),
        (timing("mine.py:f"), "cannot be made again"),
        (timing(configuration={**CONFIG, "early_map": False}), "waits for its map"),
        (timing(configuration={**CONFIG, "early_cache": False}), "waits for its cache"),
        (timing(workload=Workload(case="64x4K", dtype="fp8", parameters={"head_dim": 64})), "head_dim is 64"),
        (timing(configuration={**CONFIG, "ctas_per_sm": "x"}), "ctas_per_sm is 'x', not a whole number"),
        (timing(configuration={**CONFIG, "tile": None}), "tile is None, not a whole number"),
        (timing(configuration={**CONFIG, "ctas_per_sm": True}), "ctas_per_sm is True, not a whole number"),
    ],
)
def test_what_is_left_out_says_why(store, record, reason):
    store.add(record)
    found, (said,) = observations(store, COST)
    assert found == []
    assert reason in said.reason


def test_a_launch_by_itself_is_left_out(store):
    record, content = stamped()
    store.add(record.model_copy(update={"method": PROFILED_STAMPS}), content)
    found, (said,) = observations(store, COST)
    assert found == []
    assert "one launch by itself" in said.reason


def test_other_gpus_caches_and_providers_are_not_looked_at(store):
    store.add(timing(provider="fa3"))
    store.add(timing(environment=ENVIRONMENT.model_copy(update={"gpu": "NVIDIA H20"})))
    store.add(timing(workload=Workload(case="64x4K", dtype="bf16")))
    assert observations(store, COST) == ([], [])


def test_two_kernels_of_one_day_are_refused(store):
    store.add(timing())
    store.add(*stamped("fixed_splits(8)", digest="b" * 64))
    with pytest.raises(FitError, match="2 kernels"):
        observations(store, COST)


@pytest.mark.parametrize("earlier", ["b" * 64, None])
def test_calls_of_an_earlier_kernel_are_left_out(store, earlier):
    """Also where the newer kernel did not measure the same case and policy."""
    environment = ENVIRONMENT.model_copy(update={"date": datetime.date(2026, 1, 1)})
    for policy in ("hpc-ops", "fixed_splits(4)"):
        store.add(timing(policy, environment=environment, source_digest=earlier))
    store.add(*stamped())
    (found,), left_out = observations(store, COST)
    assert found.kernel == "a" * 64
    assert len(left_out) == 2
    assert all(f"of an earlier kernel, {'b' * 12 if earlier else 'unknown'}" in one.reason for one in left_out)


def test_a_broken_record_stops_the_fit(store):
    path = store.add(timing())
    path.write_text("{}")
    with pytest.raises(FitError, match=path.name):
        observations(store, COST)


def fit_of(store):
    store.add(*stamped())
    observed, _ = observations(store, COST)
    error = CallError.of([0.01, -0.02])
    wanted = replace(COST.constants, descriptor_ns=2_345)
    made = Fit(
        constants=wanted, error=error, left_out=error, left_out_cases={"64x4K": error}, undetermined=(), timelines=1
    )
    return made, observed


def test_what_is_written_is_what_the_model_reads(store, monkeypatch):
    made, observed = fit_of(store)
    text = to_text(document("H200", {"fp8": (made, observed)}, date=datetime.date(2026, 1, 2)))
    monkeypatch.setattr(fitted, "read", lambda gpu: fitted.parse(text, gpu) if gpu == "H200" else {})
    cost = cost_model("H200", cache="fp8")
    assert cost.constants.descriptor_ns == 2_345
    assert cost.source.startswith("measured: fitted to 1 calls, 1 with timelines on one H200 (2026-01-02), 1.6% rms")
    assert cost_model("H200", cache="bf16").source.startswith("modelled")
    assert cost_model("H100").source.startswith("modelled")
    from workbench import devices

    assert constants(devices.custom("H200", sms=10)).source.startswith("modelled")
    kept = json.loads(text)["fits"]["fp8"]
    assert kept["kernel"] == "a" * 64
    assert kept["records"] == [observed[0].path]
    assert kept["left_out"]["calls"] == 2


@pytest.mark.parametrize(
    "damage",
    [
        lambda d: d.pop("fits"),
        lambda d: d.update(version=1),
        lambda d: d.update(gpu="H100"),
        lambda d: d["fits"]["fp8"].update(source="modelled"),
        lambda d: d["fits"]["fp8"]["constants"].update(descriptor_ns=0),
        lambda d: d["fits"]["fp8"]["constants"].update(descriptor_ns=1.5),
        lambda d: d["fits"]["fp8"]["constants"].pop("launch_ns"),
        lambda d: d.update(fits=[]),
    ],
)
def test_damaged_constants_are_refused(store, damage):
    made, observed = fit_of(store)
    content = json.loads(to_text(document("H200", {"fp8": (made, observed)}, date=datetime.date(2026, 1, 2))))
    damage(content)
    with pytest.raises(FitError, match="workbench fit"):
        fitted.parse(json.dumps(content), "H200")
    with pytest.raises(FitError):
        fitted.parse("not JSON", "H200")


@pytest.mark.parametrize("cache", ["fp8", "bf16"])
def test_the_recorded_fit_is_of_the_shipped_timelines(cache):
    """And its error is that of its constants; whether they are the best ones a fit would have to say."""
    path = Path(__file__).resolve().parents[2] / "docs" / "performance" / "attention_fit.json"
    kept = fitted.parse(path.read_text(), "H200")[cache]
    start = cost_model("H200", cache=cache)
    observed, _ = observations(Store(paths.profiles_dir()), start)
    assert kept["records"] == sorted(o.path for o in observed)
    assert {o.kernel for o in observed} == {kept["kernel"]}
    cost = replace(start, constants=CostConstants(**kept["constants"], source=kept["source"]))
    assert asdict(error_of(observed, cost)) == pytest.approx(kept["error"])


def test_the_constants_that_the_package_has_are_whole():
    """Also that no file is there for a GPU that the catalogue does not have."""
    from importlib import resources

    from workbench import devices

    folder = resources.files("workbench.schedule").joinpath(fitted.FOLDER)
    names = {file.name for file in folder.iterdir()} if folder.is_dir() else set()
    assert names <= {fitted.file_name(gpu) for gpu in devices.names()}
    for gpu in devices.names():
        for cache, fit in fitted.read(gpu).items():
            assert fit["left_out"]["rms"] < 0.25, (gpu, cache)
