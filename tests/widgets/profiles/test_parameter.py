"""A figure against a parameter: places, lines, whiskers."""

from __future__ import annotations

import pytest

from tests.widgets.profiles.samples import nsight, reduced
from workbench.widgets.profiles.captures import read_captures
from workbench.widgets.profiles.parameter import parameter_chart, parameters_of

DURATION = "gpu__time_duration.sum"


def made(store, *settings, **changes):
    for configuration, ns in settings:
        store.add(
            nsight(configuration=configuration, metrics={DURATION: ns}, deviations={DURATION: ns / 100}, **changes)
        )
    return read_captures(store)[0]


def test_numbers_by_size_then_words_then_absent(empty):
    captures = made(empty, ({"s": 10}, 1e4), ({"s": 9}, 2e4), ({"s": "auto"}, 3e4), ({}, 4e4))
    chart = parameter_chart(captures, "s", DURATION)
    assert [words for _, words in chart.x_ticks] == ["9", "10", "auto", "not set"]
    assert [place for place, _ in chart.x_ticks] == sorted(place for place, _ in chart.x_ticks)
    assert chart.y_label == "duration, isolated, \u00b5s"


def test_a_line_joins_what_differs_in_nothing_else(empty):
    settings = [({"s": s, "w": w}, 1e4 * s + w) for s in (2, 3, 4) for w in (4, 8)]
    captures = made(empty, *settings)
    chart = parameter_chart(captures, "s", DURATION)
    assert [len(line.places) for line in chart.lines] == [3, 3]
    assert {line.label for line in chart.lines} == {"w=4", "w=8"}
    heights = [[y for _, y in line.places] for line in chart.lines]
    assert all(line == sorted(line) for line in heights)


def test_repeated_captures_are_averaged_in_the_line_and_stay_points(empty):
    made(empty, ({"s": 2}, 1e4), ({"s": 3}, 1e4))
    made(empty, ({"s": 3}, 3e4))
    chart = parameter_chart(read_captures(empty)[0], "s", DURATION)
    assert len(chart.points) == 3
    (_, low), (_, mean) = chart.lines[0].places
    assert mean / low == pytest.approx(2.0)


def test_picked_ones_have_their_place_and_the_line_their_colour(empty):
    captures = made(empty, ({"s": 2}, 1e4), ({"s": 3}, 2e4))
    chart = parameter_chart(captures, "s", DURATION, picked=[captures[1]])
    assert [point.pick for point in chart.points] == [-1, 0]
    assert chart.lines[0].pick == 0


def test_whiskers_are_one_deviation(empty):
    chart = parameter_chart(made(empty, ({"s": 2}, 1e4), ({"s": 3}, 2e4)), "s", DURATION)
    one = max(chart.points, key=lambda point: point.place[1])
    assert one.high - one.place[1] == pytest.approx(one.place[1] - one.low)
    assert (one.high - one.low) / one.place[1] == pytest.approx(0.02)


def test_benchmark_times_are_not_in_a_chart_of_isolated_ones(empty):
    made(empty, ({"stages": 2}, 1e4))
    empty.add(reduced(configuration={"stages": 3}))
    captures, _ = read_captures(empty)
    chart = parameter_chart(captures, "stages", DURATION)
    assert len(chart.points) == 1
    assert chart.notes == ("1 capture without this figure left out",)
    own = parameter_chart(captures, "stages", "replayed")
    assert len(own.points) == 1
    assert "replayed" in own.title


def test_other_units_are_left_out_and_told(empty):
    made(empty, ({"s": 2}, 1e4), ({"s": 3}, 2e4))
    empty.add(nsight(configuration={"s": 4}, metrics={DURATION: 5.0}, units={DURATION: "cycle"}, deviations={}))
    chart = parameter_chart(read_captures(empty)[0], "s", DURATION)
    assert len(chart.points) in (1, 2)
    assert any("other units left out" in note for note in chart.notes)


def test_nothing_to_draw(empty):
    assert parameter_chart((), "s", DURATION).points == ()
    captures = made(empty, ({}, 1e4))
    assert parameters_of(captures) == ()
    assert parameter_chart(captures, "", DURATION).points == ()
