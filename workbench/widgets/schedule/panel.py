"""One policy's bins as geometry: typed arrays for the canvas, lines, labels and axis for the chart around them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from workbench.widgets import text
from workbench.widgets.colours import HEAVY
from workbench.widgets.schedule.side import Side

ORDERS = ("cta", "sm", "load")
"""Columns in launch order, CTAs of one SM side by side, or fullest first."""

UNITS = ("us", "tiles")

MOST_BLOCKS = 60
"""Labelled blocks a panel, largest first."""


@dataclass(frozen=True)
class Line:
    """A horizontal line with its label.

    Attributes
    ----------
    kind : str
        ``"makespan"``, ``"last"``, ``"mean"``, ``"bound"`` or ``"other"`` (the other panel's makespan).
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


@dataclass(frozen=True, eq=False)
class Panel:
    """What one panel draws. Heights are in the unit of the scene; columns run from left to right.

    Attributes
    ----------
    key, title, note, note_right : str
    offsets : uint32 array [columns + 1]
        Segments of column ``c`` are ``offsets[c]:offsets[c + 1]``, from the bottom up.
    start, foot, end : float32 arrays [segments]
        Bottom, top of the fixed part, and top of each segment.
    colour : uint8 array [segments]
        Class of the request; see :mod:`workbench.widgets.colours`.
    descriptor : int32 array [segments]
        Row in ``plan.descriptors``.
    top : float32 array [columns]
        Where the last segment ends; 0 for an empty column.
    silhouette : float32 array [columns]
        ``top`` in ascending order: at height ``y``, the columns still running are those above it.
    place : int32 array [columns]
        CTA (or slot of a static grid) that each column shows.
    late : uint8 array [columns]
        1 where the column ends within 2 % of the last one.
    lines : tuple of Line
    merge : tuple of float
        Bottom and top of the merge band.
    blocks : tuple of Block
    """

    key: str
    title: str
    note: str
    note_right: str
    offsets: npt.NDArray[np.uint32] = field(repr=False)
    start: npt.NDArray[np.float32] = field(repr=False)
    foot: npt.NDArray[np.float32] = field(repr=False)
    end: npt.NDArray[np.float32] = field(repr=False)
    colour: npt.NDArray[np.uint8] = field(repr=False)
    descriptor: npt.NDArray[np.int32] = field(repr=False)
    top: npt.NDArray[np.float32] = field(repr=False)
    silhouette: npt.NDArray[np.float32] = field(repr=False)
    place: npt.NDArray[np.int32] = field(repr=False)
    late: npt.NDArray[np.uint8] = field(repr=False)
    lines: tuple[Line, ...]
    merge: tuple[float, float]
    blocks: tuple[Block, ...]

    @property
    def reach(self) -> float:
        """The highest thing drawn, in the unit of the scene."""
        return max((line.value for line in self.lines if line.kind != "other"), default=0.0)


def make_panel(
    side: Side, classes: npt.NDArray[np.uint8], *, order: str, unit: str, sms: int, other: Side | None
) -> Panel:
    """Lay out one policy's bins.

    Parameters
    ----------
    side
        The plan.
    classes
        uint8 [batch], colour class of each request.
    order, unit
        One of :data:`ORDERS` and :data:`UNITS`.
    sms
        Streaming multiprocessors; CTA ``c`` is assumed to run on SM ``c mod sms``.
    other
        The plan of the other panel, whose makespan is drawn as a ghost line.
    """
    plan, spans = side.plan, side.spans
    slot = spans.slot[plan.cta]
    if unit == "us":
        start, foot, end = (v / 1e3 for v in (spans.start_ns, spans.start_ns + spans.foot_ns, spans.end_ns))
    else:
        start, end = _tile_heights(slot, plan.num_tiles)
        foot = start
    ends = np.zeros(side.columns)
    np.maximum.at(ends, slot, end)
    place = _places(ends, order, sms)
    column = np.empty(side.columns, np.int64)
    column[place] = np.arange(side.columns)

    at = column[slot]
    sequence = np.argsort(at, kind="stable")  # bins are launched in order, so a column's segments are in time order
    offsets = np.zeros(side.columns + 1, np.uint32)
    np.cumsum(np.bincount(at, minlength=side.columns), out=offsets[1:])
    late = np.zeros(side.columns, np.uint8)
    if side.metrics.tiles:  # where nothing is read, nobody waits
        late[column[spans.slot[side.late]]] = 1
    top = ends[place].astype(np.float32)
    colour = classes[plan.request]
    return Panel(
        key=side.key,
        title=side.title,
        note=_note(side),
        note_right=_finish(side),
        offsets=offsets,
        start=start[sequence].astype(np.float32),
        foot=foot[sequence].astype(np.float32),
        end=end[sequence].astype(np.float32),
        colour=colour[sequence],
        descriptor=sequence.astype(np.int32),
        top=top,
        silhouette=np.sort(top),
        place=place.astype(np.int32),
        late=late,
        lines=_lines(side, other, unit),
        merge=(side.metrics.bins_us, side.metrics.makespan_us) if unit == "us" else (0.0, 0.0),
        blocks=_blocks(plan.request, colour, at, foot, end),
    )


def _places(ends: npt.NDArray[np.float64], order: str, sms: int) -> npt.NDArray[np.int64]:
    """The slot shown in each column."""
    if order == "sm":
        return np.argsort(np.arange(ends.size) % sms, kind="stable")
    if order == "load":
        return np.argsort(-ends, kind="stable")
    return np.arange(ends.size)


def _tile_heights(
    slot: npt.NDArray[np.int32], num_tiles: npt.NDArray[np.int32]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Bottom and top of each descriptor when tiles are stacked on its slot in launch order."""
    order = np.argsort(slot, kind="stable")
    ends = np.cumsum(num_tiles[order], dtype=np.float64)
    starts = ends - num_tiles[order]
    new = np.ones(order.size, bool)
    new[1:] = slot[order][1:] != slot[order][:-1]
    base = np.maximum.accumulate(np.where(new, starts, 0))
    low, high = np.empty_like(starts), np.empty_like(ends)
    low[order], high[order] = starts - base, ends - base
    return low, high


def _note(side: Side) -> str:
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


def _finish(side: Side) -> str:
    m, requests = side.metrics, side.late_requests
    if not requests:
        return ""
    head = f"{text.plural(m.last_ctas, 'CTA')} {'finishes' if m.last_ctas == 1 else 'finish'} last"
    if len(requests) == 1:
        return f"{head}{': all' if m.last_ctas > 1 else ','} with request {requests[0]}"
    return f"{head}, with {text.plural(len(requests), 'request')}"


def _lines(side: Side, other: Side | None, unit: str) -> tuple[Line, ...]:
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


def _blocks(
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
    blocks = []
    for i in largest.tolist():
        inside = hued[low[i] : high[i]]
        blocks.append(
            Block(
                str(request[inside[0]]),
                int(colour[inside[0]]),
                int(first[i]),
                int(last[i]),
                float(np.median(start[inside])),
                float(np.median(end[inside])),
            )
        )
    return tuple(blocks)
