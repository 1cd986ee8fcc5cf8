"""Timelines as records: the document, its side file, and the way back."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from workbench.errors import RecordError, TimelineError
from workbench.measure.busy import comparison_kept
from workbench.measure.timeline import Timeline
from workbench.records import Attachment, Environment, Record, Store, TimelineRecord, Workload, is_alone

OPERATOR = "attention_decode"
PROVIDER = "cuda"

METHOD = (
    "Stamps of the instrumented kernel in a CUDA graph of calls that rotate over input sets; KV caches together exceed "
    "the L2 cache; the call of median makespan is kept"
)


def timeline_record(
    timeline: Timeline,
    *,
    environment: Environment,
    case: str,
    cache: str,
    parameters: Mapping[str, Any],
    configuration: Mapping[str, Any],
    makespans_us: Sequence[float],
    call_us: float | None = None,
    stamped_call_us: float | None = None,
    source_digest: str | None = None,
) -> tuple[TimelineRecord, bytes]:
    """The record of a timeline and its side file, for :meth:`Store.add`.

    Parameters
    ----------
    timeline : Timeline
    environment : Environment
        What it holds for.
    case, cache, parameters
        The workload: its name, the cache type, and whatever else defines it.
    configuration
        How the kernel was built and launched.
    makespans_us
        Of every stamped call, microseconds.
    call_us, stamped_call_us
        Median time of a call of the plain and of the instrumented kernel in the same run, microseconds.
    source_digest
        SHA-256 over the kernel's source and headers.
    """
    content = timeline.to_npz()
    record = TimelineRecord(
        operator=OPERATOR,
        provider=PROVIDER,
        policy=timeline.plan.policy,
        configuration=dict(configuration),
        environment=environment,
        workload=Workload(case=case, dtype=cache, parameters=dict(parameters)),
        source_digest=source_digest,
        method=METHOD,
        attachment=Attachment.of(content, ".npz"),
        makespan_us=timeline.makespan_us,
        makespans_us=tuple(makespans_us),
        call_us=call_us,
        stamped_call_us=stamped_call_us,
    )
    return record, content


def read_timeline(store: Store, path: str | os.PathLike[str]) -> tuple[TimelineRecord, Timeline]:
    """A timeline's document and the timeline itself, given the document's file (column ``path`` of ``Store.query``).

    Raises
    ------
    RecordError
        The record or its side file cannot be read.
    TimelineError
        It is no record of a timeline, or the stamps in it contradict the plan.
    """
    record = store.read(path)
    if not isinstance(record, TimelineRecord):
        raise TimelineError(f"{path} is a {record.kind} record. Give one of kind timeline.")
    try:
        return record, Timeline.from_arrays(store.arrays(path))
    except TimelineError as error:
        raise TimelineError(f"{path}: {error}") from None


def timelines_beside(
    store: Store, files: Iterable[Path], record: Record
) -> tuple[list[tuple[Path, TimelineRecord]], list[str]]:
    """Those files that are timelines of a record's workload, documents only; and what is wrong with others."""
    found, problems = [], []
    for file in files:
        try:
            document = store.read(file)
        except RecordError as error:
            problems.append(str(error))
            continue
        if isinstance(document, TimelineRecord) and document.workload == record.workload:
            found.append((file, document))
    return found, problems


def own_timeline(
    store: Store, beside: Iterable[tuple[Path, TimelineRecord]], record: Record
) -> tuple[Path, TimelineRecord, Timeline] | None:
    """The timeline of the launch that a capture profiled, out of those beside it; None where it is not there.

    A capture names the stamps that were taken with it (``stamps``, SHA-256 of the side file). Records from before that
    keep what was compared, by which the launch is found among those of the same process.
    """
    named, agreement = getattr(record, "stamps", None), getattr(record, "agreement", {})

    def may_be(document: TimelineRecord) -> bool:
        if named:
            return bool(document.attachment.sha256 == named)
        return bool(agreement) and is_alone(document.method) and document.environment == record.environment

    for path, candidate in beside:
        if may_be(candidate):
            with contextlib.suppress(RecordError, TimelineError):  # a damaged one is nobody's
                document, timeline = read_timeline(store, path)
                if named or comparison_kept(agreement, timeline, sms=record.environment.sms) is not None:
                    return path, document, timeline
    return None
