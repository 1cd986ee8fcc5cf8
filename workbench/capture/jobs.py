"""The folder of one capture process: what it is told, what it leaves, and who owns it.

=================== ================================================================================
job.json            what to do
capture_job.py      the script that reads it, found beside itself: nsight-python 0.9.6 rebuilds the
                    command line without quotes, so a space in an argument would break it
progress.jsonl      stages as they begin
log.txt             everything that was printed
case-<n>.json       what the n-th case turned out to be; timeline-<n>.npz beside it
result.json         the counters, written whole or not at all
failure.json        the first error, likewise
owner               locked while the process that asked lives; a folder that nobody owns is removed by
                    the next capture
=================== ================================================================================
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from pydantic import BaseModel, ConfigDict

from workbench.capture.requests import Request
from workbench.errors import ProfilerUnavailable

PREFIX = "workbench-capture-"
SCRIPT = "capture_job.py"
_PLAIN_PATH = re.compile(r"[A-Za-z0-9._/+-]+")


class Job(BaseModel):
    """What one process captures: cases that share metrics and runs."""

    model_config = ConfigDict(frozen=True, strict=True)

    requests: tuple[Request, ...]
    metrics: tuple[str, ...]
    """Those that the installed Nsight Compute knows."""
    runs: int
    counters: bool
    timeline: bool
    paths: tuple[str, ...] = ()
    """Folders that Python looks for modules in, before its own."""
    asked_by: int
    """The process that waits for this one."""


@dataclass(frozen=True)
class JobFolder:
    """Paths in the folder of a job."""

    path: Path

    @property
    def log(self) -> Path:
        """Everything that the processes printed."""
        return self.path / "log.txt"

    @property
    def temporary(self) -> Path:
        """The processes' TMPDIR."""
        return self.path / "tmp"

    def job(self) -> Job:
        """What to do."""
        return Job.model_validate_json((self.path / "job.json").read_bytes())

    def read(self, name: str) -> Any:
        """Content of a JSON file that the process left, or None where it did not."""
        try:
            return json.loads((self.path / name).read_bytes())
        except FileNotFoundError:
            return None

    def write(self, name: str, content: Any) -> None:
        """Write a JSON file whole or not at all."""
        unfinished = self.path / f".{name}.{os.getpid()}"
        unfinished.write_text(json.dumps(content))
        unfinished.replace(self.path / name)

    def report_progress(self, stage: str, done: int, total: int) -> None:
        """Add a line to the progress file."""
        with (self.path / "progress.jsonl").open("a") as file:
            file.write(json.dumps({"stage": stage, "done": done, "total": total}) + "\n")

    def progress(self) -> dict[str, Any] | None:
        """The last stage that began."""
        try:
            lines = (self.path / "progress.jsonl").read_text().splitlines()
            return dict(json.loads(lines[-1])) if lines else None
        except (FileNotFoundError, json.JSONDecodeError):  # not begun, or in the middle of a line
            return None

    def log_text(self) -> str:
        """What was printed and what Nsight Compute logged, together."""
        files = [self.log, *sorted(self.path.glob("*.log"))]
        return "\n".join(file.read_text(errors="replace") for file in files if file.is_file())


@contextlib.contextmanager
def job_folder(job: Job) -> Iterator[JobFolder]:
    """A folder for one job, removed at the end; folders of processes that died before are removed first.

    Raises
    ------
    ProfilerUnavailable
        No temporary folder has a path that nsight-python can use.
    """
    base = _base()
    remove_abandoned(base)
    path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base))
    try:
        with _own(path):
            folder = JobFolder(path)
            folder.temporary.mkdir()
            (path / "job.json").write_text(job.model_dump_json())
            shutil.copyfile(Path(__file__).with_name("script.py"), path / SCRIPT)
            yield folder
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _base() -> Path:
    for candidate in (tempfile.gettempdir(), "/tmp", "/var/tmp"):
        if _PLAIN_PATH.fullmatch(candidate) and os.access(candidate, os.W_OK):
            return Path(candidate)
    raise ProfilerUnavailable(
        f"nsight-python needs a temporary folder without spaces in its path; {tempfile.gettempdir()!r} has some, or "
        "cannot be written. Set TMPDIR to another."
    )


@contextlib.contextmanager
def _own(path: Path) -> Iterator[None]:
    with (path / "owner").open("w") as owner:
        fcntl.flock(owner, fcntl.LOCK_EX)
        yield


def remove_abandoned(base: Path) -> None:
    """Remove job folders whose owner died. Locks end with the process that holds them, also when it is killed."""
    for path in base.glob(f"{PREFIX}*"):
        try:
            owner = (path / "owner").open("r+")
        except OSError:  # being made this moment, or another user's
            continue
        with owner:
            if _lock(owner):
                shutil.rmtree(path, ignore_errors=True)


def _lock(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
