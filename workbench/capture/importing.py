"""Reports of Nsight Compute made anywhere, into a store."""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev

from pydantic import ValidationError

from workbench.capture.report_file import KernelCounters, read_report
from workbench.errors import InvalidArgument
from workbench.records import Attachment, Environment, NsightRecord, Store, Workload
from workbench.records.documents import KernelLaunch, fault_of
from workbench.records.store import MAX_ATTACHMENT_BYTES

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
        A name cannot be one, the report has too many different kernels, or is too large to keep.
    """
    path = Path(path)
    kernels = read_report(path)
    groups: dict[tuple[object, ...], list[KernelCounters]] = {}
    for kernel in kernels:
        groups.setdefault((kernel.name, kernel.grid, kernel.block, kernel.gpu), []).append(kernel)
    if len(groups) > MAX_RECORDS:
        raise InvalidArgument(f"{path} has {len(groups):,} different kernels; at most {MAX_RECORDS:,} are imported.")
    if keep_report and (size := path.stat().st_size) > MAX_ATTACHMENT_BYTES:
        raise InvalidArgument(
            f"{path} has {size:,} bytes; a store keeps {MAX_ATTACHMENT_BYTES:,}. Import it with keep_report=False "
            "(--no-report)."
        )
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
    try:
        return NsightRecord(
            operator=operator or _operator(first.name),
            provider=provider,
            configuration={"kernel": first.name, "grid": list(first.grid), "block": list(first.block)},
            environment=Environment(gpu=first.gpu or "unknown", date=day),
            workload=Workload(case=case, parameters={}),
            method=METHOD,
            attachment=None if content is None else Attachment.of(content, ".ncu-rep"),
            metrics={name: mean(found) for name, found in values.items()},
            units={name: unit for name, unit in first.units.items() if name in values},
            deviations={name: stdev(found) for name, found in values.items() if len(found) > 1},
            runs=len(launches),
            kernels=(KernelLaunch(name=first.name, grid=first.grid, block=first.block, metrics={}),),
            agreement={},
        )
    except ValidationError as error:
        raise InvalidArgument(
            f"kernel {first.name[:100]!r} cannot be a record of operator {operator!r}, provider {provider!r}, case "
            f"{case[:100]!r}: {fault_of(error)}."
        ) from None


def _operator(kernel: str) -> str:
    """A kernel's name without its type, arguments and unnamed scopes, as records name operators."""
    bare = re.split(r"[<(]", re.sub(r"\(anonymous namespace\)|<unnamed>", "", kernel))[0].rpartition(" ")[2]
    return re.sub(r"[^a-z0-9_]+", "_", bare.lower()).lstrip("_0123456789")[:64] or "kernel"


def _word(text: str) -> str:
    """Text as a name that records take."""
    return re.sub(r"[^A-Za-z0-9._+=,()-]+", "-", text).lstrip("-._+=,()")[:100] or "report"
