"""What stays on screen while a slider moves: the table of configurations and the charts."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from workbench.gpu.facts import ResourceFacts
from workbench.tune.resources import Resources
from workbench.widgets import text
from workbench.widgets.tiles import plots
from workbench.widgets.tiles.known import Known
from workbench.widgets.tiles.session import Session
from workbench.widgets.tiles.times import MODELLED, Time

NUMBERS = ("registers", "spills, B", "shared, B", "CTAs an SM", "waves", "\u00b5s a call", "of default", "error")


def scene_of(session: Session) -> dict[str, Any]:
    """Rows, charts, and how much of the space they are."""
    known, options = session.known, session.options
    stands = stands_of(known)
    shown = [name for name, values in options.items() if len(values) > 1]
    axes = plots.columns(known, options, stands)
    shades = plots.shades(stands)
    best = known.best()
    rows = []
    for row, stand in enumerate(stands):
        values = stand.config.to_dict()
        numbers, keys = numbers_of(known, stand.time, stand.resources)
        tags = [tag for tag, config in (("default", known.default), ("best", best)) if config == stand.config]
        rows.append(
            {
                "values": values,
                "cells": [plots.word(values[name]) for name in shown] + numbers,
                "keys": [float(values[name]) for name in shown] + keys,
                "tags": tags,
                "mark": stand.time.mark,
                "origin": stand.time.origin,
                "words": stand.time.words,
                "problem": known.failure(stand.config),
                "shade": shades[row],
                "line": plots.line_of(stand, axes, options),
            }
        )
    return {
        "shown": shown,
        "headings": [*shown, *NUMBERS],
        "rows": rows,
        "occupancy": asdict(plots.occupancy_plot(stands)),
        "error": asdict(plots.error_plot(stands)),
        "columns": [asdict(column) for column in axes],
        "note": note_of(known, stands),
    }


def stands_of(known: Known) -> list[plots.Stand]:
    """The configurations that are listed, each with what is known of it."""
    return [plots.Stand(config, known.time(config), known.resources.get(config)) for config in known.rows()]


def here_of(session: Session, scene: dict[str, Any]) -> dict[str, Any]:
    """Where the configuration on screen stands in the charts of a scene; nothing of one that cannot run."""
    known, found = session.known, session.resources
    if session.refused:
        return {"occupancy": None, "error": None, "line": None}
    stand = plots.Stand(session.config, known.time(session.config), found)
    occupancy, error = _axes(scene["occupancy"]), _axes(scene["error"])
    at: dict[str, Any] = {"occupancy": None, "error": None}
    if found is not None and found.occupancy is not None:
        at["occupancy"] = [occupancy[0].at(found.occupancy.fraction), occupancy[1].at(stand.time.us)]
    if stand.time.rel_error is not None and scene["error"]["points"]:
        at["error"] = [error[0].at(stand.time.us), error[1].at(stand.time.rel_error)]
    columns = [plots.Column(each["name"], plots.Axis(**each["axis"])) for each in scene["columns"]]
    return at | {"line": plots.line_of(stand, columns, session.options)}


def numbers_of(known: Known, time: Time, found: Resources | None) -> tuple[list[str], list[float | None]]:
    """The columns `NUMBERS` of one configuration: as written, and what a table is sorted by."""
    facts = found.kernel.facts if found and found.kernel else None
    resident = found.occupancy if found else None
    spills = spilled_bytes(facts) if facts else None
    waves = found.waves if found and resident and resident.ctas_per_sm else None
    share = relative(known, time)
    values: list[tuple[float | None, str]] = [
        (facts.registers if facts else None, "{:.0f}"),
        (spills, "{:,.0f}"),
        (resident.shared_bytes if resident else None, "{:,.0f}"),
        (resident.ctas_per_sm if resident else None, "{:.0f}"),
        (waves, "{:.2f}"),
    ]
    cells = [text.NOTHING if value is None else form.format(value) for value, form in values]
    cells += [text.fine_us(time.us), text.NOTHING if share is None else f"{share:.3f}"]
    cells += [text.NOTHING if time.rel_error is None else f"{time.rel_error:.2e}"]
    return cells, [*(value for value, _ in values), time.us, share, time.rel_error]


def spilled_bytes(facts: ResourceFacts) -> int | None:
    """Bytes of registers that ran out, stores and loads; None where the assembler did not say."""
    stored, loaded = facts.spill_store_bytes, facts.spill_load_bytes
    return None if stored is None or loaded is None else stored + loaded


def relative(known: Known, time: Time) -> float | None:
    """A time over the default's: of one study where both took turns, else of figures from the same kind of source."""
    if time.relative is not None:
        return time.relative
    default = known.time(known.default)
    return time.us / default.us if default.origin == time.origin and default.us > 0 else None


def note_of(known: Known, stands: list[plots.Stand]) -> str:
    """How much of the space is listed, and from where its times are."""
    listed, total = len(stands), len(known.space)
    timed = sum(stand.time.origin != MODELLED for stand in stands)
    compiled = sum(stand.resources is not None for stand in stands)
    first = (
        f"{listed:,} configurations"
        if listed >= total
        else (f"{listed:,} of {total:,} configurations: those with times, then as the cost model ranks them")
    )
    times = f"{timed:,} with times that were taken" if timed else "all times modelled"
    return f"{first}; {compiled:,} compiled; {times}"


def _axes(plot: dict[str, Any]) -> tuple[plots.Axis, plots.Axis]:
    return plots.Axis(**plot["x"]), plots.Axis(**plot["y"])
