"""Calls, listeners and folders that misbehave: each costs its own capture at most, and is told for what it is."""

from __future__ import annotations

import errno
import os
import sys

import pytest

from tests.capture.processes import alive
from tests.capture.stand_in.ncu_errors import ERRORS
from tests.waiting import SECONDS, until
from workbench.capture import capture, capture_batch, request
from workbench.capture.failures import diagnose, ended_within
from workbench.capture.jobs import remove_abandoned
from workbench.errors import (
    CaptureError,
    CountersForbidden,
    InvalidArgument,
    NoGpu,
    NothingProfiled,
    RecordError,
    WorkFailed,
)
from workbench.gpu import driver

TWO = ("gpu__time_duration.sum", "dram__bytes_read.sum")


def test_a_listener_that_raises_is_told_nothing_more(machine, capsys):
    told = []

    def listener(progress):
        told.append(progress.stage)
        raise RuntimeError("no display")

    captured = capture("kernels:scale", {"size": 2}, metrics=TWO, on_progress=listener).result(SECONDS)
    assert captured.metrics[TWO[1]] == 2
    assert len(told) == 1
    assert "no display" in capsys.readouterr().err


def test_a_call_finds_an_empty_standard_input(machine):
    assert capture("kernels:asks", metrics=TWO).result().metrics[TWO[1]] == 0


def test_a_program_with_a_session_of_its_own_ends_with_the_capture(machine):
    capture("kernels:leaves_one_behind", metrics=TWO).result()
    pid = (machine.folder / "children").read_text()
    until(lambda: alive(pid), lambda lives: not lives)


def test_a_call_that_removes_what_is_needed(machine, leftovers):
    with pytest.raises(CaptureError, match=r"case-0\.json"):
        capture("kernels:tidies", metrics=TWO).result()
    assert leftovers() == []


@pytest.mark.parametrize(
    ("function", "says"), [("ends", "SystemExit: 0"), ("says_what_ncu_says", "Unknown metric 'Address already in use'")]
)
def test_words_of_the_call_are_not_taken_for_those_of_ncu(machine, function, says):
    with pytest.raises(WorkFailed) as raised:
        capture(f"kernels:{function}", metrics=TWO).result()
    assert says in str(raised.value)


@pytest.mark.parametrize("parameters", [{}, {"before": 1}, {"status": 3}])
def test_a_call_that_ends_its_process_is_told(machine, leftovers, parameters):
    with pytest.raises(WorkFailed, match="the process ended before the call returned, and no error was raised") as told:
        capture("kernels:vanishes", parameters, metrics=TWO).result()
    assert "about to go" in told.value.log
    assert leftovers() == []


def test_the_status_of_the_process_that_ended_is_told():
    assert "the process ended by signal 11 before the call returned" in str(ended_within("mine", "", -11))


def test_what_ncu_says_comes_before_a_call_that_fails_of_it():
    failed = {"kinds": ["RuntimeError"], "message": "launch failed", "traceback": "launch failed", "by_work": True}
    log = ERRORS["forbidden"]
    assert type(diagnose("attention", failed, log, 1, log)) is CountersForbidden
    assert type(diagnose("attention", failed, log, 1, "==WARNING== No kernels were profiled.")) is WorkFailed


@pytest.mark.parametrize("group", [1, 3])
def test_a_call_without_a_kernel_does_not_spoil_its_group(machine, group):
    asked = [request(f"kernels:{name}", {"size": 3}, metrics=TWO) for name in ("scale", "idle", "chain")]
    result = capture_batch(asked, group=group).result()
    assert result.failures.keys() == {1}
    assert type(result.failures[1]) is NothingProfiled
    assert [one and one.metrics[TWO[1]] for one in result.captured] == [3, None, 9]


def test_a_module_that_can_no_longer_be_imported_is_captured_again(machine, tmp_path, monkeypatch):
    (tmp_path / "fickle.py").write_text("from kernels import scale\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    asked = [request("fickle:scale", {"size": 1}, metrics=TWO)]
    capture_batch(asked).result().check()
    (tmp_path / "fickle.py").write_text("import sys\nsys.exit('no more')\n")
    sys.modules.pop("fickle", None)
    result = capture_batch(asked).result()
    assert isinstance(result.failures[0], WorkFailed)
    assert "no more" in str(result.failures[0])


def test_a_store_that_cannot_be_written_is_told_before(machine, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(RecordError, match="is no folder"):
        capture("kernels:scale", metrics=TWO, store=tmp_path / "file" / "store").result()
    assert machine.profiled == 0


def test_caches_that_cannot_be_written(machine, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("WORKBENCH_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(InvalidArgument, match="WORKBENCH_CACHE_DIR"):
        capture("kernels:scale", metrics=TWO).result()


def test_a_temporary_folder_that_is_full(machine, monkeypatch, leftovers):
    def full(*_arguments, **_options):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("shutil.copyfile", full)
    with pytest.raises(CaptureError, match="No space left on device"):
        capture("kernels:scale", metrics=TWO).result()
    assert leftovers() == []


def test_a_folder_whose_maker_was_killed_at_once(tmp_path):
    begun = tmp_path / "workbench-capture-begun"
    begun.mkdir()
    remove_abandoned(tmp_path)
    assert begun.exists()  # another capture may be making it this moment
    os.utime(begun, (0, 0))
    remove_abandoned(tmp_path)
    assert not begun.exists()


def test_without_counters_and_without_a_gpu(machine):
    if driver.probe().problem is None:
        pytest.skip("there is a GPU")
    with pytest.raises(NoGpu, match="scale"):
        capture("kernels:scale", counters=False).result()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"metrics": 3}, "metric 3"),
        ({"metrics": ["overview", ["memory"]]}, "memory"),
        ({"workload": [1]}, "dict"),
        ({"workload": {"case": 3}}, "case in text"),
        ({"workload": "<b>"}, "short name and plain values. case: String"),
    ],
)
def test_arguments_of_another_type(arguments, says):
    with pytest.raises(InvalidArgument, match=says):
        request("kernels:scale", **arguments)
