"""The examples of docs/crossovers.md run, and what they are said to print is printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.conftest import run  # noqa: F401

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "crossovers.md").read_text(encoding="utf-8")
PYTHON = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(autouse=True)
def own_folders(tmp_path, monkeypatch):
    for name in ("CACHE", "RECORDS", "TABLES"):
        monkeypatch.setenv(f"WORKBENCH_{name}_DIR", str(tmp_path / name.lower()))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("source", PYTHON, ids=lambda source: source.split("\n")[0][:40])
def test_examples_run(source, capsys):
    if "router_gemm" in source or "workbench.measure" in source:
        pytest.importorskip("torch")
    if "hidden_states.npy" in source:  # the reader's own files
        import numpy as np
        from safetensors.numpy import save_file

        np.save("hidden_states.npy", np.ones((3, 4096), np.float32))
        name = re.search(r'name="(.*?)"', source)[1]
        save_file({name: np.ones((192, 4096), np.float32)}, "model-00001.safetensors")
    # A measurement of the reader's: FP32 is faster up to M = 100.
    source = re.sub(r"\.\.\.  # that many.*", 'return [5.0 if provider == "mine" else 4.0 + 0.01 * m] * rounds', source)
    space: dict = {}
    try:
        exec(compile(source, "docs/crossovers.md", "exec"), space)
    finally:
        if "use_table" in space:
            space["use_table"](None)
    out = capsys.readouterr().out
    if "SGLang's table loses" in source:
        assert re.fullmatch(r"SGLang's table loses 13\.5 us a call \(12\.8 to 14\.2\)\n", out)
    if "interleaved" in source:
        (crossing,) = space["search"].crossings()
        assert (crossing.before, crossing.after) == ("cublas-fp32", "mine")
        assert crossing.low <= 100 <= crossing.high


def test_the_command_prints_what_the_page_shows(run):  # noqa: F811
    block = re.search(r"```console\n\$ workbench (.*?)\n(.*?)```", PAGE, re.DOTALL)
    done = run(*block[1].split())
    printed = [" ".join(line.split()) for line in done.out.splitlines()]
    for line in block[2].splitlines():
        assert " ".join(line.split()) in printed
