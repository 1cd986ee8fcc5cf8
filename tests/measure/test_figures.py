"""Figures, the tables made of them, and what records keep."""

from __future__ import annotations

import datetime
import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from tests.measure.fakes import FakeClocks, Made
from tests.records.samples import timing
from workbench import paths
from workbench.measure.attention_case import AttentionCase, variant_of
from workbench.measure.clocks import ClockLog
from workbench.measure.compare import Errors, Outcome
from workbench.measure.figures import Figure, sources, stored_figures, table_order
from workbench.measure.recording import figure_of, record_of
from workbench.measure.tables import best_of, case_table, column_of, summary_table
from workbench.measure.timing import Timing
from workbench.records import Environment, Store, TimingRecord, decode, is_of_study
from workbench.records.methods import FINALS, STUDY
from workbench.workloads import MIXES, workload

CASE = AttentionCase("64x4K", workload("64x4K"))
HERE = Environment(gpu="NVIDIA H200", date=datetime.date(2026, 11, 30), sms=132, torch="2.11.0")
OURS = Figure(
    operator="attention_decode", case="64x4K", dtype="fp8", provider="cuda", policy="balanced", variant="early",
    origin="measured now", median_us=21.04, low_us=20.96, high_us=21.17, rel_error=0.0017,
)  # fmt: skip
READ = replace(OURS, provider="read", policy=None, variant="", median_us=17.0, rel_error=None)
THEIRS = replace(OURS, provider="fa3", policy=None, variant="", median_us=5.0, origin="reference (somebody)")


def text_of(table) -> str:
    console = Console(file=io.StringIO(), width=250)
    console.print(table)
    return console.file.getvalue()


def outcome(**more) -> Outcome:
    log = ClockLog(FakeClocks(held=("power cap",), sm_mhz=1410))
    for when in ("before", "during", "during", "after"):
        log.take(when)
    made = Made("cuda", policy="balanced", variant="early", configuration={"warps": 8}, notes="by the costs of H200")
    given = {"timing": Timing((20.00004, 21.0, 22.0), 24), "errors": Errors(0.00171234, 0.002), "clocks": log}
    return Outcome(made, "timed", **(given | more))


def test_a_record_holds_what_was_measured():
    record = record_of(
        outcome(),
        CASE.workload,
        HERE,
        operator="attention_decode",
        seed=77,
        method="m",
        digests={("attention_decode", "cuda"): "a" * 64},
    )
    assert record.samples_us == (20.0, 21.0, 22.0)
    assert (record.median_us, record.rel_error, record.seed) == (21.0, 0.001712, 77)
    assert (record.provider, record.policy, record.configuration) == ("cuda", "balanced", {"warps": 8})
    assert record.environment.clocks.sm_mhz == 1410
    assert [r.when for r in record.clock_readings] == ["before", "during", "during", "after"]
    assert record.throttled == ("power cap",)
    assert (record.source_digest, record.notes) == ("a" * 64, "by the costs of H200")
    assert (record.workload.case, record.workload.dtype) == ("64x4K", "fp8")
    assert decode(record.encode()) == record


def test_a_record_of_a_map_has_no_cache_and_no_seed():
    record = record_of(
        outcome(errors=None), CASE.map_workload, HERE, operator="task_map", seed=None, method="m", digests={}
    )
    assert (record.workload.dtype, record.rel_error, record.seed, record.source_digest) == (None, None, None, None)
    assert record.workload.parameters == {"num_kv_heads": 1, "q_len": 1}


def test_what_was_not_timed_is_not_recorded():
    wrong = Outcome(Made(), "wrong", "relative error 1")
    assert record_of(wrong, CASE.workload, HERE, operator="attention_decode", seed=1, method="m", digests={}) is None


def test_a_record_without_clocks_writes_none():
    record = record_of(
        outcome(clocks=ClockLog(None)), CASE.workload, HERE, operator="attention_decode", seed=1, method="m", digests={}
    )
    assert b"clock" not in record.encode()
    assert b"throttled" not in record.encode()


def test_records_from_before_clocks_were_read_still_open_and_keep_their_names(tmp_path):
    store = Store(tmp_path)
    path = store.add(timing())
    assert b"clock_readings" not in path.read_bytes()
    record = store.read(path)
    assert isinstance(record, TimingRecord)
    assert (record.provider, record.clock_readings, record.throttled) == ("workbench", (), ())


def test_a_figure_says_why_there_is_no_time():
    figure = figure_of(Outcome(Made(), "wrong", "one row errs"), CASE.workload, HERE, operator="attention_decode")
    assert (figure.state, figure.reason, figure.median_us) == ("wrong", "one row errs", None)
    text = text_of(case_table([figure], None))
    assert "WRONG" in text
    assert "one row errs" in text


def test_an_error_that_is_no_number_leaves_the_figures_json_whole():
    lost = Outcome(Made(), "wrong", "not a number, or never written", errors=Errors(float("nan"), float("inf")))
    figure = figure_of(lost, CASE.workload, HERE, operator="attention_decode")
    assert json.loads(json.dumps(figure.to_dict(), allow_nan=False))["reason"] == "not a number, or never written"


def test_the_fastest_of_ours_and_of_those_measured_here_is_marked():
    slower = replace(OURS, policy="lpt", median_us=30.0)
    assert best_of([READ, slower, THEIRS, OURS]) is OURS
    assert best_of([READ, THEIRS]) is None
    text = text_of(case_table([READ, OURS, slower, THEIRS], 15.36))
    assert "21.04*" in text
    assert text.count("*") == 1
    assert "20.96 to 21.17" in text
    assert "1.24" in text  # over the bare read
    assert "15.36" in text
    assert "reference (somebody)" in text


def test_throttled_figures_say_so():
    held = replace(OURS, throttled=("power cap",))
    assert "THROTTLED (power cap)" in text_of(case_table([held], None))
    assert "21.0!*" in text_of(summary_table([held], {}))


def test_the_summary_has_a_row_a_case_and_the_best_static_setting():
    splits = [replace(OURS, policy=f"fixed_splits({n})", median_us=us) for n, us in ((2, 25.0), (8, 19.5), (16, 33.0))]
    other = replace(OURS, case="64x0.5K", median_us=6.7)
    lines = text_of(summary_table([OURS, *splits, READ, THEIRS, other], {"64x4K": 15.36})).splitlines()
    heading, *rows = lines
    for name in ("floor", "read", "balanced early", "best fixed_splits early", "fa3 (reference)", "error"):
        assert name in heading
    assert heading.index("read") < heading.index("balanced") < heading.index("best fixed") < heading.index("fa3")
    assert rows[0].split()[:5] == ["64x4K", "15.4", "17.0", "21.0", "19.5"]
    assert "19.5 (8)*" in rows[0]
    assert "6.7*" in rows[1]


def test_a_wrong_variant_shows_in_its_cell_of_the_summary():
    wrong = replace(OURS, policy="lpt", state="wrong", median_us=None, reason="relative error 1")
    right = replace(wrong, case="64x0.5K", state="timed", median_us=7.0, reason="")
    assert "wrong" in text_of(summary_table([OURS, wrong, right], {}))


def test_a_static_setting_that_is_wrong_is_not_hidden_by_another():
    wrong = replace(OURS, policy="fixed_splits(4)", state="wrong", median_us=None)
    assert "wrong" in text_of(summary_table([replace(OURS, policy="fixed_splits(2)"), wrong], {}))


def test_columns_name_who_measured():
    assert column_of(OURS) == "balanced early"
    assert column_of(THEIRS) == "fa3 (reference)"
    assert column_of(replace(OURS, provider="triton", variant="")) == "triton balanced"


def test_order_of_a_table():
    splits = [replace(OURS, policy=f"fixed_splits({n})") for n in (16, 4)]
    alone, torch = replace(OURS, variant="alone"), replace(OURS, provider="torch", policy=None, variant="")
    given = [THEIRS, torch, *splits, alone, OURS, READ]
    assert sorted(given, key=table_order) == [READ, OURS, alone, splits[1], splits[0], torch, THEIRS]


@pytest.fixture(scope="module")
def recorded():
    return stored_figures(
        Store(paths.profiles_dir()), operator="attention_decode", gpu="H200", cases=MIXES, dtypes=["fp8"],
        kinds=("timing", "reference"),
    )  # fmt: skip


def test_stored_figures_say_where_they_come_from(recorded):
    assert {f.case for f in recorded} == set(MIXES)
    assert {f.dtype for f in recorded} == {"fp8"}
    fa3 = next(f for f in recorded if f.provider == "fa3" and f.case == "64x4K")
    assert fa3.median_us == 32.97
    assert fa3.is_reference
    assert "contiguous cache" in fa3.notes
    assert any("outside this project" in line and "FlashInfer 0.6.13" in line for line in sources(recorded))


def test_of_several_records_the_newest_is_shown(tmp_path):
    store = Store(tmp_path)
    for day, shift in ((1, 5.0), (3, 9.0), (2, 1.0)):
        sampled = outcome(timing=Timing((shift,), 24), clocks=ClockLog(None))
        environment = HERE.model_copy(update={"date": datetime.date(2026, 12, day)})
        store.add(
            record_of(sampled, CASE.workload, environment, operator="attention_decode", seed=1, method="m", digests={})
        )
    (figure,) = stored_figures(
        store, operator="attention_decode", gpu="H200", cases=["64x4K"], dtypes=["fp8"], kinds=["timing"]
    )
    assert (figure.median_us, figure.origin) == (9.0, "recorded (NVIDIA H200, 2026-12-03)")
    assert figure.notes == "by the costs of H200"


def test_configurations_of_a_study_are_no_time_of_a_policy(tmp_path):
    """Not the fastest, nor where nothing else is known: each is one of many, and other policies have none."""
    store = Store(tmp_path)
    asked = {"operator": "attention_decode", "gpu": "H200", "cases": ["64x4K"], "dtypes": ["fp8"], "kinds": ["timing"]}
    fast = {"samples_us": (20.7,), "median_us": 20.7, "low_us": 20.7, "high_us": 20.7}
    for stages, method in ((4, STUDY), (6, FINALS)):
        store.add(timing(provider="cuda", configuration={"stages": stages}, method=method, **fast))
    assert stored_figures(store, **asked) == []
    store.add(timing(provider="cuda", method="in turns with other implementations"))
    (figure,) = stored_figures(store, **asked)
    assert figure.median_us == 21.0


def test_shipped_studies_are_told_from_comparisons():
    """Else the tables would show the fastest of many configurations of one policy beside one of each other."""
    store = Store(paths.profiles_dir())
    rows = store.rows(operator="attention_decode", provider="cuda", kind="timing", case="64x4K", dtype="fp8")
    compared = [row for row in rows if not is_of_study(row["method"])]
    launches = [(row["policy"], variant_of(json.loads(row["config"]))) for row in compared]
    assert len(rows) > len(launches) == len(set(launches)), "one configuration of each policy and launch"
    assert {policy for policy, _ in launches} >= {"balanced", "hpc-ops", "lpt", "fixed_splits(8)"}
