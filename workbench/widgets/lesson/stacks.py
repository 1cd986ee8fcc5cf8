"""Where the time goes: bars made of the parts of a call."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from workbench.errors import InvalidArgument
from workbench.widgets import text
from workbench.widgets.lesson.drawing import Picture, drawing

PARTS = ("waiting", "streaming", "combining", "merge", "idle")
"""Order of the parts of a bar: waiting for first bytes, streaming, combining, merging, nothing to do."""

WIDTH, LEFT, RIGHT = 900, 150, 60
TOP, ROW, BAR, LEGEND = 26, 28, 18, 40
LABEL = 28
"""Least width of a part, pixels, for its time to be written into it."""


def stacks(
    bars: Mapping[str, Mapping[str, float]], *, title: str, source: str, names: Mapping[str, str] | None = None
) -> Picture:
    """Draw a bar for each name.

    Parameters
    ----------
    bars
        By name the parts in microseconds, by those of :data:`PARTS`; a part may be missing.
    title, source
        Written above and below; the source says where the times come from.
    names
        What the parts are called in the legend; default: their own names.

    Raises
    ------
    InvalidArgument
        There is no bar, an unknown part, or a negative time.
    """
    if not bars:
        raise InvalidArgument("there is no bar to draw. Give at least one.")
    for name, parts in bars.items():
        if (unknown := [part for part in parts if part not in PARTS]) or min(parts.values(), default=0) < 0:
            raise InvalidArgument(
                f"{name} has {unknown or dict(parts)}; give times of 0 or more for {', '.join(PARTS)}."
            )
    longest = max(sum(parts.values()) for parts in bars.values()) or 1.0
    scale = (WIDTH - LEFT - RIGHT) / longest
    height = TOP + ROW * len(bars) + LEGEND
    drawn = [f'<text class="head ink" x="0" y="13">{escape(title)}</text>']
    for i, (name, parts) in enumerate(bars.items()):
        y, x = TOP + ROW * i, float(LEFT)
        drawn.append(f'<text class="ink end" x="{LEFT - 10}" y="{y + BAR / 2 + 4}">{escape(name)}</text>')
        for part in PARTS:
            us = parts.get(part, 0.0)
            wide = us * scale
            inset = 0.5 if part == "idle" else 0.0  # the dashed frame lies inside its box
            if wide > 2 * inset:
                drawn.append(
                    f"<g><title>{escape(name)}: {escape((names or {}).get(part, part))} {text.fine_us(us)} us</title>"
                    f'<rect class="{part}" x="{x + inset:.1f}" y="{y + inset}" width="{wide - 2 * inset:.1f}" '
                    f'height="{BAR - 2 * inset}"/></g>'
                )
            if wide >= LABEL:
                tone = "soft" if part == "idle" else "ink" if part == "waiting" else "page"
                middle = f'x="{x + wide / 2:.1f}" y="{y + BAR / 2 + 4}"'
                drawn.append(f'<text class="{tone} mid" pointer-events="none" {middle}>{text.fine_us(us)}</text>')
            x += wide
        drawn.append(f'<text class="ink" x="{x + 6:.1f}" y="{y + BAR / 2 + 4}">{text.us(sum(parts.values()))}</text>')
    drawn += _legend({part for parts in bars.values() for part in parts}, names or {}, height - 28)
    drawn.append(f'<text class="soft" x="{LEFT}" y="{height - 4}">{escape(source)}</text>')
    totals = ", ".join(f"{name} {text.us(sum(parts.values()))} us" for name, parts in bars.items())
    return drawing(drawn, name="wb-stacks", width=WIDTH, height=height, says=f"{title}: {totals}")


def _legend(used: set[str], names: Mapping[str, str], y: float) -> list[str]:
    drawn, x = [], float(LEFT)
    for part in PARTS:
        if part in used:
            words = names.get(part, part)
            drawn.append(f'<rect class="{part}" x="{x + 0.5}" y="{y - 9.5}" width="10" height="10"/>')
            drawn.append(f'<text class="soft" x="{x + 16}" y="{y}">{escape(words)}</text>')
            x += 34 + 6.0 * len(words)
    return drawn
