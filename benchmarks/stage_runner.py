"""Run stages one after another, each in a process group of its own with a time limit and a log; pack what they leave.

Knows nothing of what the stages do. A stage that fails, hangs or is killed does not keep the others from running, and
one whose stated need exceeds the time that is left is not begun. Stages that time something run alone; neighbours that
do not may run side by side. The archive is written anew after each stage, so that also an end without warning leaves
all that was finished before.
"""

from __future__ import annotations

import contextlib
import itertools
import shlex
import signal
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from workbench.capture.process import end_group

POLL_S = 0.1
TERMINATE_S = 3.0
SHOWN_LINES = 15
PACK_S = 5.0
"""Seconds kept back for ending the last stage and packing."""


@dataclass(frozen=True)
class Stage:
    """What to run, and how long that takes.

    Attributes
    ----------
    name, what : str
        In a word and in words.
    commands : tuple of argument lists
        Run in turn, also after one that failed; the stage fails where one of them did.
    needs_s : float
        Seconds that it takes: with fewer left it is not begun.
    limit_s : float
        Seconds after which it is ended.
    alone : bool
        It times something, so that nothing may run beside it.
    gpus : int
        GPUs without which it is not begun.
    """

    name: str
    what: str
    commands: tuple[tuple[str, ...], ...]
    needs_s: float
    limit_s: float
    alone: bool = True
    gpus: int = 1


@dataclass(frozen=True)
class Outcome:
    """What became of a stage: "ok", "failed", "over its limit", "stopped" or "not begun", and why."""

    name: str
    state: str
    seconds: float = 0.0
    reason: str = ""


class Running:
    """A stage under way: its present command, and what became of those before.

    Parameters
    ----------
    stage
    log
        File that all of its commands write to.
    environment, folder
        Of its processes.
    limit_s
        Seconds from now.
    """

    def __init__(self, stage: Stage, log: Path, environment: Mapping[str, str], folder: Path, limit_s: float) -> None:
        self.stage, self.log = stage, log
        self._environment, self._folder = environment, folder
        self._began = time.monotonic()
        self._limit = self._began + limit_s
        self._waiting = iter(stage.commands)
        self._complaints: list[str] = []
        self._process: subprocess.Popen[bytes] | None = None
        log.write_bytes(b"")
        self._next()

    def _next(self) -> bool:
        command = next(self._waiting, None)
        if command is None:
            return False
        with self.log.open("ab") as out:
            out.write(f"$ {shlex.join(command)}\n".encode())
            out.flush()
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, cwd=self._folder,
                env=dict(self._environment), start_new_session=True,
            )  # fmt: skip
        self._command = command
        return True

    def poll(self) -> Outcome | None:
        """What became of it; None while it runs."""
        assert self._process is not None
        status = self._process.poll()
        if status is None:
            return self.end("over its limit") if time.monotonic() > self._limit else None
        end_group(self._process, TERMINATE_S)  # what it left running
        if status:
            how = f"signal {-status}" if status < 0 else f"exit status {status}"
            self._complaints.append(f"{how} of {shlex.join(self._command[:4])}")
        return None if self._next() else self._outcome("failed" if self._complaints else "ok")

    def end(self, state: str) -> Outcome:
        """End it with all that it started."""
        assert self._process is not None
        end_group(self._process, TERMINATE_S)
        return self._outcome(state)

    def _outcome(self, state: str) -> Outcome:
        return Outcome(self.stage.name, state, time.monotonic() - self._began, "; ".join(self._complaints))


@dataclass
class Runner:
    """Runs stages within a limit for all of them.

    Attributes
    ----------
    out : Path
        Folder of the archives.
    work : Path
        Folder in which the stages write; logs go to ``work/logs``.
    limit_s : float
        Seconds for everything, packing included.
    environment : mapping
        Variables of the stages' processes.
    folder : Path
        Their working directory.
    gpus : int
        GPUs that there are.
    say : callable
        Prints a line.
    """

    out: Path
    work: Path
    limit_s: float
    environment: Mapping[str, str]
    folder: Path
    gpus: int = 1
    say: Callable[[str], None] = lambda line: print(line, flush=True)
    outcomes: list[Outcome] = field(default_factory=list)
    stopped: str = ""

    def __post_init__(self) -> None:
        self._began = time.monotonic()
        self.logs.mkdir(parents=True, exist_ok=True)
        self.out.mkdir(parents=True, exist_ok=True)

    @property
    def logs(self) -> Path:
        """Folder of the logs, one a stage."""
        return self.work / "logs"

    def left_s(self) -> float:
        """Seconds for stages."""
        return self.limit_s - PACK_S - (time.monotonic() - self._began)

    def run(self, *phases: Sequence[Stage]) -> bool:
        """Run the stages of each phase in order, pack after each, and say whether all went well.

        SIGTERM and Ctrl-C end the stage under way; what there is by then is packed.
        """
        with self._stoppable():
            for alone, group in (each for stages in phases for each in itertools.groupby(stages, lambda s: s.alone)):
                for together in ([one] for one in group) if alone else (list(group),):
                    self._together(together)
                    self.pack()
        return all(outcome.state == "ok" for outcome in self.outcomes)

    def _together(self, stages: Sequence[Stage]) -> None:
        running: list[Running] = []
        for stage in stages:
            if reason := self._hindrance(stage):
                self._told(Outcome(stage.name, "not begun", reason=reason))
                continue
            limit = min(stage.limit_s, self.left_s())
            log = self.logs / f"{stage.name}.log"
            running.append(Running(stage, log, self.environment, self.folder, limit))
        while running:
            time.sleep(POLL_S)
            for one in tuple(running):
                outcome = one.end("stopped") if self.stopped else one.poll()
                if outcome is not None:
                    running.remove(one)
                    self._told(outcome, one.log)

    def _hindrance(self, stage: Stage) -> str:
        """Why a stage cannot be begun."""
        if self.stopped:
            return self.stopped
        if stage.gpus > self.gpus:
            return f"it needs {stage.gpus} GPUs, here {'is' if self.gpus == 1 else 'are'} {self.gpus}"
        left = self.left_s()
        return f"it needs {stage.needs_s:.0f} s, {max(left, 0):.0f} s are left" if left < stage.needs_s else ""

    def _told(self, outcome: Outcome, log: Path | None = None) -> None:
        self.outcomes.append(outcome)
        at = time.monotonic() - self._began
        reason = f": {outcome.reason}" if outcome.reason else ""
        self.say(f"{at:6.1f} s  {outcome.name:12}{outcome.seconds:7.1f} s  {outcome.state}{reason}")
        if log is not None and outcome.state != "ok":
            for line in log.read_text(errors="replace").splitlines()[-SHOWN_LINES:]:
                self.say(f"    {line}")

    def pack(self) -> None:
        """Write ``results.tar.gz`` (all but logs) and ``logs.tar.gz``, whole or not at all."""
        everything = sorted(self.work.iterdir())
        for name, parts in (("results", [p for p in everything if p != self.logs]), ("logs", [self.logs])):
            unfinished = self.out / f".{name}.tar.gz"
            with tarfile.open(unfinished, "w:gz", compresslevel=5) as archive:
                for part in parts:
                    archive.add(part, part.name)
            unfinished.replace(self.out / f"{name}.tar.gz")

    @contextlib.contextmanager
    def _stoppable(self) -> Iterator[None]:
        """Signals ask the loop to end: raised wherever it stands, they could break an archive."""

        def stop(number: int, frame: FrameType | None) -> None:
            self.stopped = f"{signal.Signals(number).name} came"

        before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
