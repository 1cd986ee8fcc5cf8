"""Axes and points of the charts, in shares of the axis: the browser and the static picture only scale them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from workbench.tune.resources import Resources
from workbench.tune.space import Value
from workbench.widgets import text
from workbench.widgets.tiles.known import Known
from workbench.widgets.tiles.times import MODELLED, Time

ROOM = 0.06
"""Share of an axis that is left free at each end."""

SHADES = 5


@dataclass(frozen=True)
class Axis:
    """One axis.

    Attributes
    ----------
    title : str
    ticks : tuple of (float, str)
        Place, 0 to 1, and what is written there.
    low, high : float
        Values at the ends.
    log : bool
    """

    title: str
    ticks: tuple[tuple[float, str], ...]
    low: float
    high: float
    log: bool = False

    def at(self, value: float) -> float:
        """Where a value stands, 0 to 1; what is beyond an end stands there."""
        low, high = (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)
        share = ((math.log(max(value, 1e-12)) if self.log else value) - low) / (high - low)
        return round(min(max(share, 0.0), 1.0), 4)


def spread(title: str, values: Sequence[float], *, log: bool = False, form: str = "{:g}", whole: bool = False) -> Axis:
    """An axis over all the values, with some room, and round ticks; `whole`: what is counted has no fractions."""
    low, high = min(values), max(values)
    if log:
        factor = max((high / low) ** ROOM, 1.02)
        low, high = low / factor, high * factor
    else:
        room = (high - low) * ROOM or abs(high) * ROOM or 1.0
        low, high = low - room, high + room
    bare = Axis(title, (), low, high, log)
    ticks = [tick for tick in round_ticks(low, high) if not whole or tick == int(tick)]
    return Axis(title, tuple((bare.at(tick), form.format(tick)) for tick in ticks), low, high, log)


def round_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten between two ends, at most so many."""
    power = 10.0 ** math.floor(math.log10((high - low) / most))
    step = next(power * factor for factor in (1, 2, 5, 10, 20) if (high - low) / (power * factor) <= most)
    first = math.ceil(low / step - 1e-9)
    return [round(n * step, 12) for n in range(first, math.floor(high / step + 1e-9) + 1)]


@dataclass(frozen=True)
class Scatter:
    """Time over something, or something over time.

    Attributes
    ----------
    x, y : Axis
    points : tuple of (int, float, float)
        Row, and where it stands.
    front : tuple of int
        Rows that no other beats in both; along x.
    empty : str
        In place of points, where there are none.
    """

    x: Axis
    y: Axis
    points: tuple[tuple[int, float, float], ...]
    front: tuple[int, ...] = ()
    empty: str = ""


@dataclass(frozen=True)
class Stand:
    """A row of the scene: a configuration with its figures."""

    config: Any
    time: Time
    resources: Resources | None


def occupancy_plot(stands: Sequence[Stand]) -> Scatter:
    """Time of a call over the share of an SM's warps that are resident."""
    y = spread("\u00b5s a call", [stand.time.us for stand in stands], log=True)
    known = [
        (row, s.resources.occupancy.fraction, s.time.us)
        for row, s in enumerate(stands)
        if s.resources and s.resources.occupancy
    ]
    most = max([share for _, share, _ in known], default=0.25)
    high = min(1.0, most * 1.15)
    bare = Axis("share of an SM's warps that are resident", (), 0.0, high)
    ticks = tuple((bare.at(tick), text.percent(tick)) for tick in round_ticks(0.0, high))
    x = Axis(bare.title, ticks, 0.0, high)
    points = tuple((row, x.at(share), y.at(us)) for row, share, us in known)
    return Scatter(x, y, points, empty="" if points else "Nothing is compiled yet: press Compile all.")


def error_plot(stands: Sequence[Stand]) -> Scatter:
    """Error against float64 over time of a call; only what was checked has one."""
    known = [(row, s.time.us, s.time.rel_error) for row, s in enumerate(stands) if s.time.rel_error is not None]
    if not known:
        flat = Axis("", (), 0.0, 1.0)
        words = "Errors are known of what was measured or recorded, and nothing of this workload was."
        return Scatter(flat, flat, (), empty=words)
    x = spread("\u00b5s a call", [us for _, us, _ in known], log=True)
    y = spread("relative error", [error for _, _, error in known if error is not None], form="{:.2e}")
    points = tuple((row, x.at(us), y.at(error)) for row, us, error in known if error is not None)
    return Scatter(x, y, points, front=pareto([(row, us, error) for row, us, error in known if error is not None]))


def pareto(points: Sequence[tuple[int, float, float]]) -> tuple[int, ...]:
    """Rows that no other row beats in one of both numbers without losing in the other, by the first number."""
    front: list[int] = []
    least = math.inf
    for row, _, second in sorted(points, key=lambda point: (point[1], point[2])):
        if second < least:
            front.append(row)
            least = second
    return tuple(front)


@dataclass(frozen=True)
class Column:
    """One axis of the parallel coordinates; `name` is "" where it is no parameter."""

    name: str
    axis: Axis


def columns(known: Known, options: dict[str, tuple[Value, ...]], stands: Sequence[Stand]) -> tuple[Column, ...]:
    """Axes: each parameter that has a choice, what it needs, and its time."""
    made = [Column(name, steps(name, values)) for name, values in options.items() if len(values) > 1]
    compiled = [stand.resources for stand in stands if stand.resources is not None and stand.resources.kernel]
    registers = [float(each.kernel.facts.registers) for each in compiled if each.kernel]
    shared = [each.occupancy.shared_bytes / 1000 for each in compiled if each.occupancy]
    if registers and shared:
        made += [Column("", spread("registers", registers, whole=True)), Column("", spread("shared, KB", shared))]
    return (*made, Column("", spread("\u00b5s", [stand.time.us for stand in stands], log=True)))


def steps(name: str, values: Sequence[Value]) -> Axis:
    """Values of a parameter, evenly spaced, whatever they are."""
    places = [(i + 0.5) / len(values) for i in range(len(values))]
    return Axis(name, tuple((round(p, 4), word(v)) for p, v in zip(places, values, strict=True)), 0, len(values))


def line_of(stand: Stand, axes: Sequence[Column], options: dict[str, tuple[Value, ...]]) -> list[float | None]:
    """Where a configuration crosses each axis; None where it is not known."""
    values, found = stand.config.to_dict(), stand.resources
    facts = found.kernel.facts if found and found.kernel else None
    extra: dict[str, float | None] = {
        "registers": facts.registers if facts else None,
        "shared, KB": found.occupancy.shared_bytes / 1000 if found and found.occupancy else None,
        "\u00b5s": stand.time.us,
    }
    line: list[float | None] = []
    for column in axes:
        if column.name:
            known = options[column.name]
            value = values[column.name]
            line.append(column.axis.ticks[known.index(value)][0] if value in known else None)
        else:
            number = extra[column.axis.title]
            line.append(None if number is None else column.axis.at(number))
    return line


def shades(stands: Sequence[Stand]) -> list[int]:
    """Step of grey of each row: the faster the darker, among those whose times are from the same kind of source."""
    found = [0] * len(stands)
    for is_modelled in (False, True):
        rows = [row for row, stand in enumerate(stands) if (stand.time.origin == MODELLED) is is_modelled]
        rows.sort(key=lambda row: stands[row].time.us)
        for rank, row in enumerate(rows):
            found[row] = SHADES - 1 - rank * SHADES // len(rows)
    return found


def word(value: Value) -> str:
    """A value as it is written."""
    return ("on" if value else "off") if isinstance(value, bool) else f"{value:,}"
