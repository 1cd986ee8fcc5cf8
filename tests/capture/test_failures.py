"""Every known failure is an exception of its own that says what to do; an unknown one shows the log's last lines."""

from __future__ import annotations

import re

import pytest

from tests.capture.stand_in.ncu_errors import ERRORS
from workbench import errors, settings
from workbench.capture import capture
from workbench.capture.failures import KNOWN, diagnose

METRICS = ("gpu__time_duration.sum", "dram__bytes_read.sum")

EXPECTED = {
    "forbidden": (
        errors.CountersForbidden,
        ("NVreg_RestrictProfilingToAdminUsers=0", "CAP_SYS_ADMIN", "counters=False"),
    ),
    "busy": (errors.CountersBusy, ("DCGM", "counters=False")),
    "no driver": (errors.ProfilerUnavailable, ("no CUDA driver",)),
    "cannot start": (errors.ProfilerUnavailable, ("cannot start", "counters=False")),
    "locked": (errors.ProfilerUnavailable, ("lock", "TMPDIR")),
    "unknown metric": (errors.UnknownMetric, ("sm__wrong.sum", "--query-metrics")),
    "port": (errors.ProfilerUnavailable, ("port",)),
    "unheard of": (errors.CaptureError, ("==ERROR== The quantum flux is misaligned.", "last lines")),
}


def failure(function: str = "scale", **options):
    with pytest.raises(errors.WorkbenchError) as raised:
        capture(f"kernels:{function}", metrics=METRICS, **options).result(240)
    return raised.value


@pytest.mark.parametrize("behaviour", ERRORS)
def test_each_error_that_ncu_prints(machine, leftovers, behaviour):
    machine.behave(behaviour)
    found = failure()
    kind, words = EXPECTED[behaviour]
    assert type(found) is kind
    assert all(word in str(found) for word in words), str(found)
    assert ERRORS[behaviour] in found.log
    assert leftovers() == []
    assert not settings.records_dir().exists()


def test_ncu_crashes(machine):
    machine.behave("crashes")
    found = failure()
    assert isinstance(found, errors.ReportDamaged)
    assert "cut off" in str(found)
    assert not settings.records_dir().exists()


@pytest.mark.parametrize(("behaviour", "says"), [("truncates", "cut off"), ("garbage", "no report of Nsight Compute")])
def test_report_is_damaged(machine, behaviour, says):
    machine.behave(behaviour)
    found = failure()
    assert type(found) is errors.ReportDamaged
    assert says in str(found)
    assert not settings.records_dir().exists()


def test_ncu_hangs(machine, leftovers):
    machine.behave("hangs")
    found = failure(timeout_s=20)
    assert type(found) is errors.CaptureTimeout
    assert "timeout_s=20" in str(found)
    assert "starting ncu" in str(found)
    assert leftovers() == []


def test_nothing_is_launched_in_the_range(machine):
    found = failure("nothing")
    assert type(found) is errors.NothingProfiled


def test_kernels_outside_of_the_range_are_named(machine):
    found = failure("outside")
    assert type(found) is errors.NothingProfiled
    assert "warmup" in str(found)


def test_runs_launch_different_numbers_of_kernels(machine):
    assert type(failure("uneven", runs=2)) is errors.UnevenKernels


def test_the_call_itself_fails(machine):
    found = failure("broken")
    assert type(found) is errors.WorkFailed
    assert "the matrix has 7 columns" in str(found)
    assert "kernels.py" in str(found)


def test_every_known_cause_is_printed_by_a_test():
    texts = [*ERRORS.values(), "No kernels were profiled", "Expect same number of kernels per run"]
    texts.append("Failed to find the NCU injection library at /nowhere")  # see test_attach
    for cause in KNOWN:
        assert any(re.search(cause.pattern, text) for text in texts), cause.pattern


def test_a_signal_is_named():
    assert "ended by signal 9" in str(diagnose("attention", None, "one\ntwo\n", -9))
    assert "(nothing was printed)" in str(diagnose("attention", None, "", 1))
