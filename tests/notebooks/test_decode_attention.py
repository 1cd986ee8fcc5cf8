"""The second lesson: its answers are right, its figures say where they come from, and its exercises can be solved."""

from __future__ import annotations

import datetime
from pathlib import Path

import nbformat
import numpy as np
import pytest

from tests.notebooks.execute import functions_of, load, run, shown
from tests.widgets.invented import invented
from workbench.gpu.driver import probe
from workbench.measure.attention_case import AttentionCase
from workbench.measure.timeline import Timeline
from workbench.measure.timeline_records import timeline_record
from workbench.records import Environment, Store
from workbench.schedule import cost_model, plan_decode, resolve
from workbench.workloads import parse_lengths

NAME = "02_decode_attention.ipynb"
EXERCISES = {"exercise-1": "merge", "exercise-2": "constants", "exercise-3": "mine"}
CASE = "3x9000+11x2100"
"""A batch of which nothing is recorded, so that what a test puts into a store is all there is."""

POLICIES = ("hpc-ops", "balanced", "fixed_splits(8)")
NEEDS_TIMELINE = ("timelines", "overlay", "stages", "residuals", "exercise-2-check")

without_gpu = pytest.mark.skipif(not probe().problem, reason="a GPU is here: its own test runs the cells live")


@pytest.fixture
def own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The reader's own records, empty."""
    folder = tmp_path / "records"
    monkeypatch.setenv("WORKBENCH_RECORDS_DIR", str(folder))
    return Store(folder)


@pytest.fixture
def timelines(own_store: Store) -> dict[str, Timeline]:
    """Invented timelines of ``CASE`` in the reader's own records."""
    cost, found = cost_model("H200", cache="fp8"), {}
    for seed, name in enumerate(POLICIES):
        plan = plan_decode(parse_lengths(CASE), num_kv_heads=1, num_ctas=132, policy=resolve(name, cost))
        found[name] = invented(plan, cost, seed=seed)
        record, content = timeline_record(
            found[name],
            environment=Environment(gpu="NVIDIA H200", date=datetime.date(2026, 1, 2), sms=132),
            case=CASE,
            cache="fp8",
            parameters=AttentionCase(CASE, parse_lengths(CASE)).parameters,
            configuration={},
            makespans_us=(found[name].makespan_us,),
        )
        own_store.add(record, content)
    return found


def of_case(notebook: nbformat.NotebookNode) -> dict[str, str]:
    """The cell that names the batch, with ``CASE`` for it."""
    source = next(cell.source for cell in notebook.cells if cell.id == "plan")
    changed = source.replace('CASE = "2x32K+30x4K"', f'CASE = "{CASE}"')
    assert changed != source
    return {"plan": changed}


REVEAL = """
asked = {name: value for name, value in list(globals().items()) if isinstance(value, Prediction) and name[0] != "_"}
before = {name: p.revealed for name, p in asked.items()}
for p in asked.values():
    p.submit(10)
answers = {name: float(p.answer) for name, p in asked.items()}
after = {name: "".join(getattr(child, "value", "") or "" for child in p.children[3:]) for name, p in asked.items()}
{"before": before, "answers": answers, "after": after}
"""


@without_gpu
def test_predictions(tmp_path: Path, own_store: Store) -> None:
    notebook = load(NAME)
    found = run(notebook, tmp_path, replace=of_case(notebook), then=REVEAL)
    answers = found["answers"]
    assert set(found["before"].values()) == {False}, "an answer was on the page before the guess"
    assert answers["intensity"] == 2 * 8  # a multiplication and an addition for each of 8 rows
    assert answers["longest"] == -(-141 // 8)  # tiles of 9,000 tokens in eight pieces
    # A mean of pieces passes on flat scores: that is the point.
    assert 0.001 < answers["mean_of_pieces"] < 0.004
    kept = Store().query(operator="attention_decode", gpu="H200", case="64x0.5K", dtype="fp8", kind="timing")
    early = kept[(kept["policy"] == "balanced") & kept["config"].str.contains('"early_map": true')]
    read = kept[kept["provider"] == "read"]
    newest = [frame.sort_values("date")["median_us"].iloc[-1] for frame in (early, read)]
    assert answers["shortest"] == pytest.approx(newest[0] / newest[1])
    assert "streaming" not in answers
    for word in (
        "ours, balanced",
        "HPC-Ops dynamic",
        "FlashAttention-3",
        "FlashInfer",
        "recorded (NVIDIA H200",
        "reference (",
    ):
        assert word in found["after"]["shortest"]


@without_gpu
def test_without_a_timeline_the_cells_say_what_makes_one(tmp_path: Path, own_store: Store) -> None:
    notebook = load(NAME)
    run(notebook, tmp_path, replace=of_case(notebook))
    for cell in NEEDS_TIMELINE:
        assert f"No timeline of {CASE} (fp8) under hpc-ops is recorded here." in shown(notebook, cell)
    assert "Triton in its interpreter" in shown(notebook, "kernel-check")
    setup = shown(notebook, "setup")
    assert "So: records and predictions." in setup
    source = cost_model("H200", cache="fp8").source.removeprefix("modelled: ")
    for cell in ("setup", "plan", "first", "exercise-3-rank"):
        assert source in shown(notebook, cell), cell
    assert "recorded (NVIDIA H200" in shown(notebook, "floor")


STAGES = """
parts = {policy: stages(timeline) for policy, timeline in timelines.items()}
table = {policy: [float(v) for v in against_model(timeline).values()] for policy, timeline in timelines.items()}
sides = sorted(overlay.timelines)
streaming.submit(10)
said = "".join(getattr(child, "value", "") or "" for child in streaming.children[3:])
{"parts": parts, "table": table, "sides": sides, "answer": streaming.answer, "said": said}
"""


@without_gpu
def test_recorded_timelines_are_shown(tmp_path: Path, timelines: dict[str, Timeline]) -> None:
    notebook = load(NAME)
    found = run(notebook, tmp_path, replace=of_case(notebook), then=STAGES)
    assert found["sides"] == ["A", "B"]
    cost = cost_model("H200", cache="fp8")
    for policy, timeline in timelines.items():
        parts, plan = found["parts"][policy], timeline.plan
        assert sum(parts.values()) == pytest.approx(timeline.makespan_us)
        assert min(parts.values()) >= 0
        assert parts["waiting"] == pytest.approx((timeline.arrived_ns - timeline.start_ns).sum() / 132 / 1e3)
        last, modelled_last, *_, makespan, modelled, mean, rms = found["table"][policy]
        assert last == timeline.bins_ns / 1e3
        assert modelled_last == plan.spans(cost).bins_ns / 1e3
        assert (makespan, modelled) == (timeline.makespan_us, plan.spans(cost).makespan_ns / 1e3)
        assert abs(mean) <= rms
    assert found["answer"] == pytest.approx(
        100 * found["parts"]["hpc-ops"]["streaming"] / timelines["hpc-ops"].makespan_us
    )
    for cell in NEEDS_TIMELINE:
        if cell not in ("stages", "overlay"):
            assert "recorded (NVIDIA H200, 2026-01-02)" in shown(notebook, cell), cell
    assert "recorded (NVIDIA H200, 2026-01-02)" in found["said"]


@without_gpu
def test_skeletons_are_not_solutions(tmp_path: Path, timelines: dict[str, Timeline]) -> None:
    notebook = load(NAME)
    then = "[check_merge(merge), check_scheduler(mine).ok, list(rank({'mine': mine}, store=store).scores)]"
    assert run(notebook, tmp_path, replace=of_case(notebook), then=then) == [False, False, []]
    assert "Not there yet." in shown(notebook, "exercise-2-check")
    assert "<b>mine</b> has no rank" in shown(notebook, "exercise-3-rank")
    tagged = [cell.id for cell in notebook.cells if "exercise" in cell.metadata.get("tags", [])]
    assert tagged == list(EXERCISES)


@without_gpu
def test_solutions_reach_the_goals(tmp_path: Path, timelines: dict[str, Timeline]) -> None:
    sources = functions_of("02_decode_attention.py")
    assert list(sources) == list(EXERCISES.values())
    notebook = load(NAME)
    replace = {cell: sources[name] for cell, name in EXERCISES.items()} | of_case(notebook)
    scores = "rank({'mine': mine, 'hpc-ops': 'hpc-ops'}, store=store).scores"
    then = f"[check_merge(merge), check_scheduler(mine).ok, {scores}, constants(timelines['hpc-ops'])]"
    right, ok, ranked, (fixed_ns, tile_ns) = run(notebook, tmp_path, replace=replace, then=then)
    assert right
    assert ok
    assert list(ranked) == ["mine", "hpc-ops"]
    timeline = timelines["hpc-ops"]
    line = np.polyfit(timeline.plan.num_tiles, timeline.end_ns - timeline.start_ns, 1)
    assert [tile_ns, fixed_ns] == pytest.approx(line)
    assert "is right on all five" in shown(notebook, "exercise-1-check")
    assert "Nearer than the model." in shown(notebook, "exercise-2-check")
    assert "is right on all" in shown(notebook, "exercise-3-check")


WRONG_MERGES = {
    "no largest taken off": "weights = np.exp(lses)\n    return weights @ outs / weights.sum(), np.log(weights.sum())",
    "sums of logarithms": "return lse_merge(outs, lses), lses.sum()",
    "the last piece dropped": "return lse_merge(outs[:-1], lses[:-1]), np.logaddexp.reduce(lses[:-1])",
    "pieces without keys": "w = np.exp(lses - lses.max())\n    return w @ outs / w.sum(), lses.max() + np.log(w.sum())",
}


@without_gpu
def test_wrong_merges_are_caught(tmp_path: Path, own_store: Store) -> None:
    notebook = load(NAME)
    notebook.cells = [cell for cell in notebook.cells if cell.id in ("setup", "merge", "merge-check")]
    planted = "\n".join(f"def wrong_{i}(outs, lses):\n    {body}" for i, body in enumerate(WRONG_MERGES.values()))
    then = f"{planted}\n[check_merge(f) for f in ({', '.join(f'wrong_{i}' for i in range(len(WRONG_MERGES)))},)]"
    assert dict(zip(WRONG_MERGES, run(notebook, tmp_path, then=then), strict=True)) == dict.fromkeys(
        WRONG_MERGES, False
    )


HIDE = """
import importlib.machinery as machinery

real = machinery.PathFinder.find_spec
hidden = {"torch", "triton"}
machinery.PathFinder.find_spec = lambda name, *rest: None if name.partition(".")[0] in hidden else real(name, *rest)
"""


@without_gpu
def test_the_light_set_is_enough(
    tmp_path: Path, timelines: dict[str, Timeline], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without torch and Triton two cells say so, and the rest works."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(HIDE, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(site))
    notebook = load(NAME)
    sides = run(
        notebook,
        tmp_path,
        replace=of_case(notebook),
        then="import sys\n[sorted(overlay.timelines), 'torch' in sys.modules]",
    )
    assert sides == [["A", "B"], False]
    assert "make lab FULL=1" in shown(notebook, "map")
    assert "torch and triton not installed" in shown(notebook, "kernel-check")


PRETEND = """
import os
import sys
from types import SimpleNamespace

sys.path.insert(0, {root!r})
os.environ["TRITON_INTERPRET"] = "1"
from tests.widgets.invented import invented
from workbench.gpu import driver
from workbench.measure import attention_inputs, schedulers, timeline_run
from workbench.measure.figures import Figure
from workbench.ops.attention_decode.triton import attention_decode_triton
from workbench.schedule import cost_model, plan_decode
from workbench.widgets.lesson import ranking

ops, make = sys.modules["workbench.ops.attention_decode"], attention_inputs.make_inputs
upload, ops.attention_decode = ops.upload_plan, attention_decode_triton
ops.upload_plan = lambda plan, device: upload(plan, {{"cuda": "cpu"}}[device])
attention_inputs.make_inputs = lambda *given, device, **named: make(*given, device={{"cuda": "cpu"}}[device], **named)
schedulers.kernel_problem = ranking.kernel_problem = lambda: ""
driver.device = lambda: SimpleNamespace(name="NVIDIA H200")
timeline_run.input_sets = lambda case: ["inputs"]


def run_timeline(case, scheme, sets):
    assert sets == ["inputs"]
    plan = plan_decode(case.lengths, num_kv_heads=1, num_ctas=132, policy=scheme)
    return SimpleNamespace(timeline=invented(plan, cost_model()))


def measured(case, given):
    base = {{"operator": "attention_decode", "case": case.name, "dtype": case.cache, "origin": "measured now (fake)"}}
    plans = [plan_decode(case.lengths, num_kv_heads=1, num_ctas=132, policy=policy) for policy in given.values()]
    calls = [Figure(**base, provider="cuda", median_us=plan.metrics().call_us) for plan in plans]
    return [Figure(**base, provider="read", median_us=1.0), *calls]


timeline_run.run_timeline, ranking.measure_schedulers = run_timeline, measured
"""
"""A GPU that only seems to be there: what a live cell asks of it is answered by the CPU, or made up."""


@without_gpu
def test_the_live_cells_ask_for_what_there_is(tmp_path: Path, own_store: Store) -> None:
    """Every branch for a machine with a GPU runs, on a machine without: names, arguments, what is shown."""
    sources = functions_of("02_decode_attention.py")
    notebook = load(NAME)
    setup = next(cell.source for cell in notebook.cells if cell.id == "setup")
    pretended = PRETEND.format(root=str(Path(__file__).resolve().parents[2])) + setup
    replace = {cell: sources[name] for cell, name in EXERCISES.items()} | of_case(notebook) | {"setup": pretended}
    live(notebook, tmp_path, replace)
    assert "H200 is here: cells measure." in shown(notebook, "setup")
    assert "measured now (fake)" in shown(notebook, "first")


@pytest.mark.gpu
def test_live(tmp_path: Path, own_store: Store) -> None:
    """On a GPU the cells measure: the timeline is of this run, and the ranking is by measured time."""
    sources = functions_of("02_decode_attention.py")
    notebook = load(NAME)
    live(notebook, tmp_path, {cell: sources[name] for cell, name in EXERCISES.items()})
    for cell in ("timelines", "kernel-check", "residuals", "exercise-2-check", "exercise-3-rank"):
        print(cell, shown(notebook, cell)[:600])


def live(notebook: nbformat.NotebookNode, folder: Path, replace: dict[str, str]) -> None:
    """Run with the solutions in place, and look at what the cells with a GPU show."""
    then = "[NO_KERNEL, sorted(timelines), sorted(overlay.timelines), float(found.relative)]"
    problem, policies, sides, error = run(notebook, folder, replace=replace, then=then)
    assert (problem, policies, sides) == ("", sorted(POLICIES), ["A"])
    assert error < 0.0025
    for cell in ("first", "exercise-3-rank"):
        assert "By measured time" in shown(notebook, cell)
        assert "has no rank" not in shown(notebook, cell)
    for cell in ("timelines", "residuals", "exercise-2-check"):
        assert "measured now (NVIDIA H" in shown(notebook, cell), cell
    assert "the CUDA kernel on H" in shown(notebook, "kernel-check")
