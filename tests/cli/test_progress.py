"""Bars are for whoever looks at a terminal; what is written elsewhere is the same with and without one."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from importlib.resources import files

import pytest

COMMAND = [sys.executable, "-m", "workbench"]
SAMPLE = str(files("workbench.workloads") / "data" / "sample_trace.jsonl")


def on_a_terminal(*words: str) -> tuple[str, str]:
    """Standard output into a file, and what a terminal at standard error showed."""
    ours, theirs = os.openpty()
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(
            [*COMMAND, *words], stdin=subprocess.DEVNULL, stdout=out, stderr=theirs, env=os.environ | {"TERM": "xterm"}
        )
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # how Linux tells that the other end is closed
            while part := os.read(ours, 65536):
                shown += part
        os.close(ours)
        assert process.wait() == 0, shown
        out.seek(0)
        return out.read().decode(), shown.decode()


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="the system has no terminals")
@pytest.mark.parametrize(
    ("words", "stages"),
    [
        (("2x8K", "--json"), ("trying static settings", "planning")),
        (("2x8K", "--policy", "lpt", "--json"), ("planning",)),
        ((SAMPLE, "--step", "9", "--json"), ("simulating requests", "trying static settings", "planning")),
    ],
    ids=("lengths", "policy", "trace"),
)
def test_plan_shows_its_stages_on_a_terminal_only(words: tuple[str, ...], stages: tuple[str, ...]) -> None:
    out, shown = on_a_terminal("plan", *words)
    for stage in stages:
        assert stage in shown
    assert ("trying" in shown) is ("trying static settings" in stages)
    piped = subprocess.run([*COMMAND, "plan", *words], capture_output=True, text=True, check=True)
    assert (piped.stdout, piped.stderr) == (out, "")
