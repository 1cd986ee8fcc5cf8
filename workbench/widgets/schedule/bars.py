"""Bins as SVG paths, one pair a shade."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from workbench.widgets.schedule.lane import Lane

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.floating]

MANY = 12_000
"""Above this many segments their edges snap to whole pixels and those that vanish are left out."""

GAP_FROM = 4
"""Pixels a column from which a gap of one pixel parts neighbours."""


def fullest_columns(lane: Lane, pitch: float) -> tuple[Ints, Floats]:
    """The columns to draw and the left pixel of each.

    Where several columns share a pixel, the fullest of them stands for all, so that no straggler is lost.
    """
    columns = np.arange(lane.top.size)
    if pitch >= 1:
        return columns, np.round(columns * pitch)
    pixel = np.floor(columns * pitch).astype(np.int64)
    order = np.lexsort((columns, -lane.top, pixel))
    first = np.ones(order.size, bool)
    first[1:] = pixel[order][1:] != pixel[order][:-1]
    kept = order[first]
    return kept, pixel[kept].astype(np.float64)


def bar_paths(
    lane: Lane, pitch: float, scale: float, height: float, part: tuple[float, float] = (0.0, 1.0)
) -> dict[int, tuple[str, str]]:
    """Path data of the fixed parts and of the bodies of each shade.

    Parameters
    ----------
    lane
        The bins.
    pitch, scale
        Pixels a column, pixels a unit.
    height
        Pixels of the plot; its top is 0.
    part
        From where to where across its column a bin is drawn, shares of one.
    """
    columns, lefts = fullest_columns(lane, pitch)
    begin = lane.offsets.astype(np.int64)
    counts = (begin[1:] - begin[:-1])[columns]
    begin = begin[columns]
    segment = np.repeat(begin - np.append(0, np.cumsum(counts)[:-1]), counts) + np.arange(int(counts.sum()))
    rights = np.round((columns + 1) * pitch) if pitch >= 1 else lefts + 1
    gap = 1 if pitch >= GAP_FROM else 0
    room = rights - lefts - gap
    begins, ends = (np.round(lefts + share * room) for share in part)
    left, wide = np.repeat(begins, counts), np.repeat(ends - begins, counts)
    digits = 0 if segment.size > MANY else 1
    edges = [np.round(height - values[segment] * scale, digits) for values in (lane.start, lane.foot, lane.end)]
    paths = {}
    for colour in np.unique(lane.colour[segment]).tolist():
        chosen = lane.colour[segment] == colour
        paths[colour] = (
            _path(left[chosen], wide[chosen], edges[1][chosen], edges[0][chosen]),
            _path(left[chosen], wide[chosen], edges[2][chosen], edges[1][chosen]),
        )
    return paths


def _path(left: Floats, wide: Floats, top: Floats, bottom: Floats) -> str:
    rows = zip(left.tolist(), wide.tolist(), top.tolist(), (bottom - top).tolist(), strict=True)
    return "".join(f"M{x:g} {y:g}h{w:g}v{h:g}h{-w:g}z" for x, w, y, h in rows if h > 0)


def caps(lane: Lane, pitch: float, scale: float, height: float) -> str:
    """Path data of a line across each column where its bin ends; where columns share a pixel, of the fullest."""
    columns, lefts = fullest_columns(lane, pitch)
    used = lane.top[columns] > 0
    lefts, tops = lefts[used], np.round(height - lane.top[columns][used] * scale, 1)
    wide = max(round(pitch) - (pitch >= GAP_FROM), 1)
    return "".join(f"M{left:g} {top:g}h{wide}" for left, top in zip(lefts.tolist(), tops.tolist(), strict=True))
