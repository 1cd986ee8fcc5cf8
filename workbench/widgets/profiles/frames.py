"""What the browser is sent: settings, a page of the table, and the view that is open. All text is written here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from workbench.widgets import text
from workbench.widgets.colours import THEMES
from workbench.widgets.profiles.captures import Capture, short_gpu, varying
from workbench.widgets.profiles.chart import Chart
from workbench.widgets.profiles.columns import case_text, column_text
from workbench.widgets.profiles.compare import Row
from workbench.widgets.profiles.counters import counter_of, figure
from workbench.widgets.profiles.parameter import parameter_chart, parameters_of
from workbench.widgets.profiles.roofline import roofline
from workbench.widgets.profiles.session import (
    FILTERS,
    LETTERS,
    MENUS,
    MOST_PICKS,
    VIEWS,
    Session,
)
from workbench.widgets.profiles.units import Scale, number, scale_of
from workbench.widgets.profiles.words import (
    EMPTY,
    cautions,
    difference_words,
    method_of,
    noise_words,
    open_command,
    sentence,
)

PAGE = 60
"""Rows of the table that come with a frame; the others are asked for when they are scrolled to."""

TITLES = {
    "operator": "operator", "case": "case", "gpu": "GPU", "provider": "provider", "policy": "policy",
    "config": "configuration", "set": "set", "isolated": "alone, \u00b5s", "replayed": "replayed, \u00b5s",
    "runs": "runs", "date": "date",
}  # fmt: skip

CONSTANT = ("operator", "case", "gpu", "provider", "policy", "set", "date")
"""Columns that are left out where all captures on screen have one value."""

NAMING = ("operator", "case", "gpu", "provider")
"""What names a capture, besides its policy and its configuration."""

ALL = {
    "operator": "all operators", "case": "all cases", "gpu": "all GPUs", "provider": "all providers",
    "policy": "all policies", "set": "all sets",
}  # fmt: skip


def constants() -> dict[str, Any]:
    """What never changes."""
    return {
        "themes": {name: theme.to_dict() for name, theme in THEMES.items()},
        "views": [[name, title] for name, title in VIEWS.items()],
        "letters": LETTERS,
        "most_picks": MOST_PICKS,
        "page": PAGE,
    }


def frame_of(session: Session, fault: dict[str, str] | None) -> dict[str, Any]:
    """Everything but the pieces of the schedule, which travel as arrays."""
    state = session.state
    return {
        "settings": {name: getattr(state, name) for name in (*FILTERS, "metric", "view", "sort", "descending")}
        | {"parameter": session.default_parameter, "gpu": session.chosen_gpu},
        "menus": {name: _menu(session, name) for name in MENUS},
        "metrics": [[name, counter_of(name).title] for name in session.metrics],
        "fault": fault,
        "facts": facts(session),
        "sentence": sentence(session),
        "columns": columns(session),
        "same": same_in_all(session),
        "total": len(session.shown),
        "rows": rows(session, 0, PAGE),
        "legend": legend(session),
        "view": _view(session),
        "empty": [] if session.captures else [list(step) for step in EMPTY],
        "looked": repr(session.store),
        "problems": problems(session),
    }


def _menu(session: Session, name: str) -> list[list[str]]:
    chosen = getattr(session.state, name)
    found = session.facets(name)
    if name == "gpu":
        chosen = session.chosen_gpu
    options = [["", ALL[name]], *([value, f"{value} ({count})"] for value, count in found)]
    return options if chosen in ("", *(value for value, _ in found)) else [*options, [chosen, f"{chosen} (0)"]]


def facts(session: Session) -> list[str]:
    """The store in a few words."""
    captures = session.captures
    if not captures:
        return []
    reduced = sum(not capture.counted for capture in captures)
    said = [text.plural(len(captures), "capture"), *sorted({capture.gpu for capture in captures})]
    return [*said, f"{reduced} reduced"] if reduced else said


def problems(session: Session) -> list[str]:
    """What was skipped: the first in words, and how many more."""
    every = [*session.problems, *session.notes.problems]
    more = f" and {len(every) - 1:,} more" if len(every) > 1 else ""
    return [f"skipped: {every[0]}{more}"] if every else []


def columns(session: Session) -> list[dict[str, Any]]:
    """Columns of the table: the constant ones are left out, the time of reduced records has one of its own."""
    shown = session.shown
    several = {name: len(session.values(name)) > 1 for name in CONSTANT}
    several |= {
        "isolated": any(one.counted for one in shown),
        "replayed": any(not one.counted for one in shown),
        "config": any(one.parameters for one in shown),
        "runs": any(one.runs is not None for one in shown),
    }
    names = ("operator", "case", "gpu", "provider", "policy", "config", "set", "isolated", "replayed", "metric", "runs")
    found = [name for name in (*names, "date") if several.get(name, True)]
    scale = metric_scale(session)
    titles = TITLES | {"metric": ", ".join(filter(None, (counter_of(session.state.metric).title, scale.name)))}
    numbers = ("isolated", "replayed", "metric", "runs")
    return [{"name": name, "title": titles[name], "number": name in numbers} for name in found]


def same_in_all(session: Session) -> str:
    """What the table has no column for, because it is the same everywhere."""
    if len(session.shown) < 2:
        return ""
    values = [next(iter(found)) for name in CONSTANT if len(found := session.values(name)) == 1]
    return " / ".join(filter(None, values))


def metric_scale(session: Session) -> Scale:
    """How the table's last figure is written; in its own unit in each row where units differ."""
    found = [one for capture in session.shown if (one := figure(capture, session.state.metric)) is not None]
    units = {one.unit for one in found}
    return scale_of(units.pop(), [one.value for one in found]) if len(units) == 1 else Scale(1.0, "")


def rows(session: Session, first: int, last: int) -> list[dict[str, Any]]:
    """A part of the table."""
    moving, scale = session.varying, metric_scale(session)
    named = [column["name"] for column in columns(session)]
    part = session.shown[max(first, 0) : max(last, 0)]
    return [_row(session, capture, named, moving, scale) for capture in part]


def _row(
    session: Session, capture: Capture, named: Sequence[str], moving: Sequence[str], scale: Scale
) -> dict[str, Any]:
    picks = session.state.picks
    value = figure(capture, session.state.metric)
    metric = "" if value is None else scale.write(value.value) + (f" {value.unit}" if not scale.name else "")
    config = " ".join(f"{name}={capture.parameters[name]}" for name in moving if name in capture.parameters)
    cells = {
        "operator": capture.record.operator,
        "case": case_text(capture),
        "gpu": short_gpu(capture.gpu),
        "provider": capture.record.provider,
        "policy": capture.policy,
        "config": config or capture.configuration,
        "set": "+".join(capture.sets),
        "isolated": "" if capture.isolated_ns is None else number(capture.isolated_ns / 1e3, whole=False),
        "replayed": "" if capture.replayed_us is None else number(capture.replayed_us, whole=False),
        "metric": metric.strip(),
        "runs": "" if capture.runs is None else str(capture.runs),
        "date": capture.date,
    }
    return {
        "key": capture.key,
        "pick": picks.index(capture.key) if capture.key in picks else -1,
        "cells": [cells[name] for name in named],
        "title": f"{capture.configuration}\n{method_of(capture)}",
        "reduced": not capture.counted,
        "report": capture.has_report,
        "note": session.notes.texts.get(capture.key, "")[:400],
    }


def legend(session: Session) -> list[dict[str, Any]]:
    """Each picked capture in a line: what sets it apart from the other picked ones, then the rest."""
    picked = session.picked
    moving = varying(picked)
    apart = [name for name in NAMING if len({column_text(capture, name) for capture in picked}) > 1]
    return [_entry(at, capture, apart, moving) for at, capture in enumerate(picked)]


def _entry(at: int, capture: Capture, apart: Sequence[str], moving: Sequence[str]) -> dict[str, Any]:
    own = [column_text(capture, name) for name in apart]
    own += [capture.policy, *(f"{n}={capture.parameters[n]}" for n in moving if n in capture.parameters)]
    rest = [column_text(capture, name) for name in NAMING if name not in apart]
    rest += [f"{n}={value}" for n, value in capture.parameters.items() if n not in moving]
    return {
        "letter": LETTERS[at],
        "key": capture.key,
        "title": "  ".join(filter(None, own)) or capture.record.workload.case,
        "rest": "  ".join(filter(None, rest)),
        "reduced": not capture.counted,
    }


def _view(session: Session) -> dict[str, Any]:
    """The open view of the picked captures."""
    picked, view = session.picked, session.state.view
    if view == "compare":
        return {"rows": [_compared(row) for row in session.rows], "cautions": list(cautions(picked))}
    if view == "roofline":
        return {"chart": asdict(roofline(picked, session.limits())), "cautions": list(cautions(picked))}
    if view == "parameter":
        return {"chart": asdict(own_chart(session)), "parameters": list(parameters_of(session.shown))}
    if view == "notes":
        return {"captures": [_noted(session, *pair) for pair in zip(legend(session), picked, strict=True)]}
    return {"lanes": [capture.key for capture in picked]}


def own_chart(session: Session) -> Chart:
    """The chosen figure against the chosen parameter."""
    return parameter_chart(session.shown, session.default_parameter, session.state.metric, session.picked)


def _compared(row: Row) -> dict[str, Any]:
    unit = row.scale.name or next((one.unit for one in row.readings if one is not None), "")
    values = [abs(one.value) for one in row.readings if one is not None]
    largest = max(values) if len(set(values)) > 1 else 0.0  # bars of equal length say nothing
    cells: list[dict[str, Any] | None] = []
    for reading, change in zip(row.readings, row.differences, strict=True):
        if reading is None:
            cells.append(None)
            continue
        cell: dict[str, Any] = {
            "value": row.scale.write(reading.value) if not row.mixed else f"{number(reading.value)} {reading.unit}",
            "share": abs(reading.value) / largest if largest and not row.mixed else 0.0,
            "spread": _spread(row, reading.deviation),
        }
        if change is not None:
            said = {"words": difference_words(row, change), "verdict": change.verdict, "why": noise_words(row, change)}
            cell["difference"] = said | {"up": change.delta > 0}
        cells.append(cell)
    note = f"not compared, units {' and '.join(unit or 'none' for unit in row.mixed)}" if row.mixed else row.note
    return {"name": row.name, "title": row.title, "group": row.group, "unit": unit, "note": note, "cells": cells}


def _spread(row: Row, deviation: float | None) -> str:
    return "" if not deviation or row.mixed else f"\u00b1{row.scale.write(deviation)}"


def _noted(session: Session, entry: dict[str, Any], capture: Capture) -> dict[str, Any]:
    command, why = open_command(capture)
    return {
        **entry,
        "note": session.notes.texts.get(capture.key, ""),
        "command": command,
        "why": why,
        "method": method_of(capture),
        "kernels": list(capture.kernels[:4]),
        "profiler": getattr(capture.record, "profiler", None) or "",
        "record": str(capture.path),
    }
