"""Times as dots: a panel a batch, a row a contender, the mark says where a time comes from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from workbench.errors import InvalidArgument
from workbench.widgets import text
from workbench.widgets.lesson.drawing import Picture, drawing, round_numbers

COLUMNS = 3
PANEL, LEFT, BETWEEN = 236, 132, 22
TOP, HEAD, ROW, AXIS = 26, 24, 17, 24
RADIUS = 4
LEGEND = 16
LABEL = 44
"""Width kept for a time in figures, pixels."""

MARKS = {"measured": "\u25cf", "recorded": "\u25d0", "reference": "\u25c7", "modelled": "\u25cb"}
"""By the first word of an origin the character that stands for its mark in text."""


@dataclass(frozen=True)
class Dot:
    """One time.

    Attributes
    ----------
    panel, row : str
        The batch and the contender.
    us : float
        Microseconds, above 0.
    origin : str
        Where it comes from, as :func:`workbench.records.origin_label` says it.
    low_us, high_us : float or None
        Ends of its interval.
    notes : str
        Shown when pointed at, such as the version that was measured.
    """

    panel: str
    row: str
    us: float
    origin: str
    low_us: float | None = None
    high_us: float | None = None
    notes: str = ""

    @property
    def kind(self) -> str:
        """First word of the origin."""
        return self.origin.split()[0]


def dots(
    found: Sequence[Dot],
    *,
    title: str,
    rows: Sequence[str] | None = None,
    strong: Sequence[str] = (),
    floors: Mapping[str, float] | None = None,
    floor_name: str = "floor",
) -> Picture:
    """Draw times on one logarithmic axis of microseconds, which all panels share.

    Parameters
    ----------
    found
        The times; panels in the order of their first. A row may have several, such as one recorded and one modelled.
    title
        Written above.
    rows
        Order of the rows, names without any dot left out; default: in the order of their first.
    strong
        Rows that are set in bold.
    floors
        By panel a time that nothing can beat by much, microseconds: a dotted line.
    floor_name
        What that is.

    Raises
    ------
    InvalidArgument
        There is nothing to draw, a time is not above 0, or an origin has no mark.
    """
    if not found:
        raise InvalidArgument("there is no time to draw. Give at least one Dot.")
    for dot in found:
        if not (dot.us > 0 and math.isfinite(dot.us)) or dot.kind not in MARKS:
            raise InvalidArgument(
                f"{dot.row} on {dot.panel}: {dot.us} us, {dot.origin!r}. Give a time above 0 whose origin begins with "
                f"{', '.join(MARKS)}."
            )
    floors = dict(floors or {})
    panels = list(dict.fromkeys(dot.panel for dot in found))
    there = dict.fromkeys(dot.row for dot in found)
    rows = [row for row in rows if row in there] if rows is not None else list(there)
    shown = [dot for dot in found if dot.row in rows]
    ends = [value for dot in shown for value in (dot.us, dot.low_us, dot.high_us) if value]
    ends += [floors[panel] for panel in panels if panel in floors]
    axis = _Axis(min(ends) / 1.12, max(ends) * 1.12)
    columns = min(COLUMNS, len(panels))
    lines = -(-len(panels) // columns)
    tall = HEAD + ROW * len(rows) + AXIS
    legend = _legend(shown, floor_name if floors else "", TOP + lines * tall + LEGEND)
    width, height = LEFT + columns * (PANEL + BETWEEN), TOP + lines * tall + LEGEND * len(legend) + 8
    parts = [f'<text class="head ink" x="0" y="13">{escape(title)}</text>']
    for at, panel in enumerate(panels):
        left, top = LEFT + at % columns * (PANEL + BETWEEN), TOP + at // columns * tall
        parts += _panel(panel, [d for d in shown if d.panel == panel], rows, axis, left, top, floors.get(panel))
        if at % columns == 0:
            parts += [
                f'<text class="{"ink strong" if row in strong else "ink"} end" x="{LEFT - 10}" '
                f'y="{top + HEAD + ROW * (i + 0.5) + 4:.1f}">{escape(row)}</text>'
                for i, row in enumerate(rows)
            ]
    return drawing(parts + legend, name="wb-dots", width=width, height=height, says=_words(title, shown))


@dataclass(frozen=True)
class _Axis:
    low: float
    high: float

    def x(self, us: float) -> float:
        """Place in a panel; its right end is kept for the figures of the slowest."""
        return math.log(us / self.low) / math.log(self.high / self.low) * (PANEL - LABEL)


def _panel(
    name: str, found: list[Dot], rows: Sequence[str], axis: _Axis, left: int, top: int, floor: float | None
) -> list[str]:
    first, bottom = top + HEAD, top + HEAD + ROW * len(rows)
    parts = [f'<text class="strong ink" x="{left}" y="{top + 14}">{escape(name)}</text>']
    ticks = round_numbers(axis.low, axis.high)
    for tick in ticks:
        x = left + axis.x(tick)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{first}" y2="{bottom}"/>')
        unit = " us" if tick == ticks[-1] else ""
        parts.append(f'<text class="soft mid" x="{x:.1f}" y="{bottom + 13}">{tick:g}{unit}</text>')
    for i in range(len(rows)):
        y = first + ROW * (i + 0.5)
        parts.append(f'<line class="grid" x1="{left}" x2="{left + PANEL - LABEL}" y1="{y:.1f}" y2="{y:.1f}"/>')
    if floor is not None:
        x = left + axis.x(floor)
        parts.append(
            f'<g><title>{text.us(floor)} us</title><line class="line-soft" stroke-dasharray="1 2" x1="{x:.1f}" '
            f'x2="{x:.1f}" y1="{first - 4}" y2="{bottom}"/></g>'
        )
    for i, row in enumerate(rows):
        y = first + ROW * (i + 0.5)
        mine = sorted((d for d in found if d.row == row), key=lambda d: d.us)
        parts += [_mark(d, left + axis.x(d.us), y, axis, left) for d in mine]
        if mine:
            several = len({d.kind for d in mine}) > 1
            words = " ".join(f"{MARKS[d.kind] if several else ''}{text.us(d.us)}" for d in mine)
            x = axis.x(mine[-1].us) + RADIUS + 4
            if x + 7 * len(words) > PANEL + BETWEEN:  # at the right end, before the dots instead
                x, side = axis.x(mine[0].us) - RADIUS - 4, " end"
            else:
                side = ""
            parts.append(f'<text class="soft halo{side}" x="{left + x:.1f}" y="{y + 4:.1f}">{words}</text>')
    return parts


def _mark(dot: Dot, x: float, y: float, axis: _Axis, left: int) -> str:
    said = f"{dot.row}, {dot.panel}: {text.fine_us(dot.us)} us"
    if dot.low_us and dot.high_us:
        said += f" ({text.fine_us(dot.low_us)} to {text.fine_us(dot.high_us)})"
    said = "; ".join(filter(None, (said, dot.origin, dot.notes)))
    whisker = ""
    if dot.low_us and dot.high_us:
        low, high = left + axis.x(dot.low_us), left + axis.x(dot.high_us)
        whisker = f'<line class="line-ink" stroke-width="1.5" x1="{low:.1f}" x2="{high:.1f}" y1="{y}" y2="{y}"/>'
    return f"<g><title>{escape(said)}</title>{whisker}{symbol(dot.kind, x, y)}</g>"


def symbol(kind: str, x: float, y: float) -> str:
    """The mark of an origin: full, half or hollow circle for measured, recorded, modelled; a diamond for reference."""
    r = RADIUS
    circle = f'<circle class="page line-ink" cx="{x:.1f}" cy="{y:.1f}" r="{r}"/>'
    if kind == "measured":
        return f'<circle class="ink" cx="{x:.1f}" cy="{y:.1f}" r="{r}"/>'
    if kind == "recorded":
        return f'{circle}<path class="ink" d="M{x:.1f} {y - r:.1f} a{r} {r} 0 0 0 0 {2 * r} z"/>'
    if kind == "reference":
        d = r + 1
        return f'<path class="page line-slate" d="M{x:.1f} {y - d:.1f} l{d} {d} l{-d} {d} l{-d} {-d} z"/>'
    return circle


def _legend(shown: Sequence[Dot], floor_name: str, y: float) -> list[str]:
    """The marks in use, a line each, with every origin that the mark stands for here."""
    lines: list[str] = []
    for kind in MARKS:
        origins = list(dict.fromkeys(dot.origin for dot in shown if dot.kind == kind))
        if origins:
            at = y + LEGEND * len(lines)
            words = f'<text class="soft" x="{LEFT + 12}" y="{at}">{escape("; ".join(origins))}</text>'
            lines.append(symbol(kind, LEFT + RADIUS, at - 4) + words)
    if floor_name:
        at = y + LEGEND * len(lines)
        tick = f'x1="{LEFT + RADIUS}" x2="{LEFT + RADIUS}" y1="{at - 10}" y2="{at + 2}"'
        words = f'<text class="soft" x="{LEFT + 12}" y="{at}">{escape(floor_name)}</text>'
        lines.append(f'<line class="line-soft" stroke-dasharray="1 2" {tick}/>{words}')
    return lines


def _words(title: str, shown: Sequence[Dot]) -> str:
    best = min(shown, key=lambda dot: dot.us)
    return f"{title}: {len(shown)} times, the shortest {text.us(best.us)} us for {best.row} on {best.panel}"
