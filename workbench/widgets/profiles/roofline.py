"""Captures below the ceilings of their GPU: operations a second against operations a byte of memory traffic.

After Williams, Waterman, Patterson, "Roofline: an insightful visual performance model for multicore architectures",
CACM 52 (2009). Bytes are those that Nsight Compute counted at the memory, and time is its isolated time on cold
caches: both of one run of the kernel. Operations follow from the workload.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workbench.widgets import text
from workbench.widgets.profiles.captures import Capture, short_gpu
from workbench.widgets.profiles.ceilings import BYTES, OPERATIONS, Ceiling
from workbench.widgets.profiles.chart import Axis, Chart, Line, Point
from workbench.widgets.profiles.counters import READ, WRITTEN
from workbench.widgets.profiles.units import number
from workbench.widgets.profiles.work import ROUTER

TERA = 1e12
RIDGE_SAMPLES = 2


@dataclass(frozen=True)
class Standing:
    """Where one capture stands.

    Attributes
    ----------
    intensity : float
        Operations a byte of memory traffic.
    rate : float
        Operations a second.
    traffic : float
        Bytes a second.
    """

    intensity: float
    rate: float
    traffic: float


def standing(capture: Capture) -> Standing | str:
    """Where a capture stands, or why that cannot be told."""
    work, duration = capture.work, capture.isolated_ns
    if not capture.counted:
        return "reduced record: no memory counters"
    if work is None:
        return "the operations of this workload are not known"
    if not duration or duration <= 0:
        return "no duration in the record"
    moved = [capture.readings.get(name) for name in (READ, WRITTEN)]
    if any(one is None or one.unit != "byte" for one in moved):
        return "no memory traffic in the record; capture the set overview or memory"
    total = sum(one.value for one in moved if one is not None)
    if total <= 0:
        return "no memory traffic was counted"
    return Standing(work.operations / total, work.operations / duration * 1e9, total / duration * 1e9)


def roofline(picked: Sequence[Capture], limits: Mapping[str, tuple[Ceiling, ...]]) -> Chart:
    """The chart of some captures.

    Parameters
    ----------
    picked
        In the order of their letters.
    limits
        By GPU.
    """
    stood = [(at, capture, standing(capture)) for at, capture in enumerate(picked)]
    found = [(at, capture, one) for at, capture, one in stood if isinstance(one, Standing)]
    notes = [f"{'ABCDEFGH'[at]} is not drawn: {why}" for at, _, why in stood if isinstance(why, str)]
    gpus = tuple(dict.fromkeys(capture.gpu for _, capture, _ in found))
    notes += [f"{gpu}: no ceiling is known" for gpu in gpus if not limits.get(gpu)]
    labels = "operations a byte of memory traffic", "TFLOP/s"
    if not found:
        return Chart("Roofline", *labels, notes=tuple(notes))
    every = [one for gpu in gpus for one in limits.get(gpu, ())]
    ridges = [c.rate / m.rate for c in every if c.unit == OPERATIONS for m in every if m.unit == BYTES]
    x = Axis.around([one.intensity for _, _, one in found] + ridges, log=True)
    low_x, high_x = 10**x.low, 10**x.high
    rates = [one.rate for _, _, one in found] + [c.rate for c in every if c.unit == OPERATIONS]
    rates += [c.rate * min(one.intensity for _, _, one in found) for c in every if c.unit == BYTES]
    y = Axis.around(rates, log=True)
    lines = []
    for gpu in gpus:
        own = limits.get(gpu, ())
        name = f"{short_gpu(gpu)}: " if len(gpus) > 1 else ""
        for ceiling in own:
            roof = _memory_roof if ceiling.unit == BYTES else _compute_roof
            lines.append(roof(ceiling, own, x, y, (low_x, high_x), name))
            mark = "solid" if ceiling.measured else "dashed"
            notes.append(f"{name}{_rate(ceiling)} ({mark}): {ceiling.words}")
    said = [_words(at, one, limits.get(capture.gpu, ())) for at, capture, one in found]
    points = tuple(
        Point((x.share(one.intensity), y.share(one.rate)), None, None, at, words)
        for (at, _, one), words in zip(found, said, strict=True)
    )
    if any(capture.record.operator == ROUTER for _, capture, _ in found):
        notes = ["router: the operations of the product, 2 M N K, in however many terms it is computed", *notes]
    notes = said + notes
    return Chart("Roofline", *labels, x.ticks(), y.ticks(TERA), tuple(lines), points, tuple(notes))


def _rate(ceiling: Ceiling) -> str:
    unit = "TB/s" if ceiling.unit == BYTES else "TFLOP/s"
    return f"{number(float(f'{ceiling.rate / TERA:.3g}'))} {unit}"


def _memory_roof(
    ceiling: Ceiling, own: Sequence[Ceiling], x: Axis, y: Axis, ends: tuple[float, float], name: str
) -> Line:
    """A slope that stops at the highest ceiling of operations of the same kind (measured, datasheet)."""
    tops = [c.rate for c in own if c.unit == OPERATIONS and c.measured == ceiling.measured]
    tops = tops or [c.rate for c in own if c.unit == OPERATIONS]
    start = max(ends[0], 10**y.low / ceiling.rate)
    end = min(ends[1], max(tops) / ceiling.rate if tops else ends[1])
    places = tuple((x.share(at), y.share(ceiling.rate * at)) for at in (start, end))
    return Line(places, _style(ceiling), label=f"{name}{_rate(ceiling)}")


def _compute_roof(
    ceiling: Ceiling, own: Sequence[Ceiling], x: Axis, y: Axis, ends: tuple[float, float], name: str
) -> Line:
    """A level that begins where the slope of the same kind reaches it."""
    slopes = [c.rate for c in own if c.unit == BYTES and c.measured == ceiling.measured]
    slopes = slopes or [c.rate for c in own if c.unit == BYTES]
    start = max(ends[0], ceiling.rate / max(slopes)) if slopes else ends[0]
    level = y.share(ceiling.rate)
    return Line(((x.share(start), level), (1.0, level)), _style(ceiling), label=f"{name}{_rate(ceiling)}")


def _style(ceiling: Ceiling) -> str:
    return "measured" if ceiling.measured else "datasheet"


def _words(at: int, one: Standing, own: Sequence[Ceiling]) -> str:
    said = f"{'ABCDEFGH'[at]}: {number(one.rate / TERA)} TFLOP/s at {number(one.intensity)} operations a byte"
    slope = next((c for c in own if c.unit == BYTES), None)
    if slope is None:
        return said
    share = f"{text.percent(one.traffic / slope.rate)} of the {'measured' if slope.measured else 'datasheet'} rate"
    return f"{said}; memory at {number(one.traffic / TERA)} TB/s, {share}"
