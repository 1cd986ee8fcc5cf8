"""The schedule of a capture: plan, stamps, and the counters' word on both."""

from __future__ import annotations

import numpy as np
import pytest

from tests.widgets.profiles.samples import H200, environment, nsight, observed, reduced, workload
from workbench.errors import InvalidArgument
from workbench.measure.attention_case import AttentionCase
from workbench.measure.busy import BusyComparison
from workbench.measure.timeline import Timeline
from workbench.measure.timeline_records import METHOD
from workbench.records import Workload
from workbench.schedule import cost_model, plan_decode
from workbench.widgets.profiles.bins import MERGE, beside, settings_of
from workbench.widgets.profiles.captures import read_captures
from workbench.workloads import parse_lengths

CASE = "2x32K+30x4K"
CONFIGURATION = {"stages": 6, "ctas_per_sm": 1, "tile": 64}


@pytest.fixture
def stamped(empty):
    case = AttentionCase(CASE, parse_lengths(CASE))
    record, timeline, content = observed(case, "hpc-ops", CONFIGURATION, H200, seed=3)
    empty.add(record, b"NVR\0 an invented report")
    empty.add(timeline, content)
    return empty, Timeline.from_npz(content)


def only(store):
    return read_captures(store)[0][0]


def test_lanes_are_the_plans_spans_and_the_stamps(stamped):
    store, timeline = stamped
    found = beside(store, only(store))
    spans = timeline.plan.spans(cost_model("H200"))
    np.testing.assert_allclose(found.planned.start, spans.start_ns / 1e3, rtol=1e-6)
    np.testing.assert_allclose(found.planned.end, spans.end_ns / 1e3, rtol=1e-6)
    pieces = timeline.plan.num_descriptors
    np.testing.assert_allclose(found.measured.end[:pieces], timeline.end_ns / 1e3, rtol=1e-6)
    assert (found.measured.shade[pieces:] == MERGE).all()
    assert (found.measured.shade[:pieces] != MERGE).all()
    assert found.measured.start.size - pieces == int((timeline.merge_start_ns >= 0).sum())
    assert found.measured.span_us == pytest.approx(timeline.makespan_us)
    assert found.measured.columns == found.planned.columns == 132
    assert found.measured.column.max() < 132


def test_busy_sms_are_the_stamps_and_the_guides_the_counters(stamped):
    store, timeline = stamped
    capture = only(store)
    found = beside(store, capture)
    guides = {line.label.split()[0]: line.label.split()[1] for line in found.busy.lines if line.style == "guide"}
    counted = capture.record.agreement["counted"]
    assert guides == {name: f"{counted[f'{name}_ns'] / 1e3:.1f}" for name in ("most", "mean", "least")}
    series = next(line for line in found.busy.lines if line.style == "series")
    heights = [y for _, y in series.places]
    assert heights == sorted(heights, reverse=True)
    assert len(heights) == 2 * 132
    busy = timeline.by_sm()["busy_ns"].max() / 1e3
    tick, words = found.busy.y_ticks[-1]
    assert heights[0] / tick == pytest.approx(busy / float(words), rel=1e-6)
    assert BusyComparison.from_dict(capture.record.agreement).verdict in found.words


def test_disagreement_is_said(stamped):
    store, _ = stamped
    capture = only(store)
    said = dict(capture.record.agreement) | {"worst": 0.2, "worst_inside": 0.1}
    changed = type(capture)(capture.path, capture.record.model_copy(update={"agreement": said}))
    assert "do not agree: they are 20.0 % of the most active SM apart, 10.0 % besides" in beside(store, changed).words


def test_the_stamps_shown_are_of_the_launch_that_was_counted(stamped):
    store, timeline = stamped
    capture = only(store)
    case = AttentionCase(CASE, parse_lengths(CASE))
    for seed in range(4, 9):  # other launches of the same configuration, on the same day
        _, other, content = observed(case, "hpc-ops", CONFIGURATION, H200, seed=seed)
        store.add(other, content)
    found = beside(store, capture)
    assert found.measured.span_us == pytest.approx(timeline.makespan_us)
    assert "of one launch" in found.words
    said = dict(capture.record.agreement) | {"stamped": {"least_ns": 1.0, "mean_ns": 2.0, "most_ns": 3.0}}
    changed = type(capture)(capture.path, capture.record.model_copy(update={"agreement": said}))
    assert "two launches" in beside(store, changed).words


@pytest.mark.parametrize("said", [{}, {"counted": 3, "worst": 0.1}, {"counted": {"least_ns": "x"}, "worst": 0.1}])
def test_damaged_agreement_falls_back_to_the_counters(stamped, said):
    store, _ = stamped
    capture = only(store)
    changed = type(capture)(capture.path, capture.record.model_copy(update={"agreement": said}))
    assert "two launches" in beside(store, changed).words


def test_without_a_timeline_the_plan_is_made_anew(empty):
    empty.add(nsight(workload=workload(CASE), policy="hpc-ops", configuration=CONFIGURATION))
    found = beside(empty, only(empty))
    plan = plan_decode(parse_lengths(CASE), num_kv_heads=1, num_ctas=132, policy="hpc-ops")
    assert found.planned.start.size == plan.num_descriptors
    assert found.measured is None
    assert 'metrics="schedule"' in found.words


def test_a_timeline_of_another_configuration_is_not_taken(stamped):
    store, _ = stamped
    other = store.add(nsight(workload=workload(CASE), policy="hpc-ops", configuration=CONFIGURATION | {"stages": 3}))
    capture = next(one for one in read_captures(store)[0] if one.path == other)
    assert beside(store, capture).measured is None


def test_a_timeline_of_other_work_in_the_same_folder_is_not_taken(empty):
    case = AttentionCase(CASE, parse_lengths(CASE))
    record, timeline, content = observed(case, "hpc-ops", CONFIGURATION, H200, seed=3)
    empty.add(record, b"NVR\0 an invented report")
    other = empty.add(
        timeline.model_copy(update={"workload": AttentionCase(CASE, case.lengths, "bf16").workload}), content
    )
    assert other.parent == only(empty).path.parent
    assert beside(empty, only(empty)).measured is None


def test_a_damaged_timeline_is_told(stamped):
    store, _ = stamped
    side = next(only(store).path.parent.glob("*.npz"))
    side.write_bytes(side.read_bytes()[:100])
    found = beside(store, only(store))
    assert found.measured is None
    assert found.planned is not None
    assert "A timeline was skipped" in found.words


def test_a_damaged_document_of_a_timeline_is_told(stamped):
    store, timeline = stamped
    capture = only(store)
    (capture.path.parent / "timeline-0123456789abcdef0123456789abcdef.json").write_text("{")
    found = beside(store, capture)
    assert "A timeline was skipped" in found.words
    assert found.measured.span_us == pytest.approx(timeline.makespan_us)


def test_a_timeline_of_other_sources_is_doubted(stamped):
    store, _ = stamped
    capture = only(store)
    changed = type(capture)(capture.path, capture.record.model_copy(update={"source_digest": "cd" * 32}))
    assert "other kernel sources" in beside(store, changed).words


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (nsight(operator="my_kernel"), "no schedule over CTAs"),
        (nsight(configuration={}), "does not say"),
        (nsight(workload=Workload(case="report", parameters={})), "does not describe"),
        (nsight(policy="no such policy"), "cannot be made"),
        (nsight(configuration={"ctas_per_sm": "many"}), "does not say"),
        (nsight(configuration={"ctas_per_sm": -1}), "cannot be made"),
        (nsight(environment=environment().model_copy(update={"gpu": "Toy GPU"})), "No cost model for Toy GPU"),
        (reduced(), "No in-kernel timeline"),
    ],
)
def test_what_cannot_be_shown_is_said(empty, record, words):
    empty.add(record)
    assert words in beside(empty, only(empty)).words


def test_settings_open_the_same_plan_in_the_explorer(stamped):
    from workbench import ProfileBrowser

    store, timeline = stamped
    case = AttentionCase(CASE, parse_lengths(CASE))
    _, calls, content = observed(case, "hpc-ops", {**CONFIGURATION, "stages": 4}, H200, seed=8)
    store.add(calls.model_copy(update={"method": METHOD}), content)  # of a benchmark, and of another configuration
    explorer = ProfileBrowser(store, picks=only(store)).explorer()
    assert explorer.timelines["A"].makespan_us == timeline.makespan_us
    assert explorer.plan_a.bin_offsets.tolist() == timeline.plan.bin_offsets.tolist()
    assert list(explorer.timelines) == ["A"]
    with pytest.raises(InvalidArgument, match="no capture of attention_decode"):
        settings_of(type(only(store))(only(store).path, nsight(operator="my_kernel")))
