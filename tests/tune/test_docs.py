"""The page about tuning: its examples run, and the commands that it names exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from workbench.cli import tune
from workbench.gpu.driver import probe

PAGE = (Path(__file__).parents[2] / "docs" / "tuning.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_the_examples_run(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    without_gpu = [example for example in EXAMPLES if not example.startswith("# needs a GPU")]
    assert len(without_gpu) == len(EXAMPLES) - 1 == 3
    for example in without_gpu:
        exec(example, names)
    out = capsys.readouterr().out
    assert "156 can run, 84 cannot" in out
    assert "3 rows x 7 columns" in out


@pytest.mark.gpu
def test_the_example_on_a_gpu_runs(tmp_path, monkeypatch):
    assert probe().problem is None
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for example in EXAMPLES:
        exec(example.replace("promising(60)", "promising(5)"), names)
    assert names["result"].best.median_us > 0


def test_the_commands_exist():
    known = {command.name or command.callback.__name__.replace("_", "-") for command in tune.app.registered_commands}
    named = set(re.findall(r"workbench tune ([a-z-]+)", PAGE)) | {"resume", "apply", "moe-export"}
    assert named == known
