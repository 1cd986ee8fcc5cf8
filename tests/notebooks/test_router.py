"""The router lesson: it runs without a GPU, its answers are right, its exercise fails and its solution passes."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.notebooks.execute import load, run, shown
from workbench.paths import notebooks_dir

NAME = "03_router.ipynb"

REVEAL = """
from workbench.tables import Choice as _Choice
from workbench.tune import regret as _regret
asked = {name: value for name, value in list(globals().items()) if isinstance(value, Prediction) and name[0] != "_"}
before = {name: p.revealed for name, p in asked.items()}
for p in asked.values():
    p.submit(10)
answers = {name: float(p.answer) for name, p in asked.items()}
tuner.change(precision="tf32", thresholds=None, traffic="sample", mixed=False, max_batch=256)
sglang = _Choice.threshold("cublas-fp32", 64, "hpc", "x")
wanted = _regret(tuner.search.points, sglang, tuner.rule, tuner.traffic)
by_class = [classes[name]["us a call"] for name in ("fp32", "split", "tf32", "bf16")]
facts = {"before": before, "answers": answers, "wanted": wanted.us, "by_class": by_class, "wrong": wrong}
facts |= {"crossing": [crossing.low, crossing.high], "changed": 1000 * view.arms["bf16"].changed / view.tokens}
facts |= {"table": [tuner.table.k, tuner.table.n]}
facts |= {"lost": {name: row["table in use loses"] for name, row in lost.items()}}
facts
"""


def test_it_runs_and_its_answers_are_right(tmp_path: Path) -> None:
    notebook = load(NAME)
    found = run(notebook, tmp_path, then=REVEAL)
    assert set(found["before"].values()) == {False}, "an answer was on the page before the guess"
    answers = found["answers"]
    assert set(answers) == {"second_term", "rerouted", "one_sample", "table_in_use"}
    # bf16 rounds at 2^-9 of the weight; the second term has 8 bits of mantissa and a sign of its own.
    assert 256 < answers["second_term"] < 1024
    assert answers["rerouted"] == pytest.approx(found["changed"])
    assert answers["rerouted"] > 1
    assert answers["table_in_use"] == pytest.approx(found["wanted"])
    assert 5 < answers["one_sample"] < 45
    turns, apart = found["wrong"]["in turns"], found["wrong"]["one after another"]
    assert turns[-1] < turns[0] / 4
    assert apart[-1] > 2 * turns[-1], "drift between two kernels is not cured by more samples"
    low, high = found["crossing"]
    assert low < 150 <= high
    by_class = found["by_class"]
    assert by_class == sorted(by_class, reverse=True), "a looser class is never slower"
    assert found["table"] == [6144, 768]
    assert min(found["lost"].values()) >= 0
    assert "Cannot be expressed" in shown(notebook, "export")
    assert "reference (outside this project, NVIDIA H200, 2026-11-29)" in shown(notebook, "export")
    assert "measured" in shown(notebook, "spans")
    assert "outside" in shown(notebook, "spans")


def test_the_exercise(tmp_path: Path) -> None:
    notebook = load(NAME)
    keep = ("setup", "exercise-1", "checker", "exercise-1-check")
    notebook.cells = [cell for cell in notebook.cells if cell.id in keep]
    tagged = [cell.id for cell in notebook.cells if "exercise" in cell.metadata.get("tags", [])]
    assert tagged == ["exercise-1"]
    run(notebook, tmp_path, then="1")
    assert "costs" in shown(notebook, "exercise-1-check")

    text = (notebooks_dir() / "solutions" / "03_router.py").read_text(encoding="utf-8")
    (function,) = (node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef))
    source = "import numpy as np\n" + str(ast.get_source_segment(text, function))
    notebook = load(NAME)
    notebook.cells = [cell for cell in notebook.cells if cell.id in keep]
    run(notebook, tmp_path, replace={"exercise-1": source}, then="1")
    assert "is right on all 500" in shown(notebook, "exercise-1-check")


WRONG = {
    "never": "def best_threshold(m, calls, below_us, above_us):\n    return None",
    "forgets calls": (
        "def best_threshold(m, calls, below_us, above_us):\n"
        "    ones = np.ones(len(m))\n"
        "    return min([None, *m.tolist()], key=lambda t: cost(t, m, ones, below_us, above_us))"
    ),
    "off by one": (
        "def best_threshold(m, calls, below_us, above_us):\n"
        "    t = min([None, *m.tolist()], key=lambda t: cost(t, m, calls, below_us, above_us))\n"
        "    return None if t is None else t + 1"
    ),
}


def test_wrong_thresholds_are_caught(tmp_path: Path) -> None:
    notebook = load(NAME)
    notebook.cells = [cell for cell in notebook.cells if cell.id in ("setup", "checker")]
    lines = [
        f"exec({source!r}); verdicts[{name!r}] = check_threshold(best_threshold)" for name, source in WRONG.items()
    ]
    verdicts = run(notebook, tmp_path, then="\n".join(["verdicts = {}", *lines, "verdicts"]))
    for name, verdict in verdicts.items():
        assert "is right" not in verdict, name
