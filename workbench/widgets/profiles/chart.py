"""A chart as plain data: axes, lines, points. Python's SVG and the browser draw the same one.

Places are shares of the plot, from 0 at the left and the bottom to 1, so that only whoever draws knows pixels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from workbench.widgets.text import MINUS

Place = tuple[float, float]


@dataclass(frozen=True)
class Line:
    """Points joined by straight pieces.

    Attributes
    ----------
    places : tuple of (float, float)
    style : str
        "measured", "datasheet", "series" or "guide".
    pick : int
        Which picked capture's colour it has; -1: none.
    label : str
        Written at its end.
    """

    places: tuple[Place, ...]
    style: str
    pick: int = -1
    label: str = ""


@dataclass(frozen=True)
class Point:
    """One mark.

    Attributes
    ----------
    place : (float, float)
    low, high : float or None
        Ends of its whisker on the vertical axis.
    pick : int
        Which picked capture it is; -1: none.
    words : str
        Said when it is pointed at.
    """

    place: Place
    low: float | None
    high: float | None
    pick: int
    words: str


@dataclass(frozen=True)
class Chart:
    """What is drawn.

    Attributes
    ----------
    title, x_label, y_label : str
    x_ticks, y_ticks : tuple of (float, str)
    lines : tuple of Line
    points : tuple of Point
    notes : tuple of str
        Written below.
    """

    title: str
    x_label: str
    y_label: str
    x_ticks: tuple[tuple[float, str], ...] = ()
    y_ticks: tuple[tuple[float, str], ...] = ()
    lines: tuple[Line, ...] = ()
    points: tuple[Point, ...] = ()
    notes: tuple[str, ...] = ()


class Axis:
    """From values to shares of an axis.

    Parameters
    ----------
    low, high
        Ends; above 0 where `log`.
    log
        Equal ratios are equally long.
    """

    def __init__(self, low: float, high: float, *, log: bool = False) -> None:
        self.log = log
        self.low, self.high = (math.log10(low), math.log10(high)) if log else (low, high)
        if not self.high > self.low:
            self.low, self.high = self.low - 0.5, self.high + 0.5

    @classmethod
    def around(cls, values: Sequence[float], *, log: bool = False, zero: bool = False) -> Axis:
        """An axis that holds all values with some room; with `zero` it begins there if no value is below."""
        low, high = min(values), max(values)
        if log:
            return cls(low / 1.6, high * 1.6, log=True)
        room = 0.08 * (high - low if high > low else abs(high) or 1.0)
        if zero and low >= 0:
            return cls(0.0, high + (room if high else 1.0))
        return cls(low - room, high + room)

    def share(self, value: float) -> float:
        """Where a value lies."""
        at = math.log10(value) if self.log else value
        return (at - self.low) / (self.high - self.low)

    def inside(self, value: float) -> float:
        """The same, kept within the plot."""
        return min(max(self.share(value), 0.0), 1.0) if not self.log or value > 0 else 0.0

    def ticks(self, factor: float = 1.0, parts: int = 6) -> tuple[tuple[float, str], ...]:
        """Round values and where they lie, about `parts` on an even axis; they are written divided by `factor`."""
        if self.log:
            steps = (1, 2, 5) if self.high - self.low < 3 else (1,)
            values = [s * 10.0**d for d in range(math.floor(self.low), math.ceil(self.high) + 1) for s in steps]
        else:
            step = _step((self.high - self.low) / factor, parts) * factor
            first = math.ceil(self.low / step)
            values = [step * n for n in range(first, math.floor(self.high / step) + 1)]
        return tuple(
            (share, f"{value / factor:,.6g}".replace("-", MINUS))
            for value in values
            if 0 <= (share := self.share(value)) <= 1
        )


def _step(span: float, parts: int) -> float:
    """A round step that divides a span into about so many parts."""
    raw = span / parts
    power = 10.0 ** math.floor(math.log10(raw))
    return min((power * m for m in (1, 2, 2.5, 5, 10)), key=lambda step: abs(step - raw))
