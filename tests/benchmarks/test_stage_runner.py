"""Stages that pass, fail, hang and are killed: each is told, the others run, and the archives hold what there is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from benchmarks.stage_runner import Runner, Running, Stage

ROOT = Path(__file__).resolve().parents[2]
LONG_S = 600.0
FOREVER = "import time; print('began', flush=True); time.sleep(600)"


def stage(name: str, *codes: str, needs_s: float = 0.0, limit_s: float = LONG_S, alone: bool = True, gpus: int = 1):
    commands = tuple((sys.executable, "-c", code) for code in codes)
    return Stage(name, name, commands, needs_s, limit_s, alone=alone, gpus=gpus)


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def runner(tmp_path: Path, lines: list[str]) -> Runner:
    return Runner(tmp_path / "out", tmp_path / "work", LONG_S, dict(os.environ), tmp_path, say=lines.append)


def states(runner: Runner) -> dict[str, str]:
    return {outcome.name: outcome.state for outcome in runner.outcomes}


def names(archive: Path) -> set[str]:
    with tarfile.open(archive) as opened:
        return {member.name for member in opened if member.isfile()}


def content(archive: Path, name: str) -> str:
    with tarfile.open(archive) as opened:
        found = opened.extractfile(name)
        assert found is not None
        return found.read().decode()


def ended(pid: int) -> bool:
    """Whether a process is gone, or dead and not yet asked after."""
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"


def wait_until(condition) -> None:
    limit = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.05)


def test_whatever_becomes_of_one_the_others_run(runner: Runner, lines: list[str], tmp_path: Path) -> None:
    write = f"import pathlib; pathlib.Path({str(tmp_path / 'work' / 'figures.json')!r}).write_text('[1]')"
    passed = runner.run([
        stage("passes", write),
        stage("fails", "print('what went wrong'); raise SystemExit(3)", "print('and the second command ran')"),
        stage("hangs", FOREVER, limit_s=1.0),
        stage("killed", "import os; os.kill(os.getpid(), 9)"),
        stage("last", "print('still here')"),
    ])  # fmt: skip
    assert not passed
    assert states(runner) == {
        "passes": "ok", "fails": "failed", "hangs": "over its limit", "killed": "failed", "last": "ok",
    }  # fmt: skip
    told = "\n".join(lines)
    assert "exit status 3" in told
    assert "signal 9" in told
    assert "    what went wrong" in lines
    assert "    still here" not in lines  # words of one that passed are in its log
    assert names(tmp_path / "out" / "results.tar.gz") == {"figures.json"}
    logs = tmp_path / "out" / "logs.tar.gz"
    assert names(logs) == {f"logs/{name}.log" for name in states(runner)}
    assert "and the second command ran" in content(logs, "logs/fails.log")
    assert "still here" in content(logs, "logs/last.log")


def test_what_a_stage_started_ends_with_it(runner: Runner, tmp_path: Path) -> None:
    start = (
        "import pathlib, subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "pathlib.Path('unfinished').write_text(str(child.pid)); pathlib.Path('unfinished').replace({!r})\n"
    )
    assert runner.run([stage("leaves one", start.format("left"))])
    hung = stage("hangs", start.format("hung") + "child.wait()")
    running = Running(hung, runner.logs / "hangs.log", runner.environment, tmp_path, LONG_S)
    wait_until((tmp_path / "hung").exists)
    assert running.poll() is None
    assert running.end("stopped").state == "stopped"
    for pid in ("left", "hung"):
        wait_until(lambda pid=pid: ended(int((tmp_path / pid).read_text())))


def test_what_does_not_fit_is_not_begun(runner: Runner, lines: list[str]) -> None:
    runner.limit_s = 100.0
    runner.run([stage("too long", "pass", needs_s=1000.0), stage("two", "pass", gpus=2), stage("fits", "pass")])
    assert states(runner) == {"too long": "not begun", "two": "not begun", "fits": "ok"}
    assert "it needs 1000 s" in lines[0]
    assert "it needs 2 GPUs, here is 1" in lines[1]


def test_only_what_times_nothing_runs_side_by_side(runner: Runner, tmp_path: Path) -> None:
    """Each of two writes a file and waits for the other's; of two that are alone the second finds the first's end."""
    code = (
        "import pathlib, time\n"
        "here = pathlib.Path({here!r}); here.touch()\n"
        "while not pathlib.Path({other!r}).exists(): time.sleep(0.01)\n"
    )
    a, b, c = (str(tmp_path / name) for name in "abc")
    alone = f"import pathlib, time; time.sleep(0.5); pathlib.Path({c!r}).touch()"
    after = f"import pathlib; assert pathlib.Path({c!r}).exists()"
    passed = runner.run(
        [stage("a", code.format(here=a, other=b), alone=False), stage("b", code.format(here=b, other=a), alone=False)],
        [stage("c", alone), stage("d", after)],
    )
    assert passed, states(runner)


def test_a_phase_waits_for_the_one_before(runner: Runner, tmp_path: Path) -> None:
    made = str(tmp_path / "made")
    before = f"import pathlib, time; time.sleep(0.5); pathlib.Path({made!r}).touch()"
    after = f"import pathlib; assert pathlib.Path({made!r}).exists()"
    assert runner.run([stage("before", before, alone=False)], [stage("after", after, alone=False)])


INTERRUPTED = """
import os, sys
from pathlib import Path
from benchmarks.stage_runner import Runner, Stage

def stage(name, code):
    return Stage(name, name, ((sys.executable, "-c", code),), 0.0, 600.0)

folder = Path(sys.argv[1])
runner = Runner(folder / "out", folder / "work", 600.0, dict(os.environ), folder)
good = runner.run([
    stage("first", "print('done before')"),
    stage("second", {forever!r}),
    stage("third", "print('never')"),
])
raise SystemExit(0 if good else 1)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interruption_leaves_archives(tmp_path: Path, number: signal.Signals) -> None:
    code = INTERRUPTED.format(forever=FOREVER)
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    log = tmp_path / "work" / "logs" / "second.log"
    try:
        wait_until(lambda: log.exists() and "\nbegan" in log.read_text())
        process.send_signal(number)
        said, _ = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 1
    assert "stopped" in said
    assert f"not begun: {number.name} came" in said
    archive = tmp_path / "out" / "logs.tar.gz"
    assert names(archive) == {"logs/first.log", "logs/second.log"}
    assert "done before" in content(archive, "logs/first.log")
    assert (tmp_path / "out" / "results.tar.gz").exists()
