"""Bootstrap of medians: against a loop, and whether its intervals hold what they promise."""

from __future__ import annotations

import statistics

import numpy as np
import pytest

from workbench.errors import InvalidArgument
from workbench.tune.evidence import Block, Point, resampled_medians
from workbench.tune.verdicts import compare, difference_interval

DRAWS = 500


@pytest.mark.parametrize("rounds", [5, 6, 15])
def test_medians_of_a_loop(rounds):
    samples = np.random.default_rng(1).random((rounds, 3))
    drawn = resampled_medians(samples, np.random.default_rng(2), 40)
    indices = np.random.default_rng(2).integers(rounds, size=(40, rounds), dtype=np.int32)
    for row, index in zip(drawn, indices, strict=True):
        expected = [statistics.median(samples[i, column] for i in index) for column in range(3)]
        assert row == pytest.approx(expected, rel=1e-15)


def heteroscedastic(random, truth, rounds, drift):
    """[rounds, 2 * DRAWS]: pairs of columns with true medians ``truth``; the second is four times as noisy."""
    noise = random.standard_normal((rounds, DRAWS, 2)) * np.array([0.01, 0.04])
    wave = 1 + drift * np.sin(np.linspace(0, 4, rounds))[:, None, None]
    return np.array(truth) * (1 + noise) * wave


@pytest.mark.parametrize("rounds", [15, 30])
@pytest.mark.parametrize("drift", [0.0, 0.05])
def test_interval_of_the_difference_covers_it(rounds, drift):
    """500 made-up experiments: at least 90 % of the 95 % intervals hold the true difference of medians."""
    random = np.random.default_rng(rounds)
    truth = (10.0, 10.3)
    samples = heteroscedastic(random, truth, rounds, drift)
    drawn = resampled_medians(samples.reshape(rounds, -1), random, 1000).reshape(1000, DRAWS, 2)
    low, high = difference_interval(drawn[..., 1] - drawn[..., 0], 0.95)
    # The drift is common, so the median of each moves by the wave's median.
    wave = np.median(1 + drift * np.sin(np.linspace(0, 4, rounds)))
    difference = (truth[1] - truth[0]) * wave
    covered = np.mean((low <= difference) & (difference <= high))
    assert covered >= 0.90
    assert np.median(high - low) < 0.8  # not by being as wide as it likes


def test_paired_rounds_cancel_what_they_share():
    random = np.random.default_rng(3)
    wave = 1 + 0.2 * random.standard_normal(15)
    samples = {name: tuple(t * wave * (1 + 0.002 * random.standard_normal(15))) for name, t in (("a", 10), ("b", 10.5))}
    together = compare(Point(8, (Block(samples),)), ("a", "b"))
    apart = compare(Point(8, (Block(samples, paired=False),)), ("a", "b"))
    assert together.winner == "a"
    assert apart.winner is None
    assert together.high_us - together.low_us < 0.25 * (apart.high_us - apart.low_us)


def test_blocks_of_two_sittings_are_pooled():
    first, second = (
        Block({"a": (1.0,) * 5, "b": (2.0,) * 5}),
        Block({"a": (3.0,) * 5, "b": (4.0,) * 5, "c": (1.0,) * 5}),
    )
    point = Point(4, (first, second))
    assert point.rounds(("a", "b")) == 10
    assert point.rounds(("a", "c")) == 5
    assert point.medians(("a", "b")).tolist() == [2.0, 3.0]
    assert point.medians(("a", "c")).tolist() == [3.0, 1.0]  # only the rounds that both had
    assert not Point(4, (first,)).has(("a", "c"))


def test_assumed_figures_are_drawn_with_their_deviation():
    point = Point(16, (), {"a": (10.0, 0.02), "b": (10.1, 0.02)})
    drawn = point.draws(("a", "b"), 20_000)
    assert drawn.mean(axis=0) == pytest.approx([10.0, 10.1], rel=1e-3)
    assert drawn.std(axis=0) == pytest.approx([0.2, 0.202], rel=0.03)
    assert abs(np.corrcoef(drawn.T)[0, 1]) < 0.03
    verdict = compare(point, ("a", "b"), tolerance=0)
    assert (verdict.winner, verdict.leader, verdict.rounds) == (None, "a", 0)
    assert (point.draws(("b",), 50)[:, 0] == point.draws(("a", "b"), 50)[:, 1]).all()  # whoever else is asked for


def test_more_rivals_and_looks_need_more_evidence():
    random = np.random.default_rng(5)
    samples = {"a": tuple(10 + 0.05 * random.standard_normal(15))} | {
        name: tuple(10.035 + 0.05 * random.standard_normal(15)) for name in "bcd"
    }
    point = Point(8, (Block(samples),))
    lows = [compare(point, ("a", "b"), looks=looks).low_us for looks in (1, 3, 8)]
    assert lows == sorted(lows, reverse=True)
    assert lows[0] > lows[-1]


def test_a_winner_beats_every_rival():
    """One rival that is clearly slower does not make up for one that is not."""
    random = np.random.default_rng(6)
    near = {name: tuple(10 + 0.5 * random.standard_normal(15)) for name in "ab"}
    point = Point(8, (Block({**near, "slow": tuple(50 + 0.5 * random.standard_normal(15))}),))
    verdict = compare(point, ("a", "b", "slow"))
    assert verdict.winner is None
    assert {verdict.leader, verdict.rival} == {"a", "b"}


def test_a_tie_is_a_difference_that_cannot_matter():
    point = Point(8, (Block({"a": (10.0, 10.01) * 8, "b": (10.01, 10.0) * 8}),))
    verdict = compare(point, ("a", "b"), tolerance=0.01)
    assert (verdict.winner, verdict.tie) == (None, True)
    assert not compare(point, ("a", "b"), tolerance=0.0001).tie
    alone = compare(point, ("b",))
    assert (alone.winner, alone.rival, alone.tie) == ("b", None, False)


@pytest.mark.parametrize(
    ("samples", "paired", "word"),
    [
        ({}, True, "at least 5"),
        ({"a": (1.0,) * 4}, True, "at least 5"),
        ({"a": (1.0,) * 5, "b": (1.0,) * 6}, True, "equally many"),
        ({"a": (1.0,) * 4 + (0.0,)}, False, "above 0"),
        ({"a": (1.0,) * 4 + (float("nan"),)}, False, "above 0"),
        ({"a": (1.0,) * 4 + (float("inf"),)}, True, "above 0"),
    ],
)
def test_samples_that_are_refused(samples, paired, word):
    with pytest.raises(InvalidArgument, match=word):
        Block(samples, paired)


@pytest.mark.parametrize("figure", [(0.0, 0.1), (float("nan"), 0.1), (1.0, -0.1), (1.0, 1.0), (1.0, float("nan"))])
def test_assumed_figures_that_are_refused(figure):
    with pytest.raises(InvalidArgument, match="share"):
        Point(1, (), {"a": figure})


def test_absent_figures_are_named():
    point = Point(7, (Block({"a": (1.0,) * 5}),))
    with pytest.raises(InvalidArgument, match=r"M = 7 .* a, b"):
        compare(point, ("a", "b"))
