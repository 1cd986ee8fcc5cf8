"""The screen as files: plans as JSON, a trace for Chrome and Perfetto. Pictures are in ``svg``."""

from __future__ import annotations

import json
from collections.abc import Sequence

from workbench.schedule import DecodePlan, perfetto
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

    A policy is a process; see :mod:`workbench.schedule.perfetto`.
    """
    tracks = [perfetto.predicted_track(f"{side.key}: {side.title}", side.plan, side.spans, sms=sms) for side in sides]
    return perfetto.trace_json(tracks, {f"source {side.key}": side.metrics.source for side in sides})


def read_plans(document: str) -> dict[str, DecodePlan]:
    """The plans of a document that :func:`plans_json` wrote, by side; each is validated."""
    sides = json.loads(document)["sides"]
    return {side["key"]: DecodePlan.from_json(json.dumps(side["plan"])) for side in sides}
