import datetime
import json
from pathlib import Path

import numpy as np
import pytest

from tests.widgets.invented import invented
from workbench import ScheduleExplorer, devices
from workbench.errors import InvalidArgument, WorkbenchError
from workbench.measure.timeline import Timeline
from workbench.records import Attachment, Environment, Store, TimelineRecord, Workload, pack_arrays
from workbench.records.methods import ALONE_STAMPS, PROFILED_STAMPS
from workbench.schedule import cost_model, plan_decode
from workbench.widgets.schedule.session import Session
from workbench.widgets.schedule.timeline_menu import timeline_menu

COST = cost_model()
CASE = "1x128K+31x4K"
SETTINGS = {"ctas_per_sm": 1, "policy_a": "balanced", "policy_b": "hpc-ops"}
SHAPE = {"num_q_heads": 8, "num_kv_heads": 1, "head_dim": 128, "page_size": 64, "q_len": 1}


def timeline_of(policy, case=CASE, *, num_ctas=132, seed=0, **more):
    session = Session(case)
    plan = plan_decode(session.lengths, num_kv_heads=1, num_ctas=num_ctas, policy=session.policy(policy), **more)
    return invented(plan, COST, seed=seed)


def keep(
    store, timeline, *, case=CASE, gpu="NVIDIA H200", day="2026-11-30", dtype="fp8", parameters=None, content=None,
    method=None,
):  # fmt: skip
    content = content or timeline.to_npz()
    record = TimelineRecord(
        operator="attention_decode", provider="cuda", policy=timeline.plan.policy,
        environment=Environment(gpu=gpu, date=datetime.date.fromisoformat(day), sms=132),
        workload=Workload(case=case, dtype=dtype, parameters=SHAPE | (parameters or {})),
        attachment=Attachment.of(content, ".npz"), method=method,
    )  # fmt: skip
    return store.add(record, content)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "records")


def session_of(store, case=CASE, **settings):
    return Session(case, store=store, **(SETTINGS | settings))


def test_recorded_timelines_are_laid_over_the_plans_that_they_are_of(store):
    a, b = timeline_of("balanced"), timeline_of("lpt")
    keep(store, a)
    keep(store, b)
    session = session_of(store, timeline="recorded", policy_b="lpt")
    found = session.measured()
    assert {key: one.timeline.plan.policy for key, one in found.items()} == {"A": a.plan.policy, "B": "lpt"}
    assert found["A"].source == "\u25d0 recorded (NVIDIA H200, 2026-11-30)"
    assert found["A"].makespan_us == a.makespan_us
    session.change(policy_b="fixed_splits(8)")
    assert list(session.measured()) == ["A"]
    session.change(timeline=None)
    assert session.measured() == {}


def test_the_newest_record_is_shown_and_each_can_be_chosen(store):
    old, new = timeline_of("balanced", seed=1), timeline_of("balanced", seed=2)
    path = keep(store, old, day="2026-11-01")
    keep(store, new, day="2026-11-30")
    session = session_of(store, timeline="recorded")
    assert session.measured()["A"].makespan_us == new.makespan_us
    options = dict(timeline_menu(session).options)
    assert options["recorded"] == "recorded, A"
    assert options[path.stem] == "A, balanced, 2026-11-01"
    session.change(timeline=path.stem)
    assert session.measured()["A"].makespan_us == old.makespan_us
    with pytest.raises(InvalidArgument, match="timeline is 'timeline-0'"):
        session.change(timeline="timeline-0")
    assert session.state.timeline == path.stem


@pytest.mark.parametrize("method", [PROFILED_STAMPS, ALONE_STAMPS])
def test_a_launch_alone_comes_behind_calls_one_after_another(store, method):
    calls, alone = timeline_of("balanced", seed=1), timeline_of("balanced", seed=2)
    path = keep(store, alone, day="2026-11-30", method=method)
    session = session_of(store, timeline="recorded")
    assert session.measured()["A"].source == "\u25d0 recorded (NVIDIA H200, 2026-11-30), one launch alone"
    keep(store, calls, day="2026-11-01")
    session = session_of(store, timeline="recorded")
    assert session.measured()["A"].makespan_us == calls.makespan_us
    assert dict(timeline_menu(session).options)[path.stem] == "A, balanced, 2026-11-30, alone"
    session.change(timeline=path.stem)
    assert session.measured()["A"].makespan_us == alone.makespan_us


@pytest.mark.parametrize("order", [("balanced", "hpc-ops"), ("hpc-ops", "balanced")], ids="-".join)
def test_of_policies_with_the_same_plan_each_is_shown_its_own_record(store, order):
    """Both plan this batch alike, so each record is of both plans; also where the other policy's is the newer one."""
    made = {name: timeline_of(name, "64x4K", seed=seed) for seed, name in enumerate(order)}
    paths = {name: keep(store, made[name], case="64x4K", day=f"2026-11-0{day}") for day, name in enumerate(order, 1)}
    assert made["balanced"].plan.as_lists() == made["hpc-ops"].plan.as_lists()
    session = session_of(store, "64x4K", timeline="recorded")
    found = session.measured()
    assert {key: one.makespan_us for key, one in found.items()} == {
        "A": made["balanced"].makespan_us, "B": made["hpc-ops"].makespan_us,
    }  # fmt: skip
    assert found["A"].makespan_us != found["B"].makespan_us
    words = dict(timeline_menu(session).options)[paths["balanced"].stem]
    assert words == f"A and B, balanced, 2026-11-0{order.index('balanced') + 1}"
    session.change(timeline=paths["balanced"].stem)
    assert session.measured()["B"].makespan_us == made["balanced"].makespan_us


def test_records_that_read_alike_are_numbered(store):
    paths = [keep(store, timeline_of("balanced", seed=seed)) for seed in range(2)]
    options = dict(timeline_menu(session_of(store)).options)
    assert {options[path.stem] for path in paths} == {f"A, balanced, 2026-11-30, {n} of 2" for n in (1, 2)}


def test_why_a_record_is_not_shown_is_said_of_the_policy_on_screen(store):
    keep(store, timeline_of("balanced", num_ctas=264), day="2026-11-01")
    keep(store, timeline_of("lpt"), day="2026-11-30")
    session = session_of(store, timeline="recorded")
    assert session.measured() == {}
    assert timeline_menu(session).note.startswith("Not shown (balanced): it has 264 CTAs")


@pytest.mark.parametrize(
    "other",
    [{"gpu": "NVIDIA H100 80GB HBM3"}, {"dtype": "bf16"}, {"parameters": {"head_dim": 64}}],
    ids=str,
)  # fmt: skip
def test_records_of_other_work_are_not_shown(store, other):
    keep(store, timeline_of("balanced"), **other)
    session = session_of(store, timeline="recorded")
    assert session.measured() == {}
    assert timeline_menu(session).note == "No timeline of this workload is recorded."


def test_a_case_named_by_something_else_than_its_lengths_is_found_by_them(store):
    lengths = [1000, 20000, 7]
    plan = plan_decode(lengths, num_kv_heads=1, num_ctas=132, policy="lpt")
    keep(store, invented(plan, COST), case="3requests-0a1b2c3d", parameters={"lengths": lengths})
    session = session_of(store, lengths, policy_a="lpt", timeline="recorded")
    assert "A" in session.measured()
    session.change(workload=[1000, 20000, 8])
    assert session.measured() == {}


def test_a_record_of_another_plan_is_offered_with_its_settings(store):
    keep(store, timeline_of("lpt", num_ctas=264, tile=128))
    session = session_of(store)
    menu = timeline_menu(session)
    assert menu.options == (("none", "none"),)
    assert menu.note == "Recorded for other settings:"
    assert [offer.label for offer in menu.offers] == ["LPT, 2 CTAs an SM"]
    json.dumps(menu.offers[0].changes)
    session.change(timeline="recorded")
    assert "264 CTAs, the plan 132" in timeline_menu(session).note
    session.change(**menu.offers[0].changes)
    assert "A" in session.measured()
    assert timeline_menu(session).note == ""


def test_policies_on_screen_are_offered_first_and_the_others_by_name(store):
    for policy in ("fixed_splits(16)", "fixed_splits(8)", "lpt", "balanced", "hpc-ops"):
        keep(store, timeline_of(policy))
    session = session_of(store, policy_a="lpt", policy_b="hpc-ops", ctas_per_sm=4)
    policies = [offer.label.removesuffix(", 1 CTA an SM") for offer in timeline_menu(session).offers]
    assert policies == ["LPT", "hpc-ops", "balanced", "fixed splits 8", "fixed splits 16"]


def test_a_damaged_side_file_is_told_and_the_others_open(store):
    broken = keep(store, timeline_of("balanced", seed=3), day="2026-11-29")
    side_file = next(broken.parent.glob("*.npz"))
    side_file.write_bytes(side_file.read_bytes()[:-200])
    good = timeline_of("balanced", seed=4)
    keep(store, good, day="2026-11-28")
    session = session_of(store, timeline="recorded")
    assert session.measured()["A"].makespan_us == good.makespan_us
    assert "damaged" in session.library.problem


def test_a_side_file_that_is_no_timeline_is_told(store):
    good = timeline_of("balanced")
    keep(store, good, content=pack_arrays({"start_ns": np.zeros(3, np.int64)}))
    session = session_of(store, timeline="recorded")
    assert session.measured() == {}
    assert "lacks" in session.library.problem


def test_one_given_in_python_is_shown_until_the_plan_is_another():
    explorer = ScheduleExplorer(CASE, **SETTINGS)
    given = timeline_of("balanced")
    explorer.timeline = given
    assert explorer.timeline is given
    assert explorer.timelines["A"] is given
    assert "\u25cf measured (timeline given)" in explorer.frame["scene"]["measured"][0]["source"]
    explorer.tile = 128
    assert explorer.timelines == {}
    assert "64 tokens a tile, the plan 128" in timeline_menu(explorer.session).note
    explorer.tile = 64
    assert explorer.timelines["A"] is given
    explorer.timeline = None
    assert explorer.timeline is None
    assert explorer.frame["scene"]["measured"] == []


def test_the_timeline_that_was_given_last_is_laid_and_asked_about():
    """A timeline that is gone leaves its memory to the next one, which must not be taken for it."""
    explorer = ScheduleExplorer(CASE, **SETTINGS)
    keys = set()
    for seed in range(20):
        explorer.timeline = timeline_of("balanced", seed=seed)
        assert explorer.session.measured()["A"].timeline is explorer.timeline
        keys.add(explorer.session.records_key)
    assert len(keys) == 20


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: timeline_of("balanced", "64x4K"), "64 requests, the plan of 32"),
        (lambda: timeline_of("balanced", num_ctas=264), "it has 264 CTAs, the plan 132"),
        (lambda: timeline_of("fixed_splits(8)"), "CTAs read other tiles|other tiles"),
        (lambda: timeline_of("balanced", num_ctas=78), "not a whole number for each of 132 SMs"),
        (lambda: "yesterday", "timeline is 'yesterday'"),
        (lambda: 7, "Give a Timeline, 'recorded', or None"),
        (lambda: "given", "none was"),
    ],
)
def test_one_that_fits_no_plan_is_refused_in_words_and_nothing_changes(make, words):
    explorer = ScheduleExplorer(CASE, **SETTINGS)
    frame = explorer.frame
    with pytest.raises(InvalidArgument, match=words):
        explorer.change(timeline=make(), step=0, lanes="measured")
    assert explorer.frame is frame
    assert explorer.timeline is None
    assert explorer.lanes == "both"


def test_the_remedy_that_is_named_works():
    explorer = ScheduleExplorer("64x4K")
    timeline = timeline_of("balanced", tile=128)
    with pytest.raises(InvalidArgument) as caught:
        explorer.timeline = timeline
    remedy = str(caught.value).partition("Set ")[2].partition(" first")[0]
    exec(remedy, {"explorer": explorer, "timeline": timeline})
    explorer.timeline = timeline
    assert explorer.timelines["A"] is timeline


def test_a_timeline_of_a_larger_gpu_is_refused():
    explorer = ScheduleExplorer(CASE, **SETTINGS)
    given = timeline_of("balanced")
    small = devices.custom("small", sms=66)
    with pytest.raises(InvalidArgument, match="GPU that it was captured on"):
        explorer.change(gpu=small, ctas_per_sm=2, timeline=given)
    assert explorer.gpu.name == "H200"


def test_a_truncated_timeline_does_not_come_so_far():
    content = timeline_of("balanced").to_npz()
    for cut in (0, 10, len(content) // 2, len(content) - 1):
        with pytest.raises(WorkbenchError):
            Timeline.from_npz(content[:cut])


def test_code_names_what_is_shown(store):
    keep(store, timeline_of("balanced"))
    assert "timeline" not in session_of(store).as_code()
    code = session_of(store, timeline="recorded", lanes="measured").as_code()
    assert "    timeline='recorded',\n    lanes='measured',\n" in code
    explorer = ScheduleExplorer(CASE, timeline=timeline_of("balanced"), **SETTINGS)
    names = {"timeline": explorer.timeline}
    exec(explorer.copy_as_code().replace("\nScheduleExplorer(", "\nagain = ScheduleExplorer("), names)
    assert names["again"].timelines["A"] is explorer.timeline


def test_both_lanes_are_in_the_trace():
    explorer = ScheduleExplorer(CASE, timeline=timeline_of("balanced"), **(SETTINGS | {"policy_b": "fixed_splits(8)"}))
    document = json.loads(explorer.to_trace_json())
    events = document["traceEvents"]
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert list(names.values()) == [
        "A: balanced (predicted)", "A: balanced (measured)", "B: fixed splits 8 (predicted)",
    ]  # fmt: skip
    given = explorer.timelines["A"]
    stamps = [e for e in events if e["pid"] == 2 and e.get("cat") == "chunk"]
    times = sorted([e["ts"], e["ts"] + e["dur"]] for e in stamps)
    want = sorted(zip((given.start_ns / 1e3).tolist(), (given.end_ns / 1e3).tolist(), strict=True))
    assert np.allclose(times, want)
    assert sum(e["pid"] == 2 and e.get("cat") == "merge" for e in events) == given.leader.sum()
    assert document["otherData"]["source A measured"] == "\u25cf measured (timeline given)"


def test_the_static_picture_shows_the_overlay():
    explorer = ScheduleExplorer(CASE, **SETTINGS)
    bare = explorer.to_svg()
    explorer.timeline = timeline_of("balanced")
    for theme, width in (("light", 1024), ("dark", 640), ("light", 1600)):
        picture = explorer.to_svg(theme=theme, width=width)
        assert "measured (timeline given)" in picture
        assert "bin ends against" in picture
    assert "bin ends" not in bare


def test_shipped_records_open_without_a_problem():
    session = Session(CASE, timeline="recorded", **SETTINGS)
    session.measured()
    assert session.library.problem == ""
    assert all(Path(str(row["path"])).exists() for row in session.library.rows)
