"""The measured part of a picture: the table of timelines, and the strip of what the model misses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from workbench.widgets.colours import STAGE_TONES, Theme, mix
from workbench.widgets.schedule.panel import Panel
from workbench.widgets.schedule.summary import HEADINGS, TIMES, MeasuredRow
from workbench.widgets.schedule.svg_pen import Pen, fit, text_width

STRIP = 30
"""Pixels of the residual strip."""

ROOMY = 900
"""Pixels of the picture from which the key of the bar stands in the line of the headings."""

COLUMNS = (0.25, 0.635, 0.70, 0.85, 0.925, 1.0)
"""Right ends of the cells, shares of the width."""


def measured_table(pen: Pen, rows: Sequence[MeasuredRow], margin: float, mark: str) -> None:
    """Draw the timelines' rows from ``pen.y`` on; ``mark`` is that of modelled numbers."""
    theme, right = pen.theme, pen.width - margin
    ends = [margin + share * (right - margin) for share in COLUMNS]
    bar, bar_end = margin + 0.28 * (right - margin), margin + 0.53 * (right - margin)
    roomy = pen.width >= ROOMY
    skipped = set() if roomy else {"excess"}
    pen.y += 16
    _key(pen, bar if roomy else margin, pen.y)
    pen.y += 0 if roomy else 16
    marks = (rows[0].source[0], mark, *[""] * (len(HEADINGS) - 2))
    for end, circle, words in zip(ends, marks, HEADINGS, strict=True):
        if words not in skipped:
            pen.text(end, pen.y, f"{circle} {words}".strip(), fill=theme.muted, size=11, anchor="end")
    pen.y += 6
    for row in rows:
        pen.line(margin, pen.y, right, pen.y, theme.grid)
        pen.y += 17
        pen.badge(margin, pen.y - 11, row.key)
        pen.text(margin + 21, pen.y, fit(row.title, ends[0] - margin - 95, 12))
        for end, cell in zip(ends, row.cells, strict=True):
            if cell.metric in skipped:
                continue
            pen.text(end, pen.y, f"{cell.text} {cell.unit}".rstrip(), bold=cell.metric == "measured_us", anchor="end")
        x = bar
        for part in row.bar:
            wide = part.share * (bar_end - bar)
            edge = f' stroke="{theme.muted}" stroke-dasharray="2 2"' if part.kind == "idle" and wide >= 1 else ""
            pen.rect(x, pen.y - 11, wide, 13, _tone(theme, part.kind), edge)
            if wide > text_width(part.text, 10) + 6:
                ink = theme.background if part.kind in ("combining", "merge", "streaming") else theme.ink
                pen.text(x + wide / 2, pen.y - 1, part.text, fill=ink, size=10, anchor="middle")
            x += wide
        pen.y += 7


def _key(pen: Pen, x: float, y: float) -> None:
    for kind in TIMES:
        dashed = f' stroke="{pen.theme.muted}" stroke-dasharray="2 2"' if kind == "idle" else ""
        pen.rect(x, y - 8, 8, 8, _tone(pen.theme, kind), dashed)
        pen.text(x + 11, y, kind, fill=pen.theme.muted, size=10)
        x += 17 + text_width(kind, 10)


def _tone(theme: Theme, kind: str) -> str:
    """Tone of a stage, on the neutral that stands for any request."""
    return "none" if kind == "idle" else STAGE_TONES[kind](theme, theme.slate)


def residual_strip(pen: Pen, panel: Panel, left: float, width: float, pitch: float) -> None:
    """Draw the strip of ``panel.residual`` from ``pen.y`` on."""
    residual, theme = panel.residual, pen.theme
    assert residual is not None
    pen.y += 4
    top, zero, scale = pen.y, pen.y + STRIP / 2, STRIP / 2 / residual.limit
    for value, words in ((residual.limit, residual.high), (-residual.limit, residual.low)):
        pen.text(
            left - 8, zero - value * scale + (7 if value > 0 else 0), words, fill=theme.muted, size=10, anchor="end"
        )
    for sign, colour in ((1, theme.later), (-1, theme.earlier)):
        chosen = np.flatnonzero(np.sign(residual.value) == sign)
        path = "".join(
            f"M{left + column * pitch:.1f} {zero:.1f}h{max(pitch - (pitch >= 4), 0.6):.1f}v{-value * scale:.1f}"
            f"h{-max(pitch - (pitch >= 4), 0.6):.1f}z"
            for column, value in zip(chosen.tolist(), residual.value[chosen].tolist(), strict=True)
        )
        if path:
            pen.parts.append(f'<path d="{path}" fill="{colour}"/>')
    pen.line(left, zero, left + width, zero, mix(theme.ink, theme.background, 0.5))
    pen.text(left + width + 12, top + 10, "bin ends against", fill=theme.muted, size=11)
    pen.text(left + width + 12, top + 23, f"the model, {residual.note}", fill=theme.muted, size=11)
    pen.y += STRIP + 4
