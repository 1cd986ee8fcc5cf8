"""All steps of a trace under A and B: computed a little at a time, summarised, and searched for bad steps."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from workbench.schedule import CostModel
from workbench.schedule.policies import BUILT_IN, Policy
from workbench.schedule.sweep import Sweep, sweep_ranges
from workbench.widgets import text
from workbench.widgets.schedule.side import STOPS
from workbench.workloads import DecodeSteps

Floats = npt.NDArray[np.float32]

RANGE = 64
"""Steps computed together: short enough that a keystroke does not wait for them."""

MOST_BAD = 40
"""Bad steps offered at most."""

APART = 0.01
"""Share of the trace between two bad steps at least."""

LONG_LIVES = 48
"""Requests whose stay in the batch is drawn."""


@dataclass(eq=False)
class Strip:
    """Numbers of every step, filled from the front.

    Attributes
    ----------
    steps : DecodeSteps
    metric : str
        A key of :data:`workbench.widgets.schedule.state.METRICS`.
    key : int
        Tells this strip from those of other settings.
    values : float32 array [2, steps]
        The metric under A and under B; NaN where it is not computed yet, and where a step reads nothing.
    call_us : float64 array [2, steps]
        The call's time, for the comparison of the two.
    done : int
        Steps computed.
    problem : str
        Why it stopped, if a policy has no valid plan of some step.
    """

    steps: DecodeSteps
    policies: tuple[Policy, Policy]
    arguments: dict[str, int]
    cost: CostModel
    metric: str
    key: int
    values: Floats = field(init=False, repr=False)
    call_us: npt.NDArray[np.float64] = field(init=False, repr=False)
    done: int = field(init=False, default=0)
    problem: str = field(init=False, default="")

    def __post_init__(self) -> None:
        self.values = np.full((2, len(self.steps)), np.nan, np.float32)
        self.call_us = np.full((2, len(self.steps)), np.nan)
        different = self.policies[0].name != self.policies[1].name
        self._rows = (0, 1) if different else (0, 0)
        chosen = self.policies if different else self.policies[:1]
        # DecodeSteps is the sequence of batches that sweeps are made for, but not a typing.Sequence.
        # A user's function may take long over each step, and the view can be answered only between two ranges.
        size = RANGE if all(type(policy) in BUILT_IN.values() for policy in chosen) else 1
        self._ranges = sweep_ranges(self.steps, policies=chosen, cost=self.cost, size=size, **self.arguments)  # type: ignore[arg-type]

    @property
    def finished(self) -> bool:
        """Whether every step is there."""
        return self.done >= len(self.steps)

    def advance(self, seconds: float) -> range:
        """Compute further steps for about as long as ``seconds``; returns those that came."""
        before, until = self.done, time.perf_counter() + seconds
        while not self.finished:
            try:
                steps, part = next(self._ranges)
            except STOPS as error:  # the strip says what and stops
                self.problem = f"stopped after {text.plural(self.done, 'step')}: {type(error).__name__}: {error}"
                break
            rows = list(self._rows)
            self.values[:, steps.start : steps.stop] = self._of(part)[rows]
            self.call_us[:, steps.start : steps.stop] = part.call_us[rows]
            self.done = steps.stop
            if time.perf_counter() >= until:
                break
        return range(before, self.done)

    def _of(self, part: Sweep) -> npt.NDArray[np.float64]:
        if self.metric == "call_us":
            return part.call_us
        if self.metric == "idle":
            return 100 * part.idle_fraction
        with np.errstate(invalid="ignore", divide="ignore"):
            over: npt.NDArray[np.float64] = np.where(part.bound_us > 0, part.makespan_us / part.bound_us, np.nan)
        return over

    def bad_steps(self) -> list[int]:
        """Steps at which the worse policy has a peak, ascending: the largest first until :data:`MOST_BAD` are found.

        Two of them are at least :data:`APART` of the trace apart, and each is in the worst tenth of all steps and
        5 % above the median: an even trace has no bad steps.
        """
        seen = self.values[:, : self.done]
        if not np.isfinite(seen).any():
            return []
        worst = np.where(np.isfinite(seen), seen, -np.inf).max(axis=0)
        known = worst[np.isfinite(worst)]
        level = max(float(np.quantile(known, 0.9)), 1.05 * float(np.median(known)))
        apart = max(int(APART * len(self.steps)), 1)
        found: list[int] = []
        while len(found) < MOST_BAD and worst.size:
            step = int(np.argmax(worst))
            if worst[step] < level:
                break
            found.append(step)
            worst[max(step - apart, 0) : step + apart + 1] = -np.inf
        return sorted(found)

    def statistics(self, low: int = 0, high: int | None = None) -> list[list[str]]:
        """Median, 99th percentile and worst of A and of B over steps ``low`` to ``high`` (not included), as text."""
        part = self.values[:, low : self.done if high is None else min(high, self.done)]
        rows = []
        for values in part:
            known = values[np.isfinite(values)]
            if known.size:
                rows.append([self.written(float(np.quantile(known, q))) for q in (0.5, 0.99, 1.0)])
            else:
                rows.append(["\u2013"] * 3)
        return rows

    def written(self, value: float) -> str:
        """A value of the metric as text."""
        if self.metric == "idle":
            return f"{value:.0f}"
        return text.us(value) if self.metric == "call_us" else text.ratio(value)

    def comparison(self, low: int, high: int) -> str:
        """A and B over some steps, in words: total time of the calls, and the step where they differ most."""
        a, b = self.call_us[:, low : min(high, self.done)]
        if not a.size:
            return ""
        total = b.sum() / a.sum()
        slower, at = ("B", int(np.argmax(b / a))) if total >= 1 else ("A", int(np.argmax(a / b)))
        most = max(b[at] / a[at], a[at] / b[at])
        faster = "A" if slower == "B" else "B"
        takes = f"{slower} takes {text.ratio(max(total, 1 / total))}\u00d7 {faster}"
        return f"steps {low:,} to {low + a.size - 1:,}: {takes}, at most {text.ratio(most)}\u00d7, at step {low + at:,}"


def ticks(values: Floats, written: Sequence[float] = (1, 2, 5)) -> list[float]:
    """Up to four round values between 0 and the largest of ``values``."""
    most = float(np.nanmax(values)) if np.isfinite(values).any() else 0.0
    if most <= 0:
        return []
    power = 10.0 ** np.floor(np.log10(most / 2))
    step = next(power * factor for factor in (*written, 10) if most / (power * factor) <= 4.5)
    return [float(step * i) for i in range(1, int(most / step + 1e-9) + 1)]


def long_lives(steps: DecodeSteps) -> npt.NDArray[np.int64]:
    """The requests that read most over the trace.

    Returns
    -------
    int64 array [<= LONG_LIVES, 4]
        (row of the trace, first step, step after the last, lane): lanes keep those that overlap apart.
    """
    lives = steps.lifetimes()
    if not lives.size:
        return np.zeros((0, 4), np.int64)
    stay = lives[:, 2] - lives[:, 1]
    weight = stay * lives[:, 3] + stay * stay // 2
    chosen = lives[np.argsort(-weight, kind="stable")[:LONG_LIVES]]
    chosen = chosen[np.argsort(chosen[:, 1], kind="stable")]
    free = [0, 0, 0]
    kept = []
    for request, first, stop, _ in chosen.tolist():
        lane = next((i for i, until in enumerate(free) if until <= first), None)
        if lane is not None:
            free[lane] = stop
            kept.append((request, first, stop, lane))
    return np.array(kept, np.int64).reshape(-1, 4)
