"""``workbench plan``: its numbers are those of ``plan.metrics()``, and bad input gets a message and code 2."""

from __future__ import annotations

import io
import json
import os
import sys
import threading

import numpy as np
import pytest

from workbench import devices
from workbench.schedule import DecodePlan, balanced, cost_model, plan_decode
from workbench.schedule.search import search_static
from workbench.workloads import parse_lengths, sample_trace, simulate, workload

MIX = "1x64K + 15x4K"

ONE_EACH = """
def one_each(lengths, num_kv_heads, num_ctas, tile):
    bins = [[] for _ in range(num_ctas)]
    for request, length in enumerate(lengths):
        for head in range(num_kv_heads):
            if length:
                bins[(request * num_kv_heads + head) % num_ctas].append((head, request, 0, -(-int(length) // tile)))
    return bins

def lazy(lengths, num_kv_heads, num_ctas, tile):
    return []

def broken(lengths, num_kv_heads, num_ctas, tile):
    return lengths["first"]
"""


@pytest.fixture
def policies(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(ONE_EACH)
    return path


def test_default_policies_and_every_number(run):
    done = run("plan", MIX, "--json")
    assert done.code == 0
    found = json.loads(done.out)
    lengths, cost = parse_lengths(MIX), cost_model("H200")
    search = search_static([lengths], num_kv_heads=1, num_ctas=528, cost=cost)
    chosen = ["balanced", "hpc-ops", "lpt", search.best("fixed_splits"), search.best("fixed_chunk")]
    assert found["lengths"] == lengths.tolist()
    assert found["source"] == cost.source
    assert list(found["policies"]) == chosen
    for name in chosen:
        plan = plan_decode(lengths, num_kv_heads=1, num_ctas=528, policy=name)
        assert found["policies"][name] == plan.metrics(cost).to_dict()


def test_options_reach_the_plan(run):
    words = "--gpu h100 --ctas-per-sm 2 --kv-heads 4 --group 4 --head-dim 64 --tile 128 --floor 1024 --q-len 2"
    done = run("plan", MIX, *words.split(), "--cache", "bf16", "--policy", "balanced", "--json")
    cost = cost_model("H100", cache="bf16", group=4, head_dim=64)
    plan = plan_decode(
        parse_lengths(MIX), num_kv_heads=4, num_ctas=264, policy=balanced(cost), tile=128, min_process_len=1024, q_len=2
    )
    assert json.loads(done.out)["policies"]["balanced"] == plan.metrics(cost).to_dict()


def test_a_gpu_from_a_file_and_one_that_is_changed(run, tmp_path):
    file = tmp_path / "gpu.toml"
    file.write_text('name = "mine"\nsms = 78\nmemory_bandwidth = 4.0e12')
    mine = devices.custom("mine", sms=78, memory_bandwidth=4.0e12)
    words = ("plan", MIX, "--policy", "balanced", "--json", "--gpu")
    by_file = json.loads(run(*words, file).out)
    by_options = json.loads(run(*words, "H200", "--sms", 78, "--bandwidth", 4.0).out)
    cost = cost_model(mine)
    plan = plan_decode(parse_lengths(MIX), num_kv_heads=1, num_ctas=312, policy=balanced(cost))
    assert by_file["policies"] == by_options["policies"] == {"balanced": plan.metrics(cost).to_dict()}
    assert (by_file["kernel"]["gpu"], by_options["kernel"]["gpu"]) == ("mine", "like H200 at 4 TB/s")
    assert by_file["kernel"]["sms"] == by_options["kernel"]["sms"] == 78
    assert json.loads(run(*words, "H200", "--sms", 132, "--bandwidth", 4.8).out) == json.loads(run(*words, "H200").out)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--gpu GTX", "--gpu GTX is neither in the catalogue (H20, H100, H200, B200, A100, L40S) nor a .toml or .json"),
        ("--gpu absent.json", "absent.json cannot be read"),
        ("--bandwidth 0", "--bandwidth 0: give TB/s"),
        ("--bandwidth nan", "--bandwidth nan: give TB/s"),
        ("--bandwidth 4.8e12", "--bandwidth 4.8e+12: give TB/s"),
        ("--sms 0", "--sms"),
    ],
)
def test_a_gpu_that_is_none_is_told(refused, words, said):
    assert said in refused("plan", MIX, *words.split())


def test_table_shows_the_same_numbers(run):
    done = run("plan", MIX, "--policy", "hpc-ops", "--policy", "fixed_splits(8)")
    assert done.code == 0
    for name in ("hpc-ops", "fixed_splits(8)"):
        m = plan_decode(parse_lengths(MIX), num_kv_heads=1, num_ctas=528, policy=name).metrics()
        (line,) = [line for line in done.out.splitlines() if line.startswith(name)]
        assert line.split()[1] == f"{m.call_us:,.1f}"
        assert line.split()[4] == f"{m.max_over_mean:.2f}"
        assert line.split()[-1] == f"{m.empty_ctas:,}"
    assert cost_model().source in done.out


def test_where_lengths_come_from(run, tmp_path, monkeypatch):
    def lengths(*words):
        done = run("plan", *words, "--policy", "lpt", "--json")
        assert done.code == 0, done.err
        return json.loads(done.out)["lengths"]

    path = tmp_path / "lengths.txt"
    path.write_text("[4096, 77]\n")
    assert lengths(path) == [4096, 77]
    path.write_bytes(b"\xef\xbb\xbf4096\r\n77\r\n")
    assert lengths(path) == [4096, 77]
    monkeypatch.setattr(sys, "stdin", io.StringIO("3x1K\n5"))
    assert lengths("-") == [1024] * 3 + [5]
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("2x1K",))
    writer.start()
    assert lengths(pipe) == [1024] * 2
    writer.join()
    assert lengths("zipf") == workload("zipf").tolist()
    trace = tmp_path / "trace.jsonl"
    sample_trace().to_frame().to_json(trace, orient="records", lines=True)
    steps = simulate(sample_trace(), max_batch=16)
    assert lengths(trace, "--step", "700", "--max-batch", "16") == steps.lengths(700).tolist()
    assert lengths(trace, "--step", "-1", "--max-batch", "16") == steps.lengths(-1).tolist()


def test_a_function_in_a_file_is_a_policy(run, policies):
    done = run("plan", "5000 70 0.5K", "--policy", f"{policies}:one_each", "--kv-heads", "2", "--json")
    found = json.loads(done.out)["policies"]
    (metrics,) = found.values()
    assert metrics["descriptors"] == 6
    assert metrics["max_tiles"] == 79


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("lazy", "assigned to no CTA"),
        ("broken", "line 14"),
        ("absent", "it has broken, lazy, one_each"),
    ],
)
def test_a_wrong_function_is_told(refused, policies, name, said):
    assert said in refused("plan", MIX, "--policy", f"{policies}:{name}")


def test_a_file_that_does_not_run_is_told(refused, tmp_path):
    path = tmp_path / "bad.py"
    path.write_text("x = 1\ndef f(:\n")
    assert "line 2: SyntaxError" in refused("plan", MIX, "--policy", f"{path}:f")
    path.write_text("import no_such_module_here\n")
    assert "line 1" in refused("plan", MIX, "--policy", f"{path}:f")
    assert "there is no file" in refused("plan", MIX, "--policy", f"{tmp_path}/none.py:f")


def test_exports(run, tmp_path):
    targets = [tmp_path / name for name in ("plan.json", "plan.trace.json", "plan.npy")]
    words = [word for target in targets for word in ("--export", target)]
    done = run("plan", MIX, "--policy", "hpc-ops", *words)
    assert done.code == 0
    plan = plan_decode(parse_lengths(MIX), num_kv_heads=1, num_ctas=528, policy="hpc-ops")
    read = DecodePlan.from_json(targets[0].read_text())
    assert read.as_lists() == plan.as_lists()
    events = json.loads(targets[1].read_text())["traceEvents"]
    assert sum(event["ph"] == "X" and event["name"].startswith("request") for event in events) == plan.num_descriptors
    np.testing.assert_array_equal(np.load(targets[2], allow_pickle=False), plan.encode())
    assert all(f"Wrote {target}" in " ".join(done.err.split()) for target in targets)


def test_exports_refused(refused, tmp_path):
    assert "exactly one --policy" in refused("plan", MIX, "--export", tmp_path / "a.json")
    assert "ends in" in refused("plan", MIX, "--policy", "lpt", "--export", tmp_path / "a.png")
    assert "no folder" in refused("plan", MIX, "--policy", "lpt", "--export", tmp_path / "no" / "a.json")
    static = refused("plan", MIX, "--policy", "fixed_splits(4)", "--export", tmp_path / "a.npy")
    assert "static grid" in static
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["12Q"], "character 1"),
        (["nothing.csv"], "there is no file"),
        (["pareto"], "one of uniform"),
        ([MIX, "--gpu", "H300"], "nor a .toml or .json"),
        ([MIX, "--tile", "96"], "32, 64, 128"),
        ([MIX, "--cache", "int4"], "fp8"),
        ([MIX, "--policy", "greedy"], "balanced"),
        ([MIX, "--q-len", "7"], "--ctas-per-sm"),
        ([MIX, "--kv-heads", "0"], "kv-heads"),
        ([MIX, "--step", "3"], "no such file"),
        ([], "lengths"),
    ],
)
def test_bad_input(refused, words, said):
    assert said.lower() in refused("plan", *words).lower()


@pytest.mark.parametrize("stdin", [None, io.TextIOWrapper(io.BytesIO(b"4K \xff"), "utf-8")], ids=["closed", "bytes"])
def test_standard_input_that_cannot_be_read(refused, monkeypatch, stdin):
    monkeypatch.setattr(sys, "stdin", stdin)
    assert "lengths" in refused("plan", "-")


def test_an_export_does_not_replace_what_is_read(refused, tmp_path):
    path = tmp_path / "lengths.json"
    path.write_text("[4096, 77]")
    assert "is the file that is read" in refused("plan", path, "--policy", "lpt", "--export", path)
    assert path.read_text() == "[4096, 77]"


def test_no_number_is_cut_on_a_narrow_terminal(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    done = run("plan", "3000x1K", "--policy", "fixed_splits(64)")
    m = plan_decode([1024] * 3000, num_kv_heads=1, num_ctas=528, policy="fixed_splits(64)").metrics()
    assert "\u2026" not in done.out
    (row,) = [line.split() for line in done.out.splitlines() if line.startswith("fixed_splits")]
    assert [row[1], *row[-2:]] == [f"{m.call_us:,.1f}", f"{m.num_bins:,}", f"{m.empty_ctas:,}"]


def test_a_step_of_a_trace_that_decodes_nothing(refused, tmp_path):
    trace = tmp_path / "trace.jsonl"
    trace.write_text('{"arrival_s": 0, "input_tokens": 10, "output_tokens": 1}\n')
    assert "no request decodes a token" in refused("plan", trace, "--step", "0")


def test_a_trace_without_step_and_a_step_that_is_not_there(refused, tmp_path):
    trace = tmp_path / "trace.jsonl"
    sample_trace().to_frame().to_json(trace, orient="records", lines=True)
    assert "add --step" in refused("plan", trace)
    assert "give 0 to" in refused("plan", trace, "--step", "99999999")
