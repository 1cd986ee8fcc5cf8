"""Regret against loops over every M, and whether its interval holds what it promises."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from workbench.errors import InvalidArgument
from workbench.tables import Choice
from workbench.tune import Block, CrossoverSearch, Curves, Point, Settings, Traffic, best_choice, fit_threshold, regret

NAMES = ("a", "b", "c")


def made_up(seed, measured=(1, 4, 16, 64, 256), rounds=7):
    """Points with noisy times, every provider now and then the fastest."""
    draw = random.Random(seed)
    return [
        Point(m, (Block({name: tuple(draw.uniform(5, 15) + draw.random() for _ in range(rounds)) for name in NAMES}),))
        for m in measured
    ]


def time_of(points, name, m):
    """Median time at M, by hand."""
    medians = {p.m: float(np.median(p.blocks[0].samples_us[name])) for p in points}
    low, high = max(x for x in medians if x <= m), min(x for x in medians if x >= m)
    if low == high:
        return medians[m]
    share = math.log(m / low) / math.log(high / low)
    return medians[low] ** (1 - share) * medians[high] ** share


@pytest.mark.parametrize("seed", range(8))
def test_regret_is_the_sum_over_every_call(seed):
    points = made_up(seed)
    draw = random.Random(seed)
    calls = {draw.randint(1, 300): draw.randint(1, 9) for _ in range(40)} | {257: 5}
    rule = Choice((0, 10, 100), ("a", "b", "a"), "rule")
    other = Choice((0, 33), ("c", "b"), "other")
    found = regret(points, rule, other, Traffic.of(calls))
    inside = [m for m, count in calls.items() for _ in range(count) if m <= 256]
    cost = sum(time_of(points, rule.at(m), m) for m in inside) / len(inside)
    against = sum(time_of(points, other.at(m), m) for m in inside) / len(inside)
    assert found.cost_us == pytest.approx(cost, rel=1e-12)
    assert found.against_us == pytest.approx(against, rel=1e-12)
    assert found.us == pytest.approx(cost - against, rel=1e-9, abs=1e-12)
    assert found.outside == pytest.approx(1 - len(inside) / sum(calls.values()), rel=1e-12)
    assert found.share == pytest.approx((cost - against) / against, rel=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_best_choice_is_the_fastest_at_every_m(seed):
    points = made_up(seed)
    best = Curves(points, NAMES).best()
    for m in range(1, 257):
        times = {name: time_of(points, name, m) for name in NAMES}
        assert times[best.at(m)] == pytest.approx(min(times.values()), rel=1e-12)
    for name in NAMES:
        assert regret(points, Choice.always(name), best, Traffic.even(1, 256)).us >= 0


def test_a_rule_loses_nothing_against_itself():
    rule = Choice((0, 10), ("a", "b"), "rule")
    found = regret(made_up(1), rule, rule, Traffic.even(1, 256))
    assert (found.us, found.low_us, found.high_us, found.outside) == (0.0, 0.0, 0.0, 0.0)


def test_draws_of_the_mean_are_those_of_a_loop():
    points = made_up(3)
    curves = Curves(points, NAMES, draws=20, seed=9)
    m, weights = np.array([1, 3, 64, 200]), np.array([0.1, 0.2, 0.3, 0.4])
    rule = Choice((0, 2, 100), ("a", "b", "c"), "rule")
    _, drawn = curves.cost(rule, m, weights)
    table = {p.m: p.draws(NAMES, 20, 9) for p in points}
    for i in range(20):
        total = 0.0
        for rows, weight in zip(m.tolist(), weights, strict=True):
            low, high = max(x for x in table if x <= rows), min(x for x in table if x >= rows)
            column = NAMES.index(rule.at(rows))
            share = math.log(rows / low) / math.log(high / low) if high > low else 0.0
            total += weight * table[low][i, column] ** (1 - share) * table[high][i, column] ** share
        assert drawn[i] == pytest.approx(total, rel=1e-12)


def test_interval_covers_the_true_regret():
    """300 made-up experiments: at least 90 % of the 95 % intervals hold the true difference of the two rules."""
    truth = {1: (10.0, 12.0), 16: (11.0, 11.5), 256: (20.0, 14.0)}
    traffic = Traffic.of({1: 5, 16: 3, 256: 2})
    rule, other = Choice.always("a"), Choice.threshold("a", 100, "b", "switch")
    expected = 0.2 * (20.0 - 14.0)
    covered = widths = 0.0
    random = np.random.default_rng(0)
    for _ in range(300):
        points = [
            Point(
                m,
                (
                    Block(
                        {n: tuple(t * (1 + 0.03 * random.standard_normal(15))) for n, t in zip("ab", ts, strict=True)}
                    ),
                ),
            )
            for m, ts in truth.items()
        ]
        found = regret(points, rule, other, traffic, draws=400)
        covered += found.low_us <= expected <= found.high_us
        widths += found.high_us - found.low_us
    assert covered / 300 >= 0.90
    assert widths / 300 < 0.25 * expected


@pytest.mark.parametrize("seed", range(6))
def test_threshold_is_the_best_of_all(seed):
    points = made_up(seed)
    search = CrossoverSearch(dict.fromkeys(NAMES, "split"), settings=Settings(grid=(1, 256)), points=points)
    draw = random.Random(seed)
    traffic = Traffic.of({draw.randint(1, 256): draw.randint(1, 9) for _ in range(30)})
    fitted = fit_threshold(search, traffic, below="a", above="b")

    def cost(first):
        rule = Choice.threshold("a", first, "b", "any")
        return sum(
            calls * time_of(points, rule.at(m), m) for m, calls in zip(traffic.m.tolist(), traffic.calls, strict=True)
        )

    costs = [cost(first) for first in range(258)]
    mine = cost(257 if fitted.first is None else fitted.first)
    assert mine == pytest.approx(min(costs), rel=1e-12)
    best = best_choice(search)
    assert fitted.regret.us == pytest.approx(regret(points, fitted.choice, best, traffic).us, rel=1e-12)
    assert fitted.regret.us >= -1e-12
    if "c" in best.providers:
        assert "c cannot be named" in fitted.lost[-1]


def test_threshold_says_what_it_gives_up():
    def block(a, b):
        return (Block({"a": (a,) * 9, "b": (b,) * 9}),)

    points = [Point(1, block(1.0, 2.0)), Point(10, block(2.0, 1.0)), Point(100, block(5.0, 9.0))]
    search = CrossoverSearch({"a": "split", "b": "split"}, points=points)
    fitted = fit_threshold(search, Traffic.of({1: 1, 10: 1, 100: 10}), below="a", above="b")
    assert fitted.first is None
    assert fitted.lost == ("M 10: b wins, the form uses a",)
    assert fitted.regret.us == pytest.approx(1 / 12)
    with pytest.raises(InvalidArgument, match="hpc is not among the providers compared"):
        fit_threshold(search, Traffic.of({1: 1}), below="a", above="hpc")


def test_one_set_of_curves_serves_many_rules():
    """A threshold that is dragged is priced on curves drawn once, with the figures of curves drawn for it."""
    points, traffic = made_up(2), Traffic.even(1, 256)
    curves = Curves(points, NAMES)
    best = curves.best()
    for first in (0, 3, 60):
        rule = Choice.threshold("a", first, "b", "dragged")
        together, alone = curves.regret(rule, best, traffic), regret(points, rule, best, traffic)
        assert (together.us, together.cost_us) == pytest.approx((alone.us, alone.cost_us), rel=1e-12)
        # the draws pair other columns, so intervals agree but for chance
        assert together.high_us - together.low_us == pytest.approx(alone.high_us - alone.low_us, rel=0.25)
    with pytest.raises(InvalidArgument, match="d: no figures"):
        curves.regret(Choice.always("d"), best, traffic)


def test_traffic_outside_what_was_measured_is_refused():
    with pytest.raises(InvalidArgument, match="measured are 1 to 256"):
        regret(made_up(0), Choice.always("a"), Choice.always("b"), Traffic.of({1000: 1}))
    with pytest.raises(InvalidArgument, match="no M has figures of all of a, d"):
        regret(made_up(0), Choice.always("a"), Choice.always("d"), Traffic.of({1: 1}))
