"""How long the SMs worked, by Nsight Compute's counters and by the stamps of one and the same launch.

``sm__cycles_active`` counts the SM's clock cycles with at least one warp there, and is known as least, mean and most
over the SMs. Divided by the clock of the same pass (``sm__cycles_elapsed.avg.per_second``) it is a time that can be
set beside the stamps' time with at least one CTA between its first and last stamp. The counter begins with the launch
of a CTA and ends with its exit, the stamps begin when the CTA's first descriptor does and end when its last is closed,
so the counter is longer by about the same time on every SM; ``outside_ns`` says by how much.

Nsight Compute profiles a kernel by itself on cold caches, so the stamps must be those of the profiled launch, not of
one in a graph.
"""

from __future__ import annotations

import contextlib
import csv
import io
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from workbench.errors import InvalidArgument
from workbench.measure.timeline import Timeline

ACTIVE = tuple(f"sm__cycles_active.{rollup}" for rollup in ("min", "avg", "max"))
CLOCK = "sm__cycles_elapsed.avg.per_second"
METRICS = (*ACTIVE, CLOCK)
"""What to ask Nsight Compute for; one pass."""

TOLERANCE = 0.05
"""Largest relative difference of busy times that counts as agreement."""

CLOCK_UNITS = {"cycle/second": 1.0, "cycle/usecond": 1e6, "cycle/nsecond": 1e9, "hz": 1.0, "mhz": 1e6, "ghz": 1e9}
CYCLE_UNITS = {"cycle": 1.0, "kcycle": 1e3, "mcycle": 1e6, "": 1.0}


@dataclass(frozen=True)
class ActiveTime:
    """Time with a warp on the SM, over all SMs of the GPU, nanoseconds."""

    least_ns: float
    mean_ns: float
    most_ns: float


def read_counters(text: str) -> list[ActiveTime]:
    """Active time of each profiled launch, in the order of launches.

    Parameters
    ----------
    text : str
        What ``ncu --csv --metrics <METRICS>`` prints, with ``--page raw`` (a row a launch) or without (a row a metric).

    Raises
    ------
    InvalidArgument
        There is no such table in it, a metric is missing, or a unit is not known.
    """
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID",')), None)
    if start is None:
        raise InvalidArgument(
            f"no table of Nsight Compute in {len(lines)} lines, the last of them: {' / '.join(lines[-3:])!r}. "
            "Give the output of ncu --csv."
        )
    header, *rows = csv.reader(io.StringIO("\n".join(lines[start:])))
    launches: dict[str, dict[str, tuple[str, str]]] = {}
    if "Metric Name" in header:
        for row in rows:
            said = dict(zip(header, row, strict=False))
            if said.get("Metric Name"):
                values = launches.setdefault(said["ID"], {})
                values[said["Metric Name"]] = (said["Metric Value"], said["Metric Unit"])
    else:
        units = rows[0] if rows else []
        for row in rows[1:]:
            if len(row) == len(header):
                launches[row[0]] = {name: (value, unit) for name, value, unit in zip(header, row, units, strict=False)}
    return [_active(launch, values) for launch, values in launches.items()]


def _active(launch: str, values: dict[str, tuple[str, str]]) -> ActiveTime:
    def number(name: str, units: dict[str, float]) -> float:
        if name not in values:
            raise InvalidArgument(f"launch {launch} has no {name}; profile it with --metrics {','.join(METRICS)}.")
        value, unit = values[name]
        scale = units.get(unit.lower())
        try:
            found = float(value.replace(",", ""))
        except ValueError:
            found = float("nan")
        if scale is None or not np.isfinite(found):
            raise InvalidArgument(
                f"launch {launch}: {name} is {value!r} {unit!r}; expected a number in {', '.join(units)}."
            )
        return found * scale

    clock = number(CLOCK, CLOCK_UNITS)
    if clock <= 0:
        raise InvalidArgument(f"launch {launch}: {CLOCK} is {clock}; a clock runs at more than 0.")
    return ActiveTime(*(number(name, CYCLE_UNITS) / clock * 1e9 for name in ACTIVE))


@dataclass(frozen=True)
class BusyComparison:
    """Counters beside stamps of one launch, nanoseconds.

    Attributes
    ----------
    counted, stamped : ActiveTime
    outside_ns : float
        What the counter's mean has more: before the first stamp of a CTA and behind its last.
    worst : float
        Largest relative difference of the three, stamps against counters.
    worst_inside : float
        The same after ``outside_ns`` is taken off the counters: what that time does not explain.
    """

    counted: ActiveTime
    stamped: ActiveTime
    outside_ns: float
    worst: float
    worst_inside: float

    @property
    def agrees(self) -> bool:
        """Whether the two differ by at most 5 % as they are."""
        return self.worst <= TOLERANCE

    @property
    def agrees_inside(self) -> bool:
        """Whether they differ by at most 5 % besides a time that each SM spends outside of the stamps."""
        return self.outside_ns >= 0 and self.worst_inside <= TOLERANCE

    @property
    def verdict(self) -> str:
        """Whether they agree, in a sentence."""
        apart = f"{100 * self.worst:.1f} % of the most active SM"
        besides = f"{100 * self.worst_inside:.1f} % besides {self.outside_ns / 1e3:.2f} \u00b5s outside of the stamps"
        if self.agrees:
            return f"Counters and stamps of one launch agree within {apart}."
        if self.agrees_inside:
            return (
                f"Counters and stamps of one launch agree within {besides}, in which CTAs start and exit; as they "
                f"stand they are {apart} apart."
            )
        return f"Counters and stamps of one launch do not agree: they are {apart} apart, {besides}."

    def __str__(self) -> str:
        pairs = [
            f"{name} {counted / 1e3:.2f} by counters, {stamped / 1e3:.2f} by stamps"
            for name, counted, stamped in zip(
                ("least", "mean", "most"), asdict(self.counted).values(), asdict(self.stamped).values(), strict=True
            )
        ]
        return f"busy us of an SM: {'; '.join(pairs)}"

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {**asdict(self), "agrees": self.agrees}

    @classmethod
    def from_dict(cls, said: Mapping[str, Any]) -> BusyComparison:
        """The comparison that `to_dict` made plain.

        Raises
        ------
        InvalidArgument
            A number is missing or is none.
        """
        try:
            counted, stamped = (
                ActiveTime(*(_finite(said[part][name]) for name in ("least_ns", "mean_ns", "most_ns")))
                for part in ("counted", "stamped")
            )
            return cls(counted, stamped, *(_finite(said[name]) for name in ("outside_ns", "worst", "worst_inside")))
        except (KeyError, TypeError, OverflowError) as error:
            raise InvalidArgument(
                f"no comparison of counters and stamps: {error!r} in {said!r:.200}. Capture with the set schedule."
            ) from None


def _finite(value: object) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):  # or OverflowError
        return float(value)
    raise TypeError(f"{value!r} is no finite number")


def stamped_busy(timeline: Timeline, *, sms: int) -> ActiveTime:
    """Least, mean and most busy SM of a launch by its stamps; an SM without a descriptor was busy for 0.

    Raises
    ------
    InvalidArgument
        Nothing ran, or on more SMs than that.
    """
    busy = np.zeros(sms)
    table = timeline.by_sm()
    if table.empty or int(table.index.max()) >= sms:
        raise InvalidArgument(f"the timeline has {len(table)} SMs, up to {table.index.max()}; the GPU has {sms}.")
    busy[table.index.to_numpy()] = table["busy_ns"].to_numpy()
    return ActiveTime(float(busy.min()), float(busy.mean()), float(busy.max()))


def compare_busy(timeline: Timeline, counted: ActiveTime, *, sms: int) -> BusyComparison:
    """Set the stamps of a launch beside the counters of the same launch.

    Parameters
    ----------
    timeline : Timeline
        The profiled launch's own stamps.
    counted : ActiveTime
    sms : int
        SMs of the GPU; one without a descriptor was busy for 0 by the stamps.

    Raises
    ------
    InvalidArgument
        Nothing ran, by the counters or by the stamps, or it ran on more SMs than that.
    """
    if not counted.most_ns > 0:
        raise InvalidArgument(f"by the counters the most active SM was active for {counted.most_ns} ns.")
    stamped = stamped_busy(timeline, sms=sms)
    outside = counted.mean_ns - stamped.mean_ns
    pairs = list(zip(asdict(counted).values(), asdict(stamped).values(), strict=True))
    worst = max(abs(s - c) / counted.most_ns for c, s in pairs)
    inside = max(abs(s + outside - c) / counted.most_ns for c, s in pairs)
    return BusyComparison(counted, stamped, outside, worst, inside)


def comparison_kept(agreement: Mapping[str, Any], timeline: Timeline, *, sms: int | None) -> BusyComparison | None:
    """The comparison that a record keeps (`BusyComparison.to_dict`), where it is one of this timeline."""
    with contextlib.suppress(InvalidArgument):  # none was made, another version's, or the stamps are of another GPU
        compared = BusyComparison.from_dict(agreement)
        if sms is not None and stamped_busy(timeline, sms=sms) == compared.stamped:
            return compared
    return None
