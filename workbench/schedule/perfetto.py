"""Timelines of plans as Trace Event JSON, which chrome://tracing and Perfetto open.

A timeline is a process, a resident CTA (slot) a thread, a descriptor a complete event; times in microseconds from the
start of the first CTA. Predicted and measured timelines are written alike, so one file can hold both.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.schedule.plan import DecodePlan
from workbench.schedule.timing import Spans

Event = dict[str, Any]


@dataclass(frozen=True)
class Merge:
    """Adding up the pieces of a request: on which thread, from when to when, nanoseconds."""

    thread: int
    start_ns: int
    end_ns: int
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Track:
    """One timeline of a trace.

    Attributes
    ----------
    title : str
    plan : DecodePlan
    spans : Spans
        Predicted or measured.
    threads : mapping of int to str
        Name of each thread: of the slots that are used, and of a thread for merges where it has one of its own.
    merges : sequence of Merge
    columns : mapping of str to int64 array [num_descriptors]
        More times of each descriptor, nanoseconds, shown in microseconds.
    """

    title: str
    plan: DecodePlan
    spans: Spans
    threads: Mapping[int, str]
    merges: Sequence[Merge] = ()
    columns: Mapping[str, npt.NDArray[np.int64]] = field(default_factory=dict)


def predicted_track(title: str, plan: DecodePlan, spans: Spans, *, sms: int) -> Track:
    """The timeline that the cost model predicts; its one merge has a thread of its own behind the slots."""
    threads = {slot: f"CTA {slot}, SM {slot % sms} assumed" for slot in np.unique(spans.slot[plan.cta]).tolist()}
    merges = []
    if spans.merge_ns:
        threads[plan.num_ctas] = "merge"
        details = {"max_chunks": int(plan.chunk_counts.max(initial=0))}
        merges.append(Merge(plan.num_ctas, spans.bins_ns, spans.makespan_ns, details))
    return Track(f"{title} (predicted)", plan, spans, threads, merges)


def trace_json(tracks: Iterable[Track], notes: Mapping[str, str] | None = None) -> str:
    """The timelines as one document.

    Parameters
    ----------
    tracks : iterable of Track
    notes : mapping of str to str, optional
        Kept beside the events, such as where the times come from.
    """
    events: list[Event] = []
    for process, track in enumerate(tracks, 1):
        events += _names(process, track)
        events += _descriptors(process, track)
        events += [
            _complete("merge", "merge", process, m.thread, m.start_ns, m.end_ns, dict(m.details)) for m in track.merges
        ]
    document = {"traceEvents": events, "displayTimeUnit": "ns", "otherData": dict(notes or {})}
    return json.dumps(document, separators=(",", ":"))


def _names(process: int, track: Track) -> list[Event]:
    """Metadata events that name the process and its threads."""

    def name(kind: str, thread: int, words: str) -> Event:
        return {"name": kind, "ph": "M", "pid": process, "tid": thread, "args": {"name": words}}

    return [
        name("process_name", 0, track.title),
        *(name("thread_name", thread, words) for thread, words in track.threads.items()),
    ]


def _descriptors(process: int, track: Track) -> list[Event]:
    rows = track.plan.descriptors
    fields = rows.dtype.names or ()
    names = [*fields, "fixed_us", *(f"{name.removesuffix('_ns')}_us" for name in track.columns)]
    times = [track.spans.foot_ns / 1e3, *(values / 1e3 for values in track.columns.values())]
    values = [[*row, *more] for row, *more in zip(rows.tolist(), *(column.tolist() for column in times), strict=True)]
    places = zip(
        values,
        track.spans.slot[track.plan.cta].tolist(),
        track.spans.start_ns.tolist(),
        track.spans.end_ns.tolist(),
        strict=True,
    )
    at = fields.index("request")
    return [
        _complete(f"request {row[at]}", "chunk", process, slot, start, end, dict(zip(names, row, strict=True)))
        for row, slot, start, end in places
    ]


def _complete(
    name: str, category: str, process: int, thread: int, start_ns: int, end_ns: int, details: dict[str, Any]
) -> Event:
    place = {"name": name, "cat": category, "ph": "X", "pid": process, "tid": thread}
    return {**place, "ts": start_ns / 1e3, "dur": (end_ns - start_ns) / 1e3, "args": details}
