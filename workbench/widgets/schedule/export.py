"""The screen as files: plans as JSON, a trace for Chrome and Perfetto. Pictures are in ``svg``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from workbench.schedule import DecodePlan
from workbench.widgets.schedule.side import Side

PLANS_FORMAT = "workbench.explorer-plans"


def plans_json(sides: Sequence[Side]) -> str:
    """Plans and metrics of all sides as one JSON document.

    Each plan is what :meth:`DecodePlan.to_json` writes, so that ``DecodePlan.from_json(json.dumps(plan))`` reads it.
    """
    document = {
        "format": PLANS_FORMAT,
        "version": 1,
        "sides": [
            {
                "key": side.key,
                "plan": json.loads(side.plan.to_json()),
                "cost_model": side.spans.cost.to_dict(),
                "metrics": side.metrics.to_dict(),
            }
            for side in sides
        ],
    }
    return json.dumps(document, separators=(",", ":"))


def trace_json(sides: Sequence[Side], *, sms: int) -> str:
    """The predicted timelines as Trace Event JSON, which chrome://tracing and Perfetto open.

    A policy is a process, a resident CTA (slot) a thread, a descriptor a complete event in microseconds from the
    start of the first CTA; the merge is an event of a thread of its own.
    """
    events: list[dict[str, Any]] = []
    for process, side in enumerate(sides, 1):
        events += _names(process, side, sms)
        events += _chunks(process, side)
        m = side.metrics
        if m.merge_us:
            merge = {"name": "merge", "cat": "merge", "ph": "X", "pid": process, "tid": side.plan.num_ctas}
            events.append({**merge, "ts": m.bins_us, "dur": m.merge_us, "args": {"max_chunks": m.max_chunks}})
    sources = {f"source {side.key}": side.metrics.source for side in sides}
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns", "otherData": sources}, separators=(",", ":"))


def _names(process: int, side: Side, sms: int) -> list[dict[str, Any]]:
    """Metadata events that name the process and its threads."""

    def name(kind: str, thread: int, words: str) -> dict[str, Any]:
        return {"name": kind, "ph": "M", "pid": process, "tid": thread, "args": {"name": words}}

    used = sorted(set(side.spans.slot[side.plan.cta].tolist()))
    merge = [name("thread_name", side.plan.num_ctas, "merge")] if side.metrics.merge_us else []
    return [
        name("process_name", 0, f"{side.key}: {side.title} (predicted)"),
        *(name("thread_name", slot, f"CTA {slot}, SM {slot % sms} assumed") for slot in used),
        *merge,
    ]


def _chunks(process: int, side: Side) -> list[dict[str, Any]]:
    plan, spans = side.plan, side.spans
    columns = zip(
        plan.descriptors.tolist(),
        spans.slot[plan.cta].tolist(),
        (spans.start_ns / 1e3).tolist(),
        ((spans.end_ns - spans.start_ns) / 1e3).tolist(),
        (spans.foot_ns / 1e3).tolist(),
        strict=True,
    )
    fields = plan.descriptors.dtype.names or ()
    return [
        {
            "name": f"request {row[fields.index('request')]}",
            "cat": "chunk",
            "ph": "X",
            "pid": process,
            "tid": slot,
            "ts": start,
            "dur": duration,
            "args": {**dict(zip(fields, row, strict=True)), "fixed_us": fixed},
        }
        for row, slot, start, duration, fixed in columns
    ]


def read_plans(document: str) -> dict[str, DecodePlan]:
    """The plans of a document that :func:`plans_json` wrote, by side; each is validated."""
    sides = json.loads(document)["sides"]
    return {side["key"]: DecodePlan.from_json(json.dumps(side["plan"])) for side in sides}
