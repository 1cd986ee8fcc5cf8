"""Many captures: skipped where they are recorded, resumed after a kill, failures kept apart."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.capture.batch_of_twenty import METRICS, SIZES, requests
from tests.capture.processes import alive
from tests.measure.synthetic import stamps_of
from tests.records.samples import ENVIRONMENT, timeline, timing
from tests.waiting import SECONDS, until
from workbench import settings
from workbench.capture import capture_batch, register, request
from workbench.capture.batch import _timeline_beside
from workbench.errors import CaptureCancelled, CaptureError, CountersForbidden, InvalidArgument, WorkFailed
from workbench.measure.busy import ActiveTime, compare_busy
from workbench.measure.timeline import Timeline
from workbench.measure.timeline_records import METHOD
from workbench.records import NsightRecord, Store, Workload
from workbench.records.methods import PROFILED_STAMPS
from workbench.schedule import cost_model, plan_decode

ROOT = Path(__file__).resolve().parents[2]


def few(*sizes, function="scale", **options):
    return [request(f"kernels:{function}", {"size": size}, metrics=METRICS, **options) for size in sizes]


def sizes_recorded() -> list[int]:
    store = Store(settings.records_dir())
    found = [(path, record) for path, record in store.records(kind="nsight")]
    assert store.problems == ()
    assert all(store.attachment(path) for path, _ in found)  # no record names a report that is not there or another
    return sorted(record.configuration["size"] for _, record in found)


def test_what_is_recorded_is_skipped_unless_asked(machine):
    first = capture_batch(few(1, 2)).result().check()
    assert [one.metrics["dram__bytes_read.sum"] for one in first.captured] == [1, 2]
    assert (machine.profiled, first.skipped) == (2, 0)
    second = capture_batch(few(3, 2, 1)).result().check()
    assert [one.metrics["dram__bytes_read.sum"] for one in second.captured] == [3, 2, 1]
    assert (machine.profiled, second.skipped) == (3, 2)
    assert capture_batch(few(2), again=True).result().skipped == 0
    assert machine.profiled == 4


def test_another_source_is_captured_again(machine, tmp_path, monkeypatch):
    folder = tmp_path / "own"
    folder.mkdir()
    source = (Path(__file__).with_name("stand_in") / "kernels.py").read_text()
    (folder / "own_kernels.py").write_text(source)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.chdir(folder)
    asked = [request("own_kernels:scale", {"size": 1}, metrics=METRICS)]
    capture_batch(asked).result().check()
    assert capture_batch(asked).result().skipped == 1
    (folder / "own_kernels.py").write_text(source + "\n# changed\n")
    assert capture_batch(asked).result().skipped == 0


def test_a_group_is_one_process(machine):
    result = capture_batch(few(1, 2, 3, 4, 5), group=3).result().check()
    assert machine.profiled == 2
    assert [one.metrics["dram__bytes_read.sum"] for one in result.captured] == [1, 2, 3, 4, 5]
    assert {len(one.record.kernels) for one in result.captured} == {1}


def test_requests_that_differ_in_metrics_or_runs_are_not_grouped(machine):
    asked = [*few(1), *few(2, runs=2), request("kernels:scale", {"size": 3}, metrics=METRICS[:1])]
    result = capture_batch(asked, group=9).result().check()
    assert machine.profiled == 3
    assert [one.record.runs for one in result.captured] == [1, 2, 1]


@pytest.mark.parametrize("group", [1, 3])
def test_one_failure_does_not_end_the_others(machine, group):
    result = capture_batch([*few(1), *few(2, function="broken"), *few(3)], group=group).result()
    assert result.failures.keys() == {1}
    assert isinstance(result.failures[1], WorkFailed)
    assert sizes_recorded() == [1, 3]
    assert [one is None for one in result.captured] == [False, True, False]
    with pytest.raises(CaptureError, match=r"1 of 3 captures failed:\n  - 2: broken"):
        result.check()


def test_what_would_meet_all_others_ends_the_batch(machine):
    machine.behave("forbidden")
    with pytest.raises(CountersForbidden):
        capture_batch(few(1, 2, 3)).result()
    assert machine.profiled == 1


def test_cancelled_batch_keeps_what_it_has(machine):
    handle = capture_batch(few(*SIZES))
    while handle.progress.done < 2:
        time.sleep(0.05)
    handle.cancel()
    with pytest.raises(CaptureCancelled):
        handle.result(SECONDS)
    kept = sizes_recorded()
    assert kept == list(SIZES)[: len(kept)]
    assert 2 <= len(kept) < len(SIZES)


def test_nothing_to_do(machine):
    with pytest.raises(InvalidArgument, match="at least one"):
        capture_batch([])
    with pytest.raises(InvalidArgument, match="group"):
        capture_batch(few(1), group=0)


def test_a_kill_at_any_point_loses_at_most_the_capture_in_flight(machine, leftovers):
    generator = random.Random(7)
    kills = 4
    done = 0
    for _ in range(kills):
        process = start()
        wait_for_records(min(done + generator.randrange(4), len(SIZES) - 1), process)
        time.sleep(generator.uniform(0, 2.5))  # in any stage of the next one
        process.send_signal(signal.SIGKILL)
        process.wait()
        now = sizes_recorded()
        assert now == list(SIZES)[: len(now)]  # whole records only, none lost
        assert len(now) >= done
        done = len(now)
        wait_for_end_of(machine.folder / "runs")
    last = start()
    assert last.wait(300) == 0
    assert sizes_recorded() == list(SIZES)
    assert machine.profiled <= len(SIZES) + kills
    assert leftovers() == []
    assert capture_batch(requests()).result().skipped == len(SIZES)


def start() -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ['PYTHONPATH']}"}
    return subprocess.Popen([sys.executable, "-m", "tests.capture.batch_of_twenty"], cwd=ROOT, env=environment)


def wait_for_records(number: int, process: subprocess.Popen[bytes]) -> None:
    limit = time.monotonic() + 200
    while len(list(settings.records_dir().rglob("nsight-*.json"))) < number and process.poll() is None:
        assert time.monotonic() < limit
        time.sleep(0.02)


def wait_for_end_of(runs: Path) -> None:
    """Whatever a killed batch had started ends by itself."""
    pids = runs.read_text().split() if runs.exists() else []
    until(lambda: list(filter(alive, pids)), lambda left: left == [])


def stamps(seed: int) -> tuple[bytes, dict[str, object]]:
    """A timeline of a launch, and what a capture of that launch says of it."""
    plan = plan_decode([4096] * 64, num_kv_heads=1, num_ctas=132, policy="hpc-ops")
    made = Timeline.from_stamps(plan, stamps_of(plan, cost_model(), noise=0.2, seed=seed))
    return made.to_npz(), compare_busy(made, ActiveTime(0.0, 20_000.0, 25_000.0), sms=132).to_dict()


def test_the_timeline_beside_a_capture_is_its_own(tmp_path):
    """Provider, policy and configuration name a folder, so both cache types, and calls of a benchmark, lie in it."""
    store = Store(tmp_path)
    capture = timing()
    path = store.add(capture)
    of = {"policy": capture.policy, "configuration": capture.configuration, "method": PROFILED_STAMPS}

    def keep(seed: int, modified: int, **changes: object) -> tuple[Path, dict[str, object]]:
        content, agreement = stamps(seed)
        record = timeline(content, **of).model_copy(update=changes)
        kept = store.add(record, content)
        os.utime(kept, (modified, modified))
        assert kept.parent == path.parent
        return kept, agreement

    keep(1, 5_000, workload=Workload(case="64x4K", dtype="bf16"))
    keep(2, 5_000, method=METHOD)  # calls one after another
    assert _timeline_beside(path, capture, store) is None
    own, agreement = keep(3, 1_000)
    newer, _ = keep(4, 2_000)
    assert _timeline_beside(path, capture, store) == newer
    counted = NsightRecord(
        **of, operator="attention_decode", provider="workbench", environment=ENVIRONMENT, workload=capture.workload,
        agreement=agreement, metrics={"sm__cycles_active.avg": 1.0},
    )  # fmt: skip
    assert _timeline_beside(path, counted, store) == own  # by what was compared
    named = counted.model_copy(update={"agreement": {}, "stamps": store.read(own).attachment.sha256})
    assert _timeline_beside(path, named, store) == own
    assert _timeline_beside(path, named.model_copy(update={"stamps": "0" * 64}), store) == newer


@pytest.mark.parametrize(
    ("asked", "options", "said"),
    [
        ([], {}, "at least one"),
        (["attention_decode"], {}, "at least one"),
        (few(1)[0], {}, "at least one"),
        (few(1), {"group": "2"}, "group='2'"),
        (few(1), {"group": 1.5}, "group=1.5"),
        (few(1), {"group": 0}, "group=0"),
        (few(1), {"timeout_s": None}, "timeout_s=None"),
        (few(1), {"timeout_s": "x"}, "timeout_s='x'"),
        (few(1), {"store": 3}, "store=3"),
    ],
)
def test_what_is_no_batch_is_refused(machine, asked, options, said):
    with pytest.raises(InvalidArgument, match=re.escape(said)):
        capture_batch(asked, **options)


def test_a_set_of_metrics_is_as_good_as_a_list():
    assert request("attention_decode", {}, "64x4K", metrics={"overview", "schedule"}).timeline


def test_a_skipped_capture_has_its_own_timeline_or_none(machine, monkeypatch):
    monkeypatch.setattr("workbench.capture.operators._REGISTRY", {})
    register("toy", "toy_operator:Toy")
    asked = [request("toy", {"size": 1}, metrics=metrics) for metrics in ((*METRICS, "schedule"), METRICS)]
    fresh = capture_batch(asked).result().check()
    again = capture_batch(asked).result().check()
    assert again.skipped == 2
    assert [one.timeline for one in again.captured] == [one.timeline for one in fresh.captured]
    assert [one.timeline is None for one in fresh.captured] == [False, True]
