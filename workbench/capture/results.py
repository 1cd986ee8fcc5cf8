"""From what a capture process left to records in a store."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from workbench.capture.collect import ANNOTATION, UNKNOWN
from workbench.capture.failures import nothing_profiled
from workbench.capture.jobs import Job, JobFolder
from workbench.capture.requests import Request
from workbench.capture.stamps import Stamps, stamps_of
from workbench.errors import CaptureError
from workbench.measure.busy import BusyComparison
from workbench.records import Attachment, Environment, NsightRecord, Record, Store, TimingRecord
from workbench.records.documents import KernelLaunch, fault_of

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
    def agreement(self) -> BusyComparison | None:
        """Busy time of SMs by counters and by stamps of one launch of the instrumented kernel, where taken."""
        if not isinstance(self.record, NsightRecord) or not self.record.agreement:
            return None
        return BusyComparison.from_dict(self.record.agreement)

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

    Nothing is kept before all records are made, so a case that has none leaves the store as it was.

    Raises
    ------
    NothingProfiled
        A case has no counters.
    CaptureError
        The process left less than it should.
    RecordError
        The store cannot be written.
    """
    result = folder.needed("result.json")
    report = (folder.path / result["report"]).read_bytes() if keep_report and job.counters else None
    made: list[tuple[Record, tuple[Record, bytes] | None]] = []
    for index, request in enumerate(job.requests):
        said = folder.needed(f"case-{index}.json")
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
        if job.counters and ANNOTATION.format(index) not in {launch["annotation"] for launch in result["kernels"]}:
            raise nothing_profiled(request.label, folder.log_text())
        try:
            stamps = stamps_of(folder, index, request.label, result.get("kernels"), common)
            if job.counters:
                record: Record = _nsight(index, request, result, common, profiler, notes, report, stamps)
            else:
                record = _timing(request, result["rows"][index], common, stamps)
        except ValidationError as error:
            raise CaptureError(
                f"{request.label}: what the capture left makes no record: {fault_of(error)}.", folder.log_text()
            ) from None
        made.append((record, stamps.kept))
    found = []
    for record, kept in made:
        timeline = None if kept is None else store.add(*kept)
        found.append(Captured(record, store.add(record, report), timeline, seconds))
    return found


def _nsight(
    index: int,
    request: Request,
    result: dict[str, Any],
    common: dict[str, Any],
    profiler: str,
    notes: tuple[str, ...],
    report: bytes | None,
    stamps: Stamps,
) -> NsightRecord:
    name = ANNOTATION.format(index)
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
    return NsightRecord(
        **common,
        **stamps.named,
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
        agreement=stamps.agreement,
        notes=notes + stamps.notes,
    )


def _timing(request: Request, row: dict[str, Any], common: dict[str, Any], stamps: Stamps) -> TimingRecord:
    sets = row["sets"]
    method = REDUCED_METHOD.format(
        sets=sets, s="s" * (sets > 1), warm="" if sets > 1 else ", so the caches may hold what it reads"
    )
    # `request` and `kernels` are no fields of every timing; a record keeps what it does not know.
    extra: dict[str, Any] = {"request": request.digest, "kernels": row["kernels"], **stamps.named}
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
