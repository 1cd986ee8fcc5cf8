"""What the chart shows, in units of its axes: curves, winners, the table in use, traffic. Canvas-free plain data.

The scene is the part of the screen that stays while a threshold is dragged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workbench.tables import Choice
from workbench.tune import Point, Traffic
from workbench.tune.evidence import Floats
from workbench.widgets.crossover.board import Board
from workbench.widgets.crossover.styles import title_of

BINS_AN_OCTAVE = 8
BAND_DRAWS = 400
LEAST_TICKS = 4


@dataclass(frozen=True)
class Curve:
    """One provider's times.

    Attributes
    ----------
    provider, title : str
    mark, origin : str
        Where its figures come from.
    allowed : bool
        Whether it is compared at the precision in force.
    m : tuple of int
        Measured rows.
    us, low, high : tuple of float
        Median and its interval, microseconds.
    """

    provider: str
    title: str
    mark: str
    origin: str
    allowed: bool
    m: tuple[int, ...]
    us: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True)
class Zone:
    """Neighbouring M with one provider, both ends included; None: undecided."""

    low: int
    high: int
    provider: str | None


@dataclass(frozen=True)
class Scene:
    """The chart.

    Attributes
    ----------
    curves : tuple of Curve
    fastest, in_use : tuple of Zone
        Who was shown to be fastest, over the measured M; what the table in use takes, over the whole axis.
    measured : (int, int)
        First and last M with figures of every provider compared.
    bins : tuple of (int, int)
        First and last M of each bin of the lanes below the chart.
    calls : tuple of float
        Share of the calls in each bin.
    last_m : int
        Where the axis of M ends; it begins at 1.
    us : (float, float)
        Ends of the axis of time.
    x_ticks, y_ticks : tuple of (float, str)
    """

    curves: tuple[Curve, ...]
    fastest: tuple[Zone, ...]
    in_use: tuple[Zone, ...]
    measured: tuple[int, int]
    bins: tuple[tuple[int, int], ...]
    calls: tuple[float, ...]
    last_m: int
    us: tuple[float, float]
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]


def make_scene(board: Board) -> Scene:
    """Describe the chart of a board."""
    search = board.figures.search
    curves = tuple(_curve(board, name) for name in board.figures.classes)
    shown = [value for curve in curves for values in (curve.low, curve.high) for value in values]
    last = max(*(curve.m[-1] for curve in curves), int(board.traffic.m[-1]))
    bins = bins_to(last)
    low, high = min(shown) * 0.88, max(shown) * 1.12
    verdicts = search.verdicts()
    return Scene(
        curves=curves,
        fastest=tuple(Zone(i.low, i.high, i.winner) for i in board.intervals),
        in_use=zones_of(board.in_use, last),
        measured=(verdicts[0].m, verdicts[-1].m),
        bins=bins,
        calls=tuple(calls_in(board.traffic, bins).tolist()),
        last_m=last,
        us=(low, high),
        x_ticks=tuple((float(1 << i), f"{1 << i:,}") for i in range(last.bit_length())),
        y_ticks=decade_ticks(low, high),
    )


def zones_of(rule: Choice, last: int) -> tuple[Zone, ...]:
    """A rule over the axis from 1 to `last`."""
    ends = [*(start - 1 for start in rule.starts[1:]), last]
    pieces = zip(rule.starts, ends, rule.providers, strict=True)
    return tuple(Zone(max(first, 1), min(end, last), name) for first, end, name in pieces if first <= last and end >= 1)


def bins_to(last: int) -> tuple[tuple[int, int], ...]:
    """Bins of equal width on a logarithmic axis from 1 to `last`, as far as whole numbers allow."""
    steps = math.ceil(math.log2(last + 1) * BINS_AN_OCTAVE) + 1
    firsts = sorted({round(2 ** (i / BINS_AN_OCTAVE)) for i in range(steps)})
    firsts = [first for first in firsts if first <= last]
    return tuple(zip(firsts, [*(first - 1 for first in firsts[1:]), last], strict=True))


def calls_in(traffic: Traffic, bins: Sequence[tuple[int, int]]) -> Floats:
    """Share of the calls in each bin, float64 [bins]."""
    place = np.searchsorted([first for first, _ in bins], traffic.m, side="right") - 1
    return np.bincount(np.maximum(place, 0), traffic.weights, minlength=len(bins)).astype(np.float64)


def decade_ticks(low: float, high: float) -> tuple[tuple[float, str], ...]:
    """Round values between two ends: 1, 2 and 5 times powers of ten, or more of them where those are few."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9)):
        values = [factor * 10.0**power for power in powers for factor in factors]
        ticks = tuple((value, f"{value:g}") for value in values if low <= value <= high)
        if len(ticks) >= LEAST_TICKS:
            break
    return ticks


def interval_of(point: Point, name: str, *, level: float, seed: int) -> tuple[float, float, float]:
    """Median of one provider at one M, and its interval, microseconds."""
    drawn = point.draws((name,), BAND_DRAWS, seed)[:, 0]
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return float(point.medians((name,))[0]), float(low), float(high)


def _curve(board: Board, name: str) -> Curve:
    search, origin = board.figures.search, board.figures.of[name]
    points = [point for point in search.points if point.has((name,))]
    settings = search.settings
    rows = [interval_of(point, name, level=settings.level, seed=settings.seed) for point in points]
    us, low, high = zip(*rows, strict=True)
    m = tuple(point.m for point in points)
    return Curve(name, title_of(name), origin.mark, origin.words, name in board.allowed, m, us, low, high)
