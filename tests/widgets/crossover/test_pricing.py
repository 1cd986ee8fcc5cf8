"""Prices by prefix sums are those of `workbench.tune.regret`, whatever the rule, the figures and the traffic."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.errors import InvalidArgument
from workbench.tables import Choice
from workbench.tune import Block, Point, Traffic, regret
from workbench.widgets.crossover.pricing import Pricing
from workbench.widgets.crossover.scene import bins_to

NAMES = ("a", "b", "c")


def figures(kind: str, seed: int = 0) -> list[Point]:
    random = np.random.default_rng(seed)
    points = []
    for m in (1, 3, 8, 40, 200, 900):
        samples = {name: tuple((5 + m * random.uniform(0.01, 0.05) + random.random(7)).tolist()) for name in NAMES}
        if kind == "assumed":
            points.append(Point(m, (), {name: (values[0], 0.02) for name, values in samples.items()}))
        elif kind == "paired":
            points.append(Point(m, (Block(samples),)))
        elif kind == "apart":
            points.append(Point(m, tuple(Block({name: values}, paired=False) for name, values in samples.items())))
        else:  # a provider is missing at some M, and one block holds only two
            few = {name: samples[name] for name in ("a", "b")}
            points.append(Point(m, (Block(few),) if m in (3, 200) else (Block(samples), Block(few))))
    return points


@st.composite
def rules(draw: st.DrawFn) -> Choice:
    starts = sorted(draw(st.sets(st.integers(1, 1200), max_size=5)))
    names = draw(st.lists(st.sampled_from(NAMES), min_size=len(starts) + 1, max_size=len(starts) + 1))
    return Choice((0, *starts), tuple(names), "drawn")


TRAFFIC = Traffic.of({m: 1.0 / m for m in range(1, 1400, 3)}, "many")


@pytest.mark.parametrize("kind", ["assumed", "paired", "apart", "patchy"])
@settings(max_examples=25)
@given(rule=rules(), against=rules())
def test_prices_are_regrets(kind: str, rule: Choice, against: Choice) -> None:
    points = figures(kind)
    pricing = Pricing(points, TRAFFIC, draws=200, seed=3)
    found = pricing.regret(rule, against)
    wanted = regret(points, rule, against, TRAFFIC, draws=200, seed=3)
    for name in ("us", "low_us", "high_us", "cost_us", "against_us", "outside", "level"):
        assert getattr(found, name) == pytest.approx(getattr(wanted, name), abs=1e-9), name
    assert found.outside > 0


@settings(max_examples=25)
@given(rule=rules(), against=rules())
def test_the_lanes_add_up_to_the_regret(rule: Choice, against: Choice) -> None:
    pricing = Pricing(figures("paired"), TRAFFIC, draws=200)
    lost = pricing.lost(rule, against, [first for first, _ in bins_to(1400)])
    assert lost.sum() == pytest.approx(pricing.regret(rule, against).us, abs=1e-9)


def test_where_a_rule_agrees_nothing_is_lost() -> None:
    pricing = Pricing(figures("paired"), TRAFFIC, draws=200)
    rule, other = Choice.threshold("a", 100, "b", "one"), Choice.threshold("a", 300, "b", "other")
    bins = bins_to(1400)
    lost = pricing.lost(rule, other, [first for first, _ in bins])
    assert all(value == 0 for (first, last), value in zip(bins, lost, strict=True) if last < 100 or first >= 300)
    assert np.abs(lost).max() > 0


def test_traffic_outside_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="the traffic has M from 2,000 to 2,000"):
        Pricing(figures("paired"), Traffic.of({2000: 1})).regret(Choice.always("a"), Choice.always("b"))


def test_interpolation_is_between_neighbours() -> None:
    pricing = Pricing(figures("assumed"), TRAFFIC, draws=200)
    points = {point.m: point.assumed["a"][0] for point in figures("assumed")}
    found = pricing.interpolated("a", 18)
    share = np.log(18 / 8) / np.log(40 / 8)
    assert found == pytest.approx(np.exp(np.log(points[8]) * (1 - share) + np.log(points[40]) * share))
    assert pricing.interpolated("a", 5000) is None
