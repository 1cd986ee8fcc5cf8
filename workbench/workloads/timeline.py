"""Decode steps stored by what changes: a hundred thousand steps of a large batch in a few megabytes.

Between two events every running request grows by one token a step, so a run of equal steps is one *segment*, and a
request's stay in the batch is one *interval*. Lengths of any step or range of steps are computed from these.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from workbench.workloads.step_time import SECOND, StepTime

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]

#: Steps between two checkpoints of the running batch.
_CHECKPOINT = 512


@dataclass(frozen=True, eq=False)
class StepTable:
    """Figures of many steps, a column each.

    Attributes
    ----------
    start_s : numpy.ndarray
        float64 [steps], start by the modelled clock, seconds after the first arrival.
    batch : numpy.ndarray
        int64 [steps], requests decoded.
    kv_tokens : numpy.ndarray
        int64 [steps], sum of their KV lengths.
    max_length : numpy.ndarray
        int64 [steps], the longest of them.
    prefill_tokens : numpy.ndarray
        int64 [steps], prompt tokens prefilled beside them.
    """

    start_s: npt.NDArray[np.float64]
    batch: Int64
    kv_tokens: Int64
    max_length: Int64
    prefill_tokens: Int64


@dataclass(frozen=True, eq=False)
class Timeline:
    """What a simulated engine did.

    Attributes
    ----------
    segments : numpy.ndarray
        int64 [S, 6]; a row is (first step, start of that step in ps, batch size, sum of KV lengths in the first
        step, prompt tokens prefilled, largest KV length minus step number). A segment with prefill has one step.
    intervals : numpy.ndarray
        int64 [I, 4]; a row is (request, first step, step after the last, KV length in the first step). In order of
        first step; a preempted request has several.
    num_steps : int
        Decode steps.
    step_time : StepTime
        The clock.
    finished, preemptions, prefill_only : int
        Requests finished, preemptions, and steps that only prefilled (they take time but decode nothing).
    """

    segments: Int64
    intervals: Int64
    num_steps: int
    step_time: StepTime
    finished: int
    preemptions: int
    prefill_only: int

    def table(self, steps: range) -> StepTable:
        """Figures of many steps, with any stride, in one vectorised pass."""
        step = np.arange(steps.start, steps.stop, steps.step, dtype=np.int64)
        segment = np.searchsorted(self.segments[:, 0], step, side="right") - 1
        first, start, batch, kv_tokens, prefill, lead = self.segments[segment].T
        since = step - first
        time = self.step_time
        elapsed = since * (time.base + time.request * batch)
        elapsed += time.kv_token * (since * kv_tokens + batch * (since * (since - 1) // 2))
        return StepTable(
            start_s=(start + elapsed) / SECOND,
            batch=batch,
            kv_tokens=kv_tokens + batch * since,
            max_length=lead + step,
            prefill_tokens=prefill,
        )

    def running(self, step: int) -> tuple[Int32, Int32]:
        """Requests and KV lengths of one step, int32 [batch] each, in the order in which they began to decode."""
        offsets, carried = self._checkpoints
        block = step // _CHECKPOINT
        begun = np.searchsorted(self.intervals[:, 1], (block * _CHECKPOINT, step), side="right")
        row = np.concatenate([carried[offsets[block] : offsets[block + 1]], np.arange(*begun)])
        request, first, _, length = self.intervals[row[self.intervals[row, 2] > step]].T
        return request.astype(np.int32), (length + step - first).astype(np.int32)

    @cached_property
    def _checkpoints(self) -> tuple[Int64, Int64]:
        """CSR lists of the intervals that run in the first step of each block of `_CHECKPOINT` steps."""
        blocks = -(-self.num_steps // _CHECKPOINT)
        return _expand(self.intervals, range(0, blocks * _CHECKPOINT, _CHECKPOINT))[:2]

    def csr(self, steps: range) -> tuple[Int64, Int32, Int32]:
        """Requests and KV lengths of many steps at once.

        Parameters
        ----------
        steps
            Which, with any stride.

        Returns
        -------
        offsets, request, length : numpy.ndarray
            int64 [steps + 1], int32 [entries], int32 [entries]: step i has entries ``offsets[i]:offsets[i + 1]``, in
            the order of `running`.
        """
        offsets, row, step = _expand(self.intervals, steps)
        request, first, _, length = self.intervals.T
        return offsets, request.astype(np.int32)[row], (step + (length - first)[row]).astype(np.int32)


def _expand(intervals: Int64, steps: range) -> tuple[Int64, Int64, Int64]:
    """Offsets [steps + 1], and the interval and step number of each entry, sorted by step, then by interval."""
    total = len(steps)
    # An interval covers the positions from the first kept step that is not before it.
    low, high = (
        np.clip(-((steps.start - intervals[:, column]) // steps.step), 0, total).astype(np.int64) for column in (1, 2)
    )
    present = np.flatnonzero(high > low)
    counts = (high - low)[present]
    row = np.repeat(present, counts)
    position = np.arange(row.size) - np.repeat(np.cumsum(counts) - counts - low[present], counts)
    order = np.argsort(position, kind="stable")
    offsets = np.zeros(total + 1, dtype=np.int64)
    np.cumsum(np.bincount(position, minlength=total), out=offsets[1:])
    return offsets, row[order], steps.start + position[order] * steps.step
