"""The lesson: its answers are right, its skeletons fail, its solutions pass, and wrong schedulers are caught."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.notebooks.execute import functions_of, load, run, shown
from tests.schedule import wrong_schedulers

NAME = "01_load_balancing.ipynb"
EXERCISES = {"exercise-1": "equal_bins", "exercise-2": "with_floor", "exercise-3": "best_of"}

REVEAL = """
from workbench.widgets.lesson import Prediction as _P
asked = {name: value for name, value in list(globals().items()) if isinstance(value, _P) and name[0] != "_"}
before = {name: p.revealed for name, p in asked.items()}
for p in asked.values():
    p.submit(p._choices[0] if p._choices else 10)
best = {name: min(values) for name, values in by_count.items()}
answers = {name: p.answer if isinstance(p.answer, str) else float(p.answer) for name, p in asked.items()}
grown = {name: len(p.children) for name, p in asked.items()}
eights = [int((swept.call_us[2] > 1.25 * swept.call_us.min(axis=0)).sum()), len(steps)]
floor_us = by_floor["64x0.5K"]
{"before": before, "answers": answers, "grown": grown, "eights": eights, "floor_us": floor_us, "by_count": by_count}
"""


def test_predictions(tmp_path: Path) -> None:
    found = run(load(NAME), tmp_path, then=REVEAL)
    assert set(found["before"].values()) == {False}, "an answer was on the page before the guess"
    answers = found["answers"]
    # Counts that a pencil confirms.
    assert answers["empty_ctas"] == 32 * 32 - (32 + 31)
    assert answers["budget"] == -(-(2048 + 31 * 64) // 528) == 8
    assert answers["spare"] == 528 - 4032 // 8
    assert answers["partials"] == pytest.approx(100 * 504 * 8 * 129 * 4 / (4032 * 64 * 256))
    # Times that follow from the model.
    assert answers["waves"] == pytest.approx(2.0)
    assert answers["long_request"] > 10
    counts = ["1", "2", "4", "8", "16", "32", "64"]
    for name, batch in (("splits_even", "64x4K"), ("splits_long", "1x128K+31x4K")):
        assert answers[name] == counts[found["by_count"][batch].index(min(found["by_count"][batch]))]
    assert answers["splits_even"] != answers["splits_long"]
    floors = ["64", "128", "256", "512", "1024", "2048"]
    assert answers["floor_choice"] == floors[found["floor_us"].index(min(found["floor_us"]))]
    assert answers["bad_steps"] == pytest.approx(100 * found["eights"][0] / found["eights"][1])
    assert found["grown"]["bad_steps"] == 3 + 3
    assert len(answers) == 10


def test_skeletons_fail_the_checker(tmp_path: Path) -> None:
    notebook = load(NAME)
    names = ", ".join(EXERCISES.values())
    reports = run(notebook, tmp_path, then=f"[check_scheduler(f).ok for f in (almost, {names})]")
    assert reports == [False] * 4
    for cell in ("almost", *(f"{exercise}-check" for exercise in EXERCISES)):
        assert "tile 0 assigned to no CTA" in shown(notebook, cell)
    tagged = [cell.id for cell in notebook.cells if "exercise" in cell.metadata.get("tags", [])]
    assert tagged == list(EXERCISES)


def test_solutions_reach_the_goals(tmp_path: Path) -> None:
    sources = functions_of("01_load_balancing.py")
    assert list(sources) == list(EXERCISES.values())
    notebook = load(NAME)
    speeds = "{f.__name__: [r.ok, r.speedup('hpc-ops'), r.speedup('lpt')] for f, r in reports.items()}"
    then = f"reports = {{f: check_scheduler(f) for f in ({', '.join(EXERCISES.values())})}}\n{speeds}"
    found = run(notebook, tmp_path, replace={cell: sources[name] for cell, name in EXERCISES.items()}, then=then)
    assert [ok for ok, *_ in found.values()] == [True] * 3
    assert found["with_floor"][1] == pytest.approx(1.0, abs=1e-12)
    assert found["best_of"][1] > 1.0
    assert found["best_of"][2] > 1.0
    for exercise in EXERCISES:
        assert "is right on all" in shown(notebook, f"{exercise}-check")
    assert "<table" in shown(notebook, "exercise-3-check")


WRONG = {
    "drops_the_last_tile": "assigned to no CTA",
    "assigns_twice": "assigned twice",
    "ignores_heads": "KV head 1: tile 0 assigned to no CTA",
    "crashes_at_zero_length": "`first = [piece[0] for piece in pieces]`, raises IndexError: list index out of range",
    "off_by_one_at_a_tile_edge": "reads past the end",
    "too_many_ctas": "the CTAs are 0-0",
    "changes_lengths": "it changes the array it is given",
    "not_repeatable": "two calls with the same arguments",
}


def test_planted_wrong_schedulers_are_caught_in_the_notebook(tmp_path: Path) -> None:
    """In cells of their own, as a learner's are: the line of a crash must be found in a notebook too."""
    notebook = load(NAME)
    setup = next(cell for cell in notebook.cells if cell.id == "setup").source
    notebook.cells = [cell for cell in notebook.cells if cell.id in ("setup", "exercise-1")]
    planted = Path(wrong_schedulers.__file__).read_text(encoding="utf-8")
    then = f"reports = {{f.__name__: check_scheduler(f) for f in ({', '.join(WRONG)},)}}\n"
    then += "{name: [report.ok, str(report)] for name, report in reports.items()}"
    found = run(notebook, tmp_path, replace={"setup": setup, "exercise-1": planted}, then=then)
    assert list(found) == list(WRONG)
    for name, (ok, text) in found.items():
        assert not ok, name
        assert WRONG[name] in text
