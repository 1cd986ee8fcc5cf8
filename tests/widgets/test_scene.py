import dataclasses
import itertools
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench import ScheduleExplorer
from workbench.schedule import cost_model, plan_decode
from workbench.widgets import text
from workbench.widgets.schedule.bars import fullest_columns
from workbench.widgets.schedule.layout import LABEL_PITCH, PLOT_HEIGHT
from workbench.widgets.schedule.panel import ORDERS, UNITS
from workbench.widgets.schedule.scene import View, make_scene
from workbench.widgets.schedule.side import evaluate, policy_title
from workbench.widgets.schedule.svg import render_svg

COST = cost_model()
POLICIES = ("hpc-ops", "balanced", "lpt", "fixed_splits(3)", "fixed_splits(32)", "fixed_chunk(4096)")


def sides(lengths, a="hpc-ops", b="fixed_splits(32)", *, num_ctas=528, num_kv_heads=1):
    return [
        evaluate(
            key,
            policy_title(policy),
            plan_decode(lengths, num_kv_heads=num_kv_heads, num_ctas=num_ctas, policy=policy),
            COST,
        )
        for key, policy in (("A", a), ("B", b))
    ]


def words(scene):
    return "".join(run.text for run in scene.sentence)


@given(
    lengths=st.lists(st.integers(0, 30_000), max_size=30),
    policy=st.sampled_from(POLICIES),
    order=st.sampled_from(ORDERS),
    unit=st.sampled_from(UNITS),
    num_ctas=st.sampled_from([1, 7, 132]),
    num_kv_heads=st.integers(1, 3),
)
def test_panel_holds_every_descriptor_once_at_the_models_times(lengths, policy, order, unit, num_ctas, num_kv_heads):
    a, b = sides(lengths, policy, "lpt", num_ctas=num_ctas, num_kv_heads=num_kv_heads)
    panel = make_scene(a, b, sms=num_ctas, view=View(order=order, unit=unit)).panels[0]
    plan, spans = a.plan, a.spans
    assert sorted(panel.descriptor.tolist()) == list(range(plan.num_descriptors))
    assert panel.offsets[-1] == plan.num_descriptors
    assert sorted(panel.place.tolist()) == list(range(num_ctas))
    column = np.repeat(np.arange(num_ctas), np.diff(panel.offsets.astype(np.int64)))
    assert np.array_equal(panel.place[column], spans.slot[plan.cta[panel.descriptor]])
    if unit == "us":
        assert np.allclose(panel.start, spans.start_ns[panel.descriptor] / 1e3)
        assert np.allclose(panel.foot - panel.start, spans.foot_ns[panel.descriptor] / 1e3, atol=1e-3)
        assert np.allclose(panel.end, spans.end_ns[panel.descriptor] / 1e3)
    else:
        assert np.array_equal(panel.end - panel.start, plan.num_tiles[panel.descriptor])
        assert panel.top.max(initial=0) == a.metrics.max_tiles
    inside = np.diff(column) == 0
    assert (panel.start[1:][inside] >= panel.end[:-1][inside] - 1e-2).all(), "segments of a column overlap"
    if order == "load":
        assert (np.diff(panel.top) <= 0).all()


def test_lines_and_table_are_the_metrics():
    a, b = sides([118_784, 37_000, *[4096] * 27])
    scene = make_scene(a, b, sms=132)
    for side, panel, row in zip((a, b), scene.panels, scene.rows, strict=False):
        m = side.plan.metrics(COST)
        values = {line.kind: line.text for line in panel.lines}
        assert values["makespan"] == text.us(m.makespan_us)
        assert values["last"] == text.us(m.bins_us)
        assert values["mean"] == text.us(m.mean_us)
        assert values["bound"] == text.us(m.bound_us)
        cells = {cell.metric: cell.text for cell in row.cells}
        assert cells["call_us"] == text.us(m.call_us)
        assert cells["efficiency"] == text.ratio(m.makespan_us / m.bound_us)
        assert cells["max_over_mean"] == text.ratio(m.max_over_mean)
        assert cells["idle_fraction"] == text.percent(m.idle_fraction)
        assert cells["merge_us"] == text.us(m.merge_us)
        assert cells["partial_bytes"] == text.size(m.partial_bytes)
        assert sum(part.value for part in row.bar) == pytest.approx(m.call_us)
    assert scene.panels[1].lines[-1].text == text.us(a.metrics.makespan_us)
    assert scene.footer[0] == f"\u25cb {a.metrics.source}"


def test_sentence_names_the_faster_policy_and_what_the_slower_waits_for():
    lengths = [131_072] + [128] * 31
    a, b = sides(lengths, "lpt", "fixed_splits(1)")
    said = words(make_scene(a, b, sms=132))
    ratio = text.ratio(b.metrics.call_us / a.metrics.call_us)
    assert said.startswith(f"A is {ratio}\u00d7 faster than B. B waits {text.us(b.metrics.waiting_us)} of its ")
    assert "request 0: 128.0K tokens" in said
    swapped = words(make_scene(*sides(lengths, "fixed_splits(1)", "lpt"), sms=132))
    assert swapped.startswith(f"B is {ratio}\u00d7 faster than A. A waits ")


def test_equal_plans_are_called_equal_and_an_empty_step_empty():
    assert "take the same" in words(make_scene(*sides([4096] * 64, "hpc-ops", "hpc-ops"), sms=132))
    for lengths in ([], [0, 0, 0]):
        scene = make_scene(*sides(lengths), sms=132)
        assert words(scene) == "Nothing to schedule: this step reads no KV cache."
        assert "nan" not in render_svg(scene)


def test_a_side_without_a_plan_has_its_reason_and_no_number():
    a, _ = sides([4096] * 8)
    scene = make_scene(a, None, sms=132, titles=("", "mine"), problems=("", "request 3: tiles 17-20 assigned twice"))
    assert words(scene).startswith("B has no valid plan. A takes ")
    assert len(scene.panels) == 1
    assert scene.rows[1].cells == ()
    assert "tiles 17-20" in render_svg(scene)
    nothing = make_scene(None, None, sms=132, titles=("x", "y"), problems=("p", "q"))
    assert nothing.panels == ()
    ElementTree.fromstring(render_svg(nothing))


@pytest.mark.parametrize("scale", ["shared", "own"])
@pytest.mark.parametrize("policy", ["fixed_splits(1)", "fixed_splits(32)", "lpt"])
def test_panels_fit_and_their_labels_do_not_overlap(scale, policy):
    scene = make_scene(*sides([131_072] + [4096] * 31, "lpt", policy), sms=132, view=View(scale=scale))
    assert sum(layout.height for layout in scene.layouts) <= PLOT_HEIGHT + 1
    for layout, panel in zip(scene.layouts, scene.panels, strict=True):
        assert panel.reach * layout.scale <= layout.height + 0.5
        places = [label.label_y for label in layout.labels]
        assert all(b - a >= LABEL_PITCH - 1e-6 for a, b in itertools.pairwise(places))
    if scale == "shared":
        assert scene.layouts[0].scale == scene.layouts[1].scale


def test_below_a_pixel_a_column_the_straggler_survives():
    lengths = [131_072] + [64] * 500
    a, b = sides(lengths, "fixed_splits(1)", "lpt", num_ctas=2112)
    panel = make_scene(a, b, sms=132).panels[0]
    kept, pixels = fullest_columns(panel, 300 / 2112)
    assert panel.top[kept].max() == panel.top.max()
    assert len(set(pixels.tolist())) == len(pixels)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", ["<script>alert(1)</script>", 'a"b&c', "\x00\x1b\ud800 nul", "x" * 500, "\u202e evil"])
def test_svg_is_well_formed_whatever_the_names_hold(theme, name):
    scene = make_scene(*sides([4096, 100_000]), sms=132, header=[name])
    root = ElementTree.fromstring(render_svg(scene, theme=theme))
    assert root.tag.endswith("svg")
    assert not [node for node in root.iter() if node.tag.endswith("script")]


def test_svg_of_two_thousand_requests_is_drawn_and_small_enough_for_a_notebook():
    lengths = np.random.default_rng(0).integers(1, 9000, 2048)
    document = render_svg(make_scene(*sides(lengths, "hpc-ops", "fixed_splits(2)"), sms=132))
    assert len(document) < 600_000
    assert not re.search(r"nan|inf\b", document.replace("info", ""))


@pytest.mark.parametrize(("begins", "shown"), [("modelled", "\u25cb"), ("measured", "\u25cf")])
def test_the_mark_says_whether_the_constants_were_measured(begins, shown):
    constants = dataclasses.replace(COST.constants, source=f"{begins}: where from")
    cost = dataclasses.replace(COST, constants=constants)
    plan = plan_decode([4096], num_kv_heads=1, num_ctas=132)
    scene = make_scene(evaluate("A", "x", plan, cost), evaluate("B", "y", plan, cost), sms=132)
    assert scene.mark == shown
    assert scene.footer[0] == f"{shown} {begins}: where from"
    assert f"{shown} call" in render_svg(scene)


def test_one_token_is_one_token():
    explorer = ScheduleExplorer([1])
    words = explorer.session.scene().description
    assert "1 token, 100 %" in words
    assert "1 KV token" in explorer.frame["scene"]["header"]


def test_no_cta_waits_where_nothing_is_read():
    panel = ScheduleExplorer([0] * 50, policy_b="fixed_splits(32)").session.scene().panels[1]
    assert not panel.late.any()


def test_a_line_of_the_other_panel_is_not_drawn_across_this_one():
    explorer = ScheduleExplorer("1x128K + 31x4K", policy_a="fixed_splits(1)", policy_b="balanced")
    scene = explorer.session.scene()
    ghost = next(label for label in scene.layouts[1].labels if label.kind == "other")
    assert ghost.y < -20, "A is far above the top of B"
    alone = ScheduleExplorer("1x128K + 31x4K", policy_a="balanced", policy_b="fixed_splits(1)").session.scene()
    slate = 'stroke="#687784" fill="none"'
    assert render_svg(scene).count(slate) == 0
    assert render_svg(alone).count(slate) == 1, "and where it fits, it is"
