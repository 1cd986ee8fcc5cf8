"""``workbench bench attention``: what it prints, keeps, and says where nothing can be measured."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import numpy as np
import pytest

import workbench
from tests.measure.fakes import FakeClocks, FakeTimer, Made, Raising
from workbench import paths
from workbench.cli import bench
from workbench.gpu import driver
from workbench.measure import attention
from workbench.measure.attention_case import AttentionCase
from workbench.measure.clocks import ClocksUnreadable
from workbench.records import Environment, Store
from workbench.workloads import sample_trace, simulate

TRACE = Path(workbench.__file__).parent / "workloads" / "data" / "sample_trace.jsonl"
CUDA = {"policy": "balanced", "variant": "early", "notes": "n"}
CASES = [AttentionCase(name, np.array(lengths)) for name, lengths in (("70+5", [70, 5]), ("64", [64]), ("9", [9]))]


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "220")


@pytest.fixture
def no_gpu(monkeypatch):
    status = driver.DriverStatus(None, 0, "There is no NVIDIA driver here.")
    monkeypatch.setattr(driver, "probe", lambda: status)


@pytest.fixture
def session(monkeypatch, tmp_path):
    """Makes a run on the CPU with made-up times; ``session(providers_a_case, ...)``."""
    from workbench.cli.bench_run import Session

    monkeypatch.setattr(attention, "compile_for", lambda cases: None)
    monkeypatch.setattr(attention, "MAX_SETS", 2)

    def make(*providers, clocks=None, timer=None, references=None, **settings):
        monkeypatch.setattr(attention, "providers_of", lambda *_: list(providers))
        return Session(
            attention.Settings(seed=5, rounds=3, **settings),
            environment=Environment(gpu="NVIDIA H200", date=datetime.date(2026, 11, 30), sms=132),
            timer=timer or FakeTimer(),
            read_clocks=clocks,
            store=Store(tmp_path / "store"),
            references=references,
            digests={("attention_decode", "cuda"): "b" * 64},
            device="cpu",
        )

    return make


def finish(session, capsys, cases=CASES, json_file=None):
    """Run to the end: the exit code and what was printed."""
    code = 0
    try:
        bench.run(session, cases, ["attention"], json_file)
    except bench.typer.Exit as ended:
        code = ended.exit_code
    return code, capsys.readouterr().out


def test_a_run_prints_each_case_and_a_summary_and_keeps_records(session, capsys, tmp_path):
    run = session(Made("cuda", **CUDA), Made("torch"), clocks=FakeClocks())
    code, out = finish(run, capsys, json_file=tmp_path / "all.json")
    assert code == 0
    for case in CASES:
        assert f"{case.name}, fp8 cache" in out
    assert out.index("9, fp8 cache") < out.index("Decode attention, fp8 cache, median us a call")
    assert "10.0*" in out
    assert "Seed 5" in out
    records = [record for _, record in Store(tmp_path / "store").records()]
    assert len(records) == 6
    assert {(r.provider, r.workload.case, r.seed, r.median_us) for r in records if r.provider == "cuda"} == {
        ("cuda", case.name, 5, 10.01) for case in CASES
    }
    assert {r.source_digest for r in records} == {"b" * 64, None}
    assert all(r.clock_readings and r.throttled == () for r in records)
    written = json.loads((tmp_path / "all.json").read_text())
    assert len(written["figures"]) == 6
    assert written["environment"]["gpu"] == "NVIDIA H200"


def test_a_wrong_result_of_ours_is_told_and_fails_the_run(session, capsys, tmp_path):
    run = session(Made("cuda", lambda right: right * 1.5, **CUDA), Made("torch"))
    code, out = finish(run, capsys, CASES[:1])
    assert code == 1
    assert "WRONG: cuda balanced early, 70+5 fp8: relative error 0.5" in out
    assert [r.provider for _, r in Store(tmp_path / "store").records()] == ["torch"]


def test_a_rival_that_fails_is_told_and_does_not_fail_the_run(session, capsys):
    code, out = finish(session(Made("cuda", **CUDA), Raising("fa3")), capsys, CASES[:1])
    assert code == 0
    assert "FAILED" in out
    assert "no such luck" in out


def test_a_missing_rival_is_told_once(session, capsys):
    run = session(Made("cuda", **CUDA), Made("fa3", absent="pip install fa3-fwd"))
    _, out = finish(run, capsys)
    assert out.splitlines().count("fa3: not installed; pip install fa3-fwd") == 1


def test_throttling_is_said_aloud_and_recorded(session, capsys, tmp_path):
    _, out = finish(session(Made("cuda", **CUDA), clocks=FakeClocks(held=("power cap",))), capsys, CASES[:1])
    assert "THROTTLED (marked !): power cap held the clocks down during 70+5 fp8" in " ".join(out.split())
    assert [r.throttled for _, r in Store(tmp_path / "store").records()] == [("power cap",)]


def test_unreadable_clocks_are_said_aloud(session, capsys):
    run = session(Made("cuda", **CUDA))
    run.clocks_problem = "NVML cannot be used: no library"
    assert "throttling could go unnoticed. NVML cannot be used" in " ".join(finish(run, capsys)[1].split())


def test_clocks_that_stop_answering_do_not_stop_the_run(session, capsys):
    def read(when):
        if when != "before":
            raise ClocksUnreadable("NVML does not tell the clocks: GPU is lost")
        return FakeClocks()(when)

    code, out = finish(session(Made("cuda", **CUDA), clocks=read), capsys)
    assert code == 0
    assert "could go unnoticed. NVML does not tell the clocks" in " ".join(out.split())


def test_ctrl_c_keeps_what_was_finished(session, capsys, tmp_path):
    class Pressed(Made):
        def prepare(self, inputs):
            if len(inputs.seq_lens) == 1 and int(inputs.seq_lens[0]) == 9:
                raise KeyboardInterrupt
            return super().prepare(inputs)

    run = session(Pressed("cuda", **CUDA))
    code, out = finish(run, capsys, json_file=tmp_path / "all.json")
    assert code == 130
    assert "Interrupted: what was finished is shown and kept." in out
    assert {r.workload.case for _, r in Store(tmp_path / "store").records()} == {"70+5", "64"}
    assert {f["case"] for f in json.loads((tmp_path / "all.json").read_text())["figures"]} == {"70+5", "64"}


def test_a_broken_gpu_keeps_what_was_finished(session, capsys, tmp_path):
    timer = FakeTimer()

    class Breaks(Made):
        def prepare(self, inputs):
            if int(inputs.seq_lens[0]) == 64:
                timer.dead = "an illegal memory access"
                raise RuntimeError("launch failed")
            return super().prepare(inputs)

    with pytest.raises(bench.LaunchError, match="illegal memory access"):
        bench.run(session(Breaks("cuda", **CUDA), timer=timer), CASES, ["attention"], None)
    assert "70+5" in capsys.readouterr().out
    assert {r.workload.case for _, r in Store(tmp_path / "store").records()} == {"70+5"}


def test_a_store_that_fails_keeps_the_figures(session, tmp_path, capsys):
    """As where the disk is full: what was measured is shown and written before the error is told."""
    made = session(Made("cuda", **CUDA))
    add = made.store.add

    def full(record, attachment=None):
        if record.workload.case == "64":
            raise bench.RecordError("No space left on device")
        return add(record, attachment)

    made.store.add = full
    with pytest.raises(bench.RecordError, match="No space left"):
        bench.run(made, CASES, ["attention"], tmp_path / "all.json")
    assert "70+5" in capsys.readouterr().out
    assert {f["case"] for f in json.loads((tmp_path / "all.json").read_text())["figures"]} == {"70+5"}


def test_a_store_that_cannot_be_written_is_refused_before_anything_is_measured(tmp_path):
    from workbench.cli.bench_session import store_for

    (tmp_path / "file").write_text("")
    with pytest.raises(bench.RecordError, match="cannot be written"):
        store_for(str(tmp_path / "file" / "store"))
    assert store_for("none") is None


def test_without_a_gpu_only_what_was_asked_for_is_shown(run, no_gpu):
    asked = ["--cases", "64x4K", "--cache", "fp8"]
    ours = run("bench", "attention", *asked, "--providers", "cuda", "--variants", "early").out
    assert "balanced early" in ours
    assert "read - recorded" in ours
    assert not any(word in ours for word in ("fa3", "flashinfer", "hpc-dynamic", "balanced default", "alone"))
    theirs = run("bench", "attention", *asked, "--providers", "hpc").out
    assert "hpc-dynamic (reference)" in theirs
    assert "balanced" not in theirs
    nothing = run("bench", "attention", "--cases", "64x4K", "--cache", "bf16", "--providers", "flashinfer").out
    assert "No recorded figure matches either" in " ".join(nothing.split())


def test_a_narrow_terminal_cuts_no_heading(run, no_gpu, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    done = run("bench", "attention", "--cache", "fp8")
    assert "\u2026" not in done.out
    assert "fixed_splits" in done.out


def test_reference_figures_stand_beside_and_are_not_recorded_again(session, capsys, tmp_path):
    case = AttentionCase("64x0.5K", np.full(64, 8))  # short, under the name of a recorded case
    run = session(Made("cuda", **CUDA), references=Store(paths.profiles_dir()))
    _, out = finish(run, capsys, [case])
    assert "reference (outside this project" in out
    assert "15.4" in out  # fa3
    assert len(Store(tmp_path / "store").query()) == 1


def test_without_a_gpu_it_says_so_and_shows_what_was_recorded(run, no_gpu):
    done = run("bench", "attention", "--cache", "fp8", "--what", "attention,map")
    assert done.code == 1
    words = " ".join(done.out.split())
    assert "There is no NVIDIA driver here. Nothing was measured." in words
    assert "Recorded on an H200 instead" in words
    for case in ("64x0.5K", "1x128K+31x4K", "2048x4K"):
        assert case in words
    assert "bf16" not in words
    assert "fa3: FlashAttention-3 (fa3-fwd 0.0.3), contiguous cache - reference (outside this project" in words
    assert "cuda - recorded (NVIDIA H200, " in words


def test_without_a_gpu_and_without_a_record_it_says_so(run, no_gpu):
    done = run("bench", "attention", "--cases", "3x77")
    assert done.code == 1
    assert "No recorded figure matches either" in " ".join(done.out.split())


def test_without_a_gpu_torch_is_not_imported(tmp_path):
    import subprocess
    import sys

    code = (
        "import sys; sys.argv = ['workbench', 'bench', 'attention']\n"
        "from workbench.gpu import driver\n"
        "driver.probe = lambda: driver.DriverStatus(None, 0, 'no driver.')\n"
        "from workbench.cli import main\n"
        "try: main()\n"
        "except SystemExit as ended: print(ended.code, 'torch' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "1 False"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--cache", "fp4"], "--cache fp4: give fp8, bf16, both"),
        (["--what", "prefill"], "--what prefill: give attention or map"),
        (["--cases", "64xQ"], "cannot read the lengths"),
        (["--cases", "nothing.txt"], "there is no file nothing.txt"),
        (["--cases", ","], "--cases is empty"),
        (["--json", "no/such/folder/x.json"], "there is no folder"),
        (["--step", "3"], "--step 3 is of a trace"),
    ],
)
def test_input_that_cannot_be_used(refused, no_gpu, words, says):
    assert says in refused("bench", "attention", *words)


def test_a_file_of_lengths_is_one_case(tmp_path):
    path = tmp_path / "batch.txt"
    path.write_text("2x0.5K + 77")
    cases = bench._cases(str(path), None, ["fp8", "bf16"])
    assert [(c.name, c.cache, c.lengths.tolist()) for c in cases] == [
        ("2x0.5K+77", "fp8", [512, 512, 77]), ("2x0.5K+77", "bf16", [512, 512, 77]),
    ]  # fmt: skip


def test_steps_of_a_trace_are_cases():
    steps = simulate(sample_trace())
    cases = bench._cases(str(TRACE), [700, -1], ["fp8"])
    assert [c.name for c in cases] == ["sample_trace-step700", f"sample_trace-step{len(steps) - 1}"]
    assert cases[0].lengths.tolist() == steps.lengths(700).tolist()
    assert "lengths" in cases[0].parameters


def test_a_driver_without_a_torch_for_it_is_told(run, monkeypatch):
    import torch

    monkeypatch.setattr(driver, "probe", lambda: driver.DriverStatus((13, 0), 1, None))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    done = run("bench", "attention")
    assert done.code == 1
    assert "cannot use it. Install a build of torch for CUDA" in " ".join(done.err.split())


def test_a_policy_of_ones_own(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("def every_second(lengths, num_kv_heads, num_ctas, tile):\n    return []\n")
    assert bench._policy("hpc-ops") == "hpc-ops"
    policy = bench._policy(f"{path}:every_second")
    assert policy.name == "mine.py:every_second"
    settings = attention.Settings(policies=(policy, "lpt"), providers=("cuda",), variants=("early",))
    found = attention.providers_of(CASES[0], settings, "NVIDIA H200", 132)
    assert [p.policy for p in found][1:3] == ["mine.py:every_second", "lpt"]


@pytest.mark.gpu
def test_a_short_run_on_this_gpu(run, tmp_path):
    done = run(
        "bench", "attention", "--cases", "8x0.5K", "--cache", "fp8", "--providers", "cuda,torch", "--quick",
        "--what", "attention,map", "--records", tmp_path / "store", "--json", tmp_path / "all.json",
    )  # fmt: skip
    assert done.code == 0, done
    records = [record for _, record in Store(tmp_path / "store").records()]
    assert {r.provider for r in records} == {"read", "cuda", "torch"}
    assert {r.policy for r in records} >= {"balanced", "hpc-ops", "lpt"}
    assert all(r.clock_readings for r in records)


@pytest.mark.parametrize("option", ["--providers", "--variants", "--policies"])
def test_a_wrong_name_is_refused_where_nothing_can_be_measured_too(refused, no_gpu, option):
    assert "nonsense" in refused("bench", "attention", option, "nonsense")
