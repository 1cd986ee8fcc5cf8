"""What stands below the columns of a picture."""

from __future__ import annotations

import numpy as np

from workbench.widgets.schedule.scene import Scene

STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)

LEAST_PITCH = 60
"""Pixels between two numbers at least."""

CHARACTER = 7.0
"""Pixels of a character of their words, and between two of them."""


def axis_ticks(scene: Scene, pitch: float) -> list[tuple[int, str]]:
    """Columns with their words, by CTA or by SM; the first one names what is counted.

    Parameters
    ----------
    scene
        In the order of CTAs or of SMs.
    pitch
        Pixels a column.
    """
    values = scene.panels[0].sm if scene.order == "sm" else np.arange(scene.columns)
    first = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
    each = scene.columns / max(first.size, 1) * pitch
    step = next((step for step in STEPS if step * each >= LEAST_PITCH), 1 << 30)
    ticks: list[tuple[int, str]] = []
    free = 0.0  # pixels, from which on nothing is written: SMs do not lie evenly, and the first words are long
    for column in first[values[first] % step == 0].tolist():
        words = str(values[column]) if ticks else f"{scene.axis} {values[column]}"
        wide = len(words) * CHARACTER
        left = column * pitch - (wide / 2 if ticks else 0.0)
        if ticks and left < free:
            continue
        free = left + wide + CHARACTER
        ticks.append((column, words))
    return ticks
