"""The screen as files: plans as JSON, a trace for Chrome and Perfetto. Pictures are in ``svg``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from workbench.measure.timeline_export import measured_track
from workbench.schedule import DecodePlan, perfetto
from workbench.widgets.schedule.measured import Measured
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


def trace_json(sides: Sequence[Side], *, sms: int, measured: Mapping[str, Measured] | None = None) -> str:
    """The timelines as Trace Event JSON, which chrome://tracing and Perfetto open.

    What the model predicts of a policy is a process, and so is what was measured of it, right behind; see
    :mod:`workbench.schedule.perfetto`.
    """
    measured = measured or {}
    tracks, notes = [], {}
    for side in sides:
        title = f"{side.key}: {side.title}"
        tracks.append(perfetto.predicted_track(title, side.plan, side.spans, sms=sms))
        notes[f"source {side.key}"] = side.metrics.source
        if found := measured.get(side.key):
            tracks.append(measured_track(found.timeline, title, side.spans.cost))
            notes[f"source {side.key} measured"] = found.source
    return perfetto.trace_json(tracks, notes)


def read_plans(document: str) -> dict[str, DecodePlan]:
    """The plans of a document that :func:`plans_json` wrote, by side; each is validated."""
    sides = json.loads(document)["sides"]
    return {side["key"]: DecodePlan.from_json(json.dumps(side["plan"])) for side in sides}
