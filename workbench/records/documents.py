"""What one record says: one observation of one kind, as a document of its own.

A document is frozen, checked when it is made and when it is read, and keeps the fields it does not know: what a newer
version wrote survives being read and written by this one. A field added later is optional and has a default, and a
default is not written, so an old document keeps its digest. Only a change of a field's meaning raises
`SCHEMA_VERSION`.
"""

from __future__ import annotations

import hashlib
import json
from statistics import median
from typing import Annotated, Any, Literal, Self

from pydantic import (
    Discriminator,
    Field,
    JsonValue,
    Tag,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from workbench.errors import RecordError
from workbench.records.parts import (
    DIGEST,
    Attachment,
    ClockReading,
    Count,
    Environment,
    Microseconds,
    Name,
    Part,
    Provenance,
    Workload,
)

SCHEMA_VERSION = 1

ROUNDING_US = 0.001
"""Times are written with this step, microseconds; a median may differ from that of its samples by so much."""


class Record(Part):
    """What every kind has. A document of a kind that this version does not know is read as one of these."""

    schema_version: Annotated[int, Field(ge=1)] = SCHEMA_VERSION
    kind: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
    """What was observed; it selects the class."""
    operator: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
    """Such as "attention_decode"."""
    provider: Name
    """Whose implementation: "cuda" and "triton" are ours, "read" a kernel that only reads the same bytes."""
    environment: Environment
    workload: Workload
    policy: str | None = None
    """Scheduling policy of the task map, where there is one."""
    configuration: Annotated[dict[str, JsonValue], Field(default_factory=dict)]
    """How the implementation was built and launched, by its own names."""
    source_digest: Annotated[str, Field(pattern=DIGEST)] | None = None
    """SHA-256 over the kernel's source and headers; None where it is not known."""
    method: str | None = None
    """How it was observed, in a sentence."""
    attachment: Attachment | None = None
    """The side file, if the kind has one."""

    def encode(self) -> bytes:
        """The document as it is kept: one line of JSON with sorted keys.

        Raises
        ------
        RecordError
            A value that JSON does not have, such as an infinite number in a field of one's own.
        """
        content = {
            **self.model_dump(mode="json", exclude_defaults=True),
            "schema_version": self.schema_version,
            "kind": self.kind,
        }
        try:
            text = json.dumps(content, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
            return text.encode() + b"\n"
        except (ValueError, RecursionError) as error:
            raise RecordError(f"The record cannot be written as JSON: {error}. Give finite numbers and text.") from None

    @property
    def configuration_digest(self) -> str:
        """Twelve hexadecimal digits that stand for provider, policy and configuration."""
        values = [self.provider, self.policy, self.configuration]
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:12]


class TimingRecord(Record):
    """How long a call takes."""

    kind: Literal["timing"] = "timing"
    samples_us: Annotated[tuple[Microseconds, ...], Field(min_length=1)]
    """Every sample, microseconds a call, in the order taken."""
    median_us: Microseconds
    low_us: Microseconds
    high_us: Microseconds
    """Ends of the bootstrap interval of the median, microseconds."""
    level: Annotated[float, Field(gt=0, lt=1)] = 0.95
    """Confidence of the interval."""
    rel_error: Annotated[float, Field(ge=0)] | None = None
    """Norm of the difference from float64 on the same operands, over float64's norm."""
    error_of: str | None = None
    """What `rel_error` was taken from where it was another variant of the same case; None: from this one."""
    seed: Count | None = None
    """Of the random inputs."""
    clock_readings: tuple[ClockReading, ...] = ()
    """Before, during (lowest and median SM clock) and after the timed work."""
    throttled: tuple[str, ...] = ()
    """What held the clocks down while it was timed; empty where nothing did or they could not be read."""
    notes: str | None = None
    """What else the reader of the figure has to know, such as "cache gathered to a dense one before timing"."""

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if abs(median(self.samples_us) - self.median_us) > ROUNDING_US:
            raise ValueError(f"median_us is {self.median_us}, the samples' median {median(self.samples_us)}")
        if not self.low_us - ROUNDING_US <= self.median_us <= self.high_us + ROUNDING_US:
            raise ValueError(f"median_us {self.median_us} is outside its interval {self.low_us} to {self.high_us}")
        return self


class ResourcesRecord(Record):
    """What a compiled kernel needs of an SM; sizes in bytes."""

    kind: Literal["resources"] = "resources"
    arch: str
    """Compiler target, such as "sm_90a"."""
    registers: Count
    """32-bit registers a thread."""
    shared_bytes: Count
    """Shared memory a CTA, static and dynamic, without the driver's reserve."""
    threads: Count
    """Threads a CTA."""
    ctas_per_sm: Count
    """CTAs that fit an SM."""
    stack_bytes: Count = 0
    spill_store_bytes: Count | None = None
    spill_load_bytes: Count | None = None
    code_bytes: Count | None = None
    """Machine code."""


class TimelineRecord(Record):
    """When each descriptor ran and where; the arrays are in the attachment (.npz)."""

    kind: Literal["timeline"] = "timeline"
    attachment: Attachment
    makespan_us: Microseconds | None = None
    """From the first stamp of the call that is kept to its last, microseconds."""
    makespans_us: tuple[Microseconds, ...] = ()
    """The same of every call that was stamped, in the order run."""
    call_us: Microseconds | None = None
    """Median time of a call of the plain kernel, without stamps, in the same run."""
    stamped_call_us: Microseconds | None = None
    """Median time of a call of the kernel that writes stamps."""


class KernelLaunch(Part):
    """One kernel of a profiled call."""

    name: str
    grid: tuple[Count, ...] = ()
    """CTAs in x, y and z."""
    block: tuple[Count, ...] = ()
    """Threads a CTA in x, y and z."""
    metrics: Annotated[dict[str, float], Field(default_factory=dict)]
    """Its own values, where the call launched several kernels."""


class NsightRecord(Record):
    """What Nsight Compute counted; the attachment, if any, is its report (.ncu-rep)."""

    kind: Literal["nsight"] = "nsight"
    metrics: Annotated[dict[str, float], Field(min_length=1)]
    """Value of each metric by Nsight Compute's name, in its base unit; the mean of the runs."""
    units: Annotated[dict[str, str], Field(default_factory=dict)]
    """Unit of each metric that has one."""
    deviations: Annotated[dict[str, float], Field(default_factory=dict)]
    """Standard deviation over the runs; absent for a single run."""
    runs: Count | None = None
    """How often the call was profiled."""
    kernels: tuple[KernelLaunch, ...] = ()
    """The launches of one run, in order."""
    profiler: str | None = None
    """Tools, such as "ncu 2025.3.1.0, nsight-python 0.9.6"."""
    request: str | None = None
    """Digest of what was asked for, by which a batch knows what it has."""
    agreement: Annotated[dict[str, JsonValue], Field(default_factory=dict)]
    """How the counters and the in-kernel stamps of one configuration compare, where both were taken."""
    notes: tuple[str, ...] = ()
    """What else the reader has to know, such as metrics that could not be had."""


class ReferenceRecord(Record):
    """A figure that somebody else measured."""

    kind: Literal["reference"] = "reference"
    provenance: Provenance
    median_us: Microseconds
    min_us: Microseconds | None = None
    """Fastest sample, microseconds."""
    rel_error: Annotated[float, Field(ge=0)] | None = None
    """Relative to float64."""
    max_abs_error: Annotated[float, Field(ge=0)] | None = None
    """Largest absolute difference from float64."""


KINDS: dict[str, type[Record]] = {
    "timing": TimingRecord,
    "resources": ResourcesRecord,
    "timeline": TimelineRecord,
    "nsight": NsightRecord,
    "reference": ReferenceRecord,
}

_OTHER = "other"


def _kind_of(value: Any) -> str:
    kind = value.get("kind") if isinstance(value, dict) else None
    return kind if isinstance(kind, str) and kind in KINDS else _OTHER


_ANY_RECORD: TypeAdapter[Record] = TypeAdapter(
    Annotated[
        Annotated[TimingRecord, Tag("timing")]
        | Annotated[ResourcesRecord, Tag("resources")]
        | Annotated[TimelineRecord, Tag("timeline")]
        | Annotated[NsightRecord, Tag("nsight")]
        | Annotated[ReferenceRecord, Tag("reference")]
        | Annotated[Record, Tag(_OTHER)],
        Discriminator(_kind_of),
    ]
)


def decode(content: bytes) -> Record:
    """Read a document; its kind selects the class.

    Parameters
    ----------
    content
        JSON in UTF-8.

    Returns
    -------
    Record
        Of the class of its kind, or a plain `Record` for a kind of a newer version.

    Raises
    ------
    RecordError
        It is no such document; the message names the field.
    """
    try:
        record = _ANY_RECORD.validate_json(content)
    except ValidationError as error:
        raise RecordError(f"it is no record: {fault_of(error)}") from None
    record.encode()  # whatever opens can be written again
    return record


def fault_of(error: ValidationError) -> str:
    """The first thing that is wrong with a document, in one line: the field and what it should be."""
    fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(str(part) for part in fault["loc"] if part not in {*KINDS, _OTHER})
    return f"{place}: {fault['msg']}" if place else str(fault["msg"])
