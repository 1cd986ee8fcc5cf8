"""Reports of Nsight Compute made anywhere, into a store."""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev

from workbench.capture.report_file import KernelCounters, read_report
from workbench.errors import InvalidArgument
from workbench.records import Attachment, Environment, NsightRecord, Store, Workload
from workbench.records.documents import KernelLaunch

METHOD = "Nsight Compute, imported report; how it was made is in the report"
MAX_RECORDS = 1000


def import_report(
    path: str | os.PathLike[str],
    *,
    store: Store | str | os.PathLike[str] | None = None,
    operator: str | None = None,
    provider: str = "imported",
    case: str | None = None,
    keep_report: bool = True,
) -> list[Path]:
    """Make records of a report; needs no GPU.

    Launches of one kernel with one grid and block become one record: the mean of each metric, and the deviation.

    Parameters
    ----------
    path
        A .ncu-rep file, of Nsight Compute's window, its command line or anything else.
    store
        Where records go; default: your own.
    operator
        Under which operator they are kept; default: the kernel's name.
    provider
        Whose implementation.
    case
        Name of the workload; default: the file's name.
    keep_report
        Keep a copy of the report beside each record.

    Returns
    -------
    list of Path
        Files of the records, in the order of the kernels' first launches.

    Raises
    ------
    ReportDamaged
        The file is empty, cut off, or no report.
    MissingDependency
        NVIDIA's reader is not installed.
    InvalidArgument
        A name cannot be one, or the report has too many different kernels.
    """
    path = Path(path)
    kernels = read_report(path)
    groups: dict[tuple[object, ...], list[KernelCounters]] = {}
    for kernel in kernels:
        groups.setdefault((kernel.name, kernel.grid, kernel.block, kernel.gpu), []).append(kernel)
    if len(groups) > MAX_RECORDS:
        raise InvalidArgument(f"{path} has {len(groups):,} different kernels; at most {MAX_RECORDS:,} are imported.")
    content = path.read_bytes() if keep_report else None
    day = datetime.date.fromtimestamp(path.stat().st_mtime)
    opened = store if isinstance(store, Store) else Store(store)
    records = [
        _record(launches, content, day, operator, provider, case or _word(path.stem)) for launches in groups.values()
    ]
    return [opened.add(record, content) for record in records]


def _record(
    launches: Sequence[KernelCounters],
    content: bytes | None,
    day: datetime.date,
    operator: str | None,
    provider: str,
    case: str,
) -> NsightRecord:
    first = launches[0]
    values = {name: [one.metrics[name] for one in launches if name in one.metrics] for name in first.metrics}
    short = re.sub(r"[^a-z0-9_]+", "_", re.split(r"[<(]", first.name)[0].rpartition(" ")[2].lower()).lstrip(
        "_0123456789"
    )
    try:
        return NsightRecord(
            operator=operator or short[:64] or "kernel",
            provider=provider,
            configuration={"kernel": first.name, "grid": list(first.grid), "block": list(first.block)},
            environment=Environment(gpu=first.gpu or "unknown", date=day),
            workload=Workload(case=case, parameters={}),
            method=METHOD,
            attachment=None if content is None else Attachment.of(content, ".ncu-rep"),
            metrics={name: fmean(found) for name, found in values.items()},
            units={name: unit for name, unit in first.units.items() if name in values},
            deviations={name: stdev(found) for name, found in values.items() if len(found) > 1},
            runs=len(launches),
            kernels=(KernelLaunch(name=first.name, grid=first.grid, block=first.block, metrics={}),),
            agreement={},
        )
    except ValueError as error:
        raise InvalidArgument(
            f"a record cannot have operator {operator!r}, provider {provider!r} and case {case!r}: {error}"
        ) from None


def _word(text: str) -> str:
    """Text as a name that records take."""
    return re.sub(r"[^A-Za-z0-9._+=,()-]+", "-", text).lstrip("-._+=,()")[:100] or "report"
