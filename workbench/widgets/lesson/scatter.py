"""Points and straight lines through them."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

import numpy as np
import numpy.typing as npt

from workbench.errors import InvalidArgument
from workbench.widgets.lesson.drawing import Picture, drawing, steps

WIDTH, HEIGHT = 620, 300
LEFT, RIGHT, TOP, BOTTOM = 52, 130, 30, 40
DASHES = ("none", "5 3", "1 3")
"""Of the lines, in their order."""


def scatter(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    *,
    title: str,
    x_title: str,
    y_title: str,
    lines: Mapping[str, tuple[float, float]] | None = None,
) -> Picture:
    """Draw points over axes that begin at 0.

    Parameters
    ----------
    x, y : real arrays [points]
        0 or more.
    title, x_title, y_title
        With units; the title says where the points come from.
    lines : mapping of str to (float, float), optional
        By name the height at 0 and the slope; up to three.

    Raises
    ------
    InvalidArgument
        There is no point, a negative one, not as many x as y, or there are too many lines.
    """
    across, up = np.asarray(x, float).ravel(), np.asarray(y, float).ravel()
    lines = dict(lines or {})
    if not across.size or across.size != up.size or min(across.min(), up.min()) < 0 or len(lines) > len(DASHES):
        raise InvalidArgument(
            f"{across.size} x, {up.size} y and {len(lines)} lines. Give as many x as y, none below 0, and up to "
            f"{len(DASHES)} lines."
        )
    right, top = max(float(across.max()), 1e-9) * 1.05, max(float(up.max()), 1e-9) * 1.08
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def px(value: float) -> float:
        return LEFT + value / right * wide

    def py(value: float) -> float:
        return HEIGHT - BOTTOM - value / top * high

    parts = [
        f'<text class="head ink" x="0" y="13">{escape(title)}</text>',
        f'<text class="soft mid" x="{LEFT + wide / 2}" y="{HEIGHT - 6}">{escape(x_title)}</text>',
        f'<text class="soft" x="{LEFT - 30}" y="{TOP - 4}">{escape(y_title)}</text>',
    ]
    for tick in steps(top):
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{LEFT + wide}" y1="{py(tick):.1f}" y2="{py(tick):.1f}"/>')
        parts.append(f'<text class="soft end" x="{LEFT - 6}" y="{py(tick) + 4:.1f}">{tick:g}</text>')
    for tick in steps(right):
        parts.append(f'<text class="soft mid" x="{px(tick):.1f}" y="{HEIGHT - BOTTOM + 15}">{tick:g}</text>')
    points = [f'<circle cx="{px(a):.1f}" cy="{py(b):.1f}" r="2.6"/>' for a, b in zip(across, up, strict=True)]
    parts.append(f'<g class="slate" fill-opacity="0.45">{"".join(points)}</g>')
    below = float("-inf")
    ends = sorted(lines.items(), key=lambda line: -(line[1][0] + line[1][1] * right))
    for (name, (height, slope)), dash in zip(ends, DASHES, strict=False):
        end = height + slope * right
        parts.append(
            f'<line class="line-ink" stroke-width="1.5" stroke-dasharray="{dash}" x1="{px(0):.1f}" '
            f'y1="{py(height):.1f}" x2="{px(right):.1f}" y2="{py(end):.1f}"/>'
        )
        below = max(py(end) + 4, below + 14)  # names do not touch
        parts.append(f'<text class="ink" x="{LEFT + wide + 8}" y="{below:.1f}">{escape(name)}</text>')
    says = f"{title}: {across.size} points; {y_title} over {x_title}"
    return drawing(parts, name="wb-scatter", width=WIDTH, height=HEIGHT, says=says)
