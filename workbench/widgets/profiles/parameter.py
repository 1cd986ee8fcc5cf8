"""One figure against one parameter of the configuration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.widgets import text
from workbench.widgets.profiles.captures import Capture, short_gpu, varying
from workbench.widgets.profiles.chart import Axis, Chart, Line, Point
from workbench.widgets.profiles.counters import counter_of, figure
from workbench.widgets.profiles.units import Reading, scale_of

ABSENT = "not set"

LABELLED = 3
"""Lines that are named where none of their points is picked; more names would cover each other."""


def parameters_of(captures: Sequence[Capture]) -> tuple[str, ...]:
    """Parameters worth an axis: those that vary first, then all others."""
    moving = varying(captures)
    rest = dict.fromkeys(name for capture in captures for name in capture.parameters)
    return (*moving, *(name for name in rest if name not in moving))


def parameter_chart(captures: Sequence[Capture], parameter: str, metric: str, picked: Sequence[Capture] = ()) -> Chart:
    """The chart: a place on the axis for each value of the parameter, a line for what is equal in everything else.

    Whiskers reach one standard deviation of the runs up and down, where the record has it.

    Parameters
    ----------
    captures
        Those that the filters let through.
    parameter
        Of the configuration.
    metric
        Name of a counter or a derived figure.
    picked
        Drawn in their colours.
    """
    title = counter_of(metric).title
    found = [(capture, value) for capture in captures if (value := figure(capture, metric)) is not None]
    lacking = len(captures) - len(found)
    notes = [f"{text.plural(lacking, 'capture')} without this figure left out"] if lacking else []
    units = tuple(dict.fromkeys(reading.unit for _, reading in found))
    if len(units) > 1:
        found = [(capture, reading) for capture, reading in found if reading.unit == units[0]]
        notes.append(f"other units left out: {', '.join(unit or 'none' for unit in units[1:])}")
    if not found or not parameter:
        return Chart(title, parameter or "parameter", title, notes=tuple(notes))
    values = sorted({capture.parameters.get(parameter, ABSENT) for capture, _ in found}, key=_order)
    place = {value: (at + 0.5) / len(values) for at, value in enumerate(values)}
    scale = scale_of(units[0], [reading.value for _, reading in found])
    reach = [reading.value + sign * (reading.deviation or 0.0) for _, reading in found for sign in (-1, 1)]
    axis = Axis.around(reach, zero=True)
    pick_of = {capture.key: at for at, capture in enumerate(picked)}
    points = [_point(capture, reading, parameter, place, axis, pick_of, scale.name) for capture, reading in found]
    return Chart(
        title,
        parameter,
        f"{title}, {scale.name}" if scale.name else title,
        tuple((place[value], value) for value in values),
        axis.ticks(scale.factor),
        _lines(found, parameter, place, axis, pick_of),
        tuple(sorted(points, key=lambda point: point.pick)),
        tuple(notes),
    )


def _point(
    capture: Capture,
    reading: Reading,
    parameter: str,
    place: dict[str, float],
    axis: Axis,
    pick_of: dict[str, int],
    unit: str,
) -> Point:
    at = place[capture.parameters.get(parameter, ABSENT)]
    spread = reading.deviation
    low = axis.inside(reading.value - spread) if spread else None
    high = axis.inside(reading.value + spread) if spread else None
    scale = scale_of(reading.unit, [reading.value])
    words = f"{scale.write(reading.value)} {scale.name}".strip()
    about = ", ".join(filter(None, (capture.record.workload.case, capture.gpu, capture.policy, capture.configuration)))
    return Point((at, axis.share(reading.value)), low, high, pick_of.get(capture.key, -1), f"{words}: {about}")


def _lines(
    found: Sequence[tuple[Capture, Reading]],
    parameter: str,
    place: dict[str, float],
    axis: Axis,
    pick_of: dict[str, int],
) -> tuple[Line, ...]:
    """A line for each group of captures that differ in nothing but the parameter; repeated captures are averaged."""
    groups: dict[tuple[Any, ...], dict[str, list[tuple[Capture, float]]]] = {}
    for capture, reading in found:
        record = capture.record
        rest = tuple(sorted((name, value) for name, value in capture.parameters.items() if name != parameter))
        same = (capture.gpu, record.operator, record.provider, record.workload.case, record.workload.dtype)
        group = groups.setdefault((*same, capture.policy, rest), {})
        value = capture.parameters.get(parameter, ABSENT)
        group.setdefault(value, []).append((capture, reading.value))
    long = {key: group for key, group in groups.items() if len(group) > 1}
    lines = []
    for key, group in long.items():
        ordered = sorted(group, key=_order)
        places = tuple((place[v], axis.share(sum(x for _, x in group[v]) / len(group[v]))) for v in ordered)
        picks = [pick_of[c.key] for members in group.values() for c, _ in members if c.key in pick_of]
        name = _name(key, tuple(long))
        label = name if picks or len(long) <= LABELLED else ""
        lines.append(Line(places, "series", min(picks, default=-1), label))
    return tuple(sorted(lines, key=lambda line: line.pick))


def _name(key: tuple[Any, ...], every: Sequence[tuple[Any, ...]]) -> str:
    """What tells one line from the others, the short first: policy, GPU, case, what differs of the configuration."""
    moving = [at for at in (5, 0, 3, 4, 2) if key[at] and len({other[at] for other in every}) > 1]
    parts = [short_gpu(str(key[at])) if at == 0 else str(key[at]) for at in moving]
    rest = set.intersection(*(set(other[6]) for other in every))
    parts += [f"{name}={value}" for name, value in key[6] if (name, value) not in rest]
    return " ".join(parts) or str(key[5] or key[3])


def _order(value: str) -> tuple[int, float, str]:
    """Numbers by size, then words, then absent."""
    try:
        return (0, float(value), value)
    except ValueError:
        return (2 if value == ABSENT else 1, 0.0, value)
