"""The captures of a store: what Nsight Compute counted, and the reduced records made where it may not count."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from workbench import devices
from workbench.capture import SETS
from workbench.capture.metrics import DURATION
from workbench.errors import InvalidArgument, RecordError
from workbench.records import NsightRecord, Problem, Store, TimingRecord, decode
from workbench.records.files import Found, documents_below, read_limited
from workbench.records.layout import attachment_location, location
from workbench.records.store import MAX_DOCUMENT_BYTES
from workbench.widgets.profiles.units import Reading, in_base_unit
from workbench.widgets.profiles.work import Work, work_of

REDUCED = "Reduced capture"
"""How the method of a record begins that was captured without counters."""

KINDS = ("nsight-", "timing-")
"""How the names of documents begin that may be captures."""

NO_SET = "other"
REDUCED_SET = "reduced"


@dataclass(frozen=True, eq=False)
class Capture:
    """One capture.

    Attributes
    ----------
    path : Path
        File of the record.
    record : NsightRecord or TimingRecord
        The counters; the timing of a capture without them.
    """

    path: Path
    record: NsightRecord | TimingRecord

    @property
    def key(self) -> str:
        """Name of the record, which follows from its content: equal in every store."""
        return self.path.stem

    @property
    def counted(self) -> bool:
        """Whether there are hardware counters."""
        return isinstance(self.record, NsightRecord)

    @cached_property
    def readings(self) -> Mapping[str, Reading]:
        """Counters by name in their base units; empty for a reduced record."""
        record = self.record
        if not isinstance(record, NsightRecord):
            return {}
        return {
            name: in_base_unit(value, record.units.get(name, ""), record.deviations.get(name))
            for name, value in record.metrics.items()
        }

    @cached_property
    def work(self) -> Work | None:
        """Operations and bytes that the workload needs; None where they cannot be told."""
        return work_of(self.record)

    @property
    def runs(self) -> int | None:
        """How often the call was profiled; None where that is not known."""
        return self.record.runs if isinstance(self.record, NsightRecord) else None

    @property
    def isolated_ns(self) -> float | None:
        """Time of the kernel alone on cold caches, nanoseconds, by Nsight Compute."""
        found = self.readings.get(DURATION)
        return found.value if found is not None and found.unit == "ns" else None

    @property
    def replayed_us(self) -> float | None:
        """Median time of a call in a graph of calls, microseconds; of reduced records only."""
        return self.record.median_us if isinstance(self.record, TimingRecord) else None

    @cached_property
    def sets(self) -> tuple[str, ...]:
        """Sets of metrics that are here whole, but for names that the record says ncu does not know."""
        if not isinstance(self.record, NsightRecord):
            return (REDUCED_SET,)
        said = " ".join(self.record.notes)
        found = tuple(
            name
            for name, metrics in SETS.items()
            if DURATION in self.record.metrics
            and all(metric in self.record.metrics or metric in said for metric in metrics)
        )
        return found or (NO_SET,)

    @property
    def gpu(self) -> str:
        """Name the driver gives the GPU."""
        return self.record.environment.gpu

    @property
    def date(self) -> str:
        """ISO day."""
        return self.record.environment.date.isoformat()

    @property
    def policy(self) -> str:
        """Scheduling policy; "" where there is none."""
        return self.record.policy or ""

    @cached_property
    def parameters(self) -> dict[str, str]:
        """Configuration by parameter, each value as text."""
        return {name: value_text(value) for name, value in self.record.configuration.items()}

    @cached_property
    def configuration(self) -> str:
        """The configuration in one line: ``stages=3 warps=8``."""
        return " ".join(f"{name}={value}" for name, value in self.parameters.items())

    @property
    def has_report(self) -> bool:
        """Whether the record names a report of Nsight Compute."""
        attachment = self.record.attachment
        return attachment is not None and attachment.suffix == ".ncu-rep"

    @property
    def report(self) -> Path | None:
        """The report; it may have been removed since."""
        attachment = self.record.attachment
        if attachment is None or not self.has_report:
            return None
        return self.path.with_name(attachment_location(self.record, attachment).name)

    @property
    def kernels(self) -> tuple[str, ...]:
        """Names of the kernels that a call launches."""
        if isinstance(self.record, NsightRecord):
            return tuple(launch.name for launch in self.record.kernels)
        listed: Any = (self.record.model_extra or {}).get("kernels")
        launches = listed if isinstance(listed, list) else []
        return tuple(str(launch["name"]) for launch in launches if isinstance(launch, dict) and "name" in launch)


def value_text(value: Any) -> str:
    """A value of a configuration in a few characters."""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)


def short_gpu(name: str) -> str:
    """A GPU's short name where the catalogue has it, else the driver's without its maker."""
    try:
        return devices.gpu(name).name
    except InvalidArgument:  # a GPU that only records name
        return name.removeprefix("NVIDIA ")


def read_captures(store: Store) -> tuple[tuple[Capture, ...], tuple[str, ...]]:
    """All captures of a store, newest first, and what was skipped and why.

    Each document is read once and the index of rows is not asked, for rows have no counters: names say the kind, and
    a timing that is no reduced capture is passed over unread. Damaged files never hide the others: each becomes one of
    the words.
    """
    found: dict[str, Capture] = {}
    problems: list[str] = []
    for root in store.roots:
        for file in documents_below(root) if root.exists() else ():
            if isinstance(file, Problem):
                problems.append(str(file))
            elif file.path.name.startswith(KINDS) and file.relative not in found:
                try:
                    capture = _read(file)
                except RecordError as error:
                    problems.append(str(Problem(file.path, str(error))))
                else:
                    found |= {file.relative: capture} if capture is not None else {}
    newest = sorted(found.values(), key=lambda one: (one.date, one.key), reverse=True)
    return tuple(newest), tuple(problems)


def _read(file: Found) -> Capture | None:
    """The capture in a file; None for another timing.

    Raises
    ------
    RecordError
        It is damaged, or not where its content belongs.
    """
    content = read_limited(file.path, MAX_DOCUMENT_BYTES)
    if not file.path.name.startswith(KINDS[0]) and REDUCED.encode() not in content:
        return None
    record = decode(content)
    if isinstance(record, TimingRecord) and not (record.method or "").startswith(REDUCED):
        return None
    if str(expected := location(record, content)) != file.relative:
        raise RecordError(f"its place is {expected}; it was moved, renamed or edited")
    return Capture(file.path, record) if isinstance(record, (NsightRecord, TimingRecord)) else None


def varying(captures: Iterable[Capture]) -> tuple[str, ...]:
    """Parameters of the configuration whose values are not the same in all captures, those with most values first."""
    names: dict[str, set[str | None]] = {}
    listed = list(captures)
    for capture in listed:
        for name in capture.parameters:
            names.setdefault(name, set())
    for name, values in names.items():
        values.update(capture.parameters.get(name) for capture in listed)
    moving = [name for name, values in names.items() if len(values) > 1]
    return tuple(sorted(moving, key=lambda name: -len(names[name])))
