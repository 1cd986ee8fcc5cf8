"""One capture through nsight-python and a stand-in for ncu: what is recorded, and that nothing is left."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from pathlib import Path

import pytest

from tests.capture.processes import alive
from tests.waiting import SECONDS, until
from workbench import settings
from workbench.capture import Captured, capture, read_report
from workbench.errors import CaptureCancelled, InvalidArgument, MissingDependency, ProfilerUnavailable
from workbench.records import NsightRecord, Store

TWO = ("gpu__time_duration.sum", "dram__bytes_read.sum")


def test_record_holds_counters_and_report(machine, leftovers):
    captured = capture("kernels:scale", {"size": 3}, {"block": 64}, metrics=TWO, runs=2).result()
    assert isinstance(captured, Captured)
    assert captured.metrics == {"gpu__time_duration.sum": 3 * 64, "dram__bytes_read.sum": 3}
    record = Store().read(captured.path)
    assert isinstance(record, NsightRecord)
    assert (record.operator, record.provider, record.workload.case) == ("scale", "user", "block=64")
    assert (record.runs, record.profiler) == (2, "ncu 2025.3.1.0, nsight-python 0.9.6")
    assert record.deviations == dict.fromkeys(TWO, 0.0)
    assert [kernel.name for kernel in record.kernels] == ["scale"]
    assert record.environment.gpu == "Stand-in GPU"
    assert [kernel.annotation for kernel in read_report(captured.report)] == ["case0", "case0"]
    assert captured.report.read_bytes() == Store().attachment(captured.path)
    assert leftovers() == []


def test_a_function_itself_is_captured(machine):
    from kernels import scale

    assert capture(scale, {"size": 5}, metrics=TWO).result().metrics["dram__bytes_read.sum"] == 5


def test_totals_of_several_kernels_are_added_and_shares_are_not(machine):
    share = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"
    record = capture("kernels:chain", {"size": 4}, metrics=(*TWO, share)).result().record
    assert record.metrics == {"gpu__time_duration.sum": 30, "dram__bytes_read.sum": 12}
    assert [(kernel.name, kernel.metrics["dram__bytes_read.sum"]) for kernel in record.kernels] == [
        ("first", 4),
        ("second", 8),
    ]
    assert record.kernels[0].metrics[share] == 50
    assert any(share in note for note in record.notes)


def test_metrics_that_ncu_does_not_know_are_left_out_with_a_note(machine):
    machine.knows(TWO[0])
    record = capture("kernels:scale", metrics=(*TWO, "launch__grid_size")).result().record
    assert record.metrics.keys() == {TWO[0], "launch__grid_size"}
    assert record.notes == (f"not known to ncu 2025.3.1.0: {TWO[1]}",)


def test_process_has_folders_of_its_own(machine, tmp_path):
    capture("kernels:where", metrics=TWO).result()
    found = json.loads((machine.folder / "environment.json").read_text())
    folder = tmp_path / "temporary"
    assert found["TMPDIR"].startswith(f"{folder}/workbench-capture-")
    assert found["TMPDIR"] != str(folder)
    assert str(Path(found["TMPDIR"]).parent) == found["cwd"]
    assert found["HOME"] == str(settings.cache_dir() / "capture-home")
    assert int(found["pgid"]) != os.getpgid(0)
    assert found["WORKBENCH_CACHE_DIR"] == str(settings.cache_dir())


def test_event_loop_stays_free(machine):
    async def cell() -> tuple[Captured, int]:
        handle, turns = capture("kernels:scale", metrics=TWO), 0
        while not handle.done():
            await asyncio.sleep(0.01)
            turns += 1
        return await handle, turns

    captured, turns = asyncio.run(cell())
    assert captured.metrics
    assert turns > 10, "the loop stood still while a capture of a second or more went on"


def test_progress_tells_the_stages(machine):
    seen = []
    handle = capture("kernels:scale", {"size": 2}, metrics=TWO, on_progress=seen.append)
    handle.result()
    stages = [progress.stage for progress in seen]
    assert stages[-1] == "done"
    assert "starting ncu" in stages
    assert seen[-1].done == seen[-1].total == 1
    assert seen[-1].label == "scale default size=2"
    assert handle.progress.seconds == pytest.approx(handle.seconds)


def test_cancelling_ends_every_process(machine, leftovers):
    machine.behave("hangs")
    handle = capture("kernels:scale", metrics=TWO)
    wait_for(machine.folder / "children")
    handle.cancel()
    with pytest.raises(CaptureCancelled):
        handle.result(SECONDS)
    assert not any(map(alive, (machine.folder / "children").read_text().split()))
    assert leftovers() == []
    assert not settings.records_dir().exists()


def test_an_interrupted_cell_cancels(machine):
    machine.behave("hangs")

    async def cell() -> None:
        handle = capture("kernels:scale", metrics=TWO)
        waiting = asyncio.ensure_future(handle_of(handle))
        await asyncio.to_thread(wait_for, machine.folder / "children")
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert handle.cancelled()
        with pytest.raises(CaptureCancelled):
            await asyncio.to_thread(handle.result, SECONDS)

    async def handle_of(handle):
        return await handle

    asyncio.run(cell())


def test_two_captures_wait_for_each_other(machine):
    first, second = (capture("kernels:scale", {"size": size}, metrics=TWO) for size in (1, 2))
    assert {first.result().metrics[TWO[1]], second.result().metrics[TWO[1]]} == {1, 2}
    assert threading.active_count() < 10


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"operator": "conv"}, "attention_decode"),
        ({"operator": lambda: None}, "Put it at the top level of a file"),
        ({"operator": "attention_decode", "workload": "64x4Q"}, "Q"),
        ({"operator": "attention_decode", "workload": {"lengths": "4K", "pages": 3}}, "page_size"),
        ({"operator": "attention_decode", "workload": "64x4K", "provider": "cutlass"}, "cuda, triton"),
        ({"operator": "kernels:scale", "policy": "balanced"}, "no scheduling policy"),
        ({"operator": "kernels:scale", "metrics": "speed"}, "overview"),
        ({"operator": "kernels:scale", "metrics": ()}, "overview"),
        ({"operator": "kernels:scale", "runs": 0}, "runs"),
        ({"operator": "kernels:scale", "config": [3]}, "dict"),
        ({"operator": "kernels:scale", "timeout_s": 0}, "above 0"),
    ],
)
def test_wrong_arguments_are_refused_at_once(machine, arguments, says):
    with pytest.raises(ValueError, match=says):
        capture(**arguments)
    assert machine.profiled == 0


def test_a_module_that_is_not_there(machine):
    with pytest.raises(InvalidArgument, match=r"nowhere:kernel cannot be imported"):
        capture("nowhere:kernel", metrics=TWO).result()


def test_no_ncu(machine, monkeypatch):
    monkeypatch.setenv("WORKBENCH_NCU", str(machine.folder / "absent"))
    with pytest.raises(ProfilerUnavailable, match="WORKBENCH_NCU"):
        capture("kernels:scale", metrics=TWO).result()


def test_no_nsight(machine, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.setattr("workbench.capture.tools.nsight_version", lambda python: None)
    with pytest.raises(MissingDependency, match="nsight0"):
        capture("kernels:scale", metrics=TWO).result()


def wait_for(path) -> None:
    until(lambda: path.exists() and path.read_text())
