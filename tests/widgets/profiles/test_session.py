"""Filters, sorting, picks: what is shown is what was asked for, and a wrong wish changes nothing."""

from __future__ import annotations

import datetime

import pytest

from tests.widgets.profiles.samples import H100, H200, environment, nsight, reduced
from workbench.errors import InvalidArgument
from workbench.widgets.profiles.frames import columns, frame_of, rows, same_in_all
from workbench.widgets.profiles.session import FILTERS, MOST_PICKS, SORTS, Session, State
from workbench.widgets.profiles.words import EMPTY, cautions, open_command, sentence


@pytest.fixture
def session(filled):
    return Session(filled)


@pytest.mark.parametrize(
    ("changes", "test"),
    [
        ({"gpu": "H200"}, lambda one: one.gpu == H200),
        ({"gpu": "nvidia h100 80gb hbm3"}, lambda one: one.gpu == H100),
        ({"case": "64x4K"}, lambda one: one.record.workload.case == "64x4K"),
        ({"policy": "balanced"}, lambda one: one.policy == "balanced"),
        ({"set": "schedule"}, lambda one: "schedule" in one.sets),
        ({"set": "reduced"}, lambda one: not one.counted),
        ({"config": "stages=4"}, lambda one: one.parameters["stages"] == "4"),
        ({"config": "STAGES=4 pdl"}, lambda one: one.parameters["stages"] == "4"),
        ({"config": "stages=4 attention_dec"}, lambda one: one.parameters["stages"] == "4" and bool(one.kernels)),
        ({"since": "2026-11-30"}, lambda one: False),
        ({"since": "2026-11-29"}, lambda one: True),
        ({"until": "2026-11-28"}, lambda one: False),
        ({"until": "2026-11-29"}, lambda one: True),
        ({"operator": "router_gemm"}, lambda one: False),
    ],
)  # fmt: skip
def test_filters(session, changes, test):
    session.change(**changes)
    assert set(session.shown) == {one for one in session.captures if test(one)}


def test_counts_of_a_menu_are_what_choosing_gives(session):
    session.change(gpu="H200")
    for name in ("case", "policy", "set"):
        for value, count in session.facets(name):
            session.change(**{name: value})
            assert len(session.shown) == count
            session.change(**{name: ""})


def test_notes_are_searched(session):
    one = session.captures[3]
    session.notes.write(one.key, "Straggler on SM 17")
    session.change(config="straggler")
    assert session.shown == (one,)


@pytest.mark.parametrize("sort", SORTS)
def test_every_sort_keeps_all_and_puts_gaps_last(session, sort):
    for descending in (True, False):
        session.change(sort=sort, descending=descending)
        assert len(session.shown) == len(session.captures)
    if sort in ("isolated", "metric", "runs"):
        assert not session.shown[-1].counted
    if sort == "isolated":
        times = [one.isolated_ns for one in session.shown[:-1]]
        assert times == sorted(times)


def test_picks_by_capture_key_beginning_and_path(session):
    a, b, c = session.captures[:3]
    session.change(picks=[a, b.key[:20], c.path])
    assert session.picked == (a, b, c)
    session.change(picks=a)
    assert session.picked == (a,)


@pytest.mark.parametrize(
    "wrong",
    [
        {"picks": 3}, {"picks": None},
        {"picks": ["nsight-"]}, {"picks": [""]}, {"picks": ["nothing"]}, {"view": "pie"}, {"sort": "colour"},
        {"since": "yesterday"}, {"gpu": 3}, {"config": None}, {"descending": 1}, {"colour": "red"},
    ],
)  # fmt: skip
def test_a_wrong_wish_changes_nothing(session, wrong):
    before = session.state
    with pytest.raises(InvalidArgument):
        session.change(case="64x4K", **wrong)
    assert session.state is before


def test_too_many_picks(session):
    with pytest.raises(InvalidArgument, match=f"at most {MOST_PICKS}"):
        session.change(picks=session.captures[: MOST_PICKS + 1])


def test_isolated_and_benchmark_times_have_columns_of_their_own(session):
    names = [column["name"] for column in columns(session)]
    isolated, replayed = names.index("isolated"), names.index("replayed")
    for row, one in zip(rows(session, 0, 100), session.shown, strict=True):
        assert bool(row["cells"][isolated]) == one.counted
        assert bool(row["cells"][replayed]) == (not one.counted)
        assert row["reduced"] == (not one.counted)


def test_columns_that_say_nothing_are_named_once(session):
    session.change(case="64x4K", gpu="H200", set="overview")
    assert {"case", "gpu", "operator", "date"}.isdisjoint(column["name"] for column in columns(session))
    assert same_in_all(session).startswith("attention_decode / 64x4K fp8 / NVIDIA H200")
    assert "replayed" not in [column["name"] for column in columns(session)]


def test_pages_are_parts_of_the_whole(session):
    every = rows(session, 0, 1000)
    assert [*rows(session, 0, 10), *rows(session, 10, 1000)] == every
    assert rows(session, -5, 0) == []


def test_reload_finds_what_is_new_and_keeps_picks(empty):
    empty.add(nsight())
    session = Session(empty)
    session.change(picks=session.captures)
    empty.add(nsight(policy="lpt"))
    gone = session.captures[0]
    session.reload()
    assert len(session.captures) == 2
    assert session.picked[0].key == gone.key
    gone.path.unlink()
    session.reload()
    assert session.picked == ()


def test_an_empty_store_says_what_to_do(empty):
    session = Session(empty)
    frame = frame_of(session, None)
    assert frame["sentence"] == "There is no capture in this store yet."
    assert frame["empty"] == [list(step) for step in EMPTY]
    code = "\n".join(code for _, code in EMPTY)
    for what in ("capture(", "counters=False", "import_report(", "reload()"):
        assert what in code
    compile(code, "help", "exec", flags=__import__("ast").PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_the_code_of_the_help_asks_for_what_a_capture_takes():
    from workbench.capture import request

    asked = request("attention_decode", {"ctas_per_sm": 2}, "2x32K+30x4K", metrics=("overview", "schedule"), runs=3)
    assert asked.timeline
    assert not request("attention_decode", {}, "2x32K+30x4K", counters=False).counters


def test_the_sentence_compares_with_the_noise(empty):
    slow = {"gpu__time_duration.sum": 30_000.0, "sm__cycles_active.avg": 50.0, "sm__cycles_active.max": 100.0}
    empty.add(nsight())
    empty.add(nsight(policy="hpc-ops", metrics=slow))
    session = Session(empty)
    base = next(one for one in session.captures if one.policy == "balanced")
    other = next(one for one in session.captures if one.policy != "balanced")
    session.change(picks=[base, other])
    said = sentence(session)
    assert "B takes 43 % more time alone than A, beyond the noise" in said
    assert "imbalance 20 % \u2192 50 %" in said
    session.change(picks=[base])
    assert "A takes 21.0 \u00b5s alone on cold caches" in sentence(session)


def test_captures_without_a_time_in_common_are_named_once(empty):
    for at in range(4):
        empty.add(nsight(configuration={"at": at}))
    empty.add(reduced())
    session = Session(empty)
    counted = [one for one in session.captures if one.counted]
    (bare,) = (one for one in session.captures if not one.counted)
    session.change(picks=[bare, *counted])
    assert sentence(session) == (
        "B, C, D and E have no time in common with A: A, or each of them, is reduced or lacks it."
    )
    session.change(picks=[*counted[:2], bare])
    first, second = sentence(session).split(". ")
    assert first.startswith("B takes ")
    assert second == "C and A have no time in common: one of them is reduced or lacks it."


def test_cautions(empty):
    digest = "ab" * 32
    records = [
        nsight(source_digest=digest),
        nsight(source_digest="cd" * 32, environment=environment(H100)),
        reduced(source_digest=digest),
    ]
    for record in records:
        empty.add(record)
    said = " ".join(cautions(Session(empty).captures))
    for words in ("GPUs differ", "Reduced records", "sources differ"):
        assert words in said
    assert "work differs" not in said
    assert cautions(Session(empty).captures[:1]) == ()


def test_commands_are_quoted_and_missing_reports_told(filled, tmp_path):
    from workbench.records import Attachment, Store

    store = Store(tmp_path / "a store; rm -rf")
    store.add(nsight(attachment=Attachment.of(b"report", ".ncu-rep")), b"report")
    one = Session(store).captures[0]
    command, _ = open_command(one)
    assert command == f"ncu-ui '{one.report}'"
    one.report.unlink()
    assert open_command(one) == ("", "the report is not beside its record any more")


def test_settings_of_views_are_plain_data(session):
    import json

    session.change(picks=session.captures[:5])
    for view in ("compare", "roofline", "parameter", "schedule", "notes"):
        session.change(view=view)
        json.dumps(frame_of(session, None))


def test_dates(empty):
    for day in (1, 15):
        empty.add(nsight(environment=environment(date=datetime.date(2026, 11, day))))
    session = Session(empty, since="2026-11-02")
    assert [one.date for one in session.shown] == ["2026-11-15"]
    assert set(FILTERS) < set(vars(State()))
