"""The strip below a panel: how much later or earlier each column's last bin ended than the cost model says."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from workbench.widgets import text
from workbench.widgets.schedule.measured import Measured

LEAST_US = 0.1
"""The strip's scale reaches at least this far, so that the clock's own step does not fill it."""


@dataclass(frozen=True, eq=False)
class Residual:
    """Measured minus modelled ends, microseconds.

    Attributes
    ----------
    value : float32 array [columns]
        NaN where nothing ran.
    limit : float
        The strip reaches from ``-limit`` to ``limit``.
    high, low, note : str
        Texts of both ends, and the root of the mean square.
    """

    value: npt.NDArray[np.float32] = field(repr=False)
    limit: float
    high: str
    low: str
    note: str


def make_residual(measured: Measured, place: npt.NDArray[np.int64]) -> Residual:
    """The strip of a timeline whose slots stand in the order ``place``."""
    by_slot = np.full(place.size, np.nan)
    by_slot[: measured.slots] = measured.residual_us
    value = by_slot[place]
    known = value[np.isfinite(value)]
    limit = _round_up(max(float(np.abs(known).max(initial=0)), LEAST_US))
    words = f"{limit:.6g}"
    return Residual(
        value.astype(np.float32), limit, f"+{words}", f"{text.MINUS}{words}",
        f"rms {text.fine_us(measured.residual_rms_us)}",
    )  # fmt: skip


def _round_up(value: float) -> float:
    """The next number of two digits."""
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    return math.ceil(value / step * (1 - 1e-9)) * step
