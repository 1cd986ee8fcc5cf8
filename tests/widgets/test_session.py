import json

import numpy as np
import pytest

from workbench import devices
from workbench.errors import InvalidArgument, InvalidPlan, LengthsError, StepOutOfRange, WorkbenchError
from workbench.schedule import DecodePlan, cost_model, fixed_splits, plan_decode
from workbench.widgets.schedule.batches import batches
from workbench.widgets.schedule.card import make_card
from workbench.widgets.schedule.export import plans_json, read_plans, trace_json
from workbench.widgets.schedule.session import Failure, Session
from workbench.widgets.schedule.state import PARAMETERS
from workbench.widgets.schedule.strip import Strip, long_lives
from workbench.workloads import RequestTrace, sample_trace, simulate


@pytest.fixture(scope="module")
def steps():
    return simulate(sample_trace())


@pytest.mark.parametrize(
    ("given", "lengths"),
    [("2x4K + 7", [4096, 4096, 7]), ([5, 0, 9], [5, 0, 9]), (np.array([1, 2]), [1, 2]), ([], [])],
)
def test_workloads_without_a_trace(given, lengths):
    assert batches(given).lengths(0).tolist() == lengths


def test_a_request_trace_is_simulated_and_says_so():
    trace = RequestTrace([0.0, 0.1], [100, 200], [5, 5])
    found = batches(trace)
    assert "simulated" in found.name
    assert found.lengths(0)[0] == 101


def test_plans_are_those_of_plan_decode(steps):
    session = Session(steps, gpu="H100", ctas_per_sm=2, policy_b="lpt", tile=128, num_kv_heads=2, step=700)
    want = plan_decode(steps.lengths(700), num_kv_heads=2, num_ctas=264, policy="lpt", tile=128)
    assert session.plan("B").to_json() == want.to_json()
    assert session.side("B").metrics == want.metrics(cost_model("H100"))


@pytest.mark.parametrize(
    "changes",
    [
        {"gpu": "H999"}, {"tile": 48}, {"cache": "fp4"}, {"ctas_per_sm": 0}, {"num_kv_heads": "two"}, {"step": 5},
        {"selection": 64}, {"policy_a": "greedy"}, {"policy_a": "fixed_splits(0)"}, {"workload": "64y4K"},
        {"order": "x"}, {"colour": 1},
    ],
    ids=str,
)  # fmt: skip
def test_a_change_that_cannot_be_leaves_everything_as_it_was(changes):
    session = Session("64x4K")
    before = session.state, session.workload
    with pytest.raises(WorkbenchError):
        session.change(**changes)
    assert (session.state, session.workload) == before


def test_a_selection_follows_its_request_through_the_trace(steps):
    rows = steps.requests(3000)
    session = Session(steps, step=3000, selection=len(rows) - 1)
    session.change(step=3001)
    assert steps.requests(3001)[session.state.selection] == rows[-1]
    gone = next(i for i in range(3001, len(steps)) if rows[-1] not in steps.requests(i))
    session.change(step=gone)
    assert session.state.selection is None


def test_user_functions_are_policies_and_their_failures_are_told_in_words():
    def wrong(lengths, num_kv_heads, num_ctas, tile):
        return [[(0, 0, 0, 1)]]

    def raising(lengths, num_kv_heads, num_ctas, tile):
        raise KeyError("no such thing")

    session = Session("2x4K", policies={"mine": wrong}, policy_a="mine", policy_b=raising)
    assert isinstance(session.side("A"), Failure)
    assert "request 0: tiles 1-63 assigned to no CTA" in session.side("A").message
    assert "raising raised KeyError: 'no such thing', line " in session.side("B").message
    with pytest.raises(InvalidPlan):
        session.plan("A")
    with pytest.raises(KeyError):
        session.plan("B")
    scene = session.scene()
    assert scene.panels == ()
    with pytest.raises(InvalidArgument):
        Session("2x4K", policies={"lpt": wrong})


def test_policy_objects_and_parameters_are_remembered():
    session = Session("2x4K", policy_a=fixed_splits(7))
    assert session.state.policy_a == "fixed_splits(7)"
    assert session.state.splits == 7
    session.change(policy_a="lpt", policy_b="balanced")
    assert "fixed_splits(7)" in session.listed()


@pytest.mark.parametrize("workload", ["zipf", "3x4K + 100", [5, 0, 9], "sample trace"])
def test_copied_code_opens_the_same_view(workload):
    session = Session(workload, gpu="H20", policy_b="lpt", tile=32, selection=0, order="load")
    opened = []
    scope = {"ScheduleExplorer": lambda **given: opened.append(Session(**given))}
    code = session.as_code().replace("from workbench import ScheduleExplorer\n", "")
    exec(code, scope)
    assert opened[0].state == session.state
    assert opened[0].plan("B").to_json() == session.plan("B").to_json()


def test_copied_code_of_a_given_trace_holds_the_step(steps):
    code = Session(steps, step=700).as_code()
    assert "# Step 700 of simulated" in code
    scope = {"ScheduleExplorer": lambda **given: scope.update(opened=Session(**given))}
    exec(code.replace("from workbench import ScheduleExplorer\n", ""), scope)
    assert scope["opened"].lengths.tolist() == steps.lengths(700).tolist()


def test_copied_code_names_a_gpu_of_the_users_own():
    session = Session("64x4K", gpu=devices.custom("half", sms=66))
    assert "devices.custom('half', sms=66)" in session.as_code()
    assert session.state.num_ctas == 264


def test_card_says_what_the_descriptor_says():
    session = Session([70_000, 500, 4096], num_kv_heads=2, policy_b="fixed_splits(300)")
    both = [session.side(key) for key in "AB"]
    for side in both:
        for index in (0, side.plan.num_descriptors // 2, side.plan.num_descriptors - 1):
            d = side.plan.descriptors[index]
            card = make_card(side, index, sms=132, sides=both)
            rows = dict(card.rows)
            chunks = side.plan.chunk_counts[d["kv_head"], d["request"]]
            assert card.title == f"Request {d['request']}"
            assert card.subtitle == f"KV head {d['kv_head']}, chunk {d['chunk'] + 1} of {chunks}"
            assert rows["reads"] == f"tokens {d['first_token']:,} to {d['first_token'] + d['num_tokens'] - 1:,}"
            assert rows["bin"].startswith(f"CTA {d['cta']:,}, ")
            assert "(assumed)" in rows["bin"]
            start, end = side.spans.start_ns[index] / 1e3, side.spans.end_ns[index] / 1e3
            assert rows["runs"].startswith(f"{start:.1f} to {end:.1f} ")


def test_exported_plans_read_back_and_the_trace_has_every_chunk():
    session = Session("1x32K + 9x1K")
    both = [session.side(key) for key in "AB"]
    plans = read_plans(plans_json(both))
    assert {key: plan.to_json() for key, plan in plans.items()} == {s.key: s.plan.to_json() for s in both}
    document = json.loads(plans_json(both))
    assert document["sides"][0]["metrics"] == both[0].metrics.to_dict()
    assert isinstance(DecodePlan.from_json(json.dumps(document["sides"][1]["plan"])), DecodePlan)

    events = json.loads(trace_json(both, sms=132))["traceEvents"]
    for process, side in enumerate(both, 1):
        mine = [e for e in events if e["pid"] == process and e.get("cat") == "chunk"]
        assert len(mine) == side.plan.num_descriptors
        assert max(e["ts"] + e["dur"] for e in mine) == pytest.approx(side.metrics.bins_us)
        merge = [e for e in events if e["pid"] == process and e.get("cat") == "merge"]
        assert [e["dur"] for e in merge] == ([side.metrics.merge_us] if side.metrics.merge_us else [])
        threads = {}
        for event in sorted(mine, key=lambda e: e["ts"]):
            assert event["ts"] >= threads.get(event["tid"], 0) - 1e-9
            threads[event["tid"]] = event["ts"] + event["dur"]


def test_strip_equals_the_metrics_of_each_step_and_finds_the_bad_ones(steps):
    part = steps[3000:3300]
    session = Session(part)
    policies = (session.policy("hpc-ops"), session.policy("fixed_splits(32)"))
    strip = Strip(part, policies, session.state.plan_arguments(), session.cost, "over_bound", 1)
    assert strip.statistics() == [["\u2013"] * 3] * 2
    assert strip.bad_steps() == []
    seen = 0
    while not strip.finished:
        came = strip.advance(0)
        assert came.start == seen
        seen = came.stop
    for step in (0, 150, 299):
        for row, policy in enumerate(policies):
            m = plan_decode(part.lengths(step), policy=policy, **session.state.plan_arguments()).metrics(session.cost)
            assert strip.values[row, step] == pytest.approx(1 / m.efficiency)
            assert strip.call_us[row, step] == pytest.approx(m.call_us)
    worst = int(np.nanargmax(strip.values.max(axis=0)))
    assert not strip.bad_steps() or worst in strip.bad_steps()
    assert "takes" in strip.comparison(10, 20)


def test_strip_of_a_function_that_fails_says_why_and_stops(steps):
    session = Session(steps[:50], policies={"mine": lambda *a: 1 // 0}, policy_b="mine")
    policies = (session.policy("lpt"), session.policy("mine"))
    strip = Strip(steps[:50], policies, session.state.plan_arguments(), session.cost, "call_us", 1)
    strip.advance(1)
    assert "ZeroDivisionError" in strip.problem
    assert strip.done == 0


def test_lanes_of_long_requests_do_not_overlap(steps):
    lives = long_lives(steps)
    assert len(lives)
    for lane in range(3):
        mine = lives[lives[:, 3] == lane]
        assert (mine[1:, 1] >= mine[:-1, 2]).all()


def test_errors_have_their_own_types():
    with pytest.raises(LengthsError):
        Session("64x4K + 2xfoo")
    with pytest.raises(StepOutOfRange):
        Session("64x4K", step=1)


@pytest.mark.parametrize("stop", [SystemExit("bye"), KeyboardInterrupt(), RecursionError("deep")], ids=repr)
def test_however_a_users_function_ends_the_session_goes_on(stop):
    def ends(*arguments):
        raise stop

    session = Session("64x4K", {"ends": ends}, policy_b="ends")
    failure = session.side("B")
    assert isinstance(failure, Failure)
    assert type(stop).__name__ in failure.message
    with pytest.raises(type(stop)):
        session.plan("B")
    session.change(policy_b="lpt")
    assert session.plan("B").policy == "lpt"


def test_the_strip_stops_in_words_when_a_users_function_ends_the_program(steps):
    strip = Session(steps, {"ends": lambda *a: exit()}, policy_b="ends")
    policies = strip.policy("hpc-ops"), strip.policy("ends")
    found = Strip(steps, policies, strip.state.plan_arguments(), strip.cost, "call_us", 1)
    found.advance(1)
    assert "SystemExit" in found.problem
    assert not found.done


def test_the_strip_waits_for_one_call_of_a_users_function_at_a_time(steps):
    calls = []

    def slow(lengths, num_kv_heads, num_ctas, tile):
        calls.append(lengths)
        return [[(0, r, 0, -(-int(length) // tile))] for r, length in enumerate(lengths)]

    session = Session(steps, {"slow": slow})
    policies = session.policy("hpc-ops"), session.policy("slow")
    strip = Strip(steps, policies, session.state.plan_arguments(), session.cost, "call_us", 1)
    strip.advance(0)
    assert strip.done == 1
    assert {call.tolist() == steps.lengths(0).tolist() for call in calls} == {True}


def test_two_functions_of_one_name_cannot_be_a_and_b():
    first, second = (lambda *a: [[(0, 0, 0, 1)]]), (lambda *a: [])
    with pytest.raises(InvalidArgument, match="policies="):
        Session([64], policy_a=first, policy_b=second)
    session = Session([64], policy_a=first)
    with pytest.raises(InvalidArgument, match="policies="):
        session.change(policy_b=second)
    assert session.plan("A").num_descriptors == 1
    session.change(policy_b=first)
    session.change(policy_a="lpt")
    session.change(policy_b=second)  # a function defined anew takes the place of the one before
    assert isinstance(session.side("B"), Failure)


@pytest.mark.parametrize(
    "gpu",
    [
        devices.custom("mine", sms=7),
        devices.custom("narrow", sms=132, memory_bandwidth=1e12),
        devices.custom("known", sms=132, memory_bandwidth=1e12, measured_read_bandwidth=9e11),
        devices.custom("like A100 \U0001f600", sms=40, like="A100", l2_bytes=1 << 20),
    ],
    ids=lambda gpu: gpu.name,
)
@pytest.mark.parametrize("workload", ["64x4K + 3", [0, 5, 70000], "sample trace", []], ids=str)
def test_the_code_opens_the_same_view(gpu, workload):
    session = Session(workload, gpu=gpu, policy_b="lpt", strip="idle", unit="tiles", q_len=2, num_kv_heads=3)
    names = {}
    exec(session.as_code().replace("\nScheduleExplorer(", "\nexplorer = ScheduleExplorer("), names)
    again = names["explorer"].session
    assert again.state == session.state
    assert again.cost == session.cost
    assert again.side("B").metrics == session.side("B").metrics


def test_a_policy_whose_name_is_a_keyword_leaves_code_that_parses():
    session = Session("2x4K", {"lambda": lambda *a: []}, policy_b="lambda")
    compile(session.as_code(), "code", "exec")


@pytest.mark.parametrize(("name", "limits"), PARAMETERS.items())
def test_the_browser_knows_what_number_a_policy_takes(name, limits):
    for value in limits:
        Session("2x4K", policy_b=f"{name}({value})")
    for value in (limits[0] - 1, limits[1] + 1):
        with pytest.raises(InvalidArgument):
            Session("2x4K", policy_b=f"{name}({value})")


def test_another_batch_cap_simulates_the_trace_again():
    trace = sample_trace()
    for workload in ("sample trace", trace):
        session = Session(workload, step=100, policy_b="lpt")
        session.change(max_batch=5)
        want = simulate(trace, max_batch=5)
        assert len(session.workload) == len(want)
        assert session.state.step == 100
        assert session.lengths.tolist() == want.lengths(100).tolist()
        assert int(session.workload.steps.batch_sizes.max()) == 5
        assert "max_batch=5" in session.as_code()
    with pytest.raises(InvalidArgument, match="max_batch"):
        session.change(max_batch=0)
    assert session.state.max_batch == 5


def test_a_batch_cap_leaves_given_steps_and_batches_as_they_are(steps):
    session = Session(steps, step=700)
    before = session.workload
    session.change(max_batch=3)
    assert session.workload is before
    session = Session("64x4K", max_batch=3)
    assert session.lengths.size == 64
    session.change(workload="sample trace")
    assert int(session.workload.steps.batch_sizes.max()) == 3


def test_what_is_wrong_with_a_policy_names_its_key():
    def wrong(lengths, num_kv_heads, num_ctas, tile):
        return [[(0, 0, 0, 1)]]

    session = Session("2x4K", policies={"mine": wrong}, policy_a="mine", policy_b=wrong)
    assert session.side("A").message.startswith("policies['mine']: wrong: not a valid plan")
    assert session.side("B").message.startswith("wrong: not a valid plan")
    for policies, words in (({"x": 3}, r"policies\['x'\]: .* int"), ({"y": "nope"}, r"policies\['y'\]: .*'nope'")):
        with pytest.raises(InvalidArgument, match=words):
            Session("2x4K", policies=policies)
    with pytest.raises(InvalidArgument, match="policies= has the name 'lpt'"):
        Session("2x4K", policies={"lpt": wrong})
