"""What the browser is sent: one frame holds everything that must agree, so that no number on screen is stale."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from workbench import devices
from workbench.errors import WorkbenchError
from workbench.schedule.problem import TILES
from workbench.widgets import text
from workbench.widgets.schedule.batches import PRESETS
from workbench.widgets.schedule.failure import Failure
from workbench.widgets.schedule.panel import LANES, ORDERS, UNITS
from workbench.widgets.schedule.scene import SCALES
from workbench.widgets.schedule.sentence import HEADINGS, PARTS
from workbench.widgets.schedule.session import Session
from workbench.widgets.schedule.side import Side, policy_title
from workbench.widgets.schedule.state import METRICS, PARAMETERS, RANGES
from workbench.widgets.schedule.summary import HEADINGS as MEASURED_HEADINGS
from workbench.widgets.schedule.summary import STAGE_WORDS, TIMES


@dataclass(frozen=True)
class Fault:
    """A setting made in the browser that cannot be: which one, and why. While it stands, no number is shown."""

    field: str
    text: str

    @classmethod
    def of(cls, field: str, error: WorkbenchError) -> Fault:
        """The fault that an error of the workbench is."""
        return cls(field, str(error))


def constants() -> dict[str, Any]:
    """What never changes: choices, headings and ranges, sent once."""
    return {
        "presets": list(PRESETS),
        "gpus": [{"name": gpu.name, "label": f"{gpu.name}, {gpu.sms} SMs"} for gpu in devices.CATALOGUE.values()],
        "tiles": list(TILES),
        "caches": [["fp8", "FP8"], ["bf16", "BF16"]],
        "orders": [[order, {"cta": "CTA", "sm": "SM", "load": "Load"}[order]] for order in ORDERS],
        "units": [[unit, {"us": "\u00b5s", "tiles": "tiles"}[unit]] for unit in UNITS],
        "lanes": [[lane, lane.capitalize()] for lane in LANES],
        "times": [[kind, STAGE_WORDS[kind]] for kind in TIMES],
        "measured_headings": list(MEASURED_HEADINGS),
        "scales": [[scale, scale.capitalize()] for scale in SCALES],
        "strips": [list(item) for item in METRICS.items()],
        "ranges": {name: list(limits) for name, limits in (RANGES | PARAMETERS).items()},
        "headings": [list(heading) for heading in HEADINGS],
        "parts": [kind for kind, _ in PARTS],
    }


def frame(session: Session, fault: Fault | None, pasted: str) -> dict[str, Any]:
    """The whole screen for the present state.

    Parameters
    ----------
    session
        Settings and plans.
    fault
        The setting that keeps anything from being shown, if there is one.
    pasted
        Text of the box for lengths.
    """
    message: dict[str, Any] = {
        "settings": settings(session, pasted),
        "fault": asdict(fault) if fault else None,
        "scene": None,
        "policies": [],
    }
    if fault is None:
        message["scene"] = session.scene().to_message()
        message["policies"] = [policy_entry(session, name) for name in session.listed()]
    return message


def settings(session: Session, pasted: str) -> dict[str, Any]:
    """The present value of every control."""
    state, workload = session.state, session.workload
    names = (
        "ctas_per_sm", "policy_a", "policy_b", "tile", "min_process_len", "num_kv_heads", "q_len", "cache",
        "max_batch", "order", "unit", "scale", "strip", "step", "timeline", "lanes",
    )  # fmt: skip
    return {
        **{name: getattr(state, name) for name in names},
        "gpu": state.gpu.name,
        "gpu_label": f"{state.gpu.name}, {state.gpu.sms} SMs",
        "workload": workload.preset,
        "workload_name": workload.name,
        "pasted": pasted,
        "steps": len(workload),
        "step_text": f"{state.step:,}",
        "steps_text": f"{len(workload):,}",
        "trace": workload.steps is not None,
        "records_key": session.records_key,
        "capped": workload.trace is not None,
        "selection": session.selected,
        "selection_row": trace_row(session, session.selected),
    }


def trace_row(session: Session, request: int | None) -> int | None:
    """The row of the trace that a request of the present step is."""
    rows = session.workload.requests(session.state.step)
    return None if rows is None or request is None else int(rows[request])


def policy_entry(session: Session, name: str, *, compute: bool = False) -> dict[str, Any]:
    """One line of the list of policies: its call where it is known already, or where ``compute`` asks for it."""
    state = session.state
    key = "A" if name == state.policy_a else "B" if name == state.policy_b else "other"
    base, _, number = name.removesuffix(")").partition("(")
    parameter = int(number) if number.isdigit() and name not in session.custom else None
    title = base.replace("_", " ") if parameter is not None else policy_title(name)
    entry: dict[str, Any] = {"name": name, "title": title, "parameter": parameter, "base": base}
    result = session.evaluated(key, name) if compute or key != "other" else session.known(key, name)
    if isinstance(result, Side):
        call = result.metrics.call_us
        return entry | {"call_us": call, "text": text.us(call), "problem": ""}
    problem = result.message if isinstance(result, Failure) else ""
    return entry | {"call_us": None, "text": "", "problem": problem}
