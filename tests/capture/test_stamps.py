"""Counters beside the stamps of the same launch: the instrumented build is profiled in a range of its own."""

from __future__ import annotations

import pytest

from tests.capture.toy_timeline import SMS, timeline
from workbench.capture import capture, operator_names, register
from workbench.capture.jobs import JobFolder
from workbench.capture.results import _agreement
from workbench.errors import InvalidArgument
from workbench.measure.busy import ACTIVE, CLOCK
from workbench.measure.timeline import Timeline
from workbench.records import Store

TWO = ("gpu__time_duration.sum", "dram__bytes_read.sum")


@pytest.fixture
def toy(machine, monkeypatch):
    monkeypatch.setattr("workbench.capture.operators._REGISTRY", {})
    register("toy", "toy_operator:Toy")
    assert operator_names() == ("toy",)
    return machine


def test_both_builds_are_profiled_and_the_timeline_is_kept(toy):
    captured = capture("toy", {"size": 2}, metrics=(*TWO, "schedule")).result()
    assert captured.metrics["gpu__time_duration.sum"] == 5  # of the plain build alone
    assert [kernel.name for kernel in captured.record.kernels] == ["toy"]
    kept = Store().read(captured.timeline)
    assert (kept.operator, kept.provider, kept.policy, kept.configuration) == ("toy", "cuda", "balanced", {"size": 2})
    assert "Nsight Compute profiled" in kept.method
    again = Timeline.from_npz(Store().attachment(captured.timeline))
    assert again.makespan_us == timeline().makespan_us == kept.makespan_us
    assert captured.agreement is None  # no GPU said how many SMs it has


def test_without_the_set_only_the_plain_build_runs(toy):
    captured = capture("toy", metrics=TWO, provider="other").result()
    assert captured.timeline is None
    assert captured.record.provider == "other"


def test_names_of_operators(toy):
    with pytest.raises(InvalidArgument, match="is toy_operator:Toy already"):
        register("toy", "other:Toy")
    with pytest.raises(InvalidArgument, match=r"package\.module:Class"):
        register("My Op", "other:Toy")
    with pytest.raises(InvalidArgument, match="cuda, other"):
        capture("toy", metrics=TWO, provider="third")


def launch(annotation: str, least: float, mean: float, most: float, clock: float, unit: str):
    metrics = dict(zip(ACTIVE, (least, mean, most), strict=True)) | {CLOCK: clock}
    return {"annotation": annotation, "metrics": metrics, "units": {CLOCK: unit}}


@pytest.mark.parametrize(("clock", "unit"), [(2e9, "cycle/second"), (2.0, "cycle/nsecond"), (2.0, "GHz")])
def test_agreement_is_of_the_stamped_launch(tmp_path, clock, unit):
    (tmp_path / "timeline-0.npz").write_bytes(timeline().to_npz())
    launches = [
        launch("case0", 1, 1, 1, clock, unit),
        launch("case0-stamped", 4100, 6100, 8100, clock, unit),  # 2 cycles a ns, 50 ns outside of the stamps
    ]
    found = _agreement(JobFolder(tmp_path), 0, launches, SMS)
    assert found["agrees"]
    assert found["outside_ns"] == pytest.approx(50)
    assert found["stamped"] == {"least_ns": 2000, "mean_ns": 3000, "most_ns": 4000}
    assert found["counted"] == pytest.approx({"least_ns": 2050, "mean_ns": 3050, "most_ns": 4050})
    far = _agreement(JobFolder(tmp_path), 0, [launch("case0-stamped", 8100, 8100, 8100, clock, unit)], SMS)
    assert not far["agrees"]


def test_nothing_to_compare(tmp_path):
    (tmp_path / "timeline-0.npz").write_bytes(timeline().to_npz())
    folder = JobFolder(tmp_path)
    stamped = launch("case0-stamped", 1, 2, 3, 2e9, "cycle/second")
    assert _agreement(folder, 0, [launch("case0", 1, 2, 3, 2e9, "cycle/second")], SMS) == {}
    assert _agreement(folder, 1, [stamped], SMS) == {}
    assert _agreement(folder, 0, [stamped], None) == {}
    assert _agreement(folder, 0, [{**stamped, "units": {CLOCK: "furlong"}}], SMS) == {}
