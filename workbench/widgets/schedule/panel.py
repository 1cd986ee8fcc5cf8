"""One policy's bins as geometry: typed arrays for the canvas, lines, labels and axis for the chart around them."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

import numpy as np
import numpy.typing as npt

from workbench.schedule.metrics import LATE_SHARE
from workbench.widgets.colours import stage_shades
from workbench.widgets.schedule.lane import Lane
from workbench.widgets.schedule.marks import Block, Line, blocks, finish, measured_lines, note, plan_lines
from workbench.widgets.schedule.measured import Measured
from workbench.widgets.schedule.residual import Residual, make_residual
from workbench.widgets.schedule.side import Side

ORDERS = ("cta", "sm", "load")
"""Columns in launch order, CTAs of one SM side by side, or fullest first."""

UNITS = ("us", "tiles")

LANES = ("both", "measured", "planned")
"""What a panel with a timeline draws: stages over the plan, stages, or the plan."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Panel(Lane):
    """What one panel draws: a lane, what stands around it, and perhaps a second lane to compare with.

    Heights are in the unit of the scene; columns run from left to right.

    Attributes
    ----------
    key, title, note, note_right : str
    silhouette : float32 array [columns]
        ``top`` in ascending order: at height ``y``, the columns still running are those above it.
    place : int32 array [columns]
        CTA (or slot of a static grid) that each column shows.
    sm : int32 array [columns]
        SM of each column: measured where there are stamps, else assumed.
    late : uint8 array [columns]
        1 where the column ends within 2 % of the last one.
    lines : tuple of Line
    merge : tuple of float
        Bottom and top of the modelled merge band.
    blocks : tuple of Block
    ghost : Lane or None
        The plan, where the lane is measured and both are shown.
    residual : Residual or None
        Measured minus modelled, where there is a timeline.
    """

    key: str
    title: str
    note: str
    note_right: str
    silhouette: npt.NDArray[np.float32] = field(repr=False)
    place: npt.NDArray[np.int32] = field(repr=False)
    sm: npt.NDArray[np.int32] = field(repr=False)
    late: npt.NDArray[np.uint8] = field(repr=False)
    lines: tuple[Line, ...]
    merge: tuple[float, float]
    blocks: tuple[Block, ...]
    ghost: Lane | None = None
    residual: Residual | None = None

    @property
    def reach(self) -> float:
        """The highest thing drawn, in the unit of the scene."""
        return max((line.value for line in self.lines if line.kind != "other"), default=0.0)


def make_panel(
    side: Side,
    classes: npt.NDArray[np.uint8],
    *,
    order: str,
    unit: str,
    sms: int,
    columns: int,
    other: Side | None,
    measured: Measured | None = None,
    lanes: str = "both",
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
        Streaming multiprocessors; without stamps CTA ``c`` is assumed to run on SM ``c mod sms``.
    columns
        Places side by side, at least those of the plan and of its timeline.
    other
        The plan of the other panel, whose makespan is drawn as a ghost line.
    measured
        The timeline of this plan. In tiles there is no time, so nothing of it is drawn.
    lanes
        One of :data:`LANES`; plays no part without a timeline.
    """
    plan, spans = side.plan, side.spans
    slot = spans.slot[plan.cta]
    timed = measured if unit == "us" else None
    if unit == "us":
        start, foot, end = (v / 1e3 for v in (spans.start_ns, spans.start_ns + spans.foot_ns, spans.end_ns))
    else:
        start, end = _tile_heights(slot, plan.num_tiles)
        foot = start
    drawn = timed if lanes != "planned" else None
    ends = np.zeros(columns)
    np.maximum.at(ends, drawn.pieces.slot if drawn else slot, drawn.pieces.end_us if drawn else end)
    slot_sm = np.arange(columns, dtype=np.int32) % sms
    if measured:
        slot_sm[: measured.slots] = measured.slot_sm
    place = _places(ends, order, slot_sm)
    column = np.empty(columns, np.int64)
    column[place] = np.arange(columns)

    at = column[slot]
    colour = classes[plan.request]
    lane = planned = Lane.stack(
        at, columns, start=start, foot=foot, end=end, colour=colour, descriptor=np.arange(slot.size)
    )
    late = np.zeros(columns, np.uint8)
    if drawn:
        timeline = drawn.timeline
        lane = _stages(drawn, column, colour)
        at = column[drawn.slot]
        foot, end = timeline.arrived_ns / 1e3, timeline.end_ns / 1e3
        late[lane.top >= (1 - LATE_SHARE) * lane.top.max(initial=0)] = 1
    elif side.metrics.tiles:  # where nothing is read, nobody waits
        late[column[spans.slot[side.late]]] = 1
    both = drawn is not None and lanes == "both"
    return Panel(
        **{spec.name: getattr(lane, spec.name) for spec in fields(Lane)},
        key=side.key,
        title=side.title,
        note=note(side),
        note_right=drawn.source if drawn else finish(side),
        silhouette=np.sort(lane.top),
        place=place.astype(np.int32),
        sm=slot_sm[place],
        late=late,
        lines=measured_lines(side, drawn, other, both=both) if drawn else plan_lines(side, other, unit),
        merge=(side.metrics.bins_us, side.metrics.makespan_us) if unit == "us" and not drawn else (0.0, 0.0),
        blocks=blocks(plan.request, colour, at, foot, end),
        ghost=planned if both else None,
        residual=make_residual(timed, place) if timed else None,
    )


def _stages(measured: Measured, column: npt.NDArray[np.int64], colour: npt.NDArray[np.uint8]) -> Lane:
    """The measured stages as a lane; a stage is a tone of its request's colour."""
    pieces = measured.pieces
    shade = stage_shades(colour[pieces.descriptor], pieces.stage)
    return Lane.stack(
        column[pieces.slot],
        column.size,
        start=pieces.start_us,
        foot=pieces.start_us,
        end=pieces.end_us,
        colour=shade,
        descriptor=pieces.descriptor,
    )


def _places(ends: npt.NDArray[np.float64], order: str, slot_sm: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """The slot shown in each column."""
    if order == "sm":
        return np.argsort(slot_sm, kind="stable")
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
