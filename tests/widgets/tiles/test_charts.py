"""Charts are made anew exactly when what they show has changed, and are up to date when nothing more is coming."""

from __future__ import annotations

import asyncio
import gc
import weakref
from pathlib import Path

import pytest

from workbench import TileTuner
from workbench.records import Store
from workbench.tune.resources import resources
from workbench.widgets.tiles import charts, session
from workbench.widgets.tiles.scene import scene_of


@pytest.fixture
def tuner(tmp_path: Path) -> TileTuner:
    return TileTuner("router", m=64, store=Store(tmp_path / "empty"))


def is_present(tuner: TileTuner) -> bool:
    """Whether the views have the charts of what is known now."""
    return {**scene_of(tuner.session), "number": tuner.scene["number"]} == tuner.scene


def test_a_slider_leaves_them_and_another_workload_does_not(tuner: TileTuner) -> None:
    first = tuner.scene["number"]
    tuner.values = {"stages": 4}
    assert tuner.scene["number"] == first
    tuner.m = 8
    assert tuner.scene["number"] > first
    assert is_present(tuner)


def test_a_workload_that_was_forgotten_is_not_taken_for_a_new_one(
    tuner: TileTuner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "KEPT", 1)
    drawn = weakref.ref(tuner.session.known)
    tuner.session.change(m=8)  # no view is told yet
    gc.collect()
    assert drawn() is not None, "what was drawn last lives on, so that nothing new has its identity"
    tuner.session.change(m=16)
    assert tuner.session.known.version == drawn().version
    tuner.redraw()
    assert is_present(tuner)
    gc.collect()
    assert drawn() is None


def test_while_much_is_found_they_stay_and_at_the_end_they_are_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(charts, "LEAST_QUIET_S", 3600.0)
    tuner = TileTuner("router", m=64, store=Store(tmp_path / "empty"))
    some = [tuner.space.config(stages=stages) for stages in (4, 5, 6)]
    resources(tuner.space, some)  # in the cache
    numbers = set()

    async def batch() -> None:
        tuner.observe(lambda change: numbers.add(change["new"]["number"]), "scene")
        tuner.session.compiler.batch(tuner.session.known, some)
        await tuner.compiled()

    asyncio.run(batch())
    assert len(numbers) == 1
    assert all(config in tuner.session.known.resources for config in some)
    assert is_present(tuner)
