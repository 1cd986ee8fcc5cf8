"""The tile lesson: it runs without a GPU, its answers are right, and its made-up GPU shows what it is to show."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.notebooks.execute import load, run, shown

NAME = "05_tile_tuning.ipynb"

REVEAL = """
asked = {name: value for name, value in list(globals().items()) if isinstance(value, Prediction) and name[0] != "_"}
before = {name: p.revealed for name, p in asked.items()}
for p in asked.values():
    p.submit(resident.limited_by[0] if p is second_cta else 10)
answers = {name: p.answer if isinstance(p.answer, str) else float(p.answer) for name, p in asked.items()}
facts = {"before": before, "answers": answers, "losses": {k: float(v) for k, v in losses.items()}}
facts |= {"space": [len(space), len(space.refused)], "limits": dict(resident.limits)}
facts |= {"registers": default.kernel.facts.registers, "splits": needed["ctas"].tolist()}
facts |= {"waves": needed["waves"].tolist(), "resident": needed["resident_ctas"].tolist()}
facts |= {"refused": tuner.refused, "stages": tuner.config.stages, "gain": result and list(result.gain())}
facts
"""


def test_it_runs_and_its_answers_are_right(tmp_path: Path) -> None:
    notebook = load(NAME)
    found = run(notebook, tmp_path, then=REVEAL)
    assert set(found["before"].values()) == {False}, "an answer was on the page before the guess"
    answers = found["answers"]
    assert set(answers) == {"stages_of_four", "second_cta", "choice_costs"}
    assert answers["stages_of_four"] == 12  # all that the kernel declares: half the warps, twice the room
    # 288 threads of more than 128 registers are more than half of an SM's 65,536.
    assert 288 * found["registers"] > 65_536 / 2
    assert answers["second_cta"] == "registers"
    assert found["limits"]["registers"] == 1
    assert answers["choice_costs"] == pytest.approx(found["losses"]["one after another"])
    assert found["losses"]["in turns"] < found["losses"]["one after another"] / 2
    assert found["space"] == [156, 84]
    for ctas, waves, resident in zip(found["splits"], found["waves"], found["resident"], strict=True):
        assert waves == pytest.approx(ctas / (132 * resident))
    assert found["refused"] == ""
    assert found["stages"] == 6
    gain, low, high = found["gain"]
    assert low <= gain <= high
    assert "finalists" in shown(notebook, "study")
    assert low > 0, "the made-up default is far from the best"
    assert "limited_by" in shown(notebook, "needs")
