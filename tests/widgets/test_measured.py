import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.measure.synthetic import stamps_of
from tests.widgets.invented import invented
from workbench.measure.timeline import Timeline
from workbench.schedule import cost_model, plan_decode
from workbench.widgets import text
from workbench.widgets.colours import FIRST_STEP, STEPS, request_classes
from workbench.widgets.schedule.axis import axis_ticks
from workbench.widgets.schedule.measured import STAGES, difference, lay_beside
from workbench.widgets.schedule.panel import LANES, ORDERS, make_panel
from workbench.widgets.schedule.scene import View, make_scene
from workbench.widgets.schedule.side import evaluate
from workbench.widgets.schedule.summary import TIMES
from workbench.widgets.schedule.svg_pen import text_width

COST = cost_model()
LENGTHS = [32768, 20000, *[4096] * 20, 100]
POLICIES = ("balanced", "hpc-ops", "lpt", "fixed_splits(8)", "fixed_chunk(1024)")


def side_of(lengths=LENGTHS, policy="hpc-ops", num_ctas=132, key="A", **more):
    plan = plan_decode(lengths, num_kv_heads=1, num_ctas=num_ctas, policy=policy, **more)
    return evaluate(key, policy, plan, COST)


def laid(side, timeline=None, **how):
    return lay_beside(timeline or invented(side.plan, COST, **how), side, sms=COST.sms, source="here")


def panel_of(side, found, *, order="cta", unit="us", lanes="both", columns=None):
    classes, _ = request_classes(side.plan.lengths, 0)
    columns = columns or max(side.columns, found.slots)
    return make_panel(
        side, classes, order=order, unit=unit, sms=COST.sms, columns=columns, other=None, measured=found, lanes=lanes
    )


@settings(max_examples=30)
@given(
    lengths=st.lists(st.integers(0, 30_000), max_size=20),
    policy=st.sampled_from(POLICIES),
    num_ctas=st.sampled_from([1, 7, 132, 264]),
    seed=st.integers(0, 5),
)
def test_pieces_are_the_stamps(lengths, policy, num_ctas, seed):
    side = side_of(lengths, policy, num_ctas)
    found = laid(side, seed=seed)
    t, pieces = found.timeline, found.pieces
    edges = {
        "waiting": (t.start_ns, t.arrived_ns),
        "streaming": (t.arrived_ns, t.streamed_ns),
        "combining": (t.streamed_ns, t.end_ns),
        "merge": (t.merge_start_ns, t.merge_end_ns),
    }
    want = sorted(
        (i, stage, low / 1e3, high / 1e3)
        for stage, (lows, highs) in edges.items()
        for i, (low, high) in enumerate(zip(lows.tolist(), highs.tolist(), strict=True))
        if high > low
    )
    shown = [STAGES[s] for s in pieces.stage.tolist()]
    got = sorted(zip(pieces.descriptor.tolist(), shown, pieces.start_us.tolist(), pieces.end_us.tolist(), strict=True))
    assert got == want
    times = sum(found.stage_us.values()) + found.idle_us
    assert times == pytest.approx(t.makespan_us)
    assert found.makespan_us == t.makespan_us
    assert found.modelled_us == side.metrics.makespan_us


def test_the_busy_time_of_an_sm_is_what_counting_nanoseconds_gives():
    side = side_of(num_ctas=264)
    found = laid(side)
    t = found.timeline
    first, last = t.bins
    busy = np.zeros((COST.sms, t.makespan_ns), bool)
    for sm, low, high in zip(t.bin_sm.tolist(), first.tolist(), last.tolist(), strict=True):
        if sm >= 0:
            busy[sm, low:high] = True
    counted = busy.sum(axis=1) / 1e3
    assert found.busy_us == pytest.approx((counted.min(), counted.mean(), counted.max()))
    assert found.imbalance == pytest.approx(1 - counted.mean() / counted.max())


@pytest.mark.parametrize("policy", POLICIES)
def test_stamps_that_follow_the_model_leave_no_residual(policy):
    side = side_of(policy=policy, num_ctas=528)
    found = laid(side, Timeline.from_stamps(side.plan, stamps_of(side.plan, COST)))
    assert found.residual_rms_us == 0
    assert np.nanmax(np.abs(found.residual_us)) == 0
    assert panel_of(side, found).residual.limit == pytest.approx(0.1), "the strip's scale has a floor"


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("order", ORDERS)
def test_a_panel_holds_every_piece_in_the_column_of_its_slot(policy, order):
    side = side_of(policy=policy)
    found = laid(side)
    panel = panel_of(side, found, order=order)
    column = np.repeat(np.arange(panel.top.size), np.diff(panel.offsets.astype(np.int64)))
    assert np.array_equal(panel.place[column], found.slot[panel.descriptor])
    assert np.array_equal(panel.sm[column], found.timeline.sm[panel.descriptor])
    assert panel.end.max() == pytest.approx(found.makespan_us)
    inside = np.diff(column) == 0
    assert (panel.start[1:][inside] >= panel.end[:-1][inside] - 1e-3).all(), "stages of a column overlap"
    ends = np.zeros(panel.top.size)
    np.maximum.at(ends, column, panel.end)
    assert np.allclose(ends, panel.top)
    if order == "sm":
        assert (np.diff(panel.sm) >= 0).all()
    if order == "load":
        assert (np.diff(panel.top) <= 1e-6).all()
    classes, _ = request_classes(side.plan.lengths, 0)
    assert np.array_equal(panel.colour % (FIRST_STEP + STEPS), classes[side.plan.request[panel.descriptor]])
    residuals = found.timeline.residuals(COST).bin_end_ns / 1e3
    for slot, shown in zip(panel.place.tolist(), panel.residual.value.tolist(), strict=True):
        bins = np.unique(side.plan.cta[found.slot == slot])
        if bins.size == 0:
            assert np.isnan(shown)
        else:
            last = max(bins.tolist(), key=lambda b: found.timeline.spans(COST).bin_end_ns[b])
            assert shown == pytest.approx(residuals[last], abs=1e-3)


def test_what_is_drawn_follows_the_choice_of_lanes():
    side = side_of()
    found = laid(side)
    plan = panel_of(side, found, lanes="planned")
    bare = make_panel(
        side, request_classes(side.plan.lengths, 0)[0], order="cta", unit="us", sms=COST.sms, columns=132, other=None
    )
    assert np.array_equal(plan.end, bare.end)
    assert plan.ghost is None
    assert plan.residual is not None
    assert bare.residual is None
    both, stamps = (panel_of(side, found, lanes=lanes) for lanes in ("both", "measured"))
    assert np.array_equal(both.ghost.end, bare.end)
    assert stamps.ghost is None
    assert np.array_equal(both.end, stamps.end)
    kinds = [line.kind for line in both.lines]
    assert kinds.count("modelled") == 1
    assert {line.kind: line.text for line in both.lines}["makespan"] == text.us(found.makespan_us)
    assert {line.kind: line.text for line in both.lines}["modelled"] == text.us(side.metrics.makespan_us)
    assert both.note_right == "here"
    for lanes in LANES:
        tiles = panel_of(side, found, unit="tiles", lanes=lanes)
        assert tiles.ghost is tiles.residual is None
        assert tiles.top.max() == side.metrics.max_tiles


def crowded(side):
    """A timeline that ran on half of the SMs."""
    t = invented(side.plan, COST)
    return Timeline(
        side.plan, t.start_ns, t.arrived_ns, t.streamed_ns, t.combined_ns, t.end_ns, t.merge_start_ns, t.merge_end_ns,
        t.sm // 2, t.leader,
    )  # fmt: skip


def test_an_sm_that_held_more_ctas_than_planned_widens_every_panel():
    a, b = side_of(policy="fixed_splits(8)"), side_of(policy="lpt", key="B")
    found = laid(a, crowded(a))
    assert found.slots > 132
    scene = make_scene(a, b, sms=COST.sms, view=View(order="sm"), measured={"A": found})
    assert {panel.top.size for panel in scene.panels} == {found.slots} == {scene.columns}
    assert scene.axis == "SM", "slots of a static grid have their SM in their number, measured or not"


def test_the_axis_says_whose_sms_it_counts():
    a, b = side_of(policy="hpc-ops"), side_of(policy="lpt", key="B")
    scene = make_scene(a, b, sms=COST.sms, view=View(order="sm"), measured={"A": laid(a)})
    assert scene.axis == "SM", "one CTA on each SM of both: the same numbers below"
    scene = make_scene(a, b, sms=COST.sms, view=View(order="sm"), measured={"A": laid(a, crowded(a))})
    assert scene.axis == "SM of A"
    assert make_scene(a, b, sms=COST.sms, view=View(order="sm")).axis == "SM"
    assert make_scene(a, b, sms=COST.sms, measured={"A": laid(a)}).axis == "CTA"


@pytest.mark.parametrize("order", ["cta", "sm"])
@pytest.mark.parametrize("pitch", [2.0, 4.0, 5.0, 7.0])
def test_words_below_the_columns_leave_each_other_room(order, pitch):
    """Also where SMs 1 to 9 hold nothing, so that the column of SM 10 follows that of SM 0."""
    a, b = side_of(policy="hpc-ops"), side_of(policy="lpt", key="B")
    t = invented(a.plan, COST)
    uneven = dataclasses.replace(t, sm=np.where((t.sm > 0) & (t.sm < 10), 10, t.sm))
    scene = make_scene(a, b, sms=COST.sms, view=View(order=order), measured={"A": laid(a, uneven)})
    ticks = axis_ticks(scene, pitch)
    assert ticks[0][1].startswith(scene.axis)
    assert len(ticks) > 2
    widths = [text_width(words, 11) for _, words in ticks]
    left = [
        column * pitch - (width / 2 if at else 0)
        for at, ((column, _), width) in enumerate(zip(ticks, widths, strict=True))
    ]
    ends = [x + width for x, width in zip(left, widths, strict=True)]
    assert all(end <= begin for end, begin in zip(ends, left[1:], strict=False))


def test_the_table_says_what_the_timeline_says():
    side = side_of()
    found = laid(side)
    scene = make_scene(side, None, sms=COST.sms, measured={"A": found})
    cells = {cell.metric: cell.text for cell in scene.measured[0].cells}
    excess = found.makespan_us / found.modelled_us - 1
    assert cells == {
        "measured_us": text.us(found.makespan_us),
        "modelled_us": text.us(found.modelled_us),
        "excess": text.signed(f"{100 * abs(excess):.0f} %", excess),
        "busy": " / ".join(text.us(value) for value in found.busy_us),
        "imbalance": text.percent(found.imbalance),
        "residual_rms": text.fine_us(found.residual_rms_us),
    }
    assert [part.kind for part in scene.measured[0].bar] == list(TIMES)
    assert sum(part.share for part in scene.measured[0].bar) == pytest.approx(1)
    assert text.us(found.makespan_us) in scene.description
    assert "here: A" in scene.footer
    assert not any("assumed" in words for words in scene.footer)


def test_a_timeline_is_known_by_what_its_ctas_read_not_by_its_policys_name():
    def mine(lengths, num_kv_heads, num_ctas, tile):
        return plan_decode(lengths, num_kv_heads=num_kv_heads, num_ctas=num_ctas, policy="lpt").as_lists()

    plan = side_of(policy="lpt").plan
    own = plan_decode(LENGTHS, num_kv_heads=1, num_ctas=132, policy=mine)
    assert own.policy != plan.policy
    assert difference(invented(plan, COST), own, sms=132) == ""


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"num_ctas": 264}, "132 CTAs, the plan 264"),
        ({"tile": 128}, "64 tokens a tile, the plan 128"),
        ({"policy": "lpt"}, "of hpc-ops, the plan of lpt"),
        ({"lengths": LENGTHS[:-1]}, "23 requests, the plan of 22"),
        ({"lengths": [*LENGTHS[:-1], 101]}, "request 22 has 100 tokens, the plan's 101"),
        ({"q_len": 2}, "1 query tokens, the plan 2"),
    ],
    ids=str,
)
def test_what_keeps_a_timeline_from_a_plan_is_said(other, words):
    timeline = invented(side_of().plan, COST)
    assert words in difference(timeline, side_of(**other).plan, sms=132)


def test_a_timeline_of_a_larger_gpu_is_not_shown():
    side = side_of()
    timeline = invented(side.plan, COST)
    assert difference(timeline, side.plan, sms=132) == ""
    assert "ran on SM" in difference(timeline, side.plan, sms=int(timeline.sm.max()))


def test_a_step_without_work_has_a_screen():
    side = side_of([0, 0])
    found = laid(side)
    scene = make_scene(side, None, sms=COST.sms, measured={"A": found})
    assert found.makespan_us == found.imbalance == 0
    assert scene.panels[0].end.size == 0


def test_stages_follow_each_other_in_every_chunk():
    found = laid(side_of())
    pieces = found.pieces
    order = ("waiting", "streaming", "combining", "merge")
    for descriptor in np.unique(pieces.descriptor).tolist():
        mine = np.flatnonzero(pieces.descriptor == descriptor)
        places = [order.index(STAGES[s]) for s in pieces.stage[mine].tolist()]
        assert places == sorted(places)
        for one, two in itertools.pairwise(mine.tolist()):
            assert pieces.end_us[one] <= pieces.start_us[two] + 1e-9
