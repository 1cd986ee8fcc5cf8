"""What a capture process does: prepare each case outside the annotated range, profile its call inside, write results.

Under nsight-python 0.9.6 this runs twice: the process that the workbench starts comes to the decorated call, which
starts the script again under ncu; only there are inputs made and kernels launched, and that process ends within the
call. Under 1.x one process does both.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path
from statistics import median_low
from typing import Any

import numpy as np

from workbench.capture.jobs import Job, JobFolder
from workbench.capture.metrics import additive
from workbench.capture.operators import Instrumented, Prepared, Stamped, adapter_for

ANNOTATION = "case{}"
STAMPED = "case{}-stamped"
"""Ranges of the call, and of its instrumented build."""

STARTING_STAMPED = "starting ncu for the instrumented build"
"""Stage with which the second run begins."""

INSTRUMENTED = "its instrumented build, for the set schedule"
"""What failed, where it was the second run."""

UNKNOWN = "unknown"
"""Name of a GPU that nobody told."""

PREFIX = "capture-"


def run(path: Path) -> None:
    """Do the job in a folder; an error is written there and raised."""
    folder = JobFolder(path)
    try:
        if folder.first():  # the one under ncu may have any standard input, and belongs to this one's group
            end_with_parent()
        job = folder.job()
        if job.counters:
            with_counters(folder, job)
        else:
            from workbench.capture.reduced import without_counters

            without_counters(folder, job)
    except BaseException as error:
        folder.fail(error, by_work=False)
        raise


def end_with_parent() -> None:
    """End this process and all it started once whoever asked is gone: their end of standard input closes then.

    The captured call finds an empty standard input, lest it waits for words that never come.
    """
    asked = os.dup(0)
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)

    def wait() -> None:
        while os.read(asked, 1024):
            pass
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()


@contextlib.contextmanager
def work(folder: JobFolder) -> Iterator[None]:
    """What the captured call raises is written where it is raised: tools around it may make another error of it.

    A call that ends the process leaves the mark that it began.
    """
    folder.calling.touch()
    try:
        yield
    except BaseException as error:
        folder.fail(error, by_work=True)
        raise
    finally:
        folder.calling.unlink(missing_ok=True)


def prepare(folder: JobFolder, job: Job, index: int, seed: int | None = None) -> Prepared:
    """One case made ready and warmed up; what it is goes to its file."""
    request = job.requests[index]
    folder.report_progress("preparing", index, len(job.requests))
    with work(folder):
        adapter = adapter_for(request.target)
        configuration, digest = adapter.identity(request)  # before anything is compiled: an edit later is not what ran
        prepared = adapter.prepare(request, request.seed if seed is None else seed)
        prepared.call()
        synchronise()
    said = {
        "configuration": configuration,
        "source_digest": digest,
        "environment": surroundings(),
        "instrumented": prepared.instrumented is not None,
    }
    folder.write(f"case-{index}.json", said)
    return prepared


def instrument(folder: JobFolder, prepared: Prepared) -> Instrumented | None:
    """The instrumented build of a case, warmed up; None where it has none."""
    if prepared.instrumented is None:
        return None
    with work(folder):
        build = prepared.instrumented()
        build.call()
        synchronise()
    return build


def keep_stamps(folder: JobFolder, index: int, calls: Sequence[Stamped]) -> None:
    """Write the call of median makespan to the folder, whole or not at all, and which of the calls it is."""
    makespans = [one.makespan_us for one in calls]
    kept = makespans.index(median_low(makespans))
    unfinished = folder.path / f".timeline-{index}"
    unfinished.write_bytes(calls[kept].content)
    unfinished.replace(folder.path / f"timeline-{index}.npz")
    said = {"makespan_us": makespans[kept], "makespans_us": makespans, "kept": kept}
    folder.write(f"stamps-{index}.json", said)


def with_counters(folder: JobFolder, job: Job) -> None:
    """Profile all cases by nsight-python and write ``result.json``.

    Instrumented builds are profiled apart, with counters of one pass: Nsight Compute repeats a launch for each pass, so
    stamps are of the last pass, and other counters than its own would be of another launch.
    """
    import nsight

    total = len(job.requests)
    cases: dict[int, Prepared] = {}
    builds: dict[int, Instrumented | None] = {}
    stamps: dict[int, list[Stamped]] = defaultdict(list)

    def case(index: int) -> Prepared:
        if index not in cases:
            cases[index] = prepare(folder, job, index)
        return cases[index]

    def profiled() -> None:
        for index in range(total):
            prepared = case(index)
            folder.report_progress("profiling", index, total)
            with work(folder):
                with nsight.annotate(ANNOTATION.format(index)):
                    prepared.call()
                synchronise()

    def stamped() -> None:
        for index in range(total):
            if index not in builds:
                builds[index] = instrument(folder, case(index))
            if (build := builds[index]) is None:
                continue
            folder.report_progress("profiling the instrumented build", index, total)
            with work(folder):
                with nsight.annotate(STAMPED.format(index)):
                    build.call()
                stamps[index].append(build.read())
            keep_stamps(folder, index, stamps[index])

    folder.report_progress("starting ncu", 0, total)
    plain = _profile(nsight, folder, profiled, job.metrics, job.runs)
    found = [plain]
    if job.timeline and any(folder.needed(f"case-{index}.json")["instrumented"] for index in range(total)):
        folder.report_progress(STARTING_STAMPED, 0, total)
        found.append(_profile(nsight, folder, stamped, job.stamped_metrics, job.runs))
    if plain is None:  # a process under ncu that has nothing to profile
        return
    folder.report_progress("reading", total, total)
    from workbench.capture.report_file import read_report

    reports = [folder.path / one[1] for one in found if one is not None]
    kernels = [vars(kernel) for report in reports for kernel in read_report(report)]
    rows, report = plain
    said = {"rows": rows, "kernels": kernels, "report": report, "nsight": version("nsight-python")}
    folder.write("result.json", said)


def _profile(
    nsight: Any, folder: JobFolder, function: Callable[[], None], metrics: tuple[str, ...], runs: int
) -> tuple[list[dict[str, Any]], str] | None:
    """Rows and name of the report of a profiled function; None in a process under ncu that is to profile another."""
    kernel: Callable[..., Any] = nsight.analyze.kernel(
        runs=runs,
        metrics=list(metrics),
        combine_kernel_metrics=combination(metrics),
        thermal_mode="off",
        output_prefix=str(folder.path / PREFIX),
        **quiet(nsight),
    )
    results = kernel(function)()
    if results is None:
        return None
    rows = [
        {name: _plain(value) for name, value in row.items()} for row in results.to_dataframe().to_dict(orient="records")
    ]
    return rows, f"{PREFIX}ncu-output-{function.__name__}-0.ncu-rep"


def quiet(nsight: Any) -> dict[str, Any]:
    """The argument that silences nsight-python, which the two generations call by different names."""
    level = getattr(nsight, "VerbosityLevel", None)
    return {"output": "quiet"} if level is None else {"verbosity": level.SILENT}


def combination(metrics: tuple[str, ...]) -> Callable[[Any, Any], Any]:
    """How counters of several kernels in one range become one: totals are added, rates and shares are not a number."""
    adds = np.array([additive(name) for name in metrics])

    def combine(first: Any, second: Any) -> Any:
        return np.where(adds, np.asarray(first, float) + np.asarray(second, float), np.nan)

    return combine


def synchronise() -> None:
    """Wait for the GPU, where torch is what launches; without torch the annotated call has to wait by itself."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.synchronize()


def surroundings() -> dict[str, Any]:
    """What this process runs on, by the names of `workbench.records.Environment`."""
    from workbench.gpu import driver
    from workbench.records import Environment

    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        from workbench.measure.environment import environment_here

        here = environment_here()
    else:
        device = None if driver.probe().problem else driver.device()
        here = Environment(
            gpu=device.name if device else UNKNOWN, sms=device.sms if device else None, date=date.today()
        )
    return dict(here.model_dump(mode="json"))


def _plain(value: Any) -> Any:
    """A cell of a data frame as JSON has it."""
    if isinstance(value, (np.generic,)):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    try:
        json.dumps(value)
    except TypeError:
        return str(value)
    return value
