"""The tuner without a browser: numbers are the engine's, and input that cannot be used is told and changes nothing."""

from __future__ import annotations

import asyncio
import csv
import datetime
import io
import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

import workbench
from tests.widgets.tiles.samples import DATE, record, store_of
from workbench import TileTuner
from workbench.errors import InvalidArgument, NoGpu, WorkbenchError
from workbench.records import Environment, Store
from workbench.tune.resources import resources
from workbench.tune.spaces import attention_space, router_space
from workbench.widgets.still import still_html
from workbench.widgets.tiles.plots import pareto, round_ticks, spread


@pytest.fixture
def empty(tmp_path: Path) -> Store:
    return Store(tmp_path / "empty")


def said(tuner: TileTuner) -> str:
    return "".join(run["text"] for run in tuner.frame["sentence"])


def test_it_is_public_and_imports_no_torch() -> None:
    program = "import sys, workbench; workbench.TileTuner('router'); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
    assert "TileTuner" in dir(workbench)


def test_resources_are_the_engines(empty: Store) -> None:
    tuner = TileTuner("router", m=64, store=empty)
    space = router_space(64, 192, 4096)
    (wanted,) = resources(space, [space.default()])
    found = tuner.resources
    assert found == wanted
    assert found.kernel is not None
    row = tuner.frame["rows"][0]
    facts = found.kernel.facts
    assert row["key"] == "here"
    assert row["cells"][0] == str(facts.registers)
    assert row["cells"][2] == f"{found.occupancy.shared_bytes:,}"
    assert row["cells"][5] == f"{found.waves:.2f}"
    assert row["mark"] == "\u25cb"
    assert "modelled" in said(tuner)
    limits = {each["title"]: (int(each["allows"].replace(",", "")), each["limiting"]) for each in tuner.frame["limits"]}
    assert limits == {n: (most, n in found.occupancy.limited_by) for n, most in found.occupancy.limits.items()}


def test_a_combination_that_cannot_run_says_why_and_what_would(empty: Store) -> None:
    tuner = TileTuner("attention", values={"stages": 8}, store=empty)
    space = attention_space("64x4K")
    reason = space.why_invalid(space.make(tuner.values))
    assert reason
    assert tuner.refused == tuner.frame["refused"] == reason
    assert reason in said(tuner)
    assert "stages 6" in said(tuner)
    assert space.why_invalid(space.make({**tuner.values, "stages": 6})) is None
    with pytest.raises(InvalidArgument, match="297,760 > 232,448"):
        _ = tuner.config
    with pytest.raises(InvalidArgument, match="cannot run"):
        _ = tuner.resources
    assert tuner.frame["here"] == {"occupancy": None, "error": None, "line": None}
    for each in tuner.frame["parameters"]:
        reasons = [space.why_invalid(space.make({**tuner.values, each["name"]: v})) or "" for v in each["values"]]
        assert each["reasons"] == reasons


def test_a_slider_sends_a_frame_and_no_scene(empty: Store) -> None:
    tuner = TileTuner("attention", store=empty)
    before, scene = tuner.frame["number"], tuner.scene["number"]
    tuner.set_from_view("v", 7, {"values": {"stages": 8}})
    assert tuner.frame["number"] > before
    assert tuner.frame["ack"] == {"v": 7}
    assert tuner.scene["number"] == scene
    assert len(json.dumps(tuner.frame)) < 12_000


def test_records_come_before_the_model(tmp_path: Path) -> None:
    space = attention_space("64x4K")
    some = list(space)[::3]
    tuner = TileTuner("attention", store=store_of(tmp_path / "store", space, some))
    best = tuner.best
    assert best in some
    tuner.values = best
    assert tuner.time.origin == "recorded"
    assert tuner.time.words == "recorded (NVIDIA H200, 2026-11-30)"
    assert tuner.scene["rows"][0]["values"] == best.to_dict()
    assert tuner.scene["rows"][0]["tags"] == ["best"]
    assert [row["origin"] for row in tuner.scene["rows"]].count("recorded") == len(some)
    other = next(config for config in space if config not in some and config.warps == 4)
    tuner.values = other
    assert tuner.time.origin == "modelled"
    assert tuner.time.us == pytest.approx(space.modelled_us(other))
    shares = [row["cells"][-2] for row in tuner.scene["rows"] if row["origin"] == "modelled"]
    default_recorded = space.default() in some
    assert (set(shares) == {"\u2013"}) is default_recorded, "a modelled time is not compared with a recorded one"


def test_records_of_something_else_are_not_this_configurations(tmp_path: Path) -> None:
    space = attention_space("64x4K")
    default = space.default()
    store = Store(tmp_path / "store")
    values = default.to_dict()
    store.add(record(space, default, policy="hpc-ops"))
    store.add(record(space, default, environment=Environment(gpu="NVIDIA H20", date=DATE, sms=78)))
    store.add(record(attention_space("64x4K", kv_heads=2), default))
    store.add(record(space, default, configuration={n: v for n, v in values.items() if n != "prefetch"}))
    tuner = TileTuner("attention", store=store)
    assert tuner.time.origin == "modelled"
    assert any("1 record of an earlier kernel" in words for words in tuner.frame["footer"])
    store.add(record(space, default, source_digest="0" * 64))
    tuner = TileTuner("attention", store=store)
    assert tuner.time.words.endswith("of earlier sources of the kernel")


def test_the_newest_record_of_todays_sources_counts(tmp_path: Path) -> None:
    space = router_space(64, 192, 4096)
    store = Store(tmp_path / "store")
    for us, days, digest in ((7.0, 2, None), (6.0, 1, None), (5.0, 0, "0" * 64)):
        date = DATE - datetime.timedelta(days=days)
        changes: dict[str, Any] = {"samples_us": (us,), "median_us": us, "low_us": us, "high_us": us}
        changes |= {"environment": Environment(gpu="NVIDIA H200", date=date, sms=132)}
        store.add(record(space, space.default(), **changes | ({"source_digest": digest} if digest else {})))
    assert TileTuner("router", m=64, store=store).time.us == 6.0


def test_of_one_day_the_record_of_most_samples_counts(tmp_path: Path) -> None:
    """A configuration may have been a finalist of a study, and part of a benchmark besides."""
    space = router_space(64, 192, 4096)
    store = Store(tmp_path / "store")
    for us, count in ((6.0, 7), (7.0, 31), (5.0, 15)):
        times: dict[str, Any] = {"samples_us": (us,) * count, "median_us": us, "low_us": us, "high_us": us}
        store.add(record(space, space.default(), **times))
    assert TileTuner("router", m=64, store=store).time.us == 7.0


def test_a_launch_that_promises_more_is_no_best_of_the_space(tmp_path: Path) -> None:
    """Benchmarks record launches that read early, which are faster by what the caller promises."""
    space = attention_space("64x4K")
    early = space.make({**space.default().to_dict(), "early_map": True, "early_cache": True})
    assert early not in space
    times: dict[str, Any] = {"samples_us": (0.5,), "median_us": 0.5, "low_us": 0.5, "high_us": 0.5}
    store = Store(tmp_path / "store")
    store.add(record(space, early, **times))
    store.add(record(space, space.default()))
    tuner = TileTuner("attention", store=store)
    assert tuner.best == tuner.default
    assert early.to_dict() not in [row["values"] for row in tuner.scene["rows"]]
    tuner.whole = True
    assert tuner.best == early


BAD: list[dict[str, Any]] = [
    {"values": {"stages": 5}},
    {"values": {"stages": True}},
    {"values": {"stages": [1]}},
    {"values": {"stages": "4"}},
    {"values": {"<img src=x>": 1}},
    {"values": 3},
    {"values": "stages"},
    {"lengths": "64x"},
    {"lengths": ""},
    {"lengths": None},
    {"lengths": "\ud800"},
    {"group": 3},
    {"q_len": 9},
    {"kv_heads": 1.5},
    {"cache": "int4"},
    {"operator": []},
    {"operator": "router", "router": "4097,3"},
    {"operator": "router", "router": "nobody"},
    {"operator": "router", "m": 0},
    {"operator": "router", "m": None},
    {"operator": "router", "terms": 2.0},
    {"gpu": "A100"},
    {"gpu": None},
    {"whole": 1},
    {"most": 1},
    {"method": "guess"},
    {"tiles": 4},
]


@pytest.mark.parametrize("changes", BAD, ids=str)
def test_bad_input_is_told_and_changes_nothing(changes: dict[str, Any], empty: Store) -> None:
    tuner = TileTuner("attention", store=empty)
    state, known = tuner.session.state, tuner.session.known
    with pytest.raises(WorkbenchError) as told:
        tuner.change(**changes)
    assert len(str(told.value)) > 20
    assert tuner.session.state == state
    assert tuner.session.known is known
    tuner.set_from_view("v", 1, changes)
    assert tuner.frame["fault"]["text"] == str(told.value)
    tuner.set_from_view("v", 2, {"values": {"stages": 4}})
    assert tuner.frame["fault"] is None


def test_another_workload_keeps_values_that_it_takes(empty: Store) -> None:
    tuner = TileTuner("attention", values={"stages": 4}, store=empty)
    tuner.lengths = "2x32K + 30x4K"
    assert tuner.values["stages"] == 4
    tuner.values = {"stages": 8}
    tuner.lengths = "64x4K"
    assert not tuner.refused, "a combination that cannot run is not carried to another workload"
    tuner.operator = "router"
    assert tuner.config == tuner.default


def test_the_whole_space_has_more_values_and_as_many_rows_as_a_screen_takes(empty: Store) -> None:
    tuner = TileTuner("attention", whole=True, store=empty)
    assert 5 in next(each["values"] for each in tuner.frame["parameters"] if each["name"] == "stages")
    assert len(tuner.scene["rows"]) == 200
    assert "200 of 1,728" in tuner.scene["note"]
    assert tuner.default.to_dict() in [row["values"] for row in tuner.scene["rows"]]


def test_nothing_is_measured_without_a_gpu(empty: Store) -> None:
    tuner = TileTuner("router", m=64, store=empty)
    if not tuner.session.study.unavailable:
        pytest.skip("there is a GPU here")
    with pytest.raises(NoGpu, match="A study needs one"):
        tuner.start()
    with pytest.raises(InvalidArgument, match="no finished study"):
        tuner.apply()
    assert tuner.frame["study"]["actions"] == []
    assert tuner.frame["study"]["unavailable"]
    tuner.set_from_view("v", 1, {}, action="apply")
    assert tuner.frame["fault"]["field"] == "study"


def test_compiled_beside_the_loop_and_stale_wishes_are_dropped(empty: Store) -> None:
    async def move() -> TileTuner:
        tuner = TileTuner("router", m=64, store=empty)
        tuner.session.known.is_compiled = lambda config: False  # type: ignore[method-assign]  # nothing is at hand
        for stages in (4, 6, 7, 8):
            tuner.values = {"stages": stages, "split_k": 8}
        assert tuner.frame["work"]["state"] == "compiling"
        await tuner.compiled()
        return tuner

    tuner = asyncio.run(move())
    assert tuner.frame["work"]["state"] == "ready"
    assert tuner.session.compiler.dropped >= 3
    compiled = {config.stages for config in tuner.session.known.resources if config.split_k == 8}
    assert compiled == {8}
    assert tuner.frame["rows"][0]["cells"][0] != "\u2013"


def test_a_batch_is_compiled_and_can_be_stopped(empty: Store) -> None:
    async def batch() -> tuple[int, int]:
        tuner = TileTuner("router", m=64, store=empty)
        known = tuner.session.known
        some = [tuner.space.config(stages=stages) for stages in (4, 5, 6)]
        tuner.session.compiler.batch(known, some)
        await tuner.compiled()
        assert all(config in known.resources for config in some)
        tuner.compile_all()
        total = tuner.frame["work"]["total"]
        tuner.session.compiler.cancel()
        await tuner.compiled()
        return total, len(known.resources)

    total, compiled = asyncio.run(batch())
    assert total > 100
    assert compiled < 100


def test_files(empty: Store) -> None:
    tuner = TileTuner("router", m=64, values={"stages": 4}, store=empty)

    def ask(what: str) -> dict[str, Any]:
        found = tuner.replies["file"](tuner, {"what": what, "theme": "dark", "view": "v"})
        assert found is not None
        content, buffers = found
        assert buffers == []
        return content

    code = ask("code")["text"]
    scope: dict[str, Any] = {}
    exec(code.replace("TileTuner(\n", "shown = TileTuner(\n", 1), scope)
    assert scope["shown"].values == tuner.values
    rows = list(csv.DictReader(io.StringIO(ask("table")["text"])))
    assert len(rows) == len(tuner.scene["rows"])
    assert float(rows[0]["us"]) > 0
    assert ElementTree.fromstring(ask("svg")["text"]).attrib["role"] == "img"
    if tuner.session.compiler.codes or tuner.machine_code.instructions:
        assert "tensor " in ask("sass")["text"]
    tuner.values = {"stages": 12, "tile_n": 128, "tile_m": 128}
    assert "cannot run" in ask("sass")["problem"]
    assert "<script" not in still_html(tuner.title, tuner.to_svg(), "<script>", "m")


def test_pareto_and_ticks() -> None:
    assert [words for _, words in spread("registers", [145, 147], whole=True).ticks] == ["145", "146", "147"]
    assert [words for _, words in spread("us", [145, 146]).ticks] == ["145", "145.2", "145.4", "145.6", "145.8", "146"]
    assert pareto([(0, 3.0, 1.0), (1, 1.0, 3.0), (2, 2.0, 2.0), (3, 2.5, 2.5), (4, 2.0, 2.0)]) == (1, 2, 0)
    assert pareto([]) == ()
    for low, high in ((0.0, 1.0), (19.7, 20.7), (1e-6, 1.5e-6), (3.0, 3000.0)):
        ticks = round_ticks(low, high)
        assert 2 <= len(ticks) <= 7
        assert all(low <= tick * (1 + 1e-9) and tick <= high * (1 + 1e-9) for tick in ticks)
