"""The page on crossovers shows what the command prints, and its examples run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from workbench.tables import forget_tables, load_table

PAGE = (Path(__file__).parents[2] / "docs" / "crossovers.md").read_text(encoding="utf-8")
RECORDED, MEASURE, TABLE, PRECISION, FILES = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def own_folders(tmp_path, monkeypatch):
    for name in ("CACHE", "RECORDS", "TABLES"):
        monkeypatch.setenv(f"WORKBENCH_{name}_DIR", str(tmp_path / name.lower()))
    monkeypatch.chdir(tmp_path)
    forget_tables()
    yield
    forget_tables()


def lines(text):
    return [" ".join(line.split()) for line in text.splitlines()]


def test_the_output_shown_is_what_is_printed(run):
    command, shown = re.search(r"^\$ workbench (.*)\n((?:.+\n|\n)*?)```", PAGE, re.MULTILINE).groups()
    done = run(*shlex.split(command))
    assert done.code == 0, done
    assert lines(done.out)[: len(lines(shown))] == lines(shown)
    assert len(lines(shown)) > 10


def test_records_are_priced(capsys):
    exec(RECORDED, {})
    lost, low, high = map(float, re.findall(r"\d+\.\d", capsys.readouterr().out))
    assert 0 < low <= lost <= high


def test_something_else_is_measured():
    left_open = "def measure(provider, m, rounds): ..."
    assert left_open in MEASURE
    one_line = "def measure(provider, m, rounds): return [m / 100 + (5 if provider == 'mine' else 1)] * rounds"
    names: dict = {}
    exec(MEASURE.replace(left_open, one_line), names)
    assert {verdict.winner for verdict in names["search"].verdicts()} == {"cublas-fp32"}
    assert names["search"].from_json(names["kept"]).points == names["search"].points


def test_a_table_is_used(run):
    from workbench.ops.router_gemm.providers import resolve, use_table

    assert (
        run("crossover", "hy3", "--from-records", "--provider", "cublas-fp32", "--export", "table=hy3.json").code == 0
    )
    assert load_table("hy3.json").choose(16) == "cublas-fp32"
    try:
        exec(TABLE, {})
        assert resolve("auto", 16, 192, 4096) == "torch"
    finally:
        use_table(None)


def test_a_saved_table_is_used_without_more(run):
    from workbench.ops.router_gemm.providers import resolve

    words = ("crossover", "hy3", "--from-records", "--provider", "cublas-fp32", "--save")
    assert resolve("auto", 16, 192, 4096, gpu="NVIDIA H200") == "cuda"
    assert run(*words).code == 0
    assert resolve("auto", 16, 192, 4096, gpu="NVIDIA H200") == "torch"
    assert resolve("auto", 16, 192, 4096, "tf32", gpu="NVIDIA H200") == "cuda"  # a class of its own
    assert run(*words, "--precision", "tf32").code == 0
    assert resolve("auto", 16, 192, 4096, "tf32", gpu="NVIDIA H200") == "torch"


def test_arithmetic_is_compared(capsys):
    exec(PRECISION.replace("tokens=2048", "tokens=64"), {})
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) >= 7
    assert all("error" in line and "other experts" in line for line in shown)


def test_files_are_read(tmp_path):
    import torch
    from safetensors.torch import save_file

    np.save("hidden_states.npy", np.ones((3, 4096), np.float32))
    save_file({"model.layers.3.mlp.gate.weight": torch.ones(192, 4096)}, "model-00001.safetensors")
    names: dict = {}
    exec(FILES, names)
    assert tuple(names["x"].shape) == (3, 4096)
    assert tuple(names["weight"].shape) == (192, 4096)
