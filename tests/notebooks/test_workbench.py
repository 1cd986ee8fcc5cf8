"""The home notebook: runs headless, and what it shows is what the library says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.notebooks.execute import load, run, shown

FACTS = """
row = swept.policies.index(AGAINST)
facts = {
    "steps": len(steps),
    "chosen": len(chosen),
    "worst": worst,
    "explorer_step": explorer.step,
    "call_b": explorer.plan_b.metrics(cost).call_us,
    "call_a": explorer.plan_a.metrics(cost).call_us,
    "swept_b": swept.call_us[row].tolist()[chosen.step_numbers.tolist().index(worst)],
    "most_lost": float((swept.call_us[row] / swept.call_us[0]).max()),
    "lengths": explorer.lengths.tolist() == steps.lengths(worst).tolist(),
    "balanced_not_slower": bool((swept.call_us[0] <= swept.call_us[1]).all()),
    "best": [best, min(floors.values()), floors[best]],
    "tuned": tuned,
    "source": cost.source,
}
facts
"""


def check(notebook: object, facts: dict[str, object]) -> None:
    assert facts["explorer_step"] == facts["worst"]
    assert facts["lengths"]
    assert facts["call_b"] == facts["swept_b"]
    assert facts["call_b"] / facts["call_a"] == facts["most_lost"]
    assert facts["balanced_not_slower"]
    assert facts["best"][1] == facts["best"][2]
    assert facts["chosen"] <= min(facts["steps"], 4000)
    for cell in ("deployment", "sweep", "search", "floors"):
        assert facts["source"].split("'")[0] in shown(notebook, cell), cell
    assert f"{facts['best'][0]:>5} tokens" in shown(notebook, "floors").split("<- set this")[0].splitlines()[-1]
    for policy in facts["tuned"]:
        assert policy in shown(notebook, "search")


def test_with_the_shipped_sample(tmp_path: Path) -> None:
    notebook = load("00_workbench.ipynb")
    facts = run(notebook, tmp_path, then=FACTS)
    check(notebook, facts)
    assert "sample_trace" in shown(notebook, "load")
    assert "simulated" in shown(notebook, "deployment")


@pytest.mark.parametrize("name", ["mooncake_conversation_trace.jsonl", "AzureLLMInferenceTrace_code.csv"])
def test_with_a_real_trace(reference_data: Path, tmp_path: Path, name: str) -> None:
    notebook = load("00_workbench.ipynb")
    cell = next(cell for cell in notebook.cells if cell.id == "load")
    with_trace = cell.source.replace("TRACE = None", f"TRACE = {str(reference_data / 'traces' / name)!r}")
    assert with_trace != cell.source
    check(notebook, run(notebook, tmp_path, replace={"load": with_trace}, then=FACTS))
    assert name in shown(notebook, "load")


@pytest.mark.parametrize(("gpu", "heads", "tokens", "cache"), [("H20", 8, 2, "bf16"), ("L40S", 1, 4, "fp8")])
def test_other_deployments(tmp_path: Path, gpu: str, heads: int, tokens: int, cache: str) -> None:
    notebook = load("00_workbench.ipynb")
    cell = next(cell for cell in notebook.cells if cell.id == "deployment")
    source = cell.source
    for old, new in (
        ('GPU = "H200"', f'GPU = "{gpu}"'),
        ("KV_HEADS = 1", f"KV_HEADS = {heads}"),
        ("QUERY_TOKENS = 1", f"QUERY_TOKENS = {tokens}"),
        ('CACHE = "fp8"', f'CACHE = "{cache}"'),
        ("simulate(trace, ", "simulate(trace.head(60), "),
    ):
        assert old in source
        source = source.replace(old, new)
    facts = run(notebook, tmp_path, replace={"deployment": source}, then=FACTS)
    check(notebook, facts)
