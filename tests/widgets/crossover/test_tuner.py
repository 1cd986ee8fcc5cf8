"""The tuner without a browser: settings, rules, files, and what happens with input that cannot be used."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

import workbench
from tests.records.samples import timing
from tests.widgets.crossover.meters import references
from workbench import CrossoverTuner
from workbench.errors import InvalidArgument, RecordError, TableError, WorkbenchError
from workbench.records import Store, Workload
from workbench.tables import SGLANG, Choice, DispatchTable, load_table, read_sglang
from workbench.tune import CrossoverSearch, Traffic, best_choice, recorded_points, regret
from workbench.widgets.crossover.replies import REPLIES
from workbench.widgets.still import still_html
from workbench.workloads import sample_trace, simulate

PROVIDERS = ("hpc", "cublas-fp32", "cublas-tf32", "cublas-bf16")


def tuner(**settings: object) -> CrossoverTuner:
    defaults = {"router": "longcat-chat", "precision": "tf32", "providers": PROVIDERS, "store": references()}
    return CrossoverTuner(**defaults | settings)


def reply(shown: CrossoverTuner, what: str) -> dict[str, object]:
    found, _ = REPLIES["file"](shown, {"what": what, "theme": "light", "view": "v"})
    assert found is not None
    return found


def test_it_is_public_and_imports_no_torch() -> None:
    program = "import sys, workbench; workbench.CrossoverTuner('longcat-chat'); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
    assert "CrossoverTuner" in dir(workbench)


def test_the_best_choice_and_its_regret_are_the_engines() -> None:
    shown = tuner()
    found = recorded_points(references(), gpu="H200", k=6144, n=768, providers=PROVIDERS)
    search = CrossoverSearch(found.providers, precision="tf32", points=found.points)
    best = best_choice(search)
    assert shown.rule.starts == best.starts
    assert shown.rule.providers == best.providers
    traffic = Traffic.from_trace(sample_trace())
    wanted = regret(found.points, Choice.threshold("cublas-fp32", 64, "hpc", "x"), best, traffic)
    assert shown.regrets["in use"].us == pytest.approx(wanted.us)
    assert shown.regrets["in use"].low_us == pytest.approx(wanted.low_us)
    assert shown.regret.us == 0


def test_a_rule_without_figures_at_some_m_says_of_which_calls_its_cost_is(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    for m in (1, 64, 4096):
        work = Workload(case=f"M{m}-K8-N16", dtype="bf16", m=m, k=8, n=16)
        for provider, us in (("cuda", 5.0), ("triton", 6.0), ("cublas-fp32", 9.0))[: 2 if m > 64 else 3]:
            samples = tuple(us * m + 0.01 * i for i in range(15))
            times = {"samples_us": samples, "median_us": samples[7], "low_us": samples[4], "high_us": samples[10]}
            names = {"operator": "router_gemm", "policy": None, "provider": provider, "workload": work}
            store.add(timing(**names, **times, rel_error=3e-7))
    shown = CrossoverTuner("8,16", store=store, traffic=Traffic.even())
    fewer = shown.regrets["in use"]
    assert fewer.outside > shown.regrets["best"].outside
    (line,) = (words for words in shown.frame["footer"] if words.startswith(fewer.rule))
    assert "of the calls are left out, for it lacks figures there" in line
    assert f"takes {fewer.against_us:.1f}" in line or f"takes {fewer.against_us:.2f}" in line


def test_a_threshold_has_a_price() -> None:
    shown = tuner()
    shown.thresholds = [(0, "hpc"), (128, "cublas-tf32")]
    assert shown.regret.us > 0
    assert shown.frame["answer"]["own"]
    assert shown.frame["answer"]["rows"][0]["key"] == "own"
    assert shown.frame["answer"]["pieces"] == [[0, "hpc"], [128, "cublas-tf32"]]
    before = shown.scene["number"]
    shown.thresholds = [(0, "hpc"), (129, "cublas-tf32")]
    assert shown.scene["number"] == before, "the chart is not sent again while a threshold moves"
    assert len(json.dumps(shown.frame)) < 10_000
    shown.thresholds = None
    assert not shown.frame["answer"]["own"]
    assert shown.regret.us == 0


def test_rules_by_name() -> None:
    shown = tuner()
    shown.thresholds = "in use"
    assert shown.thresholds == ((0, "cublas-fp32"), (64, "hpc"))
    assert shown.regret.us == pytest.approx(shown.regrets["in use"].us)
    shown.thresholds = "one"
    assert shown.thresholds == ((0, "hpc"),)
    with pytest.raises(InvalidArgument, match="there is no rule 'nonsense'; give best, in use, one, always"):
        shown.thresholds = "nonsense"
    shown.precision = "fp32"
    with pytest.raises(InvalidArgument, match=r"one threshold .* is no rule here: cuda is not among"):
        shown.thresholds = "one"


def test_precision_is_a_constraint() -> None:
    shown = tuner(thresholds=[(0, "hpc"), (128, "cublas-tf32")])
    shown.precision = "split"
    assert set(shown.rule.providers) <= {"hpc", "cublas-fp32"}
    assert not shown.frame["answer"]["own"], "a rule of a provider that is not allowed is dropped"
    curves = {curve["provider"]: curve["allowed"] for curve in shown.scene["scene"]["curves"]}
    assert curves == {"hpc": True, "cublas-fp32": True, "cublas-tf32": False, "cublas-bf16": False}
    with pytest.raises(InvalidArgument, match="names cublas-tf32"):
        shown.thresholds = [(0, "cublas-tf32")]
    shown.precision = "bf16"
    assert shown.rule.providers == ("cublas-bf16",)


def test_traffic() -> None:
    shown = tuner()
    label = shown.traffic.label
    shown.mixed = True
    assert shown.traffic.label != label
    shown.change(traffic="even", max_batch=16)
    assert shown.traffic.m[-1] == 8192
    shown.traffic = {1: 3, 64: 1}
    assert shown.traffic.calls.tolist() == [3, 1]
    assert shown.frame["settings"]["traffic"] == "given"
    shown.traffic = "even"
    shown.traffic = "given"
    assert shown.traffic.m.tolist() == [1, 64], "what was given stays in the menu"
    shown.traffic = simulate(sample_trace(), max_batch=8)
    assert shown.traffic.m.min() == 1
    shown.traffic = {1: 1, 20_000: 1}
    assert "50 % of the calls lie outside" in " ".join(shown.frame["footer"])


def test_the_traffic_that_was_given_last_is_priced() -> None:
    """A traffic that is gone leaves its memory to the next one, which must not be taken for it."""
    shown = tuner()
    for m in range(1, 21):
        shown.traffic = {m: 1}
        assert shown.session.shown().board.traffic.m.tolist() == [m]


def test_a_trace_file(reference_data: Path) -> None:
    shown = tuner(traffic=reference_data / "traces" / "AzureLLMInferenceTrace_code.csv")
    assert "AzureLLMInferenceTrace_code" in shown.frame["settings"]["traffics"][-1][1]


BAD = [
    ({"router": "gpt-9"}, "is no router"),
    ({"router": "4096,193"}, "multiple of 8"),
    ({"router": 7}, "router is '7'; give a text"),
    ({"gpu": []}, "gpu is '"),
    ({"figures": {}}, "figures is '{}'"),
    ({"router": None}, "router is 'None'"),
    ({"router": "4096,200"}, "no record of router_gemm"),
    ({"gpu": "B200"}, "no record of router_gemm"),
    ({"precision": "fp8"}, "precision 'fp8' is not known"),
    ({"precision": None}, "precision is 'None'; give a text"),
    ({"figures": "modelled"}, "figures is 'modelled'"),
    ({"mixed": "yes"}, "mixed is 'yes'"),
    ({"max_batch": 0}, "max_batch is 0"),
    ({"max_batch": True}, "max_batch is True"),
    ({"max_batch": 2.5}, "max_batch is 2.5"),
    ({"traffic": "no-such-file.csv"}, "traffic is 'no-such-file.csv'"),
    ({"traffic": {}}, "traffic is {}"),
    ({"traffic": {2.5: 1}}, "traffic is {2.5: 1}; give a number of calls by M"),
    ({"traffic": {"64": 1}}, "give a number of calls by M"),
    ({"traffic": {64: "often"}}, "give a number of calls by M"),
    ({"traffic": {1 << 70: 1}}, "give a number of calls by M"),
    ({"traffic": {64: float("nan")}}, "traffic 'given'"),
    ({"traffic": "x" * 10_000}, "traffic is 'xxx"),
    ({"traffic": np.ones(3)}, "traffic is of type ndarray"),
    ({"traffic": {0: 1}}, "traffic 'given'"),
    ({"traffic": 7}, "traffic is of type int"),
    ({"traffic": {20_000: 1}}, "the traffic has M from 20,000"),
    ({"providers": ()}, "providers are none"),
    ({"providers": "fa3"}, "providers are fa3"),
    ({"providers": 3}, "providers is 3"),
    ({"providers": ["cublas-bf16"]}, "no provider is as accurate as 'tf32'"),
    ({"thresholds": [(0, "fa3")]}, "the rule names fa3"),
    ({"thresholds": 5}, "thresholds are '5'"),
    ({"colour": 1}, "the tuner has no setting colour"),
]


@pytest.mark.parametrize(("change", "words"), BAD, ids=[str(change)[:60] for change, _ in BAD])
def test_bad_input_changes_nothing(change: dict[str, object], words: str) -> None:
    shown = tuner(thresholds=[(0, "hpc")])
    state, frame, evaluation = shown.session.state, shown.frame, shown.session.evaluation
    with pytest.raises(WorkbenchError, match=words):
        shown.change(**change)
    assert shown.session.state == state
    assert shown.frame == frame
    assert shown.session.evaluation is evaluation
    shown.set_from_view("v", 1, dict(change))
    assert words.split("'")[0] in shown.frame["fault"]["text"]
    assert shown.frame["fault"]["field"] == next(iter(change))
    assert shown.frame["answer"] == frame["answer"]
    shown.set_from_view("v", 2, {"mixed": True})
    assert shown.frame["fault"] is None


def test_bad_input_to_the_constructor() -> None:
    with pytest.raises(InvalidArgument, match="no setting colour"):
        tuner(colour=1)
    with pytest.raises((TableError, RecordError)):
        tuner(in_use="no-such-table.py")


def test_hostile_names_stay_text() -> None:
    shown = tuner(traffic=Traffic.of({1: 1, 64: 2}, "</svg><script>alert(1)</script>\x00"))
    svg = shown.to_svg()
    ElementTree.fromstring(svg)
    assert "<script>" not in svg
    assert "<script>" not in still_html(shown.title, svg, shown.description, "mark")
    ast.parse(shown.copy_as_code().replace("\x00", ""))


def test_the_table_on_screen_can_be_saved_and_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBENCH_TABLES_DIR", str(tmp_path))
    shown = tuner(thresholds=[(0, "hpc"), (128, "cublas-tf32")])
    path = shown.save(tmp_path / "mine.json")
    table = load_table(path)
    assert [table.choose(m) for m in (0, 1, 127, 128, 9000)] == ["hpc"] * 3 + ["cublas-tf32"] * 2
    assert {note.against.partition(" (")[0] for note in table.regret} == {"SGLang's table", "always cuBLAS FP32"}
    assert table.traffic is not None
    assert json.loads(str(reply(shown, "table")["text"])) == json.loads(path.read_bytes())
    with pytest.raises(TableError, match="cannot be written"):
        shown.save(tmp_path / "no-such-folder" / "x.json")


def test_sglangs_form_says_what_it_cannot() -> None:
    shown = tuner()
    text = shown.to_sglang()
    assert ast.literal_eval(text[text.index("{") :]) == {(6144, 768): 1}
    assert "Cannot be expressed: M from 294 on: cublas-tf32 is wanted, the form uses hpc." in text
    assert "loses 1.49 us a call" in text
    notice = reply(shown, "sglang")["notice"]
    assert isinstance(notice, list)
    assert len(notice) == 3
    shown.thresholds = "in use"
    same = shown.to_sglang()
    assert ast.literal_eval(same[same.index("{") :]) == {(6144, 768): SGLANG[6144, 768]}
    assert "Cannot be expressed" not in same
    assert reply(shown, "sglang")["notice"] == []


def test_sglangs_form_names_no_kernel_of_ours() -> None:
    text = tuner(thresholds=[(0, "cublas-tf32")]).to_sglang()
    assert "Cannot be expressed: SGLang calls hpc from the threshold on; here that stands for cublas-tf32." in text


def test_sglangs_form_can_be_read_back(tmp_path: Path) -> None:
    path = tmp_path / "table.py"
    path.write_text(tuner(thresholds=[(0, "cublas-fp32"), (48, "hpc")]).to_sglang())
    assert read_sglang(path) == {(6144, 768): 48}
    assert tuner(in_use=path).regrets["in use"].rule == "SGLang's table (hpc from M = 48)"


def test_the_module_runs_by_itself(tmp_path: Path) -> None:
    (tmp_path / "dispatch.py").write_text(tuner(thresholds=[(0, "hpc"), (128, "cublas-tf32")]).to_module())
    calls = "choose(127, k=6144, n=768), choose(128, k=6144, n=768), decided(1, k=6144, n=768)"
    program = f"from dispatch import *; print({calls})"
    out = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["hpc", "cublas-tf32", "True"]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"thresholds": [(0, "hpc"), (128, "cublas-tf32")], "mixed": True, "max_batch": 64},
        {"traffic": "even", "providers": None, "gpu": "h200"},
    ],
)
def test_copied_code_opens_the_same_view(settings: dict[str, object]) -> None:
    shown = tuner(**settings)
    scope: dict[str, object] = {}
    *before, last = ast.parse(shown.copy_as_code()).body
    exec(compile(ast.Module(before, []), "copied", "exec"), scope)
    last.value.keywords.append(ast.keyword("store", ast.Name("store", ast.Load())))  # type: ignore[attr-defined]
    call = ast.fix_missing_locations(ast.Expression(last.value))  # type: ignore[attr-defined]
    again = eval(compile(call, "copied", "eval"), scope | {"store": references()})
    assert again.session.state == shown.session.state
    assert again.frame["answer"] == shown.frame["answer"]


def test_every_figure_says_where_it_comes_from() -> None:
    shown = tuner()
    for curve in shown.scene["scene"]["curves"]:
        assert curve["origin"] == "reference (outside this project, NVIDIA H200, 2026-11-29)"
        assert curve["mark"] == "\u25c7"
    assert shown.frame["footer"][0].startswith("\u25c7 reference (outside this project")
    assert any("a deviation of 2 % is assumed" in words for words in shown.frame["footer"])


def test_cards() -> None:
    shown = tuner()
    ask = {"view": "v", "scene": shown.scene["number"]}
    measured, _ = REPLIES["card"](shown, ask | {"m": 128})
    assert measured is not None
    card = measured["card"]
    assert (card["title"], card["subtitle"]) == ("M = 128", "measured")
    assert card["note"].startswith("cuBLAS TF32 is fastest: +")
    assert [line["provider"] for line in card["lines"]] == ["cublas-bf16", "cublas-tf32", "hpc", "cublas-fp32"]
    between, _ = REPLIES["card"](shown, ask | {"m": 100})
    assert between is not None
    assert between["card"]["subtitle"].startswith("not measured")
    assert all(line["us"].startswith("~") for line in between["card"]["lines"])
    outside, _ = REPLIES["card"](shown, ask | {"m": 9_000})
    assert outside is not None
    assert outside["card"]["lines"] == []
    assert REPLIES["card"](shown, {"view": "v", "scene": -1, "m": 1}) is None


def test_pictures() -> None:
    shown = tuner()
    for theme in ("light", "dark"):
        root = ElementTree.fromstring(shown.to_svg(theme=theme))
        words = " ".join(node.text or "" for node in root.iter("{http://www.w3.org/2000/svg}text"))
        for row in shown.frame["answer"]["rows"]:
            assert row["cost"] in words
        assert "reference (outside this project" in words
    assert shown.description in still_html(shown.title, shown.to_svg(), shown.description, "mark").replace(
        "&#x27;", "'"
    )


def test_a_table_made_from_nothing_but_the_figures_is_valid() -> None:
    table = tuner().table
    assert DispatchTable.decode(table.encode()) == table
    assert all(span.basis != "chosen" for span in table.spans)
