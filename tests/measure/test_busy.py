from __future__ import annotations

import math

import pytest

from tests.measure.synthetic import stamps_of
from workbench.errors import InvalidArgument
from workbench.measure.busy import METRICS, ActiveTime, BusyComparison, compare_busy, read_counters
from workbench.measure.timeline import Timeline
from workbench.schedule import cost_model, plan_decode

WIDE = """==PROF== Connected to process 4242
==PROF== Profiling "attention_decode" - 0: 0%....50%....100% - 1 pass
"ID","Process ID","Process Name","Kernel Name","Grid Size","sm__cycles_active.avg","sm__cycles_active.max",\
"sm__cycles_active.min","sm__cycles_elapsed.avg.per_second"
"","","","","","cycle","cycle","cycle","cycle/second"
"0","4242","python3.12","attention_decode","(132, 1, 1)","36000","39600","32400","1800000000"
"1","4242","python3.12","attention_decode","(132, 1, 1)","18,000.5","19,800","16,200","1,980,000,000"
"""

LONG = """"ID","Process ID","Kernel Name","Section Name","Metric Name","Metric Unit","Metric Value"
"0","4242","attention_decode","Command line profiler metrics","sm__cycles_active.avg","cycle","36,000"
"0","4242","attention_decode","Command line profiler metrics","sm__cycles_active.max","cycle","39,600"
"0","4242","attention_decode","Command line profiler metrics","sm__cycles_active.min","cycle","32,400"
"0","4242","attention_decode","Command line profiler metrics","sm__cycles_elapsed.avg.per_second","cycle/nsecond","1.80"
"""


def test_cycles_over_the_clock_of_their_own_pass_are_times():
    first, second = read_counters(WIDE)
    assert first == ActiveTime(18_000, 20_000, 22_000)
    assert second.mean_ns == pytest.approx(18_000.5 / 1.98)


def test_the_long_form_says_the_same():
    (only,) = read_counters(LONG)
    assert (only.least_ns, only.mean_ns, only.most_ns) == pytest.approx((18_000, 20_000, 22_000))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no table"),
        ("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission", "ERR_NVGPUCTRPERM"),
        (WIDE.replace("sm__cycles_active.max", "sm__cycles_active.sum"), "has no sm__cycles_active.max"),
        (LONG.replace("cycle/nsecond", "furlong"), "furlong"),
        (LONG.replace("36,000", "n/a"), "n/a"),
        (WIDE.replace('"1800000000"', '"0"'), "more than 0"),
    ],
)
def test_what_cannot_be_read_says_why(text, said):
    with pytest.raises(InvalidArgument, match=said.replace(".", r"\.")):
        read_counters(text)


def test_a_table_without_launches_has_none():
    assert read_counters(WIDE[: WIDE.index('"0","4242"')]) == []


@pytest.fixture
def timeline():
    plan = plan_decode([4096] * 64, num_kv_heads=1, num_ctas=132, policy="hpc-ops")
    return Timeline.from_stamps(plan, stamps_of(plan, cost_model(), noise=0.1))


def counted(timeline, *, outside=0.0, scale=1.0, sms=132):
    busy = timeline.by_sm()["busy_ns"].reindex(range(sms), fill_value=0) * scale + outside
    return ActiveTime(busy.min(), busy.mean(), busy.max())


def test_equal_times_agree(timeline):
    compared = compare_busy(timeline, counted(timeline), sms=132)
    assert compared.agrees
    assert compared.worst == pytest.approx(0, abs=1e-9)


def test_time_outside_the_stamps_is_told_apart_from_a_wrong_clock(timeline):
    same = compare_busy(timeline, counted(timeline, outside=2_000), sms=132)
    assert not same.agrees
    assert same.outside_ns == pytest.approx(2_000)
    assert same.worst_inside < 0.001
    assert same.agrees_inside
    assert "besides 2.00 \u00b5s" in same.verdict
    wrong = compare_busy(timeline, counted(timeline, scale=1.3), sms=132)
    assert not wrong.agrees
    assert wrong.worst_inside > 0.02
    short = compare_busy(timeline, counted(timeline, outside=-2_000), sms=132)
    assert short.worst_inside < 0.001
    assert not short.agrees_inside  # no warp stamps before it is there
    assert "do not agree" in short.verdict


def test_plain_data_and_back(timeline):
    compared = compare_busy(timeline, counted(timeline, outside=500), sms=132)
    assert BusyComparison.from_dict(compared.to_dict()) == compared


@pytest.mark.parametrize("damage", [{"worst": "much"}, {"worst": math.nan}, {"counted": 3}, {"stamped": {}}])
def test_what_is_no_comparison_is_refused(timeline, damage):
    said = compare_busy(timeline, counted(timeline), sms=132).to_dict() | damage
    with pytest.raises(InvalidArgument, match="set schedule"):
        BusyComparison.from_dict(said)


def test_an_sm_without_work_was_busy_for_nothing():
    plan = plan_decode([4096], num_kv_heads=1, num_ctas=132, policy="hpc-ops")
    small = Timeline.from_stamps(plan, stamps_of(plan, cost_model()))
    compared = compare_busy(small, counted(small), sms=132)
    assert compared.stamped.least_ns == 0
    assert compared.agrees


def test_more_sms_than_the_gpu_has(timeline):
    with pytest.raises(InvalidArgument, match="the GPU has 100"):
        compare_busy(timeline, counted(timeline), sms=100)


def test_all_that_is_needed_is_asked_for():
    assert {name.partition(".")[0] for name in METRICS} == {"sm__cycles_active", "sm__cycles_elapsed"}
