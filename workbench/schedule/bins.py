"""From a user's lists, one a CTA, to a plan."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from workbench.errors import InvalidPlan
from workbench.schedule.plan import DecodePlan
from workbench.schedule.problem import DecodeProblem

FIELDS = "(kv_head, request, first_tile, num_tiles)"


def plan_from_bins(
    problem: DecodeProblem, policy: str, bins: Iterable[Any], *, static_grid: bool = False
) -> DecodePlan:
    """Build a plan from one list a CTA of ``(kv_head, request, first_tile, num_tiles)``.

    Fewer lists than ``num_ctas`` leave the last CTAs empty. The plan is not validated here: that is
    :meth:`DecodePlan.validate`'s work.

    Raises
    ------
    InvalidPlan
        When the shape is wrong: not lists of four whole numbers, or more lists than CTAs.
    """
    rows: list[Sequence[Any]] = []
    counts: list[int] = []
    try:
        for entries in bins:
            before = len(rows)
            rows.extend(entries)
            counts.append(len(rows) - before)
    except TypeError:
        where = f"CTA {len(counts)}" if counts or rows else "the result"
        raise InvalidPlan(policy, [f"{where} is not a list of {FIELDS} tuples"]) from None
    if not static_grid:
        if len(counts) > problem.num_ctas:
            raise InvalidPlan(policy, [f"lists for {len(counts)} CTAs were given; there are {problem.num_ctas}"])
        counts += [0] * (problem.num_ctas - len(counts))
    table = _table(policy, rows, counts)
    return DecodePlan.assemble(problem, policy, np.asarray(counts, np.int64), table.T, static_grid=static_grid)


def _table(policy: str, rows: list[Sequence[Any]], counts: list[int]) -> np.ndarray[Any, np.dtype[np.int64]]:
    if not rows:
        return np.zeros((0, 4), np.int64)
    try:
        table = np.asarray(rows)
        regular = table.ndim == 2 and table.shape[1] == 4 and table.dtype.kind in "iu"
    except ValueError:
        regular = False
    if not regular:
        at, row = next((i, row) for i, row in enumerate(rows) if not _is_entry(row))
        cta = int(np.searchsorted(np.cumsum(counts), at, side="right"))
        raise InvalidPlan(policy, [f"CTA {cta}: {row!r} is not {FIELDS}, four whole numbers"])
    outside = (np.abs(table) > np.iinfo(np.int32).max).any(axis=1)
    if outside.any():
        at = int(np.flatnonzero(outside)[0])
        cta = int(np.searchsorted(np.cumsum(counts), at, side="right"))
        raise InvalidPlan(policy, [f"CTA {cta}: {tuple(table[at].tolist())} does not fit 32-bit integers"])
    return table.astype(np.int64)


def _is_entry(row: object) -> bool:
    try:
        values = list(row)  # type: ignore[call-overload]
    except TypeError:
        return False
    return len(values) == 4 and all(isinstance(v, (int, np.integer)) and not isinstance(v, bool) for v in values)
