"""Dots, stacked bars, scattered points and rankings: what is drawn is what was given, and says where it is from."""

from __future__ import annotations

import datetime
import math
import re
from xml.etree import ElementTree

import pytest

from workbench.errors import InvalidArgument
from workbench.measure.figures import Figure
from workbench.records import Environment, Store, TimingRecord, Workload
from workbench.schedule import cost_model, plan_decode
from workbench.widgets.lesson import Dot, dots, rank, ranking, scatter, stacks
from workbench.widgets.lesson.drawing import round_numbers, steps
from workbench.workloads import parse_lengths

SVG = "{http://www.w3.org/2000/svg}"


def titles(picture):
    return ["".join(node.itertext()) for node in ElementTree.fromstring(picture.svg).iter(f"{SVG}title")]


def words(picture):
    return [node.text or "" for node in ElementTree.fromstring(picture.svg).iter(f"{SVG}text")]


def test_round_numbers_and_steps():
    assert round_numbers(4.2, 130) == [5, 10, 20, 50, 100]
    assert round_numbers(0.03, 0.2) == pytest.approx([0.05, 0.1, 0.2])
    assert steps(23.4) == [0, 5, 10, 15, 20]
    assert steps(0.9) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8])


DOTS = [
    Dot("a", "ours", 10.0, "recorded (H, 2026-11-29)", 9.5, 10.5, "relative error 0.002"),
    Dot("a", "ours", 12.0, "modelled (m)"),
    Dot("a", "theirs", 40.0, "reference (x, H, 2026-11-29)"),
    Dot("b", "theirs & <co>", 90.0, "measured now"),
]


def test_dots_say_time_interval_and_source():
    picture = dots(DOTS, title="Calls", floors={"a": 8.0}, floor_name="floor (recorded)", strong=["ours"])
    assert "ours, a: 10.0 us (9.50 to 10.5); recorded (H, 2026-11-29); relative error 0.002" in titles(picture)
    assert "8.0 us" in titles(picture)
    said = words(picture)
    assert "\u25d010.0 \u25cb12.0" in said  # two kinds in a row: each with its mark
    assert "40.0" in said
    assert {"recorded (H, 2026-11-29)", "modelled (m)", "measured now", "floor (recorded)", "theirs & <co>"} <= set(
        said
    )


def test_dots_share_one_logarithmic_axis():
    """Twice the time is the same distance everywhere."""
    found = [Dot("a", "r", us, "measured now") for us in (5.0, 10.0, 20.0)]
    x = [float(v) for v in re.findall(r'<circle class="ink" cx="([\d.]+)"', dots(found, title="t").svg)][:3]
    assert x[1] - x[0] == pytest.approx(x[2] - x[1], abs=0.11)
    assert x == sorted(x)


def test_rows_in_the_order_asked_for():
    said = words(dots(DOTS, title="t", rows=["theirs", "nobody", "ours"]))
    assert said.index("theirs") < said.index("ours")
    assert "nobody" not in said
    assert "theirs & <co>" not in said


@pytest.mark.parametrize("wrong", [[], [Dot("a", "r", 0.0, "measured now")], [Dot("a", "r", 1.0, "guessed")],
                                   [Dot("a", "r", math.nan, "measured now")]])  # fmt: skip
def test_dots_that_cannot_be_drawn(wrong):
    with pytest.raises(InvalidArgument):
        dots(wrong, title="t")


def test_stacks_draw_parts_to_scale():
    bars = {"x": {"waiting": 1.0, "streaming": 6.0, "idle": 3.0}, "y": {"streaming": 5.0}}
    picture = stacks(bars, title="Where", source="recorded (H)", names={"idle": "nothing to do"})
    wide = {
        name: float(w)
        for name, w in re.findall(r'class="(waiting|streaming)" x="[\d.]+" y="26.0" width="([\d.]+)"', picture.svg)
    }
    assert wide["streaming"] == pytest.approx(6 * wide["waiting"], rel=0.01)
    assert "x: nothing to do 3.00 us" in titles(picture)
    assert {"Where", "recorded (H)", "10.0", "5.0", "nothing to do"} <= set(words(picture))


@pytest.mark.parametrize("wrong", [{}, {"x": {"thinking": 1.0}}, {"x": {"idle": -1.0}}])
def test_stacks_that_cannot_be_drawn(wrong):
    with pytest.raises(InvalidArgument):
        stacks(wrong, title="t", source="s")


def test_scatter_puts_points_on_their_line():
    picture = scatter([0, 10, 20], [2, 7, 12], title="t", x_title="x", y_title="y", lines={"line": (2, 0.5)})
    at = [(float(x), float(y)) for x, y in re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', picture.svg)]
    line = next(
        node for node in ElementTree.fromstring(picture.svg).iter(f"{SVG}line") if node.get("class") == "line-ink"
    )
    x1, y1, x2, y2 = (float(line.get(name)) for name in ("x1", "y1", "x2", "y2"))
    for x, y in at:
        assert y == pytest.approx(y1 + (x - x1) * (y2 - y1) / (x2 - x1), abs=0.2)
    for x, y, more in (([], [], {}), ([1], [1, 2], {}), ([1], [-1], {}), ([1], [1], dict.fromkeys("abcd", (0, 0)))):
        with pytest.raises(InvalidArgument):
            scatter(x, y, title="t", x_title="x", y_title="y", lines=more)


def whole(lengths, num_kv_heads, num_ctas, tile):
    bins = [[] for _ in range(num_ctas)]
    for request, length in enumerate(lengths):
        if length:
            bins[request % num_ctas].append((0, request, 0, -(-int(length) // tile)))
    return bins


def crashes(lengths, num_kv_heads, num_ctas, tile):
    return bins  # noqa: F821 - as a learner forgets it


def empty(lengths, num_kv_heads, num_ctas, tile):
    return []


def without_gpu(monkeypatch):
    monkeypatch.setattr(ranking, "kernel_problem", lambda: "No GPU, because this is a test.")


def test_ranked_by_the_model_with_records_beside(monkeypatch, tmp_path):
    without_gpu(monkeypatch)
    store = Store(tmp_path)
    store.add(
        TimingRecord(
            operator="attention_decode",
            provider="cuda",
            policy="hpc-ops",
            samples_us=(7.0,),
            median_us=7.0,
            low_us=6.5,
            high_us=7.5,
            environment=Environment(gpu="NVIDIA H200", date=datetime.date(2026, 1, 2)),
            configuration={"pdl": True, "early_map": True, "early_cache": True},
            workload=Workload(case="8x4K", dtype="fp8"),
        )
    )
    found = rank({"whole": whole, "hpc-ops": "hpc-ops"}, batches=["8x4K", "2 x 8K"], store=store)
    cost = cost_model("H200", cache="fp8")
    for policy, name in ((whole, "whole"), ("hpc-ops", "hpc-ops")):
        plans = [plan_decode(parse_lengths(b), num_kv_heads=1, num_ctas=132, policy=policy) for b in ("8x4K", "2x8K")]
        calls = [plan.metrics(cost).call_us for plan in plans]
        assert found.table().loc[name, ["8x4K", "2x8K"]].tolist() == calls
        assert found.scores[name] == pytest.approx(math.sqrt(calls[0] * calls[1]))
    assert list(found.scores) == sorted(found.scores, key=found.scores.get) == list(found.table().index)
    assert [(dot.row, dot.us) for dot in found.dots if dot.kind == "recorded"] == [("hpc-ops", 7.0)]
    page = found._repr_html_()
    assert "By modelled time" in page
    assert "recorded (NVIDIA H200, 2026-01-02)" in page
    assert "No GPU, because this is a test." in page


def test_wrong_schedulers_have_no_rank(monkeypatch, tmp_path):
    without_gpu(monkeypatch)
    found = rank({"crashes": crashes, "empty": empty, "lpt": "lpt"}, batches=["4x1K"], store=Store(tmp_path))
    assert list(found.scores) == ["lpt"]
    assert found.faults["crashes"] == "on 4x1K: NameError: name 'bins' is not defined"
    assert found.faults["empty"] == "on 4x1K: request 0: tiles 0-15 assigned to no CTA, and 3 more"
    assert "<b>empty</b> has no rank" in found._repr_html_()
    alone = rank({"empty": empty}, batches=["4x1K"], store=Store(tmp_path))
    assert "No scheduler has a rank" in alone._repr_html_()


def test_ranked_by_measured_times_where_the_kernel_runs(monkeypatch):
    asked = []

    def measured(case, given):
        asked.append((case.name, tuple(given)))
        figure = {"operator": "attention_decode", "case": case.name, "dtype": "fp8", "origin": "measured now (H)"}
        slow = Figure(**figure, provider="cuda", policy="a", median_us=9.0, low_us=8.9, high_us=9.1, rel_error=0.002)
        fast = Figure(**figure, provider="cuda", policy="b", median_us=4.0)
        wrong = Figure(**figure, provider="cuda", policy="c", state="wrong", reason="relative error 0.4")
        return [Figure(**figure, provider="read", median_us=3.0), slow, fast, wrong]

    monkeypatch.setattr(ranking, "kernel_problem", lambda: "")
    monkeypatch.setattr(ranking, "measure_schedulers", measured)
    found = rank({"a": whole, "b": "lpt", "c": "hpc-ops"}, batches=["4x1K", "64x1K"])
    assert asked == [("4x1K", ("a", "b", "c")), ("64x1K", ("a", "b", "c"))]
    assert found.scores == pytest.approx({"b": 4.0, "a": 9.0})
    assert list(found.scores) == ["b", "a"]
    assert found.faults == {"c": "on 4x1K: relative error 0.4"}
    assert found.read_us == {"4x1K": 3.0, "64x1K": 3.0}
    assert "By measured time, geometric mean of the batches: 1. b 4.00 us; 2. a 9.00 us (2.25 x)." in str(found)
    assert "modelled" not in found._repr_html_()


def test_nothing_to_rank():
    for schedulers, batches in (({}, ["4x1K"]), ({"lpt": "lpt"}, [])):
        with pytest.raises(InvalidArgument):
            rank(schedulers, batches=batches)
