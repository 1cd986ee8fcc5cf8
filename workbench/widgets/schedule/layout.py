"""Panels in pixels: how high each is, where its ticks are, and labels that do not overlap."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from workbench.widgets.schedule.marks import Line
from workbench.widgets.schedule.panel import Panel

PLOT_HEIGHT = 352
"""Pixels that the bins of A and B have together."""

LEAST_HEIGHT = 64
"""Pixels of the smaller panel at least, so that its labels fit."""

LABEL_PITCH = 13
"""Pixels between the baselines of two labels."""

TICK_PITCH = 26
"""Pixels between two ticks at least."""


@dataclass(frozen=True)
class Label:
    """A line of a panel in pixels: where it runs and where its label stands, from the top of the panel."""

    kind: str
    y: float
    label_y: float
    label: str
    text: str


@dataclass(frozen=True)
class Layout:
    """A panel in pixels.

    Attributes
    ----------
    height : int
        Pixels of the plot.
    scale : float
        Pixels a unit.
    ticks : tuple of (float, str)
        Value and text.
    labels : tuple of Label
    """

    height: int
    scale: float
    ticks: tuple[tuple[float, str], ...]
    labels: tuple[Label, ...]


def make_layouts(panels: Sequence[Panel], scale: str) -> tuple[Layout, ...]:
    """Heights, scales, ticks and labels of the panels; ``scale`` is "shared" or "own"."""
    reach = [panel.reach or 1.0 for panel in panels]
    total = PLOT_HEIGHT if len(panels) == 2 else PLOT_HEIGHT // 2
    if scale == "own" or len(panels) == 1:
        heights = [total // len(panels)] * len(panels)
        scales = [height / top for height, top in zip(heights, reach, strict=True)]
    else:
        pitch = total / sum(reach)
        if min(reach) * pitch < LEAST_HEIGHT:
            pitch = min((total - LEAST_HEIGHT) / max(reach), LEAST_HEIGHT / min(reach))
        heights = [max(LEAST_HEIGHT, round(top * pitch)) for top in reach]
        scales = [pitch] * len(panels)
    return tuple(
        Layout(height, pixels, _ticks(height, pixels), _labels(panel.lines, height, pixels))
        for panel, height, pixels in zip(panels, heights, scales, strict=True)
    )


def _ticks(height: int, scale: float) -> tuple[tuple[float, str], ...]:
    """Round values at least :data:`TICK_PITCH` pixels apart."""
    least = TICK_PITCH / scale
    power = 10.0 ** math.floor(math.log10(least))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= least * (1 - 1e-9))
    values = (i * step for i in range(int(height / scale / step + 1e-9) + 1))
    return tuple((value, f"{value:,.0f}" if step >= 1 else f"{value:g}") for value in values)


def _labels(lines: Sequence[Line], height: int, scale: float) -> tuple[Label, ...]:
    """Labels at their lines, moved apart where they would overlap."""
    order = sorted(lines, key=lambda line: -line.value)
    wanted = [height - line.value * scale for line in order]
    placed: list[float] = []
    for y in wanted:
        placed.append(max(y, placed[-1] + LABEL_PITCH) if placed else max(y, -LABEL_PITCH / 2))
    for i in range(len(placed) - 1, -1, -1):
        limit = height if i == len(placed) - 1 else placed[i + 1] - LABEL_PITCH
        placed[i] = min(placed[i], limit)
    return tuple(
        Label(line.kind, y, label_y, line.label, line.text)
        for line, y, label_y in zip(order, wanted, placed, strict=True)
    )
