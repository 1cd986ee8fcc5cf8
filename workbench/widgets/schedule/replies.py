"""What the explorer answers to each kind of message that a view sends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from workbench.widgets.base import Reply
from workbench.widgets.schedule.card import make_card
from workbench.widgets.schedule.figures import figures_card
from workbench.widgets.schedule.frames import policy_entry, trace_row
from workbench.widgets.schedule.side import Side
from workbench.widgets.schedule.strip import Strip, long_lives, ticks
from workbench.widgets.schedule.timeline_menu import timeline_menu

if TYPE_CHECKING:
    from workbench.widgets.schedule.explorer import ScheduleExplorer


SLICE_SECONDS = 0.025
"""Time that the kernel spends on the strip before it listens to the view again."""


def _set(explorer: ScheduleExplorer, message: dict[str, Any]) -> Reply:
    explorer.set_from_view(message["view"], message["number"], dict(message["changes"]))
    return None


def _parameter(explorer: ScheduleExplorer, message: dict[str, Any]) -> Reply:
    """A new number for a fixed policy of the list, wherever it is used."""
    old, value = message["policy"], message["value"]
    base = old.partition("(")[0]
    state = explorer.session.state
    changes: dict[str, Any] = {
        side: f"{base}({value})" for side in ("policy_a", "policy_b") if getattr(state, side) == old
    }
    changes |= {} if changes else {"splits" if base == "fixed_splits" else "chunk": value}
    explorer.set_from_view(message["view"], message["number"], changes)
    return None


def _select(explorer: ScheduleExplorer, message: dict[str, Any]) -> Reply:
    """The request of a chunk that was clicked; the one that is selected already is let go."""
    side = explorer.session.side(message["side"])
    changes: dict[str, Any] = {}
    if message["frame"] == explorer.frame["number"] and isinstance(side, Side):
        request = int(side.plan.request[message["index"]])
        changes["selection"] = None if request == explorer.session.state.selection else request
    explorer.set_from_view(message["view"], message["number"], changes)
    return None


def _card(explorer: ScheduleExplorer, message: dict[str, Any]) -> Reply:
    """The card of one chunk, unless the screen has moved on since it was asked for."""
    session = explorer.session
    side = session.side(message["side"])
    if message["frame"] != explorer.frame["number"] or not isinstance(side, Side):
        return None
    request = int(side.plan.request[message["index"]])
    row = trace_row(session, request)
    card = make_card(
        side, message["index"], sms=session.state.gpu.sms, sides=session.sides, trace_row=row,
        measured=session.measured().get(side.key),
    )  # fmt: skip
    place = {"side": message["side"], "index": message["index"], "frame": message["frame"]}
    return {**place, "title": card.title, "subtitle": card.subtitle, "rows": card.rows, "request": request}, []


def _rank(explorer: ScheduleExplorer, message: dict[str, Any]) -> Reply:
    """One policy of the list, computed after everything else is drawn."""
    if message["frame"] != explorer.frame["number"] or explorer.frame["fault"]:
        return None
    return {"frame": message["frame"], "entry": policy_entry(explorer.session, message["name"], compute=True)}, []


def _figures(explorer: ScheduleExplorer, message: dict[str, Any]) -> Reply:
    """What records hold for the screen: times, and which timelines could be shown."""
    if message["frame"] != explorer.frame["number"] or explorer.frame["fault"]:
        return None
    session = explorer.session
    card = asdict(figures_card(session))
    return {"frame": message["frame"], "card": card, "timelines": asdict(timeline_menu(session))}, []


def _more(explorer: ScheduleExplorer, message: dict[str, Any]) -> Reply:
    """The steps of the strip that the view does not have yet; computes some if there are none."""
    strip = explorer.all_steps()
    if strip is None or strip.key != message["strip"]:
        return None
    have = int(message["have"])
    if have >= strip.done and not strip.problem:
        strip.advance(SLICE_SECONDS)
    content: dict[str, Any] = {
        "strip": strip.key,
        "from": have,
        "to": strip.done,
        "finished": strip.finished,
        "problem": strip.problem,
        "facts": _facts(strip) if strip.finished or strip.problem or _is_due(strip, have) else None,
    }
    buffers = [strip.values[row, have : strip.done].tobytes() for row in (0, 1)]
    if have == 0:
        buffers.append(long_lives(strip.steps).astype("<i4").tobytes())
    return content, buffers


def _is_due(strip: Strip, have: int) -> bool:
    """Whether the strip has crossed one of its twenty-fifth parts: a summary costs more than the steps between."""
    return have == 0 or have * 25 // len(strip.steps) < strip.done * 25 // len(strip.steps)


def _facts(strip: Strip) -> dict[str, Any]:
    """What is written around the strip."""
    return {
        "bad": strip.bad_steps(),
        "statistics": strip.statistics(),
        "headings": ["median", "99 %", "worst"],
        "ticks": [[value, f"{value:g}"] for value in ticks(strip.values)],
        "steps": [[step, f"{step:,}"] for step in ticks_of_steps(len(strip.steps))],
        "progress": "" if strip.finished else f"{100 * strip.done // len(strip.steps)} % of the steps so far",
        "problem": strip.problem,
    }


def ticks_of_steps(total: int) -> list[int]:
    """Up to ten round step numbers."""
    step = next(f * 10**p for p in range(12) for f in (1, 2, 5) if total / (f * 10**p) <= 10)
    return list(range(0, total, step))


def _brush(explorer: ScheduleExplorer, message: dict[str, Any]) -> Reply:
    """Statistics of some steps of the trace."""
    strip = explorer.all_steps()
    if strip is None or strip.key != message["strip"]:
        return None
    low, high = int(message["low"]), int(message["high"])
    place = {"strip": strip.key, "low": low, "high": high}
    return {**place, "text": strip.comparison(low, high), "statistics": strip.statistics(low, high)}, []


def _file(explorer: ScheduleExplorer, message: dict[str, Any]) -> Reply:
    """The screen as a file, or as code."""
    what = message["what"]
    if explorer.frame["fault"]:
        return {"what": what, "problem": explorer.frame["fault"]["text"]}, []
    make: dict[str, tuple[str, str, Callable[[], str]]] = {
        "svg": ("schedule.svg", "image/svg+xml", lambda: explorer.to_svg(theme=message["theme"])),
        "png": ("schedule.png", "image/svg+xml", lambda: explorer.to_svg(theme=message["theme"])),
        "plans": ("plans.json", "application/json", explorer.to_plans_json),
        "trace": ("timeline.trace.json", "application/json", explorer.to_trace_json),
        "code": ("explorer.py", "text/x-python", explorer.copy_as_code),
    }
    name, mime, content = make[what]
    return {"what": what, "name": name, "mime": mime, "text": content()}, []


REPLIES: dict[str, Callable[[ScheduleExplorer, dict[str, Any]], Reply]] = {
    "set": _set,
    "parameter": _parameter,
    "select": _select,
    "card": _card,
    "rank": _rank,
    "figures": _figures,
    "more": _more,
    "brush": _brush,
    "file": _file,
}
