"""The folder of one capture process: what it is told, what it leaves, and who owns it.

=================== ================================================================================
job.json            what to do
capture_job.py      the script that reads it, found beside itself: nsight-python 0.9.6 rebuilds the
                    command line without quotes, so a space in an argument would break it
progress.jsonl      stages as they begin
log.txt             everything that was printed
case-<n>.json       what the n-th case turned out to be; timeline-<n>.npz and stamps-<n>.json beside it
result.json         the counters, written whole or not at all
failure.json        the first error, likewise
calling             there while the captured call runs, and after it where that ended the process
first               made by the first process of the job; the one under ncu comes second
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
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from pydantic import BaseModel, ConfigDict

from workbench.capture.requests import Request
from workbench.capture.strays import end_strays
from workbench.errors import CaptureError, ProfilerUnavailable

PREFIX = "workbench-capture-"
SCRIPT = "capture_job.py"
_PLAIN_PATH = re.compile(r"[A-Za-z0-9._/+-]+")
_UNOWNED_SECONDS = 3600


class Job(BaseModel):
    """What one process captures: cases that share metrics and runs."""

    model_config = ConfigDict(frozen=True, strict=True)

    requests: tuple[Request, ...]
    metrics: tuple[str, ...]
    """Those that the installed Nsight Compute knows."""
    stamped_metrics: tuple[str, ...] = ()
    """What instrumented builds are profiled with: a single pass."""
    runs: int
    counters: bool
    timeline: bool
    paths: tuple[str, ...] = ()
    """Folders that Python looks for modules in, before its own."""


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

    @property
    def calling(self) -> Path:
        """There while the captured call runs."""
        return self.path / "calling"

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

    def needed(self, name: str) -> Any:
        """The same, of a file without which there is no record.

        Raises
        ------
        CaptureError
            It is not there.
        """
        if (found := self.read(name)) is None:
            raise CaptureError(
                f"the capture left no {name}. Does the call remove files of its folder?", self.log_text()
            )
        return found

    def fail(self, error: BaseException, *, by_work: bool) -> None:
        """Write the first error; what follows from it is not kept.

        Parameters
        ----------
        error
            What was raised.
        by_work
            Whether the captured call raised it, or else the tools around it.
        """
        if self.read("failure.json") is None:  # the process under ncu fails first and knows more
            kinds = [kind.__name__ for kind in type(error).__mro__]
            text = "".join(traceback.format_exception(error))
            said = {"kinds": kinds, "message": str(error), "traceback": text, "by_work": by_work}
            self.write("failure.json", said)

    def first(self) -> bool:
        """Whether this process is the first of the job; true once."""
        try:
            (self.path / "first").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

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

    def stages(self) -> list[str]:
        """Every stage that began, in order."""
        try:
            lines = (self.path / "progress.jsonl").read_text().splitlines()
        except FileNotFoundError:
            return []
        return [json.loads(line)["stage"] for line in lines if line.endswith("}")]

    def log_text(self) -> str:
        """What was printed and what Nsight Compute logged, together."""
        files = [self.log, *sorted(self.path.glob("*.log"))]
        return "\n".join(file.read_text(errors="replace") for file in files if file.is_file())

    def profiler_text(self) -> str:
        """What Nsight Compute itself said: its log, and those lines on the output that begin as its do."""
        logs = [file.read_text(errors="replace") for file in sorted(self.path.glob("*.log"))]
        printed = self.log.read_text(errors="replace") if self.log.is_file() else ""
        return "\n".join([*logs, *(line for line in printed.splitlines() if line.startswith("=="))])


@contextlib.contextmanager
def job_folder(job: Job) -> Iterator[JobFolder]:
    """A folder for one job, removed at the end; folders of processes that died before are removed first.

    Raises
    ------
    ProfilerUnavailable
        No temporary folder has a path that nsight-python can use.
    CaptureError
        The folder cannot be written.
    """
    base = _base()
    remove_abandoned(base)
    with contextlib.ExitStack() as stack:
        try:
            path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base))
            stack.callback(shutil.rmtree, path, ignore_errors=True)
            stack.enter_context(_own(path))
            folder = JobFolder(path)
            folder.temporary.mkdir()
            (path / "job.json").write_text(job.model_dump_json())
            shutil.copyfile(Path(__file__).with_name("script.py"), path / SCRIPT)
        except OSError as error:
            raise CaptureError(
                f"a capture cannot be prepared in {base}: {error.strerror or error}. Make room there, or set TMPDIR to "
                "another folder."
            ) from None
        yield folder


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
        except FileNotFoundError:  # being made this moment; or its maker was killed at that moment
            with contextlib.suppress(OSError):  # another user's, or gone
                if time.time() - path.stat().st_mtime > _UNOWNED_SECONDS:
                    path.rmdir()
            continue
        except OSError:  # another user's
            continue
        with owner:
            if _lock(owner):
                end_strays(path)
                shutil.rmtree(path, ignore_errors=True)


def _lock(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
