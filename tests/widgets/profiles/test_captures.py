"""Which records are captures, and what cannot be read."""

from __future__ import annotations

import datetime
import time
from pathlib import Path

import pytest

from tests.widgets.profiles.samples import OVERVIEW_UNITS, ceiling, environment, nsight, reduced
from workbench.capture import SETS
from workbench.records import Store
from workbench.widgets.profiles.captures import read_captures, varying


def test_counted_and_reduced_records_and_nothing_else(filled):
    captures, problems = read_captures(filled)
    assert problems == ()
    assert len(captures) == 2 * 2 * 3 * 3 + 1
    assert [one.counted for one in captures].count(False) == 1
    assert all(one.record.provider != "read" for one in captures), "a benchmark's timing is no capture"
    assert all(one.isolated_ns is None for one in captures if not one.counted)
    assert all(one.replayed_us is None for one in captures if one.counted)


def test_a_timing_that_only_speaks_of_reduced_captures_is_none(empty):
    empty.add(reduced(method="Median of replays", notes="beside a Reduced capture"))
    assert read_captures(empty) == ((), ())


def test_newest_first(empty):
    for day in (3, 1, 2):
        empty.add(nsight(environment=environment(date=datetime.date(2026, 11, day))))
    assert [one.date[-1] for one in read_captures(empty)[0]] == ["3", "2", "1"]


def test_a_store_that_is_not_there(tmp_path):
    assert read_captures(Store(tmp_path / "none")) == ((), ())


def test_shipped_and_own_together(own):
    Store(own).add(nsight(operator="mine"))
    captures, _ = read_captures(Store())
    assert [one.record.operator for one in captures].count("mine") == 1


@pytest.mark.parametrize("damage", ["cut", "garbage", "edited", "renamed", "nan", "wrong-kind"])
def test_damaged_records_are_told_and_hide_nothing(empty, damage):
    empty.add(nsight())
    path = empty.add(nsight(policy="lpt"))
    content = path.read_bytes()
    if damage == "renamed":
        path.rename(path.with_name("nsight-" + "0" * 32 + ".json"))
    else:
        changed = {
            "cut": content[: len(content) // 2],
            "garbage": b"\xff\x00{",
            "edited": content.replace(b"21000", b"20000"),
            "nan": content.replace(b"21000.0", b"NaN"),
            "wrong-kind": content.replace(b'"nsight"', b'"timing"'),
        }[damage]
        assert changed != content
        path.write_bytes(changed)
    captures, problems = read_captures(empty)
    assert [one.policy for one in captures] == ["balanced"]
    assert len(problems) == 1
    assert "nsight-" in problems[0]


def test_links_are_told(empty, tmp_path):
    path = empty.add(nsight())
    outside = tmp_path / "outside.json"
    outside.write_bytes(path.read_bytes())
    path.unlink()
    path.symlink_to(outside)
    captures, problems = read_captures(empty)
    assert captures == ()
    assert "symbolic link" in problems[0]


def test_sets_follow_from_the_metrics(empty):
    def capture(names, **changes):
        record = nsight(metrics=dict.fromkeys(names, 1.0), units={}, deviations={}, **changes)
        return read_of(empty, record)

    assert capture(SETS["memory"]).sets == ("memory",)
    assert set(capture((*SETS["overview"], *SETS["schedule"])).sets) == {"overview", "schedule"}
    assert capture(["sm__inst_executed.sum"]).sets == ("other",)
    lacking = [name for name in SETS["tensor"] if "gmma" not in name]
    assert capture(lacking).sets == ("other",)
    note = f"not known to ncu 2020.1: {next(name for name in SETS['tensor'] if 'gmma' in name)}"
    assert capture(lacking, notes=(note,)).sets == ("tensor",)
    assert read_of(empty, reduced()).sets == ("reduced",)


def read_of(store, record):
    path = store.add(record)
    return next(one for one in read_captures(store)[0] if one.path == path)


def test_parameters_that_vary(empty):
    for stages, pdl in ((3, True), (4, True)):
        empty.add(nsight(configuration={"stages": stages, "pdl": pdl}))
    captures, _ = read_captures(empty)
    assert varying(captures) == ("stages",)
    empty.add(nsight(configuration={"stages": 3}))
    assert set(varying(read_captures(empty)[0])) == {"stages", "pdl"}, "one that is not set everywhere varies"


def test_two_thousand_records(empty):
    """CPU time, for other work on the machine is no fault of the reader."""
    metrics = dict.fromkeys(SETS["overview"], 1000.0)
    for at in range(2000):
        empty.add(nsight(metrics=metrics, units=OVERVIEW_UNITS, configuration={"at": at}))
    empty.add(ceiling("64x4K", 15.9))
    started = time.process_time()
    captures, problems = read_captures(empty)
    took = time.process_time() - started
    assert (len(captures), problems) == (2000, ())
    assert took < 0.9, "0.4 s where it was written"


def test_keys_are_names_of_files(filled):
    captures, _ = read_captures(filled)
    assert all(one.path == Path(one.path.parent, f"{one.key}.json") and one.path.is_file() for one in captures)
    assert all(one.report.is_file() for one in captures if one.counted)
