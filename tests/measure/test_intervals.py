from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from workbench.measure.intervals import lowest_free, union_length

INTERVALS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=12)


def arrays(given_: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    start = np.array([s for s, _ in given_], np.int64)
    return start, start + np.array([d for _, d in given_], np.int64)


@given(INTERVALS)
def test_union_counts_every_covered_nanosecond_once(intervals):
    start, end = arrays(intervals)
    covered = {t for s, e in zip(start.tolist(), end.tolist(), strict=True) for t in range(s, e)}
    assert union_length(start, end) == len(covered)


@given(INTERVALS, st.integers(1, 3))
def test_no_two_intervals_share_a_place_while_they_overlap(intervals, groups):
    start, end = arrays(intervals)
    group = (np.arange(start.size) % groups).astype(np.int32)
    place = lowest_free(group, start, end)
    for i in range(start.size):
        for j in range(i):
            if group[i] == group[j] and place[i] == place[j]:
                assert end[i] <= start[j] or end[j] <= start[i]


@given(INTERVALS)
def test_as_many_places_as_overlap_at_most(intervals):
    start, end = arrays([(s, d + 1) for s, d in intervals])
    place = lowest_free(np.zeros(start.size, np.int32), start, end)
    most = max((int(((start <= t) & (t < end)).sum()) for t in range(90)), default=0)
    assert int(place.max(initial=-1)) + 1 == most
