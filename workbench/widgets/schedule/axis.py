"""What stands below the columns of a picture."""

from __future__ import annotations

import numpy as np

from workbench.widgets.schedule.scene import Scene

STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)

LEAST_PITCH = 60
"""Pixels between two numbers at least."""


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
    ticks = [(column, str(values[column])) for column in first.tolist() if values[column] % step == 0]
    return [(column, f"{scene.axis} {words}" if at == 0 else words) for at, (column, words) in enumerate(ticks)]
