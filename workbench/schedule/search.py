"""The best that one static setting can do: every split count and chunk size tried on steps of a trace.

A comparison with a static split is fair only if its parameter suits the traffic, so the parameter is searched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.schedule.costs import CostModel
from workbench.schedule.policies import MAX_GRID
from workbench.schedule.sweep import sweep

SPLITS = (*range(1, 65), 80, 96, 128)
"""Split counts tried; split-KV kernels offer up to 128."""

CHUNKS = tuple(base << shift for shift in range(8) for base in (512, 768))
"""Chunk sizes tried, tokens: 512 to 96K."""

MOST_STEPS = 1024
LEAST_STEPS = 4
CTA_BUDGET = 20_000_000
"""CTAs of all grids tried, about: what bounds the time of a search (some seconds).

Long traces are sampled to fit; where :data:`LEAST_STEPS` steps are too many still, the finest settings are left out.
"""


@dataclass(frozen=True, eq=False)
class StaticSearch:
    """What each static setting costs on a sample of steps.

    Attributes
    ----------
    settings : tuple of str
        Names of the policies tried, split counts first.
    mean_call_us : float64 array [settings]
        Mean call over the sample, by the cost model.
    retuned_call_us : float
        Mean call if the best setting were chosen anew at every step.
    steps : int64 array [sample]
        The steps tried, evenly spaced.
    """

    settings: tuple[str, ...]
    mean_call_us: npt.NDArray[np.float64] = field(repr=False)
    retuned_call_us: float
    steps: npt.NDArray[np.int64] = field(repr=False)

    def best(self, family: str) -> str:
        """The setting of a family (``"fixed_splits"`` or ``"fixed_chunk"``) with the least mean call."""
        rows = [i for i, name in enumerate(self.settings) if name.startswith(family)]
        return self.settings[rows[int(np.argmin(self.mean_call_us[rows]))]]


def search_static(
    batches: Sequence[npt.ArrayLike],
    *,
    num_kv_heads: int,
    num_ctas: int,
    tile: int = 64,
    q_len: int = 1,
    cost: CostModel | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> StaticSearch:
    """Try every setting of :data:`SPLITS` and :data:`CHUNKS` whose grid is not too large on evenly spaced steps.

    Parameters
    ----------
    batches
        KV lengths of each step; at least one.
    num_kv_heads, num_ctas, tile, q_len, cost
        As for ``plan_decode`` and ``plan.metrics``.
    progress
        Called with (steps done, steps in all).
    """
    sizes = [np.size(batches[step]) for step in _evenly(len(batches), 16)]
    grids = float(np.mean(sizes)) * num_kv_heads * sum(SPLITS)
    steps = _evenly(len(batches), int(np.clip(CTA_BUDGET / max(grids, 1.0), LEAST_STEPS, MOST_STEPS)))
    settings = _settings([np.asarray(batches[step]) for step in steps], num_kv_heads)
    found = sweep(
        [np.asarray(batches[step]) for step in steps],
        policies=settings,
        num_kv_heads=num_kv_heads,
        num_ctas=num_ctas,
        tile=tile,
        q_len=q_len,
        cost=cost,
        progress=progress,
    )
    retuned = float(found.best_call_us.mean())
    return StaticSearch(settings, found.call_us.mean(axis=1), retuned, np.array(steps, np.int64))


def _settings(batches: list[npt.NDArray[np.integer[Any]]], num_kv_heads: int) -> tuple[str, ...]:
    """The settings to try on these batches: of each family those of the smallest grids, at least one."""
    items = num_kv_heads * np.array([batch.size for batch in batches], np.int64)
    longest = np.array([batch.max(initial=1) for batch in batches], np.int64)
    chunks = list(CHUNKS)
    while (items * -(-longest // chunks[-1])).max() > MAX_GRID and chunks[-1] < longest.max():
        chunks.append(2 * chunks[-1])
    coarse_first = chunks[::-1]
    splits = SPLITS[: _affordable(np.outer(SPLITS, items))]
    chunks = coarse_first[: _affordable(items * -(-longest // np.array(coarse_first)[:, None]))][::-1]
    return (*(f"fixed_splits({n})" for n in splits), *(f"fixed_chunk({tokens})" for tokens in chunks))


def _affordable(grids: npt.NDArray[np.int64]) -> int:
    """How many settings of a family to try; ``grids`` are their CTAs, int64 [settings, steps], ascending."""
    kept = (grids <= MAX_GRID).all(axis=1)
    if grids.shape[1] <= LEAST_STEPS:  # else there are as many steps as the budget allows
        kept &= np.cumsum(grids.sum(axis=1)) <= CTA_BUDGET // 2
    return max(int(kept.sum()), 1)


def _evenly(count: int, most: int) -> list[int]:
    """The middles of ``most`` equal parts of ``range(count)``; all of it if it is not longer."""
    if count <= most:
        return list(range(count))
    return [int((i + 0.5) * count / most) for i in range(most)]
