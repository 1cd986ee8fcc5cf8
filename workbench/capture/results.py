"""From what a capture process left to records in a store."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.capture.agreement import Agreement, compare
from workbench.capture.jobs import Job, JobFolder
from workbench.capture.requests import Request
from workbench.records import Attachment, Environment, NsightRecord, Record, Store, TimelineRecord, TimingRecord
from workbench.records.documents import KernelLaunch

if TYPE_CHECKING:
    import pandas as pd

METHOD = (
    "Nsight Compute: each kernel alone, its passes replayed, caches flushed before each, clocks not locked, no "
    "overlap with "
    "the kernels around it; not to be compared with times of a benchmark"
)
REDUCED_METHOD = (
    "Reduced capture, no hardware counters: median of replays of a CUDA graph of at least 24 calls that rotate over "
    "{sets} "
    "input set{s}{warm}; kernels by torch's profiler"
)


UNKNOWN = "unknown"
"""Name of a GPU that nobody told."""


@dataclass(frozen=True, eq=False)
class Captured:
    """One capture that is in the store.

    Attributes
    ----------
    record : NsightRecord or TimingRecord
        The counters; the timing of a capture without them.
    path : Path
        File of the record.
    timeline : Path or None
        File of the record of the in-kernel timeline, where it was taken.
    seconds : float
        How long the process took that this came from, start to end.
    fresh : bool
        False where the record was there already and nothing was run.
    """

    record: Record
    path: Path
    timeline: Path | None = None
    seconds: float = 0.0
    fresh: bool = True

    @property
    def metrics(self) -> dict[str, float]:
        """Counters by name; empty for a capture without."""
        return self.record.metrics if isinstance(self.record, NsightRecord) else {}

    @property
    def agreement(self) -> Agreement | None:
        """How counters and in-kernel stamps compare, where both were taken."""
        found = self.record.agreement if isinstance(self.record, NsightRecord) else {}
        return Agreement(**found) if found else None  # type: ignore[arg-type]

    @property
    def report(self) -> Path | None:
        """The report to open in Nsight Compute (``ncu-ui``), where it was kept."""
        from workbench.records.layout import attachment_location

        attachment = self.record.attachment
        return None if attachment is None else self.path.with_name(attachment_location(self.record, attachment).name)

    def to_frame(self) -> pd.DataFrame:
        """A row a metric: metric, value, unit, deviation (of the runs)."""
        import pandas as pd

        record = self.record
        units, deviations = (record.units, record.deviations) if isinstance(record, NsightRecord) else ({}, {})
        rows = [(name, value, units.get(name), deviations.get(name)) for name, value in self.metrics.items()]
        return pd.DataFrame(rows, columns=["metric", "value", "unit", "deviation"])


def store_results(
    folder: JobFolder,
    job: Job,
    store: Store,
    *,
    profiler: str,
    notes: tuple[str, ...],
    keep_report: bool,
    seconds: float,
) -> list[Captured]:
    """Keep what a process measured, a record a case; a timeline's record beside it.

    Raises
    ------
    RecordError
        The store cannot be written.
    """
    result = folder.read("result.json")
    report = (folder.path / result["report"]).read_bytes() if keep_report and job.counters else None
    found = []
    for index, request in enumerate(job.requests):
        said = folder.read(f"case-{index}.json")
        if said["environment"]["gpu"] == UNKNOWN and job.counters:  # a call without torch, but ncu knows
            said["environment"]["gpu"] = result["kernels"][0]["gpu"] or UNKNOWN
        common: dict[str, Any] = {
            "operator": request.operator,
            "provider": request.provider,
            "policy": request.policy,
            "configuration": said["configuration"],
            "environment": Environment.model_validate_json(json.dumps(said["environment"])),
            "workload": request.workload,
            "source_digest": said["source_digest"],
        }
        if job.counters:
            record: Record = _nsight(index, request, result, said, common, profiler, notes, report)
        else:
            record = _timing(request, result["rows"][index], common)
        timeline = _timeline(folder, index, said, common, store)
        path = store.add(record, report if job.counters else None)
        found.append(Captured(record, path, timeline, seconds))
    return found


def _nsight(
    index: int,
    request: Request,
    result: dict[str, Any],
    said: dict[str, Any],
    common: dict[str, Any],
    profiler: str,
    notes: tuple[str, ...],
    report: bytes | None,
) -> NsightRecord:
    name = f"case{index}"
    rows = [row for row in result["rows"] if row["Annotation"] == name]
    launches = [launch for launch in result["kernels"] if launch["annotation"] == name]
    one_run = launches[: max(len(launches) // request.runs, 1)]
    metrics = {row["Metric"]: float(row["AvgValue"]) for row in rows if row["AvgValue"] is not None}
    units: dict[str, str] = {}
    for launch in one_run:
        units |= {metric: unit for metric, unit in launch["units"].items() if metric in metrics}
    several = len(one_run) > 1
    if several and (left_out := sorted({row["Metric"] for row in rows} - metrics.keys())):
        notes += (f"{len(one_run)} kernels: totals are added; of each kernel alone: {', '.join(left_out)}",)
    kernels = tuple(
        KernelLaunch(
            name=launch["name"],
            grid=tuple(launch["grid"]),
            block=tuple(launch["block"]),
            metrics={m: v for m, v in launch["metrics"].items() if m in request.metrics} if several else {},
        )
        for launch in one_run
    )
    agreement = compare(metrics, np.asarray(said["busy_ns"])) if "busy_ns" in said else None
    return NsightRecord(
        **common,
        method=METHOD,
        attachment=None if report is None else Attachment.of(report, ".ncu-rep"),
        metrics=metrics,
        units=units,
        deviations={
            row["Metric"]: float(row["StdDev"])
            for row in rows
            if row["StdDev"] is not None and math.isfinite(row["StdDev"]) and row["Metric"] in metrics
        },
        runs=request.runs,
        kernels=kernels,
        profiler=profiler,
        request=request.digest,
        agreement=agreement.to_dict() if agreement else {},
        notes=notes,
    )


def _timing(request: Request, row: dict[str, Any], common: dict[str, Any]) -> TimingRecord:
    sets = row["sets"]
    method = REDUCED_METHOD.format(
        sets=sets, s="s" * (sets > 1), warm="" if sets > 1 else ", so the caches may hold what it reads"
    )
    # `request` and `kernels` are no fields of every timing; a record keeps what it does not know.
    extra: dict[str, Any] = {"request": request.digest, "kernels": row["kernels"]}
    return TimingRecord(
        **common,
        **extra,
        method=method,
        samples_us=tuple(row["samples_us"]),
        median_us=row["median_us"],
        low_us=row["low_us"],
        high_us=row["high_us"],
        seed=request.seed,
    )


def _timeline(folder: JobFolder, index: int, said: dict[str, Any], common: dict[str, Any], store: Store) -> Path | None:
    file = folder.path / f"timeline-{index}.npz"
    if not file.is_file():
        return None
    content, makespans = file.read_bytes(), tuple(said["makespans_us"])
    extra: dict[str, Any] = {"makespans_us": makespans, "makespan_us": sorted(makespans)[(len(makespans) - 1) // 2]}
    record = TimelineRecord(
        **common,
        **extra,
        method="Stamps of the instrumented kernel, each call launched alone; the call of median makespan",
        attachment=Attachment.of(content, ".npz"),
    )
    return store.add(record, content)
