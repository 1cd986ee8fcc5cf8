"""The search for crossovers on made-up curves whose crossings are known."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from tests.tune.curves import CROSSING, STEPS, TWICE, Laboratory, changes, winners
from workbench.errors import InvalidArgument
from workbench.tune import CrossoverSearch, Settings, interleaved, steps
from workbench.tune.evidence import Point

LARGEST = 8192
POWERS = tuple(1 << i for i in range(14))


def search_for(curves, **changes):
    return CrossoverSearch(dict.fromkeys(curves, "split"), settings=Settings(**{"grid": POWERS, **changes}))


def run(search, laboratory):
    return list(steps(search, laboratory))


def claim_at(intervals, m):
    return next((i.winner for i in intervals if i.low <= m <= i.high), None)


@pytest.mark.parametrize(("curves", "runs"), [(CROSSING, 380), (TWICE, 120)], ids=["one crossing", "two crossings"])
def test_crossings_lie_where_they_are_said_to_be(curves, runs):
    """In at least 90 % of 500 noisy searches no M at all has a false winner, and every true crossing is told, in order,
    with bounds that hold it.

    A search that claims little could pass the first, so nearly all of the range must be claimed as well.
    """
    truth = winners(curves, LARGEST)
    true_changes = changes(truth)
    covered = told = 0
    claimed = []
    for seed in range(runs):
        search = search_for(curves, draws=400, width=0.03)
        run(search, Laboratory(curves, seed=seed, noise=0.03))
        intervals = search.intervals()
        covered += all(set(truth[i.low : i.high + 1]) == {i.winner} for i in intervals if i.winner)
        found = search.crossings()
        told += len(found) == len(true_changes) and all(
            x.low < c <= x.high and (x.before, x.after) == (truth[c - 1], truth[c])
            for x, c in zip(found, true_changes, strict=True)
        )
        claimed.append(sum(i.high - i.low + 1 for i in intervals if i.winner) / LARGEST)
    assert covered / runs >= 0.90
    assert told / runs >= 0.90
    assert sorted(claimed)[runs // 20] > 0.75


def test_winner_changes_at_tile_steps():
    """On both sides of each step of a tile nobody is named falsely, and the default grid sees the steps."""
    truth = winners(STEPS, LARGEST)
    search = CrossoverSearch(dict.fromkeys(STEPS, "split"), settings=Settings(most_points=400))
    run(search, Laboratory(STEPS, noise=0.001, drift=0.02))
    for v in search.verdicts():
        assert v.winner in (None, truth[v.m])
    claims = [claim_at(search.intervals(), m) for m in range(1, 66)]
    assert claims[63] == truth[64] == "tiled"
    assert claims[64] == truth[65] == "smooth"
    assert len(search.crossings()) >= 3


def test_brackets_become_as_narrow_as_stated():
    search = search_for(CROSSING, width=0.02)
    run(search, Laboratory(CROSSING, noise=0.0005, outliers=0))
    verdicts = search.verdicts()
    for a, b in pairwise(verdicts):
        if a.winner != b.winner:
            assert b.m - a.m <= max(1, int(0.02 * a.m))
    (crossing,) = search.crossings()
    assert crossing.low < 151 <= crossing.high
    assert crossing.high - crossing.low <= 9


def test_overlap_is_measured_again_up_to_the_limit():
    same = {"a": lambda m: 10.0, "b": lambda m: 10.0}
    laboratory = Laboratory(same, noise=0.05)
    search = search_for(same, grid=(8, 16), tolerance=0.0, rounds=10, looks=3)
    run(search, laboratory)
    # 10, then as many again, then 20 more.
    assert sorted(laboratory.calls) == sorted([(m, rounds) for m in (8, 16) for rounds in (10, 10, 20)])
    assert [v.rounds for v in search.verdicts()] == [40, 40]
    assert [i.winner for i in search.intervals()] == [None]


def test_ties_are_not_measured_again():
    same = {"a": lambda m: 10.0, "b": lambda m: 10.0}
    laboratory = Laboratory(same, noise=0.0001, drift=0, outliers=0)
    search = search_for(same, grid=(8, 16))
    run(search, laboratory)
    assert [rounds for _, rounds in laboratory.calls] == [15, 15]
    assert all(v.tie and v.winner is None for v in search.verdicts())


def test_points_are_limited():
    search = search_for(STEPS, width=0.001, most_points=20)
    run(search, Laboratory(STEPS, noise=0.001))
    assert len(search.points) == 20
    assert search.next() is None
    assert search.progress() == (20, 20)


def test_going_on_from_json_is_the_same_as_never_having_stopped():
    whole, laboratory = search_for(TWICE), Laboratory(TWICE, seed=4)
    expected = run(whole, laboratory)
    halves, again = search_for(TWICE), Laboratory(TWICE, seed=4)
    seen = []
    for count, proposal in enumerate(steps(halves, again), 1):
        seen.append(proposal)
        if count == 17:
            break
    resumed = CrossoverSearch.from_json(halves.to_json())
    seen += run(resumed, again)
    assert seen == expected
    assert resumed.to_json() == whole.to_json()
    assert resumed.intervals() == whole.intervals()


def test_a_failed_measurement_leaves_the_search_as_it_was():
    search, laboratory = search_for(CROSSING), Laboratory(CROSSING)
    for _, _ in zip(range(3), steps(search, laboratory), strict=False):
        pass
    before = search.to_json()

    def broken(providers, m, rounds):
        raise RuntimeError("the GPU fell off the bus")

    with pytest.raises(RuntimeError, match="bus"):
        run(search, broken)
    assert search.to_json() == before
    run(search, laboratory)
    assert search.next() is None


def test_progress_ends_at_its_end():
    search = search_for(TWICE)
    assert search.progress()[0] == 0
    for _ in steps(search, Laboratory(TWICE)):
        done, total = search.progress()
        assert done <= total
    done, total = search.progress()
    assert done == total == len(search.points)


def test_precision_is_a_constraint():
    curves = {"exact": lambda m: 20.0, "split": lambda m: 10.0, "rough": lambda m: 5.0}
    classes = {"exact": "fp32", "split": "split", "rough": "bf16"}
    search = CrossoverSearch(classes, precision="bf16", settings=Settings(grid=(8, 64)))
    laboratory = Laboratory(curves)
    run(search, laboratory)
    assert [i.winner for i in search.intervals()] == ["rough"]
    search.precision = "split"
    assert search.allowed == ("exact", "split")
    assert search.next() is None  # what was measured holds both
    assert [i.winner for i in search.intervals()] == ["split"]
    search.precision = "fp32"
    assert [i.winner for i in search.intervals()] == ["exact"]


def test_a_wider_class_asks_for_what_it_lacks():
    curves = {"exact": lambda m: 20.0, "rough": lambda m: 5.0}
    search = CrossoverSearch({"exact": "fp32", "rough": "bf16"}, precision="fp32", settings=Settings(grid=(8, 64)))
    run(search, Laboratory(curves))
    search.precision = "bf16"
    assert search.next().providers == ("exact", "rough")
    run(search, Laboratory(curves))
    assert [i.winner for i in search.intervals()] == ["rough"]


def test_one_provider_measured_at_a_time_is_interleaved():
    calls = []

    def measure(provider, m, rounds):
        calls.append(provider)
        return [{"a": 1.0, "b": 2.0, "c": 3.0}[provider]] * rounds

    assert interleaved(measure)(("a", "b", "c"), 8, 3) == {"a": [1.0] * 3, "b": [2.0] * 3, "c": [3.0] * 3}
    assert "".join(calls) == "abcbcacab"


@pytest.mark.parametrize(
    ("m", "samples", "word"),
    [
        (0, {"flat": [1.0] * 5}, "between 1"),
        (True, {"flat": [1.0] * 5}, "between 1"),
        (1.5, {"flat": [1.0] * 5}, "between 1"),
        (8, {"other": [1.0] * 5}, "samples of other"),
        (8, {"flat": [1.0] * 5, "steep": [1.0] * 6}, "equally many"),
    ],
)
def test_samples_that_are_refused(m, samples, word):
    search = search_for(CROSSING)
    with pytest.raises(InvalidArgument, match=word):
        search.add(m, samples)
    assert search.points == ()


@pytest.mark.parametrize(
    "damage",
    [
        lambda s: "{",
        lambda s: "[]",
        lambda s: s.replace('"split"', '"exact"'),
        lambda s: s.replace('"schema_version": 1', '"schema_version": 2'),
        lambda s: s.replace('"m": 1', '"m": -1'),
        lambda s: s.replace('"m": 2,', '"m": 1,'),
        lambda s: json.dumps(json.loads(s) | {"points": [{"m": 1, "blocks": [{"samples_us": {}, "paired": True}]}]}),
        lambda s: json.dumps(json.loads(s) | {"points": [{"m": 1, "assumed": {"flat": [-1, 0]}}]}),
        lambda s: s.replace('"rounds": 15', '"rounds": 1e9'),
        lambda s: "[" * 100_000,
    ],
)
def test_damaged_states_are_refused(damage):
    search = search_for(CROSSING, grid=(1, 2))
    run(search, Laboratory(CROSSING))
    text = search.to_json()
    assert damage(text) != text
    with pytest.raises(InvalidArgument):
        CrossoverSearch.from_json(damage(text))


def test_no_provider_is_accurate_enough():
    with pytest.raises(InvalidArgument, match=r"as accurate as 'fp32'.*a \(bf16\)"):
        CrossoverSearch({"a": "bf16"}, precision="fp32")
    with pytest.raises(InvalidArgument, match="two points"):
        CrossoverSearch({"a": "bf16"}, precision="bf16", points=[Point(1), Point(1)])
