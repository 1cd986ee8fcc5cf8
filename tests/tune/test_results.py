"""Dispatch tables made of searches: spans against intervals and interpolated times, M by M."""

from __future__ import annotations

import datetime

import pytest

from tests.tune.curves import CROSSING, STEPS, TWICE, Laboratory
from workbench.errors import InvalidArgument
from workbench.records import Environment
from workbench.tables import Choice, DispatchTable
from workbench.tune import CrossoverSearch, Curves, Settings, Traffic, best_choice, make_table, steps
from workbench.tune.analysis import analyse

ENVIRONMENT = Environment(gpu="NVIDIA H200", date=datetime.date(2026, 11, 29))


@pytest.fixture(scope="module", params=[CROSSING, TWICE, STEPS], ids=["once", "twice", "steps"])
def search(request):
    made = CrossoverSearch(
        dict.fromkeys(request.param, "split"), settings=Settings(grid=(4, 16, 64, 65, 256, 1024, 4096))
    )
    for _ in steps(made, Laboratory(request.param, seed=7)):
        pass
    return made


def table_of(search, **notes):
    return make_table(search, k=4096, n=192, environment=ENVIRONMENT, origins=("made up",), **notes)


def test_spans_are_the_intervals_and_the_faster_elsewhere(search):
    table = DispatchTable.decode(table_of(search).encode())
    curves = Curves(search.points, search.allowed, draws=1)
    intervals = search.intervals()
    spans = {m: s for s in table.spans for m in range(s.low, min(s.high or 9999, 9999) + 1)}
    times = curves.times(range(4, 4097))
    for interval in intervals:
        for m in range(interval.low, interval.high + 1):
            assert spans[m].winner == interval.winner
            assert spans[m].basis == ("measured" if interval.winner else "undecided")
            chosen = times[search.allowed.index(table.choose(m)), m - 4]
            assert chosen <= times[:, m - 4].min() * (1 + 1e-12)
    assert spans[0].basis == spans[3].basis == spans[4097].basis == "outside"
    assert table.choose(0) == table.choose(4)
    assert table.choose(1 << 40) == table.choose(4096)
    measured = sorted(m for span in table.spans for m in span.measured)
    assert measured == [v.m for v in search.verdicts()]
    best = best_choice(search)
    assert [best.at(m) for m in range(5000)] == [table.choose(m) for m in range(5000)]


def test_analysis_prices_rules_against_the_table(search):
    names = search.allowed
    in_use = {(4096, 192): 100}
    found = analyse(
        search,
        k=4096,
        n=192,
        environment=ENVIRONMENT,
        origins=("made up",),
        traffic=Traffic.even(4, 4096),
        sglang=in_use,
    )
    rules = {rule.rule: rule for rule in found.rules}
    assert set(rules) == {f"always {name}" for name in names}
    assert all(rule.us >= 0 for rule in found.rules)
    assert found.threshold is None  # neither hpc nor FP32 was measured
    assert any("SGLang's table (hpc from M = 100)" in note for note in found.notes)
    assert found.table.regret == ()


def test_table_in_use_is_priced_in_both_directions():
    curves = {"cublas-fp32": TWICE["steep"], "hpc": TWICE["flat"]}
    search = CrossoverSearch({"cublas-fp32": "fp32", "hpc": "split"}, settings=Settings(grid=(1, 64, 1024, 4096)))
    for _ in steps(search, Laboratory(curves)):
        pass
    kind = {"k": 6144, "n": 768, "environment": ENVIRONMENT, "origins": ("made up",)}
    found = analyse(search, traffic=Traffic.of({64: 10, 200: 5, 3000: 1}), **kind)
    rules = {rule.rule: rule for rule in found.rules}
    used = rules["SGLang's table (hpc from M = 64)"]
    assert used.us > 0
    assert {note.against for note in found.table.regret} == {used.rule, "always FP32"}
    (note,) = [note for note in found.table.regret if note.against == used.rule]
    assert (note.us, note.low, note.high) == pytest.approx((-used.us, -used.high_us, -used.low_us))
    assert found.threshold is not None
    assert found.threshold.regret.us <= min(used.us, rules["always FP32"].us, rules["always hpc"].us) + 1e-12
    assert found.notes == ()


def test_nothing_measured_is_refused():
    search = CrossoverSearch({"a": "split"})
    with pytest.raises(InvalidArgument, match="no M has figures"):
        analyse(search, k=8, n=8, environment=ENVIRONMENT, origins=(), traffic=Traffic.even())
    with pytest.raises(InvalidArgument, match="no M has figures"):
        best_choice(search)


def test_evidence_of_a_table_follows_the_samples(search):
    more = CrossoverSearch.from_json(search.to_json())
    assert table_of(more).evidence == table_of(search).evidence
    more.add(64, {name: [1.0] * 5 for name in more.allowed})
    assert table_of(more).evidence != table_of(search).evidence


def test_choice_of_a_single_provider():
    search = CrossoverSearch({"a": "split"}, settings=Settings(grid=(8,)))
    search.add(8, {"a": [1.0] * 5})
    assert best_choice(search) == Choice.always("a", "the best choice")
    assert [span.basis for span in table_of(search).spans] == ["outside", "measured", "outside"]
