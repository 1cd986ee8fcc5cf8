"""Captures side by side: each figure, its difference from the first capture's, and whether noise explains it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from workbench.widgets.profiles.captures import Capture
from workbench.widgets.profiles.counters import counter_of, figures, names_in
from workbench.widgets.profiles.units import Reading, Scale, scale_of

BEYOND, WITHIN, UNKNOWN, EQUAL, NONE = "beyond", "within", "unknown", "equal", "none"
"""Verdicts: larger than the noise; not; the noise is not known; no difference; not comparable."""

T_975 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""97.5 % quantiles of Student's t for 1 to 30 degrees of freedom; any table of the distribution has them."""


@dataclass(frozen=True)
class Difference:
    """One capture's figure minus the first one's.

    Attributes
    ----------
    delta : float
        In the base unit.
    relative : float or None
        Over the first one's absolute value; None where that is 0.
    noise : float or None
        Half width of the 95 % interval of the difference of the two means, in the base unit; None: not known.
    verdict : str
    why : str
        The verdict in words.
    """

    delta: float
    relative: float | None
    noise: float | None
    verdict: str
    why: str


@dataclass(frozen=True)
class Row:
    """One figure of all captures.

    Attributes
    ----------
    name, title, group, note : str
        See `workbench.widgets.profiles.counters`.
    readings : tuple of Reading or None
        None where a capture does not have it.
    differences : tuple of Difference or None
        The first is None.
    scale : Scale
    mixed : tuple of str
        Units that cannot be brought to one, where there are several; nothing is compared then.
    """

    name: str
    title: str
    group: str
    note: str
    readings: tuple[Reading | None, ...]
    differences: tuple[Difference | None, ...]
    scale: Scale
    mixed: tuple[str, ...]


def compare(captures: Sequence[Capture]) -> tuple[Row, ...]:
    """Every figure that any of the captures has, the first capture as the base of all differences."""
    found = [figures(capture) for capture in captures]
    runs = [capture.runs for capture in captures]
    return tuple(_row(name, [one.get(name) for one in found], runs) for name in names_in(captures))


def _row(name: str, readings: Sequence[Reading | None], runs: Sequence[int | None]) -> Row:
    counter = counter_of(name)
    units = tuple(dict.fromkeys(reading.unit for reading in readings if reading is not None))
    differences: list[Difference | None] = [None] * len(readings)
    base = readings[0]
    if len(units) == 1 and base is not None:
        for at, reading in enumerate(readings[1:], 1):
            if reading is not None:
                exact = name.startswith(("launch__", "device__"))
                differences[at] = difference(base, reading, runs[0], runs[at], exact=exact, derived=counter.derived)
    scale = scale_of(units[0], [r.value for r in readings if r is not None]) if len(units) == 1 else Scale(1.0, "")
    return Row(
        name, counter.title, counter.group, counter.note, tuple(readings), tuple(differences), scale,
        units if len(units) > 1 else (),
    )  # fmt: skip


def difference(
    a: Reading, b: Reading, runs_a: int | None, runs_b: int | None, *, exact: bool = False, derived: bool = False
) -> Difference:
    """``b - a`` beside its noise.

    Two means of few runs each: Welch's interval, with the degrees of freedom of Welch and Satterthwaite (Welch,
    "The generalization of Student's problem when several different population variances are involved", Biometrika 34,
    1947). It says how well the means are known; that another day or another GPU of the kind gives another mean is not
    in it.

    Parameters
    ----------
    a, b
        Of one unit.
    runs_a, runs_b
        Runs behind each mean.
    exact
        The value describes the launch and has no noise.
    derived
        It follows from several counters, so its deviation is not known.
    """
    delta = b.value - a.value
    relative = delta / abs(a.value) if a.value else None
    if delta == 0:
        return Difference(delta, relative, None, EQUAL, "no difference")
    if exact:
        return Difference(delta, relative, 0.0, BEYOND, "set by the launch, without noise")
    if derived:
        return Difference(delta, relative, None, UNKNOWN, "noise not known: computed from several counters")
    if a.half_width is not None and b.half_width is not None:
        noise = math.hypot(a.half_width, b.half_width)
        outside = abs(delta) > noise
        words = "beyond" if outside else "within"
        return Difference(delta, relative, noise, BEYOND if outside else WITHIN, f"{words} the intervals of both")
    if a.deviation is None or b.deviation is None or min(runs_a or 0, runs_b or 0) < 2:
        few = "a single run" if 1 in (runs_a, runs_b) else "no deviation in the record"
        return Difference(delta, relative, None, UNKNOWN, f"noise not known: {few}; capture with runs=3 or more")
    assert runs_a is not None
    assert runs_b is not None
    noise = half_width(a.deviation, runs_a, b.deviation, runs_b)
    outside = abs(delta) > noise
    words = "beyond" if outside else "within"
    return Difference(
        delta, relative, noise, BEYOND if outside else WITHIN, f"{words} the noise of {runs_a} and {runs_b} runs"
    )


def half_width(deviation_a: float, runs_a: int, deviation_b: float, runs_b: int) -> float:
    """Half width of the 95 % interval of the difference of two means, in their unit."""
    largest = max(deviation_a, deviation_b)
    if largest == 0:
        return 0.0
    # Relative to the larger one, whose square may be no number.
    a, b = (deviation_a / largest) ** 2 / runs_a, (deviation_b / largest) ** 2 / runs_b
    freedom = (a + b) ** 2 / (a**2 / (runs_a - 1) + b**2 / (runs_b - 1))
    return t_quantile(freedom) * math.sqrt(a + b) * largest


def t_quantile(freedom: float) -> float:
    """97.5 % quantile of Student's t, for the next lower whole number of degrees: never too narrow."""
    whole = max(int(freedom), 1)
    # Beyond the table: the first term of the expansion in 1 / freedom, right to 0.003 there.
    return T_975[whole - 1] if whole <= len(T_975) else 1.96 + 2.4 / whole
