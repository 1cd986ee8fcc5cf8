"""``workbench tune`` on a machine with no GPU: lists, compiles, models; a study with made-up times; what it refuses."""

from __future__ import annotations

import json

import pytest

from tests.tune.fake_bench import GPU, FakeFactory, small_space
from workbench.cli import tune_run
from workbench.gpu import driver
from workbench.records import Store
from workbench.tables.fused_moe import TILE_KEYS
from workbench.tables.tuned import load_tuned
from workbench.tune import measure_gpu
from workbench.tune.measure import Effort
from workbench.tune.spaces import attention_space, router_space
from workbench.tune.study import Study
from workbench.tune.workers_local import LocalPool

ROUTER = (
    "router",
    "4096,192",
    "--set",
    "tile_m=64",
    "--set",
    "tile_n=16,32",
    "--set",
    "stages=2,4",
    "--set",
    "split_k=1,8",
)


@pytest.fixture(autouse=True)
def own_folders(tmp_path, monkeypatch):
    for name in ("CACHE", "RECORDS", "TABLES", "STUDIES"):
        monkeypatch.setenv(f"WORKBENCH_{name}_DIR", str(tmp_path / name.lower()))
    load_tuned.cache_clear()
    yield
    load_tuned.cache_clear()


def lines(text):
    return [" ".join(line.split()) for line in text.splitlines()]


def test_list_says_what_can_run_and_why_the_rest_cannot(run):
    space = attention_space("64x4K")
    out = lines(run("tune", "list", "attention", "64x4K", "--most", 3).out)
    assert out[0] == f"attention_decode 64x4K: {len(space)} configurations can run, {len(space.refused)} cannot."
    assert "stages: 2, 3, 4, 6, 8 (stages of 64 tokens for every four warps)" in out
    assert out[-1] == f"... and {len(space) - 3} more; --most or --json has them."
    refused = run("tune", "list", "attention", "64x4K", "--refused").out
    assert "2 CTAs of 133,760 bytes of shared memory do not fit an SM" in refused
    said = json.loads(run("tune", "list", "router", "hy3", "--tokens", 8, "--json").out)
    product = router_space(8, 192, 4096)
    assert len(said["valid"]) == len(product)
    assert said["default"] == product.default().to_dict()


def test_resources_are_compiled_here(run, tmp_path):
    done = run("tune", "resources", *ROUTER, "--most", 3, "--json", "--records", tmp_path / "store")
    rows = json.loads(done.out)
    assert done.code == 0
    assert len(rows) == 3
    assert all(row["registers"] > 0 and row["problem"] == "" for row in rows)
    assert len(Store(tmp_path / "store").rows(kind="resources")) == 3
    out = run("tune", "resources", *ROUTER, "--most", 2).out
    assert "compiled, not run; times are modelled" in out
    assert "shared memory" in out


def test_machine_code_is_marked(run):
    pytest.importorskip("triton")
    done = run("tune", "code", "router", "hy3", "--set", "stages=4", "--set", "split_k=1")
    assert done.code == 0
    marked = [line for line in done.out.splitlines() if line.startswith("tensor ")]
    assert all("HGMMA" in line for line in marked)
    assert f"{len(marked)} tensor core" in done.err
    assert "stages=4, split_k=1" in done.err


@pytest.mark.skipif(not driver.probe().problem, reason="a GPU is here")
def test_run_needs_a_gpu_and_says_what_does_not(run):
    done = run("tune", "run", *ROUTER)
    assert done.code == 1
    assert "tune list` and `workbench tune resources` need none" in " ".join(done.err.split())
    assert done.out == ""


@pytest.fixture
def with_a_gpu(monkeypatch):
    """A driver that shows a GPU, and a bench whose times are made up."""
    monkeypatch.setattr(driver, "probe", lambda: driver.DriverStatus((13, 0), 1, None))
    monkeypatch.setattr("workbench.cli.bench.require_torch", lambda: None)
    monkeypatch.setattr("workbench.gpu.ahead.compile_ahead", lambda jobs, **_: None)
    monkeypatch.setattr(measure_gpu, "GpuFactory", lambda *_: FakeFactory(ill=(("16 2 1", "wrong"),)))


@pytest.mark.usefixtures("with_a_gpu")
def test_a_study_from_run_to_apply(run, tmp_path):
    done = run("tune", "run", *ROUTER, "--records", tmp_path / "store")
    assert done.code == 0, done
    out = lines(done.out)
    assert out[0].startswith("router_gemm K4096-N192-M64 on NVIDIA H200:")
    assert "1 failed" in out[0]
    assert any(line.startswith("wrong result: ") and "tile_n=16" in line for line in out)
    journal = next((tmp_path / "studies").glob("*.journal"))
    assert journal.name == "router_gemm-K4096-N192-M64-bf16-nvidia-h200.journal"
    shown = json.loads(run("tune", "show", journal, "--json").out)
    assert shown["finals"][0]["config"]["tile_n"] == 32
    assert len(Store(tmp_path / "store").rows(kind="timing")) == len(shown["timed"])
    again = run("tune", "resume", journal, "--records", "none")
    assert again.code == 0
    assert "trials are finished already" in again.err
    if shown["finals"][0]["config"] != shown["default"]:
        applied = run("tune", "apply", journal)
        assert (applied.code, "Wrote " in applied.out) == (0, True)
        assert "withdrawn" in run("tune", "apply", journal, "--withdraw").out
    assert "There was no default" in run("tune", "apply", journal, "--withdraw").out


def test_a_study_without_finals_is_not_a_result(run, tmp_path, refused):
    path = tmp_path / "s"
    with (
        Study(small_space(), path, gpu=GPU, effort=Effort(first=1, rounds=1)) as study,
        LocalPool(FakeFactory()) as pool,
    ):
        study.run(pool, most=9)
    out = run("tune", "show", path).out
    assert "9 of" in out
    assert "first samples, not results" in out
    done = run("tune", "apply", path)
    assert done.code == 1
    assert "has no finals yet" in done.err
    assert "there is no file" in run("tune", "show", tmp_path / "none").err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("list", "moe", "64x4K"), "operator 'moe' is not known"),
        (("list", "attention", "64x"), "cannot read the lengths"),
        (("list", "router", "nobody"), "nobody"),
        (("list", "attention", "64x4K", "--set", "stage=3"), "--set stage=3: give NAME=V"),
        (("list", "attention", "64x4K", "--set", "stages=many"), "give values such as 2"),
        (("list", "attention", "64x4K", "--set", "pdl=1"), "give values such as True"),
        (("list", "attention", "64x4K", "--set", "stages=4", "--set", "stages=6"), "--set stages is given twice"),
        (("list", "attention", "64x4K", "--group", "3"), "group is 3"),
        (("list", "router", "hy3", "--terms", "4"), "4 terms"),
        (("resources", "router", "hy3", "--gpu", "A100"), "A100 is sm_80"),
        (("moe-lint", "nowhere", "--engine", "vllm"), "there is no folder"),
        (("moe-lint", ".", "--engine", "trt"), "engine 'trt'"),
    ],
)
def test_what_it_refuses(refused, words, said):
    assert said in refused("tune", *words)


@pytest.mark.usefixtures("with_a_gpu")
def test_large_spaces_and_wrong_gpus_are_refused(refused):
    assert "Give --promising 60" in refused("tune", "run", "router", "hy3")
    assert "--gpus 0,0" in refused("tune", "run", *ROUTER, "--gpus", "0,0")
    assert "method 'best' is not known" in refused("tune", "run", *ROUTER, "--method", "best")


def test_ordinals():
    assert tune_run.ordinals("0,3") == (0, 3)


def test_moe_files_are_linted_and_written(run, tmp_path):
    tile = dict(zip(TILE_KEYS, (64, 128, 128, 32, 4, 3), strict=True))
    path = tmp_path / "E=256,N=256,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json"
    path.write_text(json.dumps({"1": tile, "64": tile}))
    done = run("tune", "moe-lint", path, "--engine", "sglang")
    assert done.code == 1
    assert "unread: sglang looks for" in done.out
    assert run("tune", "moe-lint", path, "--engine", "vllm").code == 0
    out = run("tune", "moe-export", path, "--engine", "sglang", "--folder", tmp_path / "out", "--triton", "3.6.0").out
    assert "triton_3_6_0" in out
    assert "1 to 32 tokens: entry 1" in out
    assert "33 and more tokens: entry 64" in out
    lint = run("tune", "moe-lint", tmp_path / "out", "--engine", "sglang", "--triton", "3.6.0", "--json")
    assert (lint.code, json.loads(lint.out)) == (0, [])
