"""From a user's lists, one a CTA, to a plan."""

from __future__ import annotations

import operator
import reprlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

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
        When the shape is wrong: not lists of four whole numbers, or more lists than CTAs. What the user's own code
        raises while it is iterated comes through unchanged.
    """
    rows: list[Any] = []
    counts: list[int] = []
    for cta, entries in enumerate(_iterate(policy, "the result", bins)):
        if cta == problem.num_ctas and not static_grid:
            raise InvalidPlan(policy, [f"the result has a list for CTA {cta}; the CTAs are 0-{problem.num_ctas - 1}"])
        before = len(rows)
        rows.extend(_iterate(policy, f"CTA {cta}", entries))
        counts.append(len(rows) - before)
    if not static_grid:
        counts += [0] * (problem.num_ctas - len(counts))
    sizes = np.asarray(counts, np.int64)
    return DecodePlan.assemble(problem, policy, sizes, _table(policy, rows, sizes).T, static_grid=static_grid)


def _iterate(policy: str, what: str, value: Any) -> Iterator[Any]:
    try:
        return iter(value)
    except TypeError:
        of = f"of {FIELDS} tuples" + (", one list a CTA" if what == "the result" else "")
        raise InvalidPlan(policy, [f"{what} is {reprlib.repr(value)}, not a list {of}"]) from None


def _table(policy: str, rows: list[Any], counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The rows as an int64 array [len(rows), 4]."""
    if not rows:
        return np.zeros((0, 4), np.int64)

    def wrong(at: int, what: str) -> InvalidPlan:
        cta = int(np.searchsorted(np.cumsum(counts), at, side="right"))
        return InvalidPlan(policy, [f"CTA {cta}: {reprlib.repr(rows[at])} {what}"])

    try:
        table = np.asarray(rows)
    except ValueError:  # rows of several sizes
        table = np.zeros(0)
    if table.ndim != 2 or table.shape[1] != 4 or table.dtype.kind not in "iu":
        entries = [_entry(row) for row in rows]
        for at, entry in enumerate(entries):
            if entry is None:
                raise wrong(at, f"is not {FIELDS}, four whole numbers")
        # Whole numbers of mixed or unusual types; Python's own have any size.
        table = np.asarray(entries, object)
    limits = np.iinfo(np.int32)
    outside = ((table < limits.min) | (table > limits.max)).any(axis=1)
    if outside.any():
        raise wrong(int(np.flatnonzero(outside)[0]), "does not fit 32-bit integers")
    return table.astype(np.int64)


def _entry(row: object) -> tuple[int, ...] | None:
    if not isinstance(row, (Sequence, np.ndarray)):  # a set has no order
        return None
    try:
        values = tuple(operator.index(value) for value in row)
    except TypeError:
        return None
    return values if len(values) == 4 else None
