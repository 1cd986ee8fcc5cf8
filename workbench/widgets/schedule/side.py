"""One policy's plan with its times and numbers: what panel A or B shows."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from workbench.schedule import CostModel, DecodePlan, Metrics, Spans
from workbench.schedule.metrics import LATE_SHARE, summarise

STOPS = (Exception, SystemExit, KeyboardInterrupt)
"""What a user's function may end with; the last two would end the kernel, or leave a view waiting for ever."""


@dataclass(frozen=True, eq=False)
class Side:
    """A plan under a policy, evaluated.

    Attributes
    ----------
    key : str
        ``"A"`` or ``"B"``.
    title : str
        Name of the policy for a reader.
    plan : DecodePlan
    spans : Spans
    metrics : Metrics
        Equal to ``plan.metrics(spans.cost)``; every number on screen comes from here.
    late : bool array [num_bins]
        Bins that end within 2 % of the last one, as `Metrics.last_ctas` counts them.
    late_requests : tuple of int
        The requests that those bins end with, ascending.
    """

    key: str
    title: str
    plan: DecodePlan
    spans: Spans
    metrics: Metrics
    late: npt.NDArray[np.bool_] = field(repr=False)
    late_requests: tuple[int, ...]

    @property
    def columns(self) -> int:
        """Places side by side on the axis: the resident CTAs."""
        return self.plan.num_ctas


def evaluate(key: str, title: str, plan: DecodePlan, cost: CostModel) -> Side:
    """Lay out and summarise ``plan`` once, for everything that shows it."""
    spans = plan.spans(cost)
    bins = spans.bins_ns
    late = spans.bin_end_ns >= (1 - LATE_SHARE) * bins if bins else np.zeros(plan.num_bins, np.bool_)
    filled = np.flatnonzero(late & (np.diff(plan.bin_offsets) > 0))
    requests = np.unique(plan.request[plan.bin_offsets[filled + 1] - 1])
    return Side(key, title, plan, spans, summarise(plan, cost, spans), late, tuple(requests.tolist()))


def policy_title(name: str) -> str:
    """``fixed_splits(32)`` as a reader sees it: ``fixed splits 32``; chunks in K where they are whole K."""
    if name == "lpt":
        return "LPT"
    base, _, number = name.removesuffix(")").partition("(")
    if base in ("fixed_splits", "fixed_chunk") and number.isdigit():
        tokens = int(number)
        shown = f"{tokens // 1024}K" if base == "fixed_chunk" and tokens % 1024 == 0 else f"{tokens:,}"
        return f"{base.replace('_', ' ')} {shown}"
    return name
