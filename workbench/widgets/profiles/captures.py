"""The captures of a store: what Nsight Compute counted, and the reduced records made where it may not count."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from workbench.capture import SETS
from workbench.capture.metrics import DURATION
from workbench.errors import RecordWarning
from workbench.records import NsightRecord, Store, TimingRecord
from workbench.widgets.profiles.units import Reading, in_base_unit
from workbench.widgets.profiles.work import Work, work_of

REDUCED = "Reduced capture"
"""How the method of a record begins that was captured without counters."""

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
        from workbench.records.layout import attachment_location

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


def is_reduced(record: object) -> bool:
    """Whether a record is a capture without counters."""
    return isinstance(record, TimingRecord) and (record.method or "").startswith(REDUCED)


def read_captures(store: Store) -> tuple[tuple[Capture, ...], tuple[str, ...]]:
    """All captures of a store, newest first, and what was skipped and why.

    Damaged files never hide the others: each becomes one of the words.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecordWarning)  # the same is in `store.problems`, without the first-one-only
        found = [
            Capture(path, record)
            for path, record in store.records(kind=("nsight", "timing"))
            if isinstance(record, NsightRecord) or (isinstance(record, TimingRecord) and is_reduced(record))
        ]
    problems = tuple(str(problem) for problem in store.problems)
    return tuple(sorted(found, key=lambda one: (one.date, one.key), reverse=True)), problems


def varying(captures: Iterable[Capture]) -> tuple[str, ...]:
    """Parameters of the configuration whose values are not the same in all captures, in order of appearance."""
    names: dict[str, set[str | None]] = {}
    listed = list(captures)
    for capture in listed:
        for name in capture.parameters:
            names.setdefault(name, set())
    for name, values in names.items():
        values.update(capture.parameters.get(name) for capture in listed)
    return tuple(name for name, values in names.items() if len(values) > 1)
