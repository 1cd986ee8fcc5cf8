"""A panel's bins as SVG paths, one pair a colour class."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from workbench.widgets.schedule.panel import Panel

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.floating]

MANY = 12_000
"""Above this many segments their edges snap to whole pixels and those that vanish are left out."""

GAP_FROM = 4
"""Pixels a column from which a gap of one pixel parts neighbours."""


def fullest_columns(panel: Panel, pitch: float) -> tuple[Ints, Floats]:
    """The columns to draw and the left pixel of each.

    Where several columns share a pixel, the fullest of them stands for all, so that no straggler is lost.
    """
    columns = np.arange(panel.top.size)
    if pitch >= 1:
        return columns, np.round(columns * pitch)
    pixel = np.floor(columns * pitch).astype(np.int64)
    order = np.lexsort((columns, -panel.top, pixel))
    first = np.ones(order.size, bool)
    first[1:] = pixel[order][1:] != pixel[order][:-1]
    kept = order[first]
    return kept, pixel[kept].astype(np.float64)


def bar_paths(panel: Panel, pitch: float, scale: float, height: float) -> dict[int, tuple[str, str]]:
    """Path data of the fixed parts and of the bodies of each colour class.

    Parameters
    ----------
    panel
        The bins.
    pitch, scale
        Pixels a column, pixels a unit.
    height
        Pixels of the plot; its top is 0.
    """
    columns, lefts = fullest_columns(panel, pitch)
    begin = panel.offsets.astype(np.int64)
    counts = (begin[1:] - begin[:-1])[columns]
    begin = begin[columns]
    segment = np.repeat(begin - np.append(0, np.cumsum(counts)[:-1]), counts) + np.arange(int(counts.sum()))
    rights = np.round((columns + 1) * pitch) if pitch >= 1 else lefts + 1
    gap = 1 if pitch >= GAP_FROM else 0
    left = np.repeat(lefts, counts)
    wide = np.repeat(rights - lefts - gap, counts)
    digits = 0 if segment.size > MANY else 1
    edges = [np.round(height - values[segment] * scale, digits) for values in (panel.start, panel.foot, panel.end)]
    paths = {}
    for colour in np.unique(panel.colour[segment]).tolist():
        chosen = panel.colour[segment] == colour
        paths[colour] = (
            _path(left[chosen], wide[chosen], edges[1][chosen], edges[0][chosen]),
            _path(left[chosen], wide[chosen], edges[2][chosen], edges[1][chosen]),
        )
    return paths


def _path(left: Floats, wide: Floats, top: Floats, bottom: Floats) -> str:
    rows = zip(left.tolist(), wide.tolist(), top.tolist(), (bottom - top).tolist(), strict=True)
    return "".join(f"M{x:g} {y:g}h{w:g}v{h:g}h{-w:g}z" for x, w, y, h in rows if h > 0)
