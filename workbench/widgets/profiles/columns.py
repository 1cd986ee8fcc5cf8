"""Columns of the table: the text of each, and the order by each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.widgets.profiles.captures import Capture
from workbench.widgets.profiles.counters import figure


def case_text(capture: Capture) -> str:
    """The case with its element type."""
    return " ".join(filter(None, (capture.record.workload.case, capture.record.workload.dtype)))


def column_text(capture: Capture, name: str) -> str:
    """A column of the table that names something."""
    if name == "date":
        return capture.date
    if name == "case":
        return case_text(capture)
    return ", ".join(values_of(capture, name))


def values_of(capture: Capture, name: str) -> tuple[str, ...]:
    """Values by which a menu finds a capture."""
    if name == "set":
        return capture.sets
    if name in ("gpu", "policy"):
        return (str(getattr(capture, name)),)
    if name == "case":
        return (capture.record.workload.case,)
    return (str(getattr(capture.record, name)),)


def sorted_by(captures: Sequence[Capture], sort: str, metric: str, *, descending: bool) -> list[Capture]:
    """Captures in an order; those without the value come last either way."""

    def key(capture: Capture) -> Any:
        if sort == "isolated":
            return capture.isolated_ns
        if sort == "replayed":
            return capture.replayed_us
        if sort == "metric":
            found = figure(capture, metric)
            return None if found is None else found.value
        if sort == "runs":
            return capture.runs
        if sort == "date":
            return capture.date
        return capture.configuration if sort == "config" else values_of(capture, sort)

    keyed = [(key(capture), capture) for capture in captures]
    having = sorted((pair for pair in keyed if pair[0] is not None), key=lambda pair: pair[0], reverse=descending)
    return [capture for _, capture in having] + [capture for value, capture in keyed if value is None]
