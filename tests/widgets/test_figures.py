import datetime
import json

import pytest

from workbench import ScheduleExplorer
from workbench.records import Environment, Provenance, ReferenceRecord, Store, TimingRecord, Workload
from workbench.records.methods import FINALS, STUDY
from workbench.schedule import cost_model, plan_decode
from workbench.widgets import text
from workbench.widgets.schedule.figures import best_of_each, figures_card
from workbench.widgets.schedule.session import Session

SHAPE = {"num_q_heads": 8, "num_kv_heads": 1, "head_dim": 128, "page_size": 64, "q_len": 1}
CASE = "1x64K+15x4K"


def work(case=CASE, dtype="fp8", **parameters):
    return Workload(case=case, dtype=dtype, parameters=SHAPE | parameters)


def surroundings(day="2026-11-29", gpu="NVIDIA H200"):
    return Environment(gpu=gpu, date=datetime.date.fromisoformat(day), sms=132)


def timing(median, *, provider="cuda", policy="balanced", day="2026-11-29", workload=None, error=0.0017, **config):
    return TimingRecord(
        operator="attention_decode", provider=provider, policy=policy, environment=surroundings(day),
        workload=workload or work(), samples_us=(median,), median_us=median, low_us=median - 0.5, high_us=median + 0.5,
        rel_error=error, configuration={"ctas_per_sm": 1, "tile": 64} | config,
    )  # fmt: skip


def reference(median, provider, workload=None, software="Somebody's kernel 1.0"):
    return ReferenceRecord(
        operator="attention_decode", provider=provider, environment=surroundings(), workload=workload or work(),
        median_us=median, rel_error=0.02,
        provenance=Provenance(measured_by="outside this project", source="a file", software=software),
    )  # fmt: skip


@pytest.fixture
def store(tmp_path):
    made = Store(tmp_path / "records")
    for record in (
        timing(14.25), timing(15.5, early_map=False), timing(24.5, policy="fixed_splits(32)"),
        timing(50.0, policy="fixed_splits(8)"), timing(94.0, policy="fixed_splits(4)"),
        timing(9.25, provider="read", policy=None, error=None),
        timing(16.0, provider="triton"),
        reference(18.2, "hpc-dynamic"), reference(26.5, "fa3"), reference(29.2, "flashinfer"),
    ):  # fmt: skip
        made.add(record)
    return made


def card_of(store, workload=CASE, **settings):
    session = Session(workload, store=store, **({"ctas_per_sm": 1, "policy_a": "balanced"} | settings))
    return figures_card(session)


def test_every_line_is_a_record_with_its_source(store):
    card = card_of(store)
    got = [(line.title, line.median, line.source) for line in card.lines]
    recorded = "\u25d0 recorded (NVIDIA H200, 2026-11-29)"
    other = "\u25c7 reference (outside this project, NVIDIA H200, 2026-11-29)"
    assert got == [
        ("reading the same bytes", "9.2", recorded), ("ours, balanced", "14.2", recorded),
        ("ours in Triton, balanced", "16.0", recorded), ("HPC-Ops dynamic", "18.2", other),
        ("ours, fixed splits 32", "24.5", recorded), ("FlashAttention-3", "26.5", other), ("FlashInfer", "29.2", other),
        ("ours, fixed splits 8", "50.0", recorded), ("ours, fixed splits 4", "94.0", recorded),
    ]  # fmt: skip
    by_title = {line.title: line for line in card.lines}
    assert by_title["ours, balanced"].interval == "\u00b10.50"
    assert "best of 2" in by_title["ours, balanced"].detail
    assert by_title["HPC-Ops dynamic"].interval == ""
    assert by_title["HPC-Ops dynamic"].error == "2.00 %"
    assert "Somebody's kernel 1.0" in by_title["HPC-Ops dynamic"].detail
    assert by_title["reading the same bytes"].error == ""
    assert by_title["ours, balanced"].key == "A"
    assert by_title["ours, fixed splits 32"].key == "B"
    assert card.sentence == (
        "Ours takes 14.2 \u00b5s under balanced, 1.54\u00d7 the time of reading the same bytes; "
        "1.28\u00d7 faster than HPC-Ops dynamic, the fastest of the others."
    )
    json.dumps([card.sentence, [vars(line) for line in card.lines]])


def test_what_is_shown_first_and_how_long_the_bars_are(store):
    card = card_of(store, policy_b="fixed_splits(4)")
    hidden = [line.title for line in card.lines if not line.brief]
    assert hidden == ["ours, fixed splits 8"]
    longest = max(line.high for line in card.lines)
    assert longest == 1
    for line in card.lines:
        assert 0 < line.low <= line.share <= line.high <= 1
        assert line.share == pytest.approx(min(float(line.median) / 94.5, 1), abs=0.001)


def test_the_modelled_call_is_of_the_plan_that_was_measured_not_of_the_screen(store):
    card = card_of(store, ctas_per_sm=4, tile=128)
    session = Session(CASE)
    plan = plan_decode(session.lengths, num_kv_heads=1, num_ctas=132, policy="balanced")
    want = text.us(plan.metrics(cost_model()).call_us)
    by_title = {line.title: line for line in card.lines}
    assert by_title["ours, balanced"].modelled == want
    assert by_title["FlashInfer"].modelled == by_title["ours in Triton, balanced"].modelled == ""
    assert [offer.label for offer in card.offers] == ["Plan as measured: 1 CTA an SM, tile 64"]
    assert card.offers[0].changes == {"ctas_per_sm": 1, "tile": 64}
    assert card_of(store).offers == ()


def test_the_newest_day_of_a_policy_counts(store):
    store.add(timing(15.0, day="2026-11-30"))
    store.add(timing(13.0, provider="workbench", day="2026-11-01"))  # the kernel's name in older records
    session = Session(CASE, store=store, ctas_per_sm=1)
    best = best_of_each(session.library.figures(session.shown))
    ours = [f.median_us for f, _ in best if (f.provider, f.policy) == ("cuda", "balanced")]
    assert ours == [15.0]


def test_one_that_takes_many_times_as_long_waits_until_all_are_asked_for(store):
    """Its bar would leave the others a few pixels."""
    before = {line.title: line.share for line in card_of(store).lines}
    store.add(timing(730.0, provider="torch", policy=None))
    after = {line.title: line for line in card_of(store).lines}
    assert not after["torch SDPA"].brief
    assert {title: line.share for title, line in after.items() if title != "torch SDPA"} == before
    assert after["FlashInfer"].brief


def test_a_study_counts_only_where_nothing_else_is_known(store):
    """The least of a study's many medians stands beside no other policy's one."""
    for stages, us in ((3, 13.0), (6, 12.5)):
        store.add(timing(us, stages=stages).model_copy(update={"method": STUDY}))
    lines = {line.title: line for line in card_of(store).lines}
    assert lines["ours, balanced"].median == "14.2"
    assert "best of 2" in lines["ours, balanced"].detail
    for stages, us in ((3, 33.0), (6, 32.5)):
        tuned = timing(us, policy="lpt", stages=stages)
        store.add(tuned.model_copy(update={"method": FINALS}))
    lines = {line.title: line for line in card_of(store).lines}
    assert lines["ours, LPT"].median == "32.5"
    assert "stages 6, best of 2" in lines["ours, LPT"].detail


@pytest.mark.parametrize(
    ("settings", "label"),
    [
        ({"cache": "bf16"}, "H200, FP8, 1 KV head, 1 query token"),
        ({"gpu": "H20"}, "H200, FP8, 1 KV head, 1 query token"),
        ({"num_kv_heads": 2}, "H200, FP8, 1 KV head, 1 query token"),
        ({"q_len": 2}, "H200, FP8, 1 KV head, 1 query token"),
    ],
    ids=str,
)
def test_where_other_settings_are_recorded_they_are_offered(store, settings, label):
    card = card_of(store, **settings)
    assert card.lines == ()
    assert card.sentence.startswith(f"Nothing is recorded of {CASE} on ")
    assert [offer.label for offer in card.offers] == [label]
    session = Session(CASE, store=store, **settings)
    session.change(**card.offers[0].changes)
    assert figures_card(session).lines


def test_where_nothing_is_recorded_the_nearest_cases_are_offered(store):
    store.add(timing(6.0, workload=work("64x0.5K")))
    store.add(timing(19.0, workload=work("64x4K")))
    card = card_of(store, "60x4K")
    assert card.sentence == "Nothing is recorded of 60x4K. Nearest:"
    assert card.offers[0].changes == {"workload": "64x4K"}
    session = Session("60x4K", store=store)
    session.change(**card.offers[0].changes)
    assert figures_card(session).lines
    assert "step 3" in card_of(store, "sample trace", step=3).sentence


def test_the_order_of_the_requests_matters(store):
    assert card_of(store, "15x4K+1x64K").lines == ()


def test_an_empty_store_and_a_broken_record_are_told(tmp_path, store):
    assert card_of(Store(tmp_path / "none")).sentence == "Nothing is recorded here."
    path = store.add(timing(20.0, policy="lpt"))
    path.write_text("{")
    card = card_of(store)
    assert len(card.lines) == 9
    assert path.name in card.problem


def test_what_is_recorded_later_is_found_when_asked_for(store):
    explorer = ScheduleExplorer(CASE, store=store, ctas_per_sm=1)
    count = len(explorer.figures)
    store.add(timing(12.0, policy="lpt"))
    assert len(explorer.figures) == count
    number = explorer.frame["number"]
    explorer.reload_records()
    assert len(explorer.figures) == count + 1
    assert explorer.frame["number"] == number + 1


@pytest.mark.parametrize("value", ["auto", None, -1, 0, True, 2.5, [1], 10**9], ids=repr)
def test_whatever_a_configuration_holds_the_card_stands(store, value):
    store.add(timing(8.0, ctas_per_sm=value, tile=value, num_ctas=value))
    card = card_of(store)
    assert card.lines[0].median == "8.0"
    json.dumps([offer.changes for offer in card.offers])


def test_lengths_beside_an_odd_name_are_read_with_care(store):
    for number, lengths in enumerate(([5, "x"], [], [[1, 2], [3]], "64x", [0], [700, 9])):
        store.add(timing(8.0, workload=work(f"odd-{number}", lengths=lengths)))
    assert card_of(store, [700, 9]).lines[0].median == "8.0"
    assert "odd-" in card_of(store).problem


def test_only_references_or_only_a_floor(tmp_path):
    store = Store(tmp_path / "others")
    store.add(timing(9.25, provider="read", policy=None, error=None))
    assert card_of(store).sentence == "Only the floor."
    store.add(reference(18.2, "hpc-dynamic"))
    assert card_of(store).sentence == "No time of ours, 1 time of others."


def test_the_shipped_records_have_the_six_cases():
    for case in ("64x0.5K", "64x4K", "32x0.125K+32x4K", "2x32K+30x4K", CASE, "1x128K+31x4K"):
        for cache in ("fp8", "bf16"):
            titles = {line.title for line in card_of(None, case, cache=cache).lines}
            assert {"ours, balanced", "HPC-Ops dynamic", "FlashAttention-3", "reading the same bytes"} <= titles
            assert ("FlashInfer" in titles) == (cache == "fp8")
