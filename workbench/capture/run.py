"""Running one capture process from requests to records."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from workbench.capture.collect import INSTRUMENTED, STARTING_STAMPED
from workbench.capture.failures import diagnose, ended_within
from workbench.capture.jobs import Job, JobFolder, job_folder
from workbench.capture.metrics import CHIPS, keep_known, known_metrics
from workbench.capture.process import only_one, run_process
from workbench.capture.report_file import check_structure
from workbench.capture.requests import Request
from workbench.capture.results import Captured, store_results
from workbench.capture.tools import Tools, find_tools
from workbench.errors import CaptureError, NoGpu, NothingProfiled, ReportDamaged, UnknownMetric, WorkbenchError
from workbench.gpu import driver
from workbench.measure.busy import METRICS as ONE_PASS
from workbench.records import Store

TIMEOUT_SECONDS = 180.0
"""Limit of one capture process unless told otherwise."""

_HOPPER = (9, 0)


@dataclass(frozen=True)
class Settings:
    """How captures are run, whatever they are of.

    Attributes
    ----------
    store : Store
        Where records go.
    python : str or None
        Interpreter of the capture process; default: this one.
    timeout_s : float
        Limit of one process, seconds.
    keep_report : bool
        Keep the .ncu-rep beside the record.
    paths : tuple of str
        Folders in which the process looks for modules, before its own.
    """

    store: Store
    python: str | None = None
    timeout_s: float = TIMEOUT_SECONDS
    keep_report: bool = True
    paths: tuple[str, ...] = ()


def run_group(
    requests: Sequence[Request],
    settings: Settings,
    *,
    cancelled: Callable[[], bool],
    progressed: Callable[[str, int, int], None],
) -> list[Captured]:
    """Capture requests that share metrics and runs in one process, and keep them; none where one has no record.

    Raises
    ------
    CaptureError, MissingDependency, InvalidArgument, NoGpu, ReportDamaged
        It did not succeed; the class and the message say why.
    RecordError
        The store cannot be written.
    """
    first = requests[0]
    what = first.label if len(requests) == 1 else f"{first.label} and {len(requests) - 1} more"
    settings.store.check_writable()  # before, for a capture takes long
    if not first.counters and (problem := driver.probe().problem):
        raise NoGpu(f"{what}: {problem} Event timing and the in-kernel timeline need a GPU here.")
    progressed("looking for ncu and its metrics", 0, len(requests))
    tools = find_tools(settings.python) if first.counters else None
    usable, dropped = _known(first.metrics, tools)
    if not usable and tools:
        raise UnknownMetric(
            f"ncu {tools.ncu_version} knows none of {', '.join(dropped)} on this GPU. `ncu --query-metrics` lists what "
            "it knows."
        )
    notes = (f"not known to ncu {tools.ncu_version}: {', '.join(dropped)}",) if tools and dropped else ()
    job = Job(
        requests=tuple(requests),
        metrics=usable,
        stamped_metrics=_known(ONE_PASS, tools)[0] or usable[:1],
        runs=first.runs,
        counters=first.counters,
        timeline=first.timeline,
        paths=settings.paths,
    )
    progressed("waiting for other captures", 0, len(requests))
    with only_one(cancelled), job_folder(job) as folder:
        began = time.monotonic()
        progressed("starting Python", 0, len(requests))
        status = run_process(
            folder,
            settings.python or sys.executable,
            ncu=tools.ncu if tools else None,
            timeout_s=settings.timeout_s,
            cancelled=cancelled,
            progressed=progressed,
        )
        if folder.read("result.json") is None or folder.calling.exists():
            raise _failure(what, folder, status)
        return store_results(
            folder,
            job,
            settings.store,
            profiler=tools.words if tools else "",
            notes=notes,
            keep_report=settings.keep_report,
            seconds=time.monotonic() - began,
        )


def _known(metrics: Sequence[str], tools: Tools | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Metrics to ask for and metrics that the installed ncu does not know."""
    capability = driver.device().compute_capability if driver.probe().problem is None else _HOPPER
    chip = CHIPS.get(capability)
    if tools is None or chip is None:  # nothing is asked, or nothing to check against: ncu itself will say
        return tuple(metrics), ()
    return keep_known(metrics, known_metrics(tools.ncu, tools.ncu_version, chip))


def _failure(what: str, folder: JobFolder, status: int) -> WorkbenchError:
    """Why a process left no whole result. What ncu says comes first, then a damaged report, then what Python says."""
    log, failure = folder.log_text(), folder.read("failure.json")
    if STARTING_STAMPED in folder.stages():
        what = f"{what}: {INSTRUMENTED}"
    if failure and failure["by_work"]:
        return diagnose(what, failure, log, status, folder.profiler_text())
    found = diagnose(what, None, log, status)
    within = folder.calling.exists()
    ended = ended_within(what, log, None if failure or folder.read("result.json") else status)
    if within and type(found) is NothingProfiled:  # it ended before it launched anything
        return ended
    if type(found) is not CaptureError:  # a cause that is known
        return found
    for report in sorted(folder.path.glob("*.ncu-rep")):
        try:
            check_structure(report)
        except ReportDamaged as error:
            return ReportDamaged(f"{what}: ncu left a damaged report. {error}".replace(str(report), "The report"))
    return ended if within else diagnose(what, failure, log, status)
