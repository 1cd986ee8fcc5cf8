"""Intervals of M against their definition, M by M."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from workbench.tune.intervals import Crossing, crossings_of, intervals_of
from workbench.tune.verdicts import Verdict


def verdict(m, winner):
    return Verdict(m, winner, winner or "a", {}, {}, None, 0.0, 0.0, False, 15)


def winner_at(m, verdicts):
    """The rule in words: a measured M has its winner; another has its neighbours', if they agree."""
    below = max((v for v in verdicts if v.m <= m), key=lambda v: v.m)
    above = min((v for v in verdicts if v.m >= m), key=lambda v: v.m)
    return below.winner if below.winner == above.winner else None


verdict_lists = st.dictionaries(st.integers(1, 40), st.sampled_from([None, "a", "b", "c"]), min_size=1).map(
    lambda found: [verdict(m, found[m]) for m in sorted(found)]
)


@given(verdict_lists)
def test_every_m_has_the_winner_of_the_rule(verdicts):
    intervals = intervals_of(verdicts)
    covered = [m for interval in intervals for m in range(interval.low, interval.high + 1)]
    assert covered == list(range(verdicts[0].m, verdicts[-1].m + 1))
    for interval in intervals:
        assert {winner_at(m, verdicts) for m in range(interval.low, interval.high + 1)} == {interval.winner}
        assert interval.measured == tuple(v.m for v in verdicts if interval.low <= v.m <= interval.high)
        longest = run = 0
        for m in range(interval.low, interval.high + 1):
            run = 0 if m in interval.measured else run + 1
            longest = max(longest, run)
        assert interval.widest_gap == longest
    assert all(a.winner != b.winner for a, b in pairwise(intervals))


@given(verdict_lists)
def test_crossings_are_changes_between_decided_points(verdicts):
    decided = [v for v in verdicts if v.winner]
    expected = [Crossing(a.m, b.m, a.winner, b.winner) for a, b in pairwise(decided) if a.winner != b.winner]
    assert list(crossings_of(intervals_of(verdicts))) == expected


def test_neighbouring_m_with_different_winners_leave_no_gap():
    intervals = intervals_of([verdict(64, "a"), verdict(65, "b")])
    assert [(i.low, i.high, i.winner) for i in intervals] == [(64, 64, "a"), (65, 65, "b")]
