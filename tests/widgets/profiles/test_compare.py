"""Differences and their noise: checked against Student's distribution itself and against simulated runs."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.widgets.profiles.samples import nsight, reduced
from workbench.widgets.profiles.captures import Capture
from workbench.widgets.profiles.compare import (
    BEYOND,
    EQUAL,
    T_975,
    UNKNOWN,
    WITHIN,
    Row,
    compare,
    difference,
    half_width,
    t_quantile,
)
from workbench.widgets.profiles.units import Reading, Scale
from workbench.widgets.profiles.words import difference_words

DURATION = "gpu__time_duration.sum"


def of(record):
    return Capture(Path("folder") / "nsight-0.json", record)


def rows(*records):
    return {row.name: row for row in compare([of(record) for record in records])}


def upper_tail(t, freedom):
    """P(T > t) by integrating the density."""
    x = np.linspace(0, t, 200_001)
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(freedom * math.pi)
    return 0.5 - float(np.trapezoid(scale * (1 + x**2 / freedom) ** (-(freedom + 1) / 2), x))


@pytest.mark.parametrize("freedom", [*range(1, len(T_975) + 1), 31, 40, 60, 120, 1000])
def test_quantiles_are_students(freedom):
    assert upper_tail(t_quantile(freedom), freedom) == pytest.approx(0.025, abs=2e-4)


def test_fewer_degrees_are_never_narrower():
    found = [t_quantile(freedom) for freedom in np.linspace(1, 200, 2000)]
    assert all(a >= b for a, b in pairwise(found))


@pytest.mark.parametrize(("a", "b"), [((1.0, 3), (1.0, 3)), ((1.0, 3), (4.0, 12)), ((2.0, 5), (0.2, 3))])
def test_intervals_hold_the_true_difference_nineteen_times_in_twenty(a, b):
    random = np.random.default_rng(7)
    trials, held = 4000, 0
    for _ in range(trials):
        first, second = (random.normal(50.0, deviation, runs) for deviation, runs in (a, b))
        width = half_width(first.std(ddof=1), a[1], second.std(ddof=1), b[1])
        held += abs(second.mean() - first.mean()) <= width
    assert 0.935 < held / trials < 0.985


@pytest.mark.parametrize("size", [1e-200, 1.0, 1e200])
def test_intervals_of_any_size(size):
    """Squares of a record's numbers may be no numbers any more."""
    assert half_width(3 * size, 3, size, 5) == pytest.approx(size * half_width(3.0, 3, 1.0, 5))
    assert half_width(0.0, 3, 0.0, 5) == 0


@pytest.mark.parametrize("scale", [Scale(1.0, "%"), Scale(1.0, "cycles")])
@pytest.mark.parametrize(("base", "other"), [(1e-300, 0.1), (1.0, 1e300), (5e302, -1e302)])
def test_differences_of_any_size_keep_to_their_column(scale, base, other):
    change = difference(reading(base), reading(other), 1, 1)
    row = Row("cycles", "cycles", "", "", (reading(base), reading(other)), (None, change), scale, ())
    assert len(difference_words(row, change)) < 16


def reading(value, deviation=None):
    return Reading(value, "ns", deviation)


def test_verdicts():
    assert difference(reading(100, 1), reading(101, 1), 3, 3).verdict == WITHIN
    assert difference(reading(100, 1), reading(110, 1), 3, 3).verdict == BEYOND
    assert difference(reading(100, 1), reading(100, 1), 3, 3).verdict == EQUAL
    assert difference(reading(100), reading(110, 1), 1, 3).verdict == UNKNOWN
    assert "single run" in difference(reading(100), reading(110, 1), 1, 3).why
    assert difference(reading(100), reading(110), None, None).verdict == UNKNOWN
    assert difference(reading(100, 0.0), reading(101, 0.0), 3, 3).verdict == BEYOND
    assert difference(reading(168), reading(128), 1, 1, exact=True).verdict == BEYOND
    assert difference(reading(0.0), reading(1.0), 1, 1).relative is None


@given(st.floats(1, 1e9), st.floats(1, 1e9), st.floats(1e-6, 1e6), st.integers(2, 40))
def test_swapping_turns_the_sign_and_keeps_the_verdict(a, b, deviation, runs):
    there, back = (difference(reading(x, deviation), reading(y, deviation), runs, runs) for x, y in ((a, b), (b, a)))
    assert there.delta == -back.delta
    assert (there.verdict, there.noise) == (back.verdict, back.noise)


def test_units_are_brought_together():
    a = nsight(metrics={DURATION: 20_000.0}, units={DURATION: "ns"}, deviations={DURATION: 100.0})
    b = nsight(metrics={DURATION: 22.0}, units={DURATION: "usecond"}, deviations={DURATION: 0.1})
    change = rows(a, b)[DURATION].differences[1]
    assert change.delta == pytest.approx(2000)
    assert change.verdict == BEYOND


def test_units_of_other_dimensions_are_not_compared():
    a = nsight(metrics={DURATION: 20_000.0}, units={DURATION: "ns"})
    b = nsight(metrics={DURATION: 20_000.0}, units={DURATION: "cycle"})
    row = rows(a, b)[DURATION]
    assert row.mixed == ("ns", "cycle")
    assert row.differences == (None, None)


def test_missing_metrics_leave_gaps():
    row = rows(nsight(metrics={DURATION: 1.0}, units={}), nsight(metrics={"my__own.sum": 2.0}))
    assert row[DURATION].readings[1] is None
    assert row["my__own.sum"].readings[0] is None
    assert row["my__own.sum"].group == "Other"
    assert row[DURATION].differences == (None, None)


def test_imbalance_follows_from_mean_and_most():
    row = rows(nsight(), nsight(metrics={"sm__cycles_active.avg": 99.0, "sm__cycles_active.max": 100.0}, units={}))
    assert [one.value for one in row["imbalance"].readings] == pytest.approx([20.0, 1.0])
    assert row["imbalance"].differences[1].verdict == UNKNOWN
    assert row["most_over_mean"].readings[0].value == pytest.approx(1.25)


@pytest.mark.parametrize("most", [0.0, -1.0])
def test_no_imbalance_of_an_idle_gpu(most):
    metrics = {"sm__cycles_active.avg": 0.0, "sm__cycles_active.max": most}
    assert "imbalance" not in rows(nsight(metrics=metrics, units={}))


def test_a_benchmark_time_never_stands_in_the_row_of_an_isolated_one():
    row = rows(nsight(), reduced())
    assert row[DURATION].readings[1] is None
    assert row["replayed"].readings == (None, Reading(16_250.0, "ns", half_width=250.0))
    assert row["replayed"].differences == (None, None)


def test_reduced_records_are_compared_by_their_intervals():
    near, far = reduced(), reduced(samples_us=(18.0,), median_us=18.0, low_us=17.9, high_us=18.1)
    change = rows(near, far)["replayed"].differences[1]
    assert change.noise == pytest.approx(math.hypot(250, 100))
    assert change.verdict == BEYOND
    shifted = reduced(samples_us=(16.3,), median_us=16.3, low_us=16.1, high_us=16.5)
    assert rows(near, shifted)["replayed"].differences[1].verdict == WITHIN
