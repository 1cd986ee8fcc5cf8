"""Busy time of SMs from stamps, against an oracle that walks every nanosecond."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.capture.agreement import TOLERANCE, Agreement, busy_ns, compare

SMS = 4
spans = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 15), st.integers(0, SMS - 1)), max_size=30)


@given(spans)
def test_busy_time_counts_each_nanosecond_once(found):
    begin = np.array([b for b, _, _ in found], np.int64)
    end = np.array([b + length for b, length, _ in found], np.int64)
    sm = np.array([s for _, _, s in found], np.int32)
    expected = [len({t for b, length, s in found if s == which for t in range(b, b + length)}) for which in range(SMS)]
    assert busy_ns(begin, end, sm, SMS).tolist() == expected


def counters(least: float, mean: float, most: float) -> dict[str, float]:
    return {"sm__cycles_active.min": least, "sm__cycles_active.avg": mean, "sm__cycles_active.max": most}


@pytest.mark.parametrize("beside", [0.0, 0.9 * TOLERANCE, 1.1 * TOLERANCE])
def test_tolerance_is_of_shares_of_the_busiest(beside):
    busy = np.array([60, 90, 100, 70])
    mean = busy.mean() / 100
    found = compare(counters(6e5, 1e6 * (mean + beside), 1e6), busy)
    assert found is not None
    assert found.agrees == (beside <= TOLERANCE)
    assert found.stamped_mean == pytest.approx(mean)
    assert found.stamped_least == pytest.approx(0.6)
    assert ("disagree" in str(found)) != found.agrees
    assert Agreement(**found.to_dict()) == found


def test_idle_sms_count():
    found = compare(counters(0, 5e5, 1e6), np.array([100, 0]))
    assert found is not None
    assert found.agrees
    assert found.counted_least == 0


@pytest.mark.parametrize(
    ("metrics", "busy"), [({}, [1, 2]), (counters(1, 2, 0), [1, 2]), (counters(1, 2, 3), []), (counters(1, 2, 3), [0])]
)
def test_nothing_to_compare(metrics, busy):
    assert compare(metrics, np.array(busy)) is None
