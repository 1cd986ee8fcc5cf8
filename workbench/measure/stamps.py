"""What the instrumented kernel wrote, read with suspicion: every row must be there, be of its CTA, and run forwards."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt

from workbench.errors import TimelineError
from workbench.schedule import DecodePlan

if TYPE_CHECKING:
    from workbench.measure.timeline import Timeline

COLUMNS = (
    "start", "arrived", "streamed", "combined", "end", "sm", "leader", "cta", "merge_start", "merge_end",
)  # fmt: skip
"""Columns of a row of stamps, as ``kernels/attention_decode/shape.cuh`` lists them."""

LONGEST_NS = 10**10
"""A call that seems to take longer was stamped by different calls, or the clock was set."""

_IN_ORDER = ("start_ns", "arrived_ns", "streamed_ns", "combined_ns", "end_ns")


def read_stamps(plan: DecodePlan, stamps: npt.ArrayLike) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a :class:`Timeline` from rows of stamps.

    Parameters
    ----------
    plan : DecodePlan
    stamps : 64-bit integers [num_descriptors, 10]
        A row a descriptor, in the plan's order, of :data:`COLUMNS`; all zero where the kernel wrote nothing.

    Raises
    ------
    TimelineError
        A row is missing or was written by another CTA.
    """
    rows = np.asarray(stamps)
    if rows.shape != (plan.num_descriptors, len(COLUMNS)) or rows.dtype not in (np.int64, np.uint64):
        raise TimelineError(
            f"the stamps are {rows.dtype} of shape {rows.shape}; expected 64-bit integers "
            f"[{plan.num_descriptors}, {len(COLUMNS)}]: a row for each descriptor of the plan."
        )
    column = dict(zip(COLUMNS, rows.T, strict=True))
    missing = (rows[:, :5] == 0).any(axis=1)
    if missing.any():
        raise TimelineError(
            f"{np.count_nonzero(missing):,} of {plan.num_descriptors:,} descriptors have no stamps, the first of them "
            f"{words(plan, missing)}. The call did not run this plan, or not to its end."
        )
    other = column["cta"] != plan.cta
    if other.any():
        raise TimelineError(
            f"{words(plan, other)} was stamped by CTA {int(column['cta'][np.argmax(other)])}. "
            "The stamps are of another plan, or not in this plan's order."
        )
    base = np.uint64(column["start"].min() if rows.size else 0)

    def relative(name: str) -> npt.NDArray[np.int64]:
        # Differences of unsigned numbers wrap, so they are right also for a stamp that lies before the first.
        since: npt.NDArray[np.int64] = (column[name].astype(np.uint64) - base).view(np.int64)
        return since

    merged = column["merge_start"] != 0
    return {
        **{f"{name}_ns": relative(name) for name in ("start", "arrived", "streamed", "combined", "end")},
        "merge_start_ns": np.where(merged, relative("merge_start"), -1),
        "merge_end_ns": np.where(merged, relative("merge_end"), -1),
        "sm": column["sm"].astype(np.int32),
        "leader": column["leader"] != 0,
    }


def check(timeline: Timeline) -> None:
    """Raise for times that contradict each other or the plan.

    Raises
    ------
    TimelineError
        With the first descriptor that is wrong, and how many are.
    """
    t, plan = timeline, timeline.plan

    def refuse(wrong: npt.NDArray[np.bool_], reason: str) -> None:
        if wrong.any():
            _refuse(plan, wrong, reason)

    for earlier, later in itertools.pairwise(_IN_ORDER):
        refuse(getattr(t, later) < getattr(t, earlier), f"the clock goes back from {earlier} to {later}")
    follows = np.flatnonzero(plan.cta[1:] == plan.cta[:-1]) + 1
    among_all = np.zeros(plan.num_descriptors, np.bool_)
    among_all[follows] = t.start_ns[follows] < t.end_ns[follows - 1]
    refuse(among_all, "it starts before the descriptor ahead of it in its bin ends")
    among_all = np.zeros(plan.num_descriptors, np.bool_)
    among_all[follows] = t.sm[follows] != t.sm[follows - 1]
    refuse(among_all, "its SM is not that of the descriptor ahead of it in its bin")
    refuse(t.sm < 0, "its SM is below 0")
    refuse((t.start_ns < 0) | (t.end_ns > LONGEST_NS), "it is not within 10 s of the call's first stamp")
    merges = t.merge_start_ns >= 0
    refuse(t.leader & ~plan.split, "it leads the pieces of a request that is in one piece")
    refuse(t.leader != merges, "a descriptor that leads merges, and no other; its stamps say otherwise")
    refuse(merges & (t.merge_start_ns < t.end_ns), "its merge begins before it has ended itself")
    refuse(merges & (t.merge_end_ns < t.merge_start_ns), "the clock goes back during its merge")
    refuse(t.merge_end_ns > LONGEST_NS, "its merge does not end within 10 s of the call's first stamp")


def _refuse(plan: DecodePlan, wrong: npt.NDArray[np.bool_], reason: str) -> NoReturn:
    more = int(np.count_nonzero(wrong)) - 1
    also = f" ({more:,} more like it)" if more else ""
    raise TimelineError(f"{words(plan, wrong)}: {reason}{also}. Capture the timeline again.")


def words(plan: DecodePlan, where: npt.NDArray[np.bool_]) -> str:
    """The first descriptor of those that a mask holds, for a message."""
    at = int(np.argmax(where))
    d = plan.descriptors[at]
    return f"descriptor {at} (request {d['request']}, KV head {d['kv_head']}, chunk {d['chunk']}, CTA {d['cta']})"
