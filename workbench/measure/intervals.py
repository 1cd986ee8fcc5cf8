"""Intervals of time on shared places: how long any is busy, and which place each can have had."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Times = npt.NDArray[np.int64]


def union_length(start: Times, end: Times) -> int:
    """Length of the union of the intervals ``[start, end)``.

    Parameters
    ----------
    start, end : int64 arrays [intervals]
        No end lies before its start.
    """
    if not start.size:
        return 0
    order = np.argsort(start, kind="stable")
    start, end = start[order], end[order]
    reached = np.maximum.accumulate(end)
    gaps = np.maximum(start[1:] - reached[:-1], 0)
    return int(reached[-1] - start[0] - gaps.sum())


def lowest_free(group: npt.NDArray[np.int32], start: Times, end: Times) -> npt.NDArray[np.int32]:
    """A place for each interval: the lowest of its group that is free when it starts.

    Parameters
    ----------
    group : int32 array [intervals]
        Intervals of different groups have places of their own.
    start, end : int64 arrays [intervals]

    Returns
    -------
    int32 array [intervals]
        Places from 0. The most places of a group are the most intervals of it that overlap.
    """
    place = np.zeros(start.size, np.int32)
    free_at: dict[int, list[int]] = {}
    for i in np.lexsort((end, start)).tolist():
        ends = free_at.setdefault(int(group[i]), [])
        at = next((p for p, busy_until in enumerate(ends) if busy_until <= start[i]), len(ends))
        if at == len(ends):
            ends.append(0)
        ends[at] = int(end[i])
        place[i] = at
    return place
