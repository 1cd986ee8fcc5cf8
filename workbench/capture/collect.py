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
    }
    folder.write(f"case-{index}.json", said)
    return prepared


def made_ready(folder: JobFolder, job: Job, index: int) -> tuple[Prepared, Instrumented | None]:
    """One case made ready, with its instrumented build where it has one and that is asked for; both warmed up."""
    prepared = prepare(folder, job, index)
    if not job.timeline or prepared.instrumented is None:
        return prepared, None
    with work(folder):
        instrumented = prepared.instrumented()
        instrumented.call()
        synchronise()
    return prepared, instrumented


def keep_stamps(folder: JobFolder, index: int, calls: Sequence[Stamped]) -> None:
    """Write the call of median makespan to the folder, whole or not at all."""
    makespans = [one.makespan_us for one in calls]
    kept = calls[makespans.index(median_low(makespans))]
    unfinished = folder.path / f".timeline-{index}"
    unfinished.write_bytes(kept.content)
    unfinished.replace(folder.path / f"timeline-{index}.npz")
    folder.write(f"stamps-{index}.json", {"makespan_us": kept.makespan_us, "makespans_us": makespans})


def with_counters(folder: JobFolder, job: Job) -> None:
    """Profile all cases by nsight-python and write ``result.json``."""
    import nsight

    ready: dict[int, tuple[Prepared, Instrumented | None]] = {}

    def profiled() -> None:
        for index in range(len(job.requests)):
            if index not in ready:
                ready[index] = made_ready(folder, job, index)
            prepared, instrumented = ready[index]
            folder.report_progress("profiling", index, len(job.requests))
            with work(folder):
                with nsight.annotate(ANNOTATION.format(index)):
                    prepared.call()
                synchronise()
            if instrumented is not None:
                with work(folder), nsight.annotate(STAMPED.format(index)):
                    instrumented.call()
                keep_stamps(folder, index, [instrumented.read()])

    folder.report_progress("starting ncu", 0, len(job.requests))
    kernel: Callable[..., Any] = nsight.analyze.kernel(
        runs=job.runs,
        metrics=list(job.metrics),
        combine_kernel_metrics=combination(job.metrics),
        thermal_mode="off",
        output_prefix=str(folder.path / PREFIX),
        **quiet(nsight),
    )
    results = kernel(profiled)()
    if results is None:  # this was the process under ncu, and not the call to profile
        return
    folder.report_progress("reading", len(job.requests), len(job.requests))
    from workbench.capture.report_file import read_report

    report = folder.path / f"{PREFIX}ncu-output-{profiled.__name__}-0.ncu-rep"
    kernels = [vars(kernel) for kernel in read_report(report)]
    rows = [
        {name: _plain(value) for name, value in row.items()} for row in results.to_dataframe().to_dict(orient="records")
    ]
    nsight_version = version("nsight-python")
    folder.write("result.json", {"rows": rows, "kernels": kernels, "report": report.name, "nsight": nsight_version})


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
