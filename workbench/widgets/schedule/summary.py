"""The table of measured calls: makespan against the model, what a CTA's time went into, how even the SMs were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workbench.widgets import text
from workbench.widgets.schedule.measured import Measured
from workbench.widgets.schedule.sentence import Cell, Part
from workbench.widgets.schedule.side import Side

TIMES = ("waiting", "streaming", "combining", "merge", "idle")
"""What a resident CTA's time until the makespan is made of, in the order of the bar."""

STAGE_WORDS = {
    "waiting": "from the start of a chunk to its first bytes",
    "streaming": "from its first bytes to its last",
    "combining": "adding up what its warps have",
    "merge": "waiting for the other pieces of a request, and adding them up",
    "idle": "none of these, until the last CTA is done",
}
"""What each of them is."""

HEADINGS = ("measured", "modelled", "excess", "SM busy, min / avg / max", "imbalance", "ends, rms")
"""Titles of the cells, the bar's left out."""


@dataclass(frozen=True)
class MeasuredRow:
    """One timeline.

    Attributes
    ----------
    key, title : str
        As the side is called.
    source : str
        Where the timeline comes from, its mark first.
    cells : tuple of Cell
        By :data:`HEADINGS`.
    bar : tuple of Part
        Mean time of a resident CTA in each of :data:`TIMES`; they sum to the measured makespan.
    """

    key: str
    title: str
    source: str
    cells: tuple[Cell, ...]
    bar: tuple[Part, ...]


def measured_rows(sides: Sequence[Side], measured: Mapping[str, Measured]) -> tuple[MeasuredRow, ...]:
    """A row for each side that has a timeline."""
    longest = max((found.makespan_us for found in measured.values()), default=0.0)
    return tuple(
        MeasuredRow(side.key, side.title, found.source, _cells(found), _bar(found, longest))
        for side in sides
        if (found := measured.get(side.key)) is not None
    )


def _cells(found: Measured) -> tuple[Cell, ...]:
    excess = found.makespan_us - found.modelled_us
    share = excess / found.modelled_us if found.modelled_us else 0.0
    return (
        Cell(text.us(found.makespan_us), "\u00b5s", "measured_us"),
        Cell(text.us(found.modelled_us), "\u00b5s", "modelled_us"),
        Cell(text.signed(f"{100 * abs(share):.0f} %", share), "", "excess"),
        Cell(" / ".join(map(text.us, found.busy_us)), "\u00b5s", "busy"),
        Cell(text.percent(found.imbalance), "", "imbalance"),
        Cell(text.fine_us(found.residual_rms_us), "\u00b5s", "residual_rms"),
    )


def _bar(found: Measured, longest: float) -> tuple[Part, ...]:
    values = found.stage_us | {"idle": found.idle_us}
    return tuple(
        Part(kind, values[kind], values[kind] / longest if longest else 0.0, text.fine_us(values[kind]))
        for kind in TIMES
    )


def in_words(rows: Sequence[MeasuredRow]) -> str:
    """The rows as sentences, for readers who cannot see them."""
    return " ".join(
        f"{row.key} measured: {row.cells[0].text} \u00b5s, modelled {row.cells[1].text}; SMs busy {row.cells[3].text} "
        f"\u00b5s (min, avg, max), imbalance {row.cells[4].text}."
        for row in rows
    )
