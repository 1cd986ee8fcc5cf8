"""A study beside the event loop: started, paused, gone on with, cancelled, finished, applied; on a bench made up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.waiting import SECONDS
from tests.widgets.tiles.samples import Gate, bench, ill_bench, missing_bench
from workbench import TileTuner
from workbench.errors import InvalidArgument, StudyError
from workbench.records import Store
from workbench.tables.tuned import load_tuned
from workbench.tune.study import Study


def tuner_of(tmp_path: Path, which: object = bench, **settings: object) -> TileTuner:
    return TileTuner("router", **{"m": 64, "most": 12, "bench": which, "store": Store(tmp_path / "store")} | settings)


async def until(condition: Callable[[], object]) -> None:
    """Let the event loop go on until a condition holds."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that"
        await asyncio.sleep(0.02)


def test_from_start_to_a_default(tmp_path: Path) -> None:
    async def run() -> TileTuner:
        tuner = tuner_of(tmp_path, most=40)
        seen: set[str] = set()
        tuner.observe(lambda change: seen.add(change["new"]["study"]["status"]), "frame")
        tuner.start()
        with pytest.raises(InvalidArgument, match="runs already"):
            tuner.start()
        await tuner.finished()
        await tuner.compiled()
        assert {"starting", "running", "finals", "finished"} <= seen
        return tuner

    tuner = asyncio.run(run())
    study = tuner.frame["study"]
    assert study["done"] == study["total"] == len(tuner.session.known.trials) == 40
    assert tuner.result is not None
    assert tuner.best.to_dict() == tuner.result.best.config
    gain, low, high = tuner.result.gain()
    assert f"saves {gain:.1%} of the default's time ({low:.1%} to {high:.1%}" in study["verdict"]
    tuner.values = tuner.best
    assert tuner.time.origin == "measured"
    assert tuner.time.relative_low <= tuner.time.relative <= tuner.time.relative_high
    assert len(tuner.session.store.rows(kind="timing")) == 40
    assert study["can_apply"]
    tuner.set_from_view("v", 1, {}, action="apply")
    assert tuner.frame["fault"] is None
    path = tuner.apply()
    assert path.is_file()
    assert tuner.frame["study"]["applied"].startswith(f"Wrote {path}")
    tuner.values = tuner.default
    assert tuner.frame["study"]["applied"] == ""
    tuner.values = tuner.best
    table = load_tuned("NVIDIA H200", "router_gemm")
    assert table is not None
    assert table.find(tuner.space.tuned_key()).config == tuner.best.to_dict()


def test_a_journal_is_shown_again(tmp_path: Path) -> None:
    async def run() -> TileTuner:
        tuner = tuner_of(tmp_path)
        tuner.start()
        await tuner.finished()
        return tuner

    first = asyncio.run(run())
    second = TileTuner("router", m=64, store=Store(tmp_path / "none"))
    assert second.result is not None
    assert second.best == first.best
    assert second.frame["study"]["words"].startswith("12 trials, recorded (NVIDIA H200, ")
    assert TileTuner("router", m=64, gpu="H100", store=Store(tmp_path / "none")).best is None


def test_pause_resume_cancel_and_go_on(tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")

    async def run() -> None:
        tuner = tuner_of(tmp_path, gate.bench, most=16)
        study = tuner.session.study
        gate.let(2)
        tuner.start()
        await until(lambda: study.done == 2)  # the third waits at the gate
        tuner.pause()
        assert study.status == "pausing"
        gate.let(2)
        await until(lambda: study.status == "paused")
        assert len(study.trials) == 3, "the trial in flight is finished and no other begun"
        with pytest.raises(StudyError, match="open in another process"):
            Study(tuner.space, study.journal, gpu=study.gpu)
        tuner.resume()
        await until(lambda: study.done == 4)
        tuner.cancel()
        gate.let(2)
        await tuner.finished()
        assert study.status == "cancelled"
        assert tuner.result is None
        assert len(study.trials) == 5
        gate.let(100)
        tuner.start()
        await tuner.finished()
        assert study.status == "finished"
        assert len(study.trials) == 16

    asyncio.run(run())


def test_paused_and_gone_on_at_once_loses_no_trial(tmp_path: Path) -> None:
    async def run() -> int:
        tuner = tuner_of(tmp_path, most=8)
        tuner.start()
        await until(lambda: tuner.session.study.done >= 1)
        for _ in range(5):
            tuner.pause()
            tuner.resume()
            await asyncio.sleep(0.01)
        await tuner.finished()
        return len(tuner.session.known.trials)

    assert asyncio.run(run()) == 8


def test_failures_are_shown_and_never_best(tmp_path: Path) -> None:
    async def run() -> TileTuner:
        tuner = TileTuner(
            "attention", lengths="64x4K", most=12, bench=ill_bench, store=Store(tmp_path / "s"), values={"stages": 4}
        )
        tuner.start()
        await tuner.finished()
        return tuner

    tuner = asyncio.run(run())
    study = tuner.frame["study"]
    assert study["failed"] == "1 failure" or study["failed"].endswith("failures")
    assert any("wrong result" in each for each in study["failures"])
    failed = [row for row in tuner.scene["rows"] if row["problem"]]
    assert failed
    assert all(row["tags"] != ["best"] and row["origin"] != "measured" for row in failed)
    tuner.values = failed[0]["values"]
    assert "could not time it: wrong result" in "".join(run["text"] for run in tuner.frame["sentence"])


def test_a_bench_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    async def run() -> TileTuner:
        tuner = tuner_of(tmp_path, missing_bench)
        tuner.start()
        with pytest.raises(InvalidArgument, match="no NVIDIA driver"):
            await tuner.finished()
        return tuner

    tuner = asyncio.run(run())
    assert tuner.frame["study"]["status"] == "failed"
    assert "no NVIDIA driver" in tuner.frame["study"]["words"]
    assert tuner.frame["study"]["actions"] == [["start", "Start a study"]]


def test_there_is_no_loop_in_a_script(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="no event loop"):
        tuner_of(tmp_path).start()


def test_only_what_could_be_the_default(tmp_path: Path) -> None:
    tuner = TileTuner("attention", applicable=True, most=1000, bench=bench, store=Store(tmp_path / "s"))
    plan = tuner.session.plan()
    assert 2 < len(plan.configs) < len(tuner.space)
    assert all(tuner.space.could_be_default(config, tuner.default) for config in plan.configs)
    assert plan.configs[0] == tuner.default
