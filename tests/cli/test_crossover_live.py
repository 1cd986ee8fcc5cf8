"""``workbench crossover`` that measures: on a CPU in place of a GPU, with a made-up clock."""

from __future__ import annotations

import datetime
import json
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

from workbench.gpu import driver
from workbench.measure import environment
from workbench.measure.timing import Timing
from workbench.records import Environment
from workbench.tune import live

PROVIDERS = ("--provider", "cublas-fp32", "--provider", "cublas-bf16")


class Bench:
    """FP32 takes 5 us, bf16 2 us below M = 100 and 9 us from there on; it can be stopped after some measurements."""

    def __init__(self):
        self.measured, self.stop_after = 0, 10_000

    def time(self, variants, *, replays):
        if self.measured == self.stop_after:
            raise KeyboardInterrupt
        self.measured += 1
        found = {}
        for name, calls in variants.items():
            us = 5.0 if name == "cublas-fp32" else (2.0 if calls[0]().shape[0] < 100 else 9.0)
            found[name] = Timing(tuple(us + 0.001 * i for i in range(replays)), len(calls))
        return found


@pytest.fixture
def bench(monkeypatch, tmp_path):
    made = Bench()
    router = live.LiveRouter
    here = Environment(gpu="NVIDIA H200", date=datetime.date(2026, 11, 30), torch="2.13.0")
    monkeypatch.setattr(driver, "probe", lambda: SimpleNamespace(problem=None))
    monkeypatch.setattr(environment, "environment_here", lambda: here)
    monkeypatch.setattr(live, "LiveRouter", lambda k, n, p: router(k, n, p, device="cpu", time=made.time))
    monkeypatch.setattr(live, "SETS_BYTES", 1)  # two input sets
    monkeypatch.setenv("WORKBENCH_TABLES_DIR", str(tmp_path / "tables"))
    return made


def test_measured_figures_say_so(run, bench):
    done = run("crossover", "64,16", "--precision", "bf16", *PROVIDERS, "--traffic", "even", "--json")
    assert done.code == 0, done
    (document,) = json.loads(done.out)
    assert document["figures"].startswith("Figures: measured now (NVIDIA H200, 2026-11-30), ")
    assert document["table"]["origins"] == ["recorded (NVIDIA H200, 2026-11-30)"]
    assert document["table"]["environment"]["torch"] == "2.13.0"
    (crossing,) = document["crossings"]
    assert crossing["before"] == "cublas-bf16"
    assert crossing["low"] < 100 <= crossing["high"] <= crossing["low"] * 1.06
    assert all(point["rounds"] >= 15 for point in document["points"])


def test_an_interrupted_measurement_goes_on_where_it_stopped(run, bench, tmp_path):
    state = tmp_path / "state.json"
    words = ("crossover", "64,16", "--precision", "bf16", *PROVIDERS, "--traffic", "even", "--state", state)
    bench.stop_after = 7
    assert run(*words).code == 130
    assert len(json.loads(state.read_text())["search"]["points"]) == 7
    bench.stop_after = 10_000
    done = run(*words, "--json")
    (document,) = json.loads(done.out)
    assert bench.measured == len(document["points"])  # none twice
    before = bench.measured
    assert run(*words).code == 0
    assert bench.measured == before  # finished: nothing more to measure


def test_a_state_of_something_else_is_refused(run, refused, bench, tmp_path):
    state = tmp_path / "state.json"
    words = ("--precision", "bf16", *PROVIDERS, "--traffic", "even", "--state", state)
    assert run("crossover", "64,16", *words).code == 0
    kept = state.read_bytes()
    assert "is of K 64, N 16" in refused("crossover", "128,16", *words)
    assert "cublas-fp32, cublas-bf16, on NVIDIA H200; asked are K 64, N 16 and cublas-fp32," in refused(
        "crossover", "64,16", "--provider", "cublas-fp32", "--state", state
    )
    for damaged in (b"", b"{}", b"[]", b"[" * 100_000, kept[:-9], b"\xff"):
        state.write_bytes(damaged)
        assert "is no state of a search" in refused("crossover", "64,16", *words)
        assert state.read_bytes() == damaged


def test_a_state_of_another_gpu_is_refused(run, refused, bench, tmp_path, monkeypatch):
    state = tmp_path / "state.json"
    words = ("crossover", "64,16", "--precision", "bf16", *PROVIDERS, "--traffic", "even", "--state", state)
    assert run(*words).code == 0
    moved = Environment(gpu="NVIDIA H20", date=datetime.date(2026, 12, 1), torch="2.13.0")
    monkeypatch.setattr(environment, "environment_here", lambda: moved)
    assert "on NVIDIA H200; asked are K 64, N 16 and cublas-fp32, cublas-bf16, on NVIDIA H20" in refused(*words)


def test_a_state_goes_on_under_the_settings_that_are_given(run, bench, tmp_path):
    """A finished search is narrowed further, and what is printed is what was done."""
    state = tmp_path / "state.json"
    words = ("crossover", "64,16", "--precision", "bf16", *PROVIDERS, "--traffic", "even", "--state", state, "--json")
    (wide,) = json.loads(run(*words, "--width", "0.5").out)
    (narrow,) = json.loads(run(*words, "--width", "0.01").out)
    width = [document["crossings"][0]["high"] - document["crossings"][0]["low"] for document in (wide, narrow)]
    assert width[1] == 1 < width[0]
    assert "narrowed to 1% of M" in narrow["figures"]
    assert json.loads(state.read_text())["search"]["settings"]["width"] == 0.01


def test_what_cannot_be_measured_here_is_refused(refused, bench):
    assert "hpc cannot be measured here" in refused("crossover", "64,16", "--provider", "hpc")
