"""Counters beside the stamps of the same launch: the instrumented build is profiled in a range of its own."""

from __future__ import annotations

import datetime
import hashlib

import pytest

from tests.capture.toy_timeline import SMS, timeline
from workbench import settings
from workbench.capture import Stamped, capture, capture_batch, operator_names, read_report, register, request
from workbench.capture.collect import keep_stamps
from workbench.capture.jobs import Job, JobFolder
from workbench.capture.stamps import PASSES, Stamps, stamps_of
from workbench.errors import CaptureError, InvalidArgument, NothingProfiled, WorkFailed
from workbench.measure.busy import ACTIVE, CLOCK
from workbench.measure.timeline import Timeline
from workbench.records import Environment, Store, Workload
from workbench.records.methods import PROFILED_STAMPS

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
    assert {kernel.annotation for kernel in read_report(captured.report)} == {"case0"}
    assert toy.profiled == 2  # the builds apart


@pytest.mark.parametrize("asked", ["schedule", ("overview", "schedule", "memory")])
def test_the_instrumented_build_is_profiled_in_one_pass(toy, monkeypatch, asked):
    seen = []
    monkeypatch.setattr("workbench.capture.run.Job", lambda **fields: seen.append(fields) or Job(**fields))
    capture("toy", metrics=asked).result()
    assert set(seen[0]["stamped_metrics"]) == {*ACTIVE, CLOCK}
    assert {*ACTIVE, CLOCK} < set(seen[0]["metrics"])


@pytest.mark.parametrize(
    ("stamps", "error", "said"),
    [
        ("raises", WorkFailed, "the stamps have no room"),
        ("silent", NothingProfiled, "no kernel"),
        ("nan", CaptureError, "makes no record: makespan"),
    ],
)
def test_a_bad_instrumented_build_is_its_own_failure(toy, leftovers, stamps, error, said):
    """It is told that it was the second run, nothing of it is kept, and the others of the batch are."""
    asked = [request("toy", {"stamps": one}, metrics=(*TWO, "schedule")) for one in ("good", stamps, "good")]
    asked[2] = request("toy", {"size": 3}, metrics=(*TWO, "schedule"))
    result = capture_batch(asked, group=3).result()
    assert list(result.failures) == [1]
    assert isinstance(result.failures[1], error)
    assert said in str(result.failures[1])
    assert ("instrumented build, for the set schedule" in str(result.failures[1])) == (stamps != "nan")
    assert [one is None for one in result.captured] == [False, True, False]
    kept = [list(Store(settings.records_dir()).records(kind=kind)) for kind in ("nsight", "timeline")]
    assert list(map(len, kept)) == [2, 2]
    assert leftovers() == []


def test_a_call_without_an_instrumented_build_is_profiled_once(machine):
    assert capture("kernels:scale", metrics=(*TWO, "schedule")).result().timeline is None
    assert machine.profiled == 1


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


def launch(annotation: str, least: float, mean: float, most: float, clock: float, unit: str, passes: int = 1):
    metrics = dict(zip(ACTIVE, (least, mean, most), strict=True)) | {CLOCK: clock, PASSES: passes}
    return {"annotation": annotation, "metrics": metrics, "units": {CLOCK: unit}}


@pytest.fixture
def stamped(tmp_path):
    """A job of which two calls were stamped; the timeline is of the second."""
    (tmp_path / "timeline-0.npz").write_bytes(timeline().to_npz())
    folder = JobFolder(tmp_path)
    folder.write("stamps-0.json", {"makespan_us": 4.0, "makespans_us": [3.0, 4.0], "kept": 1})
    return folder


def common(sms=SMS):
    return {
        "operator": "toy", "provider": "cuda", "policy": None, "configuration": {},
        "environment": Environment(gpu="NVIDIA H200", date=datetime.date(2026, 11, 30), sms=sms),
        "workload": Workload(case="default"), "source_digest": None,
    }  # fmt: skip


@pytest.mark.parametrize(("clock", "unit"), [(2e9, "cycle/second"), (2.0, "cycle/nsecond"), (2.0, "GHz")])
def test_agreement_is_of_the_launch_whose_stamps_were_kept(stamped, clock, unit):
    near = launch("case0-stamped", 4100, 6100, 8100, clock, unit)  # 2 cycles a ns, 50 ns outside of the stamps
    far = launch("case0-stamped", 8100, 8100, 8100, clock, unit)
    plain = launch("case0", 1, 1, 1, clock, unit)
    found = stamps_of(stamped, 0, "toy", [plain, far, near], common())
    assert found.agreement["agrees"]
    assert found.agreement["outside_ns"] == pytest.approx(50)
    assert found.agreement["stamped"] == {"least_ns": 2000, "mean_ns": 3000, "most_ns": 4000}
    assert found.agreement["counted"] == pytest.approx({"least_ns": 2050, "mean_ns": 3050, "most_ns": 4050})
    record, content = found.kept
    assert (record.method, record.makespan_us, content) == (PROFILED_STAMPS, 4.0, timeline().to_npz())
    assert found.named == {"stamps": hashlib.sha256(content).hexdigest()}
    assert not stamps_of(stamped, 0, "toy", [plain, near, far], common()).agreement["agrees"]


def test_nothing_to_compare(stamped):
    one = launch("case0-stamped", 1, 2, 3, 2e9, "cycle/second")

    def agreement(*launches, sms=SMS):
        found = stamps_of(stamped, 0, "toy", launches, common(sms))
        assert found.kept is not None
        return found.agreement

    assert agreement(one, one)
    assert agreement(one) == {}  # another launch's stamps, for all one can tell
    assert agreement(one, one, sms=None) == {}
    assert agreement(one, {**one, "units": {CLOCK: "furlong"}}) == {}
    assert agreement(one, launch("case0-stamped", 1, 2, 3, 2e9, "cycle/second", passes=9)) == {}
    assert stamps_of(stamped, 1, "toy", [one, one], common()) == Stamps()


def test_what_makes_no_sense_is_left_out_with_a_note(stamped, tmp_path):
    one = launch("case0-stamped", 4100, 6100, 8100, 2e9, "cycle/second")
    idle = stamps_of(stamped, 0, "toy", [one, launch("case0-stamped", 0, 0, 0, 2e9, "cycle/second")], common())
    assert "active for 0.0 ns" in idle.notes[0]
    few = stamps_of(stamped, 0, "toy", [one, one], common(sms=1))
    assert "the GPU has 1" in few.notes[0]
    assert few.kept is not None
    (tmp_path / "timeline-0.npz").write_bytes(b"no archive")
    damaged = stamps_of(stamped, 0, "toy", [one, one], common())
    assert damaged.kept is None
    assert "left out" in damaged.notes[0]


def test_the_stamps_kept_are_of_the_median_call(tmp_path):
    folder = JobFolder(tmp_path)
    keep_stamps(folder, 0, [Stamped(bytes([at]), makespan) for at, makespan in enumerate((5.0, 3.0, 4.0))])
    assert (tmp_path / "timeline-0.npz").read_bytes() == bytes([2])
    assert folder.read("stamps-0.json") == {"makespan_us": 4.0, "makespans_us": [5.0, 3.0, 4.0], "kept": 2}
