"""Units of Nsight Compute: one base unit a dimension, and how a value is written.

Records hold base units, but reports from elsewhere may have been written with scaled ones, so every value is brought
to one unit before two of them meet.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from types import MappingProxyType

from workbench.widgets.text import MINUS, NOTHING

_PREFIXES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_TIMES = {
    "nsecond": 1.0, "ns": 1.0, "nanosecond": 1.0, "usecond": 1e3, "us": 1e3, "msecond": 1e6, "ms": 1e6,
    "second": 1e9, "s": 1e9,
}  # fmt: skip
_PER = {"second": 1.0, "s": 1.0, "msecond": 1e3, "ms": 1e3, "usecond": 1e6, "us": 1e6, "nsecond": 1e9, "ns": 1e9}


def _known() -> dict[str, tuple[str, float]]:
    """Base unit and factor of each unit, by its name in lower case."""
    units: dict[str, tuple[str, float]] = {name: ("ns", factor) for name, factor in _TIMES.items()}
    for prefix, scale in _PREFIXES.items():
        units[f"{prefix}byte"] = ("byte", scale)
        units[f"{prefix}cycle"] = ("cycle", scale)
        units[f"{prefix}inst"] = ("inst", scale)
        units[f"{prefix}hz"] = ("cycle/second", scale)
        for per, rate in _PER.items():
            units[f"{prefix}byte/{per}"] = ("byte/second", scale * rate)
            units[f"{prefix}cycle/{per}"] = ("cycle/second", scale * rate)
    return units | {"%": ("%", 1.0), "pct": ("%", 1.0)}


UNITS = MappingProxyType(_known())


@dataclass(frozen=True)
class Reading:
    """A value in its base unit.

    Attributes
    ----------
    value : float
    unit : str
        "ns", "byte", "byte/second", "cycle", "cycle/second", "%", or the profiler's own word; "" where there is none.
    deviation : float or None
        Standard deviation over the runs, in the same unit; None where it is not known.
    half_width : float or None
        Half width of the value's own 95 % interval, where the record has that instead.
    """

    value: float
    unit: str
    deviation: float | None = None
    half_width: float | None = None


def in_base_unit(value: float, unit: str, deviation: float | None = None) -> Reading:
    """A value of any unit in its base unit; a unit that is not known stays as it is."""
    base, factor = UNITS.get(unit.strip().lower(), (unit.strip(), 1.0))
    return Reading(value * factor, base, None if deviation is None else deviation * factor)


_STEPS: dict[str, tuple[tuple[float, str], ...]] = {
    "ns": ((1e9, "s"), (1e6, "ms"), (1e3, "\u00b5s"), (1.0, "ns")),
    "byte": ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "KB"), (1.0, "B")),
    "byte/second": ((1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s"), (1.0, "B/s")),
    "cycle": ((1e9, "G cycles"), (1e6, "M cycles"), (1e3, "K cycles"), (1.0, "cycles")),
    "cycle/second": ((1e9, "GHz"), (1e6, "MHz"), (1.0, "Hz")),
}


@dataclass(frozen=True)
class Scale:
    """How values of one row are written: divided, then named."""

    factor: float
    name: str

    def write(self, value: float) -> str:
        """The value without its unit: three significant digits or all whole ones."""
        return number(value / self.factor, whole=self.factor == 1)


def scale_of(unit: str, values: Iterable[float]) -> Scale:
    """One scale for values of a unit, so that they can be compared at a glance."""
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    steps = _STEPS.get(unit)
    if steps is None:
        return Scale(1.0, unit)
    factor, name = next(((f, n) for f, n in steps if largest >= f), steps[-1])
    if unit == "ns" and factor == 1e6 and largest < 1e7:  # kernels are spoken of in microseconds
        factor, name = 1e3, "\u00b5s"
    return Scale(factor, name)


def number(value: float, *, whole: bool = True) -> str:
    """A number for a reader: whole ones whole where those are counts, others with three or four digits."""
    if not math.isfinite(value):
        return NOTHING
    size = abs(value)
    if (whole or not value) and value == round(value) and size < 1e15:
        return f"{value:,.0f}".replace("-", MINUS)
    if size >= 1e15 or size < 1e-4:
        return f"{value:.2e}".replace("-", MINUS)
    places = 0 if size >= 999.5 else 1 if size >= 9.995 else 2 if size >= 0.9995 else 3 if size >= 0.0995 else 4
    return f"{value:,.{places}f}".replace("-", MINUS)
