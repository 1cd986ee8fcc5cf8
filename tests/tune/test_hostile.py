"""Measurements, settings and traffic that are not what they should be; and how often few rounds name a false winner."""

from __future__ import annotations

import math

import numpy as np
import pytest

from workbench.errors import InvalidArgument
from workbench.tables import Choice
from workbench.tune import Block, CrossoverSearch, Curves, Point, Settings, Traffic, steps
from workbench.tune.verdicts import DECIDING_ROUNDS, compare

BOTH = {"a": "split", "b": "split"}


@pytest.mark.parametrize(
    ("returned", "match"),
    [
        (lambda rounds: {"a": [1.0] * rounds}, "returned a; return samples of each of a, b"),
        (lambda rounds: {"a": [1.0] * rounds, "c": [1.0] * rounds}, "returned a, c"),
        (lambda _: None, "returned a NoneType"),
        (lambda _: {}, "returned nothing"),
        (lambda rounds: {"a": [1.0] * rounds, "b": [math.nan] * rounds}, "samples that are no times"),
        (lambda _: {"a": 5.0, "b": 5.0}, "samples are no numbers by provider"),
        (lambda rounds: {"a": ["fast"] * rounds, "b": [1.0] * rounds}, "samples are no numbers by provider"),
    ],
)
def test_a_measurement_that_returns_something_else_ends_the_search(returned, match):
    search = CrossoverSearch(BOTH)
    with pytest.raises(InvalidArgument, match=match):
        next(steps(search, lambda providers, m, rounds: returned(rounds)))
    assert search.points == ()


def test_rows_may_be_numbers_of_numpy():
    search = CrossoverSearch(BOTH)
    search.add(np.int64(4), {"a": np.ones(9), "b": np.full(9, 2.0)})
    assert [type(point.m) for point in search.points] == [int]
    assert search.intervals()[0].winner == "a"
    for wrong in (True, 4.0, "4", 0):
        with pytest.raises(InvalidArgument, match="whole number of rows"):
            search.add(wrong, {"a": [1.0] * 9, "b": [2.0] * 9})


def test_providers_come_with_their_class():
    with pytest.raises(InvalidArgument, match="providers are a list; give the precision class of each"):
        CrossoverSearch(["a", "b"])


@pytest.mark.parametrize(
    ("setting", "match"),
    [
        ({"rounds": 1}, "rounds is 1: Input should be greater than or equal to 5"),
        ({"width": math.nan}, "width is nan"),
        ({"grid": (0,)}, "grid is 0"),
        ({"round": 5}, "round is 5: Extra inputs are not permitted"),
    ],
)
def test_settings_are_refused_in_words(setting, match):
    with pytest.raises(InvalidArgument, match=match):
        Settings(**setting)


def test_few_rounds_name_nobody_and_are_measured_again():
    clear = {"a": [1.0] * 5, "b": [2.0] * 5}
    search = CrossoverSearch(BOTH, settings=Settings(grid=(1,), rounds=5))
    search.add(1, clear)
    (verdict,) = search.verdicts()
    assert (verdict.winner, verdict.tie, verdict.leader) == (None, False, "a")
    assert search.next().reason == "overlap"
    search.add(1, clear)
    assert search.verdicts()[0].winner == "a"


@pytest.mark.parametrize("rounds", [5, 7, DECIDING_ROUNDS, 15])
def test_equal_kernels_have_no_winner_however_few_the_rounds(rounds):
    """At 95 %: of 400 comparisons of equals at most 5 % and three standard deviations of that may name one."""
    random = np.random.default_rng(0)
    times = 10 * (1 + 0.02 * random.standard_normal((400, 2, rounds)))
    false = sum(
        compare(Point(m, (Block({"a": tuple(a), "b": tuple(b)}),)), ("a", "b"), draws=1000).winner is not None
        for m, (a, b) in enumerate(times, 1)
    )
    assert false <= 0.05 * 400 + 3 * math.sqrt(400 * 0.05 * 0.95)


@pytest.mark.parametrize("seed", range(6))
def test_the_best_choice_is_found_without_looking_at_every_m(seed):
    """Against the fastest at every M; the curves cross several times between two measured M."""
    random = np.random.default_rng(seed)
    names = tuple("abcd")
    rows = np.unique(np.concatenate([[1], random.integers(1, 3000, 12)]))
    times = random.uniform(5, 9, (len(rows), 4)).tolist()
    blocks = [Block({name: (us,) * 5 for name, us in zip(names, each, strict=True)}) for each in times]
    curves = Curves([Point(int(m), (block,)) for m, block in zip(rows, blocks, strict=True)], names, draws=1)
    every = np.arange(rows[0], rows[-1] + 1)
    fastest = np.argmin(curves.times(every), axis=0)
    starts = (0, *(every[1:][np.diff(fastest) != 0]).tolist())
    wanted = Choice(starts, tuple(names[i] for i in fastest[np.searchsorted(every, np.maximum(starts, 1))]), "every M")
    assert curves.best().starts == wanted.starts
    assert curves.best().providers == wanted.providers


def test_millions_of_rows_take_no_memory():
    import tracemalloc

    points = [Point(m, (Block({"a": (10 + m / 1e4,) * 5, "b": (20 + m / 2e4,) * 5}),)) for m in (1, 1 << 24)]
    curves = Curves(points, ("a", "b"), draws=1)
    tracemalloc.start()
    try:
        best = curves.best()
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    assert best.providers == ("a", "b")
    assert curves.times([best.starts[1] - 1]).argmin() == 0
    assert curves.times([best.starts[1]]).argmin() == 1


@pytest.mark.parametrize(
    "calls",
    [{1.5: 2}, {"1": 1}, {1: "many"}, {1 << 70: 1}, {1: math.nan}, {1: 1e308, 2: 1e308}, {0: 1}, {}, [1, 2]],
)
def test_traffic_that_is_none(calls):
    with pytest.raises(InvalidArgument, match="traffic 'given'"):
        Traffic.of(calls)


def test_traffic_is_whole_numbers_of_rows():
    with pytest.raises(InvalidArgument, match="distinct M, whole numbers"):
        Traffic("mine", np.array([1.5, 2.5]), np.ones(2))
    with pytest.raises(InvalidArgument, match="whole numbers"):
        Traffic.even(1.5, 3)
    lists = Traffic("mine", [1, 64], [3, 1])
    assert (lists.m.dtype, lists.weights.tolist()) == (np.int64, [0.75, 0.25])
