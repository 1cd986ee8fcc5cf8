"""``workbench crossover`` on a machine with no GPU: from shipped records, and what it refuses."""

from __future__ import annotations

import ast
import json
import re

import pytest

from tests.records.samples import timing
from tests.widgets.crossover.meters import references
from workbench.gpu import driver
from workbench.records import Store, Workload
from workbench.tables import MODELS, find_table, forget_tables, load_table

RIVALS = ("--from-records", "--store", references()._own)
"""Only the figures of others: one's own kernel wins everywhere, which shows no crossing."""


@pytest.fixture(autouse=True)
def own_folders(tmp_path, monkeypatch):
    for name in ("CACHE", "RECORDS", "TABLES"):
        monkeypatch.setenv(f"WORKBENCH_{name}_DIR", str(tmp_path / name.lower()))
    forget_tables()
    yield
    forget_tables()


def lines(text):
    return [" ".join(line.split()) for line in text.splitlines()]


def test_shipped_records_are_enough_for_every_model(run):
    done = run("crossover", *MODELS, "--from-records", "--json")
    assert done.code == 0, done
    for shape, model in zip(json.loads(done.out), MODELS, strict=True):
        assert shape["model"] == model
        spans = shape["table"]["spans"]
        assert {span["provider"] for span in spans if span["basis"] == "measured"} == {"cuda"}
        assert shape["left_out"] == []


def test_a_rule_without_figures_at_some_m_says_of_which_calls_it_is(run, tmp_path):
    store = Store(tmp_path / "store")
    for m in (1, 64, 4096):
        work = Workload(case=f"M{m}-K8-N16", dtype="bf16", m=m, k=8, n=16)
        for provider, us in (("cuda", 5.0), ("triton", 6.0), ("cublas-fp32", 9.0))[: 2 if m > 64 else 3]:
            samples = tuple(us * m + 0.01 * i for i in range(15))
            times = {"samples_us": samples, "median_us": samples[7], "low_us": samples[4], "high_us": samples[10]}
            names = {"operator": "router_gemm", "policy": None, "provider": provider, "workload": work}
            store.add(timing(**names, **times, rel_error=3e-7))
    out = run("crossover", "8,16", "--from-records", "--store", store._own, "--traffic", "even").out
    rules = [line for line in lines(out) if line.startswith("always FP32")]
    best = next(line for line in lines(out) if line.startswith("the best choice"))
    cost, lost = (float(word) for word in rules[0].removeprefix("always FP32 ").split()[:2])
    assert cost - lost != pytest.approx(float(best.split()[3]), abs=0.1)  # it is of other calls
    (others,) = re.findall(r"the best choice takes ([\d.]+) us for the others", rules[1])
    assert cost - lost == pytest.approx(float(others), abs=0.02)
    assert "of the calls have an M where it has no figures and are left out" in rules[1]


def test_references_alone_are_enough_and_it_says_so(run):
    done = run("crossover", "longcat-chat", *RIVALS, "--precision", "tf32")
    assert done.code == 0, done
    out = lines(done.out)
    assert "longcat-chat: K 6144, N 768 on NVIDIA H200" in out
    assert any(
        "52 records at 13 M, none measured now; reference (outside this project, NVIDIA H200, 2026-11-29). None of "
        "them has samples: a deviation of 2 % of each such median is assumed." in line
        for line in out
    )
    assert "1 to 64 hpc 1, 16, 48, 64 assumed, widest gap 31" in out
    assert "65 to 127 undecided 96" in out
    assert any(line.startswith("SGLang's table (hpc from M = 64)") for line in out)
    assert any(line.startswith("always FP32") for line in out)
    assert any(line.startswith("SGLang's form cannot express: M 128 to 208: cublas-tf32 wins") for line in out)


def test_precision_is_a_constraint(run):
    out = run("crossover", "hy3", *RIVALS, "--precision", "split").out
    assert "Allowed: cublas-fp32 (fp32), hpc (split)" in out
    assert "1 to 8,192 hpc" in " ".join(out.split())
    assert "cublas-tf32" not in out


def test_json_holds_what_the_table_says(run):
    done = run("crossover", "longcat-chat", "4096,192", *RIVALS, "--precision", "tf32", "--json")
    chat, other = json.loads(done.out)
    assert (chat["model"], other["model"]) == ("longcat-chat", None)
    assert chat["table"]["traffic"]["label"].startswith("simulated")
    assert [(c["before"], c["after"], c["low"], c["high"]) for c in chat["crossings"]] == [
        ("hpc", "cublas-tf32", 64, 128)
    ]
    rules = {rule["rule"]: rule for rule in chat["rules_against_the_best_choice"]}
    used = rules["SGLang's table (hpc from M = 64)"]
    assert 0 < used["low_us"] < used["us"] < used["high_us"] < rules["always FP32"]["us"]
    (gain,) = [note for note in chat["table"]["regret"] if note["against"] == used["rule"]]
    assert gain["us"] == pytest.approx(-used["us"], rel=1e-9)


def test_exports_and_the_kept_table_agree(run, tmp_path):
    table, dictionary, module = tmp_path / "t.json", tmp_path / "sglang.py", tmp_path / "router.py"
    words = ("--export", f"table={table}", "--export", f"sglang={dictionary}", "--export", f"module={module}")
    done = run("crossover", "longcat-chat", *RIVALS, "--precision", "tf32", "--save", *words)
    assert done.code == 0, done
    made = load_table(table)
    assert find_table("H200", 6144, 768, "tf32") == made
    space: dict = {}
    exec(compile(module.read_text(), str(module), "exec"), space)
    assert all(space["choose"](m, k=6144, n=768) == made.choose(m) for m in range(0, 9000, 7))
    text = dictionary.read_text()
    assert ast.literal_eval("".join(line for line in text.splitlines(True) if not line.startswith("#"))) == {
        (6144, 768): 1
    }
    assert "# M 512 to 8,192: cublas-tf32 wins, the form uses hpc" in text
    assert "us a call against the best choice" in text
    assert done.err.count("Wrote") == 4
    # what was written can be priced as the table in use
    again = run("crossover", "longcat-chat", *RIVALS, "--precision", "tf32", "--sglang", dictionary)
    assert "SGLang's table (hpc from M = 1)" in again.out


def test_a_shape_without_entry_is_left_out_of_the_dict(run, tmp_path):
    store = Store(tmp_path / "store")
    for m in (1, 64, 4096):
        work = Workload(case=f"M{m}-K8-N16", dtype="bf16", m=m, k=8, n=16)
        for provider, us in (("torch", 5.0), ("hpc", 9.0)):
            samples = tuple(us + 0.01 * i for i in range(15))
            times = {"samples_us": samples, "median_us": samples[7], "low_us": samples[4], "high_us": samples[10]}
            names = {"operator": "router_gemm", "policy": None, "provider": provider, "workload": work}
            store.add(timing(**names, **times, rel_error=3e-7))
    out = tmp_path / "dict.py"
    words = ("8,16", "--from-records", "--store", store._own, "--traffic", "even", "--export", f"sglang={out}")
    done = run("crossover", *words)
    assert done.code == 0, done
    assert out.read_text().endswith("\n{\n}\n")
    assert "never hpc" in out.read_text()
    assert "1 to 4,096 cublas-fp32" in " ".join(done.out.split())
    assert "recorded (NVIDIA H200, 2026-11-29)." in done.out
    assert "assumed of" not in done.out
    assert "% of the calls have an M outside what was measured and are left out." in done.out


def test_without_hpc_the_price_of_sglang_s_table_is_not_given(run):
    words = ("--provider", "cublas-fp32", "--provider", "cublas-tf32", "--precision", "tf32")
    done = run("crossover", "longcat-lite", "--from-records", *words)
    assert done.code == 0
    assert "Not given: SGLang's table (hpc from M = 128) against" in done.out
    assert "no M has figures of all of" in done.out


@pytest.mark.skipif(driver.probe().problem is None, reason="this machine has a GPU")
def test_without_a_gpu_and_without_records_it_says_what_to_add(run):
    done = run("crossover", "hy3")
    assert done.code == 1
    assert "--from-records" in done.err
    assert done.out == ""


@pytest.mark.parametrize(
    ("words", "word"),
    [
        (("hy4", "--from-records"), "'hy4' is no router"),
        (("4096,191", "--from-records"), "N=191; give a multiple of 8"),
        (("hy3", "--from-records", "--precision", "exact"), "precision 'exact' is not known"),
        (("hy3", "--from-records", "--traffic", "nowhere.csv"), "nowhere.csv"),
        (("deepseek-v3", *RIVALS), "no record of router_gemm with K 7168, N 256"),
        (("hy3", "--from-records", "--gpu", "H100"), "no record of router_gemm"),
        (("hy3", "--from-records", "--provider", "nobody"), "by nobody"),
        (("hy3", "--from-records", "--provider", "cublas-bf16"), "no provider is as accurate as 'split'"),
        (("hy3", "--from-records", "--store", "nowhere"), "there is no folder nowhere"),
        (
            ("hy3", "--from-records", "--provider", "cuda", "--provider", "cdua"),
            "by cdua; of those asked for, cuda",
        ),
        (("hy3", "--from-records", "--width", "2"), "--width is 2.0: Input should be less than 1"),
        (("hy3", "--from-records", "--width", "nan"), "--width is nan"),
        (("hy3", "--from-records", "--rounds", "100000"), "--rounds is 100000: Input should be less than or equal"),
        (("hy3", "--from-records", "--export", "table=x", "--export", "module=./x"), "a file of its own"),
        (("hy3", "--from-records", "--deviation", "-1"), "deviation=-1"),
        (("hy3", "--from-records", "--state", "x"), "--state keeps"),
        (("hy3", "--from-records", "--export", "sglang"), "sglang=FILE"),
        (("hy3", "--from-records", "--export", "yaml=x"), "sglang=FILE"),
        (("hy3", "--from-records", "--export", "table=nowhere/x"), "no folder"),
        (("hy3", "longcat-chat", "--from-records", "--export", "table=x"), "one router"),
        (("hy3", "--from-records", "--sglang", "nowhere.py"), "nowhere.py"),
        (("hy3", "--from-records", "--precision", "fp32", "--export", "sglang=x"), "no rule of SGLang's form"),
    ],
)
def test_input_that_cannot_be_used(refused, tmp_path, monkeypatch, words, word):
    monkeypatch.chdir(tmp_path)
    assert word in refused("crossover", *words)
    assert not (tmp_path / "x").exists()


def test_a_router_that_is_named_twice_is_one(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run("crossover", "hy3", "4096,192", "HY3", "--from-records", "--export", "module=router.py", "--json")
    assert done.code == 0, done
    (document,) = json.loads(done.out)
    assert document["model"] == "hy3"
