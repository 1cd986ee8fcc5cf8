from __future__ import annotations

import datetime

import pytest

from tests.measure.synthetic import stamps_of
from workbench.errors import TimelineError
from workbench.measure.timeline import Timeline
from workbench.measure.timeline_records import read_timeline, timeline_record
from workbench.records import Environment, Store, TimingRecord, Workload
from workbench.schedule import cost_model, plan_decode

ENVIRONMENT = Environment(gpu="NVIDIA H200", date=datetime.date(2026, 1, 2), sms=132)


@pytest.fixture
def timeline():
    plan = plan_decode([8192] * 3, num_kv_heads=1, num_ctas=132, policy="fixed_splits(8)")
    return Timeline.from_stamps(plan, stamps_of(plan, cost_model()))


def kept(store, timeline, **changes):
    said = {"case": "3x8K", "cache": "fp8", "parameters": {"q_len": 1}, "configuration": {"warps": 8}}
    return store.add(
        *timeline_record(timeline, environment=ENVIRONMENT, makespans_us=(1.5, 2.5), **{**said, **changes})
    )


def test_a_timeline_comes_back_from_a_store(tmp_path, timeline):
    store = Store(tmp_path)
    kept(store, timeline, call_us=9.5, stamped_call_us=9.75, source_digest="0" * 64)
    (row,) = store.rows(kind="timeline", operator="attention_decode")
    assert (row["case"], row["dtype"], row["policy"]) == ("3x8K", "fp8", "fixed_splits(8)")
    record, again = read_timeline(store, row["path"])
    assert again.to_npz() == timeline.to_npz()
    assert (record.makespan_us, record.makespans_us) == (timeline.makespan_us, (1.5, 2.5))
    assert (record.call_us, record.stamped_call_us, record.source_digest) == (9.5, 9.75, "0" * 64)


def test_a_record_of_another_kind_is_refused(tmp_path):
    store = Store(tmp_path)
    timing = TimingRecord(
        operator="attention_decode",
        provider="cuda",
        environment=ENVIRONMENT,
        workload=Workload(case="a"),
        samples_us=(1.0,),
        median_us=1.0,
        low_us=1.0,
        high_us=1.0,
    )
    with pytest.raises(TimelineError, match="timing record"):
        read_timeline(store, store.add(timing))


def test_a_side_file_whose_times_contradict_the_plan_names_the_record(tmp_path, timeline):
    from workbench.records import Attachment, pack_arrays, unpack_arrays

    record, content = timeline_record(
        timeline, environment=ENVIRONMENT, case="a", cache="fp8", parameters={}, configuration={}, makespans_us=()
    )
    arrays = unpack_arrays(content)
    content = pack_arrays({**arrays, "end_ns": arrays["end_ns"] - 10**6})
    store = Store(tmp_path)
    path = store.add(record.model_copy(update={"attachment": Attachment.of(content, ".npz")}), content)
    with pytest.raises(TimelineError, match=path.name):
        read_timeline(store, path)
