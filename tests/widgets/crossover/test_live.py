"""Measuring beside the notebook: progress, cancel, resume, failures, and a kernel that is never blocked for long."""

from __future__ import annotations

import asyncio

import pytest

from tests.widgets.crossover.meters import Meter, environment
from workbench import CrossoverTuner
from workbench.errors import InvalidArgument, NoGpu
from workbench.gpu import driver


def tuner(meter: type[Meter] = Meter, **settings: object) -> CrossoverTuner:
    return CrossoverTuner("hy3", meter=meter, environment=environment, **settings)


class Slow(Meter):
    seconds = 0.02


class Failing(Meter):
    fail_at = 4


def test_a_measurement_finds_the_crossing_and_says_so() -> None:
    async def run() -> CrossoverTuner:
        shown = tuner()
        shown.start()
        assert shown.figures == "live"
        assert shown.frame["live"]["action"] == "cancel"
        assert shown.frame["answer"] is None
        await shown.finished()
        return shown

    shown = asyncio.run(run())
    assert shown.frame["live"]["status"] == "finished"
    (crossing,) = shown.search.crossings()
    assert crossing.low < 150 <= crossing.high
    assert [name for _, name in shown.thresholds] == ["steep", "flat"]
    assert crossing.low < shown.thresholds[1][0] <= crossing.high
    table = shown.table
    assert table.environment == environment()
    assert table.origins == ("recorded (NVIDIA H200, 2026-11-30)",)
    assert shown.frame["footer"][0] == "\u25cf measured now (NVIDIA H200, 2026-11-30)"
    assert shown.scene["scene"]["curves"][0]["mark"] == "\u25cf"


def test_cancel_and_resume() -> None:
    async def run() -> None:
        shown = tuner(Slow)
        shown.start()
        while shown.session.live.progress(*shown.session.shape)[0] < 5:
            await asyncio.sleep(0.005)
        shown.cancel()
        assert shown.frame["live"]["status"] == "stopping"
        assert shown.frame["live"]["action"] == ""
        await shown.finished()
        kept = shown.search.points
        assert shown.frame["live"]["status"] == "stopped"
        assert shown.frame["live"]["action"] == "resume"
        assert 5 <= len(kept) < 20
        shown.start()
        with pytest.raises(InvalidArgument, match=r"K 4096, N 192 is being measured; cancel that first"):
            shown.start()
        await shown.finished()
        assert shown.frame["live"]["status"] == "finished"
        blocks = {point.m: point.blocks for point in shown.search.points}
        assert all(blocks[point.m][0] == point.blocks[0] for point in kept), "what was measured before is still there"

    asyncio.run(run())


def test_a_failure_is_told_and_can_be_gone_on_from() -> None:
    async def run() -> None:
        shown = tuner(Failing)
        shown.start()
        with pytest.raises(InvalidArgument, match="RuntimeError: the bus fell off"):
            await shown.finished()
        assert shown.frame["live"]["words"] == "RuntimeError: the bus fell off"
        assert shown.frame["live"]["action"] == "resume"
        assert len(shown.search.points) == 4
        shown.start()
        await shown.finished()
        assert shown.frame["live"]["status"] == "finished"

    asyncio.run(run())


def test_the_kernel_answers_while_measuring() -> None:
    """Between any two steps other tasks run, and settings can be changed."""

    async def run() -> None:
        shown = tuner(Slow)
        shown.start()
        seen = set()
        while shown.session.live.running:
            await asyncio.sleep(0)
            seen.add(shown.session.live.progress(*shown.session.shape)[0])
            if shown.session.evaluation is not None and shown.session.state.thresholds is None:
                shown.thresholds = [(0, "steep"), (99, "flat")]
        assert shown.thresholds == ((0, "steep"), (99, "flat"))
        assert seen >= set(range(len(shown.search.points)))
        assert len(shown.search.points) > 5

    asyncio.run(run())


def test_precision_can_change_while_measuring() -> None:
    async def run() -> None:
        shown = tuner(Slow)
        shown.start()
        while shown.session.live.progress(*shown.session.shape)[0] < 2:
            await asyncio.sleep(0.005)
        shown.precision = "bf16"
        with pytest.raises(InvalidArgument, match="no provider is as accurate as 'fp32'"):
            shown.precision = "fp32"
        assert shown.precision == "bf16"
        shown.cancel()
        await shown.finished()
        assert shown.search.precision == "bf16"

    asyncio.run(run())


def test_without_an_event_loop() -> None:
    with pytest.raises(InvalidArgument, match="no event loop"):
        tuner().start()


def test_without_a_gpu() -> None:
    if not driver.probe().problem:
        pytest.skip("there is a GPU here")
    shown = CrossoverTuner("longcat-chat")
    with pytest.raises(NoGpu, match="figures='recorded'"):
        shown.start()
    with pytest.raises(NoGpu):
        shown.figures = "live"
    assert shown.figures == "recorded"
    assert shown.frame["live"]["unavailable"]


def test_nothing_measured_yet() -> None:
    shown = tuner(figures="live")
    assert shown.frame["answer"] is None
    assert shown.frame["live"]["action"] == "measure"
    assert "Nothing was measured yet" in shown.to_svg()
    for read in ("table", "rule", "thresholds", "regret", "regrets", "search"):
        with pytest.raises(InvalidArgument, match="nothing was measured yet"):
            getattr(shown, read)
