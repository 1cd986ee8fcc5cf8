"""What is written in a panel: its title line, the lines across it with their numbers, the labels of blocks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from workbench.widgets import text
from workbench.widgets.colours import HEAVY
from workbench.widgets.schedule.measured import Measured
from workbench.widgets.schedule.side import Side

MOST_BLOCKS = 60
"""Labelled blocks a panel, largest first."""


@dataclass(frozen=True)
class Line:
    """A horizontal line with its label.

    Attributes
    ----------
    kind : str
        ``"makespan"``, ``"last"``, ``"mean"``, ``"bound"``, ``"modelled"`` (beside a measured makespan) or
        ``"other"`` (the other panel's makespan).
    value : float
        Height, in the panel's unit.
    label, text : str
        Words and number at the right.
    """

    kind: str
    value: float
    label: str
    text: str


@dataclass(frozen=True)
class Block:
    """Neighbouring columns that one request fills: where its label may stand."""

    text: str
    colour: int
    first: int
    last: int
    bottom: float
    top: float


def note(side: Side) -> str:
    """What the plan is made of."""
    m = side.metrics
    chunks = text.plural(m.descriptors, "chunk")
    if not side.plan.static_grid:
        return (
            f"at most {text.plural(m.max_tiles, 'tile')} a bin, "
            f"{text.count(m.used_ctas)} of {text.plural(m.num_ctas, 'bin')} used, {chunks}"
        )
    empty = f" and {text.plural(m.empty_ctas, 'empty CTA')}" if m.empty_ctas else ""
    waves = f", in {m.waves} waves" if m.waves > 1 else ""
    return f"{chunks}{empty} on {text.plural(m.num_ctas, 'slot')}{waves}"


def finish(side: Side) -> str:
    """Which CTAs end last by the model, and with which request."""
    m, requests = side.metrics, side.late_requests
    if not requests:
        return ""
    head = f"{text.plural(m.last_ctas, 'CTA')} {'finishes' if m.last_ctas == 1 else 'finish'} last"
    if len(requests) == 1:
        return f"{head}{': all' if m.last_ctas > 1 else ','} with request {requests[0]}"
    return f"{head}, with {text.plural(len(requests), 'request')}"


def plan_lines(side: Side, other: Side | None, unit: str) -> tuple[Line, ...]:
    """Lines of a panel that shows the plan."""
    m = side.metrics
    if m.tiles == 0:
        return ()
    if unit == "tiles":
        lines = [
            Line("makespan", float(m.max_tiles), "fullest", text.count(m.max_tiles)),
            Line("mean", m.mean_tiles, "mean", f"{m.mean_tiles:,.1f}"),
        ]
        if other and side.key == "B":
            most = other.metrics.max_tiles
            lines.append(Line("other", float(most), f"{other.key} fullest", text.count(most)))
        return tuple(lines)
    lines = [Line("makespan", m.makespan_us, "makespan", text.us(m.makespan_us))]
    if m.merge_us:
        lines.append(Line("last", m.bins_us, "last CTA", text.us(m.bins_us)))
    lines += [
        Line("mean", m.mean_us, "mean CTA", text.us(m.mean_us)),
        Line("bound", m.bound_us, "bound", text.us(m.bound_us)),
    ]
    if other and side.key == "B":
        done = other.metrics.makespan_us
        lines.append(Line("other", done, f"{other.key} makespan", text.us(done)))
    return tuple(lines)


def measured_lines(side: Side, measured: Measured, other: Side | None, *, both: bool) -> tuple[Line, ...]:
    """Lines of a panel that shows a timeline; the modelled makespan only where the plan is drawn too.

    A mean CTA's time counts from its start to its end, as the cost model's does, merges included.
    """
    timeline = measured.timeline
    mean, last = timeline.busy_ns / side.columns / 1e3, timeline.bins_ns / 1e3
    lines = [Line("makespan", measured.makespan_us, "measured", text.us(measured.makespan_us))]
    if timeline.makespan_ns > timeline.bins_ns:
        lines.append(Line("last", last, "last bin", text.us(last)))
    lines.append(Line("mean", mean, "mean CTA", text.us(mean)))
    lines.append(Line("bound", side.metrics.bound_us, "bound", text.us(side.metrics.bound_us)))
    if both:
        lines.append(Line("modelled", measured.modelled_us, "modelled", text.us(measured.modelled_us)))
    elif other and side.key == "B":
        lines.append(
            Line("other", other.metrics.makespan_us, f"{other.key} modelled", text.us(other.metrics.makespan_us))
        )
    return tuple(lines)


def blocks(
    request: npt.NDArray[np.int32],
    colour: npt.NDArray[np.uint8],
    column: npt.NDArray[np.int64],
    start: npt.NDArray[np.float64],
    end: npt.NDArray[np.float64],
) -> tuple[Block, ...]:
    """Runs of neighbouring columns that a coloured request fills, the largest :data:`MOST_BLOCKS`."""
    hued = np.flatnonzero(colour <= HEAVY)
    if not hued.size:
        return ()
    hued = hued[np.lexsort((start[hued], column[hued], request[hued]))]
    jump = (np.diff(column[hued]) > 1) | (np.diff(request[hued]) != 0)
    low = np.append(0, np.flatnonzero(jump) + 1)
    high = np.append(low[1:], hued.size)
    first, last = column[hued[low]], column[hued[high - 1]]
    bottom = np.minimum.reduceat(start[hued], low)
    top = np.maximum.reduceat(end[hued], low)
    largest = np.argsort(-(last - first + 1) * (top - bottom), kind="stable")[:MOST_BLOCKS]
    found = []
    for i in largest.tolist():
        inside = hued[low[i] : high[i]]
        found.append(
            Block(
                str(request[inside[0]]),
                int(colour[inside[0]]),
                int(first[i]),
                int(last[i]),
                float(np.median(start[inside])),
                float(np.median(end[inside])),
            )
        )
    return tuple(found)
