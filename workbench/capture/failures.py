"""Why a capture failed, from what it left behind: each known cause is an exception of its own that says what to do."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from workbench import errors
from workbench.errors import (
    CaptureError,
    CountersBusy,
    CountersForbidden,
    NothingProfiled,
    ProfilerUnavailable,
    UnevenKernels,
    UnknownMetric,
    WorkFailed,
)

LAST_LINES = 12

WITHOUT_COUNTERS = (
    "Event timing and the in-kernel timeline need no counters: capture with counters=False (--no-counters)."
)


class Cause(NamedTuple):
    """A known failure: words in the log, its exception, and what it means."""

    pattern: str
    error: type[CaptureError]
    message: str


KNOWN = (
    Cause(
        r"ERR_NVGPUCTRPERM",
        CountersForbidden,
        "the driver lets administrators only read hardware counters (ERR_NVGPUCTRPERM). On the host, set "
        "`options nvidia NVreg_RestrictProfilingToAdminUsers=0` in /etc/modprobe.d and reboot, or run as root; in a "
        f"container, add CAP_SYS_ADMIN (docker run --cap-add=SYS_ADMIN). {WITHOUT_COUNTERS}",
    ),
    Cause(
        r"driver resource was unavailable",
        CountersBusy,
        "another program holds the GPU's counters: DCGM, another profiler or another capture. Pause it (`dcgmi profile "
        f"--pause`, or stop the nvidia-dcgm service) and capture again. {WITHOUT_COUNTERS}",
    ),
    Cause(
        r"[Ff]ailed to connect to the CUDA driver|no CUDA-capable device|libcuda\.so\.1.*cannot open",
        ProfilerUnavailable,
        "Nsight Compute sees no CUDA driver: there is no GPU here, or this container was not given one. Capture on a "
        "machine "
        "with a GPU; records and reports made there open here.",
    ),
    Cause(
        r"LibraryNotLoaded|Failed to initialize the profiler|profiler is not supported|not supported on this device",
        ProfilerUnavailable,
        f"Nsight Compute cannot start on this machine; virtual machines and sandboxes often forbid it. "
        f"{WITHOUT_COUNTERS}",
    ),
    Cause(
        r"[Ff]ailed to (?:open|create|acquire).{0,40}lock|InterprocessLockFailed",
        ProfilerUnavailable,
        "Nsight Compute could not lock its file, so another instance may be running. End it, or make TMPDIR a folder "
        "that can "
        "be written.",
    ),
    Cause(
        r"Failed to find metric|Invalid value .* for 'metrics' parameter|Unknown metric",
        UnknownMetric,
        "Nsight Compute does not have one of the metrics on this GPU. `ncu --query-metrics-mode all --query-metrics` "
        "lists "
        "those it has.",
    ),
    Cause(
        r"No kernels were profiled|No NVIDIA Nsight Compute report found|has no kernel in it",
        NothingProfiled,
        "the profiled range launched no kernel that Nsight Compute saw. It looks at ranges of the NVTX domain "
        "nsight-python; "
        "check that the call launches GPU work in this process (also with CUDA graphs: not with range replay).",
    ),
    Cause(
        r"Expect same number of kernels per run",
        UnevenKernels,
        "runs of the call launched different numbers of kernels, so counters cannot be assigned to them. Let "
        "autotuning end "
        "before the call, and choose inputs for which each call does the same work.",
    ),
    Cause(
        r"NCU injection library|via Nsight Compute injection",
        ProfilerUnavailable,
        "nsight-python 1.x could not load the injection library of Nsight Compute, by which ncu attaches. Check that "
        "`ncu --list-injection-path-64` names a folder that exists, or install nsight-python 0.9.6, which needs none "
        "(pip install 'hpc-ops-workbench[nsight0]').",
    ),
    Cause(
        r"Address already in use",
        ProfilerUnavailable,
        "Nsight Compute's port is taken by an instance that still runs. End it (`ps aux | grep ncu`) and capture "
        "again.",
    ),
)


def diagnose(
    what: str, failure: dict[str, Any] | None, log: str, status: int | None, heard: str = ""
) -> errors.WorkbenchError:
    """The exception for a capture process that did not succeed.

    Parameters
    ----------
    what
        What was being captured, in words.
    failure
        The first error inside the process (``kinds``, ``message``, ``traceback``, ``by_work``), where there was one.
    log
        Everything that was printed and logged.
    status
        Exit status of the process; negative: the signal that ended it.
    heard
        The part of the log that Nsight Compute said. Where the captured call failed, nothing else tells a known cause:
        the call may print and raise any words.
    """
    said = f"{failure['message']}\n{failure['traceback']}" if failure else ""
    by_work = failure is not None and bool(failure["by_work"])
    for cause in KNOWN:
        if by_work and cause.error is NothingProfiled:  # it failed before it launched anything
            continue
        if re.search(cause.pattern, heard if by_work else f"{log}\n{said}"):
            return cause.error(f"{what}: {cause.message}{_details(cause.error, log)}", log)
    if failure and (by_work or not _from_profiler(failure)):
        return _work_failed(what, failure, log)
    lines = [line for line in (log or said).splitlines() if line.strip()][-LAST_LINES:]
    shown = "\n".join(f"    {line}" for line in lines) or "    (nothing was printed)"
    return CaptureError(f"{what}: the capture process {_how(status)}. Its last lines:\n{shown}", log)


def ended_within(what: str, log: str, status: int | None) -> WorkFailed:
    """The exception for a call that ended its process.

    Parameters
    ----------
    what, log
        As of `diagnose`.
    status
        Exit status of that process; None where only its parent's is known.
    """
    return WorkFailed(
        f"{what}: the process {_how(status)} before the call returned, and no error was raised. `os._exit`, or a fault "
        f"in native code, ends it so. Let the call return.",
        log,
    )


def nothing_profiled(what: str, log: str) -> NothingProfiled:
    """The exception for a call without a kernel, where others of its process had some."""
    message = next(cause.message for cause in KNOWN if cause.error is NothingProfiled)
    return NothingProfiled(f"{what}: {message}", log)


def _how(status: int | None) -> str:
    return "ended" if status is None else f"ended by signal {-status}" if status < 0 else f"ended with status {status}"


def _from_profiler(failure: dict[str, Any]) -> bool:
    return bool({"ProfilerException", "NCUNotAvailableError"} & set(failure["kinds"]))


def _work_failed(what: str, failure: dict[str, Any], log: str) -> errors.WorkbenchError:
    ours = [getattr(errors, kind, None) for kind in failure["kinds"]]
    if ours[0] is not None and issubclass(ours[0], errors.InvalidArgument):
        return errors.InvalidArgument(failure["message"])
    lines = failure["traceback"].strip().splitlines()[-LAST_LINES:]
    return WorkFailed(f"{what}: the call itself failed:\n" + "\n".join(f"    {line}" for line in lines), log)


def _details(kind: type[CaptureError], log: str) -> str:
    """What the log adds: kernels that ncu saw, or the metric it does not know."""
    if kind is NothingProfiled and (seen := re.findall(r"^\s*\d+\.\s+(\S.*)$", log, re.MULTILINE)):
        return f" Kernels that ran outside the range: {', '.join(dict.fromkeys(seen))}."
    if kind is UnknownMetric and (names := re.findall(r"[Ff]ailed to find metric\S* (?:regex:)?(\S+)", log)):
        return f" It does not know {', '.join(dict.fromkeys(names))}."
    return ""
