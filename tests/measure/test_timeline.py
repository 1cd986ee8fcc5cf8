from __future__ import annotations

import contextlib
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.measure.synthetic import EPOCH, stamps_of
from workbench.errors import TimelineError, WorkbenchError
from workbench.measure.stamps import COLUMNS
from workbench.measure.timeline import ARRAYS, Timeline
from workbench.records import pack_arrays, unpack_arrays
from workbench.schedule import cost_model, plan_decode

COST = cost_model()
MIXED = [32768] * 2 + [4096] * 30
POLICIES = ("balanced", "hpc-ops", "lpt", "fixed_splits(8)", "fixed_chunk(1024)")


def plan_of(lengths=MIXED, policy="balanced", num_ctas=132, **more):
    return plan_decode(lengths, num_kv_heads=1, num_ctas=num_ctas, policy=policy, **more)


def timeline_of(plan, **how):
    return Timeline.from_stamps(plan, stamps_of(plan, COST, **how))


@pytest.fixture
def plan():
    made = plan_of(policy="hpc-ops")
    assert np.diff(made.bin_offsets).max() > 1
    assert made.split.any()
    return made


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("num_ctas", [132, 528])
def test_a_call_that_takes_as_long_as_the_model_says_has_its_spans_and_no_residual(policy, num_ctas):
    plan = plan_of(policy=policy, num_ctas=num_ctas)
    timeline = timeline_of(plan)
    measured, modelled = timeline.spans(COST), plan.spans(COST)
    np.testing.assert_array_equal(measured.start_ns, modelled.start_ns)
    np.testing.assert_array_equal(measured.end_ns, modelled.end_ns)
    full = np.diff(plan.bin_offsets) > 0
    np.testing.assert_array_equal(measured.bin_end_ns[full], modelled.bin_end_ns[full])
    assert (measured.bins_ns, measured.merge_ns) == (modelled.end_ns.max(), modelled.merge_ns)
    assert timeline.makespan_us == measured.makespan_ns / 1e3
    left = timeline.residuals(COST)
    assert not left.start_ns.any()
    assert not left.duration_ns.any()
    assert not left.bin_end_ns.any()
    assert left.merge_ns == 0
    if not plan.static_grid:
        np.testing.assert_array_equal(measured.slot, modelled.slot)
        assert left.makespan_ns == 0


def test_residuals_are_measured_minus_modelled(plan):
    rows = stamps_of(plan, COST)
    late = 1_000
    last = int(plan.bin_offsets[5 + 1]) - 1  # the last descriptor of CTA 5 ends a microsecond later
    for name in ("combined", "end", "merge_start", "merge_end"):
        at = COLUMNS.index(name)
        rows[last, at] += np.uint64(late if rows[last, at] else 0)
    left = Timeline.from_stamps(plan, rows).residuals(COST)
    expected = np.zeros(plan.num_descriptors, np.int64)
    expected[last] = late
    np.testing.assert_array_equal(left.end_ns, expected)
    np.testing.assert_array_equal(left.duration_ns, expected)
    np.testing.assert_array_equal(np.flatnonzero(left.bin_end_ns), [5])


def test_the_model_s_source_goes_with_its_residuals_and_measured_spans_say_measured(plan):
    timeline = timeline_of(plan)
    assert timeline.residuals(COST).source == COST.source
    assert timeline.spans(COST).cost.source.startswith("measured")


def test_a_merge_is_behind_its_descriptor_and_belongs_to_its_cta():
    plan = plan_of([65536], policy="hpc-ops", num_ctas=16)
    timeline = timeline_of(plan)
    leads = timeline.leader
    assert leads.sum() == 2  # of 16 pieces, every eighth
    assert (timeline.merge_start_ns[~leads] == -1).all()
    np.testing.assert_array_equal(timeline.merge_start_ns[leads], timeline.end_ns[leads])
    merges = timeline.by_cta()["merge_ns"].to_numpy()
    np.testing.assert_array_equal(merges[leads], timeline.makespan_ns - timeline.end_ns[leads])
    assert not merges[~leads].any()
    assert timeline.finish_ns.max() == timeline.makespan_ns > timeline.bins_ns


def test_by_cta_and_by_sm_add_up():
    plan = plan_of(policy="balanced", num_ctas=264)
    timeline = timeline_of(plan, noise=0.05)
    ctas, sms = timeline.by_cta(), timeline.by_sm()
    assert ctas["tiles"].sum() == sms["tiles"].sum() == plan.problem.total_tiles
    assert ctas["descriptors"].sum() == sms["descriptors"].sum() == plan.num_descriptors
    assert sms["ctas"].sum() == len(ctas)
    assert ctas["busy_ns"].sum() == timeline.busy_ns
    assert (sms["resident"] == sms["ctas"]).all()  # they all begin at once
    assert sms["resident"].max() == 2
    for sm, row in sms.iterrows():
        mine = ctas[ctas["sm"] == sm]
        assert row["busy_ns"] == mine["end_ns"].max() - mine["start_ns"].min()  # they overlap from the start
    assert timeline.makespan_ns == ctas["end_ns"].max() == sms["end_ns"].max()


def test_a_gap_between_two_ctas_of_an_sm_is_not_busy():
    plan = plan_of([4096] * 4, policy="fixed_splits(1)", num_ctas=2)
    rows = stamps_of(plan, COST)
    rows[:, COLUMNS.index("sm")] = 7
    second = plan.cta >= 2
    times = [COLUMNS.index(name) for name in ("start", "arrived", "streamed", "combined", "end")]
    for column in times:
        rows[second, column] += np.uint64(5_000)
    one = Timeline.from_stamps(plan, rows).by_sm().loc[7]
    assert one["busy_ns"] == one["end_ns"] - one["start_ns"] - 5_000
    assert (one["ctas"], one["resident"]) == (4, 2)


def test_slots_of_a_static_grid_are_places_of_its_sms():
    plan = plan_of(policy="fixed_splits(16)", num_ctas=264)
    timeline = timeline_of(plan)
    slot = timeline.spans(COST).slot
    used = timeline.bin_sm >= 0
    np.testing.assert_array_equal(slot[used] % COST.sms, timeline.bin_sm[used])
    start, finish = timeline.bins
    for s in np.unique(slot[used]):
        mine = np.flatnonzero(used & (slot == s))
        order = mine[np.argsort(start[mine], kind="stable")]
        assert (finish[order][:-1] <= start[order][1:]).all()


def test_an_empty_batch_has_an_empty_timeline():
    plan = plan_of([0, 0])
    timeline = Timeline.from_stamps(plan, np.zeros((0, len(COLUMNS)), np.uint64))
    assert (timeline.makespan_ns, timeline.busy_ns) == (0, 0)
    assert timeline.by_sm().empty
    assert Timeline.from_npz(timeline.to_npz()).plan.num_descriptors == 0
    assert timeline.spans(COST).bins_ns == 0


@settings(max_examples=30)
@given(
    st.lists(st.integers(0, 9000), min_size=1, max_size=12),
    st.sampled_from(POLICIES),
    st.integers(1, 40),
    st.integers(1, 32),
)
def test_round_trip(lengths, policy, num_ctas, step):
    plan = plan_of(lengths, policy=policy, num_ctas=num_ctas)
    timeline = timeline_of(plan, noise=0.2, step=step)
    content = timeline.to_npz()
    again = Timeline.from_npz(content)
    assert again.to_npz() == content
    assert again.plan.to_json() == plan.to_json()
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(again, name), getattr(timeline, name))
    assert len(timeline.to_frame()) == plan.num_descriptors


def test_the_clock_s_epoch_does_not_matter(plan):
    rows = stamps_of(plan, COST)
    moved = rows.copy()
    for name in ("start", "arrived", "streamed", "combined", "end", "merge_start", "merge_end"):
        at = COLUMNS.index(name)
        moved[:, at] = np.where(rows[:, at] > 0, rows[:, at] - np.uint64(EPOCH) + np.uint64(2**63 - 5_000), 0)
    assert Timeline.from_stamps(plan, moved).to_npz() == Timeline.from_stamps(plan, rows).to_npz()
    assert Timeline.from_stamps(plan, rows.view(np.int64)).to_npz() == Timeline.from_stamps(plan, rows).to_npz()


def damage(column, value, where=3):
    def change(rows):
        rows[where, COLUMNS.index(column)] = value
        return rows

    return change


DAMAGE = {
    "no stamps": damage("end", 0),
    "stamped by CTA 131": damage("cta", 131, where=0),
    "goes back from start_ns to arrived_ns": damage("arrived", EPOCH - 5),
    "goes back from combined_ns to end_ns": damage("end", EPOCH),
    "within 10 s": damage("end", EPOCH + 10**12, where=-1),
    "SM is below 0": damage("sm", 2**32 - 1),
    "expected 64-bit integers": lambda rows: rows[:-1],
    "expected 64-bit integers [": lambda rows: rows.astype(np.float64),
    "merges, and no other": lambda rows: np.where(np.arange(10) < 8, rows, 0).astype(np.uint64),
}


@pytest.mark.parametrize("said", DAMAGE)
def test_damaged_stamps_are_refused_with_the_reason(said, plan):
    with pytest.raises(TimelineError) as error:
        Timeline.from_stamps(plan, DAMAGE[said](stamps_of(plan, COST)))
    assert said in str(error.value)


def test_a_descriptor_cannot_begin_before_the_one_ahead_of_it_ends(plan):
    rows = stamps_of(plan, COST)
    second = int(np.flatnonzero(plan.cta[1:] == plan.cta[:-1])[0]) + 1
    rows[second, COLUMNS.index("start")] -= np.uint64(100)
    with pytest.raises(TimelineError, match="before the descriptor ahead"):
        Timeline.from_stamps(plan, rows)
    rows = stamps_of(plan, COST)
    rows[second, COLUMNS.index("sm")] += np.uint64(1)
    with pytest.raises(TimelineError, match="SM is not that"):
        Timeline.from_stamps(plan, rows)


def test_a_request_in_one_piece_has_no_leader():
    plan = plan_of([4096] * 4, num_ctas=4)
    assert not plan.split.any()
    rows = stamps_of(plan, COST)
    rows[0, COLUMNS.index("leader")] = 1
    with pytest.raises(TimelineError, match="in one piece"):
        Timeline.from_stamps(plan, rows)


def test_merges_run_forwards_and_behind_their_descriptor(plan):
    leader = int(np.flatnonzero(stamps_of(plan, COST)[:, COLUMNS.index("leader")])[0])
    for column, change, said in (
        ("merge_end", -(10**6), "during its merge"),
        ("merge_start", -1, "before it has ended"),
    ):
        rows = stamps_of(plan, COST).astype(np.int64)
        rows[leader, COLUMNS.index(column)] += change
        with pytest.raises(TimelineError, match=said):
            Timeline.from_stamps(plan, rows)


def test_stamps_of_another_plan_are_refused(plan):
    for rows in (stamps_of(plan, COST)[::-1], stamps_of(plan_of(policy="lpt"), COST)):
        with pytest.raises(TimelineError):
            Timeline.from_stamps(plan, rows)


def test_arrays_cannot_be_changed(plan):
    timeline = timeline_of(plan)
    for name in ARRAYS:
        with pytest.raises(ValueError, match="read-only"):
            getattr(timeline, name)[0] = 1
    with pytest.raises(AttributeError):
        timeline.plan = plan


def test_files_that_are_no_timeline(plan):
    content = timeline_of(plan).to_npz()
    arrays = unpack_arrays(content)
    for wrong in (b"", b"PK", content[: len(content) // 2], pack_arrays({"plan": arrays["plan"]})):
        with pytest.raises(TimelineError):
            Timeline.from_npz(wrong)
    text = np.frombuffer(b"not a plan", np.uint8)
    changes = {
        "plan of the timeline": {"plan": text},
        "whole numbers": {"start_ns": arrays["start_ns"] + 0.5},
        "shape": {"sm": arrays["sm"][:-1]},
        "goes back": {"arrived_ns": arrays["start_ns"] - 1},
    }
    for said, change in changes.items():
        with pytest.raises(TimelineError, match=said):
            Timeline.from_arrays({**arrays, **change})


@settings(max_examples=60)
@given(st.data())
def test_any_damaged_byte_is_a_named_error_or_changes_nothing(data):
    plan = plan_of([2048] * 3, num_ctas=8)
    content = bytearray(timeline_of(plan).to_npz())
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(WorkbenchError):  # anything else fails the test
        Timeline.from_npz(bytes(content))


def test_perfetto(plan, tmp_path):
    timeline = timeline_of(plan)
    timeline.to_perfetto(tmp_path / "a.trace.json", COST)
    trace = json.loads((tmp_path / "a.trace.json").read_text())
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    chunks = [event for event in events if event["cat"] == "chunk"]
    assert len(chunks) == 2 * plan.num_descriptors  # measured, and predicted
    first = [event for event in chunks if event["pid"] == 1]
    assert [event["ts"] for event in first] == (timeline.start_ns / 1e3).tolist()
    assert [event["dur"] for event in first] == [
        (e - s) / 1e3 for s, e in zip(timeline.start_ns.tolist(), timeline.end_ns.tolist(), strict=True)
    ]
    assert len([e for e in events if e["cat"] == "merge" and e["pid"] == 1]) == int(timeline.leader.sum())
    named = {(e["pid"], e["tid"]) for e in trace["traceEvents"] if e["ph"] == "M"}
    assert {(event["pid"], event["tid"]) for event in events} <= named
    assert trace["otherData"]["source measured"].startswith("measured")


def test_names_of_a_measured_trace_say_the_sm():
    for policy, words in (("balanced", "CTA 0, SM 0"), ("fixed_splits(8)", "SM 0, place 0")):
        plan = plan_of(policy=policy)
        timeline = timeline_of(plan)
        from workbench.measure.timeline_export import perfetto_json

        events = json.loads(perfetto_json([timeline]))["traceEvents"]
        assert any(e["ph"] == "M" and e["args"]["name"] == words for e in events)


def test_wrong_shapes(plan):
    timeline = timeline_of(plan)
    with pytest.raises(TimelineError, match="one value a descriptor"):
        replace(timeline, start_ns=timeline.start_ns[:-1])
