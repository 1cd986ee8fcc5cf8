"""Running a capture's process: its own group, time limit, temporary and home folder, and a log."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import site
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import workbench
from workbench import settings
from workbench.capture.jobs import SCRIPT, JobFolder
from workbench.capture.strays import end_strays
from workbench.errors import CaptureCancelled, CaptureTimeout, InvalidArgument

POLL_SECONDS = 0.05
TERMINATE_SECONDS = 1.0


def run_process(
    folder: JobFolder,
    python: str,
    *,
    ncu: Path | None,
    timeout_s: float,
    cancelled: Callable[[], bool],
    progressed: Callable[[str, int, int], None],
) -> int:
    """Run the script of a job until it ends.

    Parameters
    ----------
    folder
        The job.
    python
        Interpreter.
    ncu
        Command of Nsight Compute; its folder comes first on the process's PATH.
    timeout_s
        Limit of the whole process, seconds.
    cancelled
        Asked often; once it is true the process and all it started are ended.
    progressed
        Told each new stage: its name, cases done, cases in all.

    Returns
    -------
    int
        Exit status; negative: the signal that ended it.

    Raises
    ------
    CaptureCancelled, CaptureTimeout
        It was ended for that reason.
    """
    limit = time.monotonic() + timeout_s
    with folder.log.open("wb") as log:
        # Its standard input closes when this process ends, however it ends: then it ends itself.
        process = subprocess.Popen(
            [python, str(folder.path / SCRIPT)],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=folder.path,
            env=environment(folder, ncu),
            start_new_session=True,
        )
    stage = None
    try:
        while (status := process.poll()) is None:
            if (now := folder.progress()) is not None and now != stage:
                stage = now
                progressed(now["stage"], now["done"], now["total"])
            if cancelled():
                raise CaptureCancelled("the capture was cancelled; nothing of it was recorded.", folder.log_text())
            if time.monotonic() > limit:
                said = (stage or {}).get("stage", "starting Python")
                raise CaptureTimeout(
                    f"the capture took longer than timeout_s={timeout_s:g} and was ended while {said}; nothing of it "
                    "was recorded. Give a longer limit, or fewer metrics and runs.",
                    folder.log_text(),
                )
            time.sleep(POLL_SECONDS)
        return status
    finally:
        end_group(process)
        end_strays(folder.path)


def end_group(process: subprocess.Popen[bytes], seconds: float = TERMINATE_SECONDS) -> None:
    """End a process and everything in its group: asked first, killed so many seconds later."""
    if process.stdin is not None:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        limit = time.monotonic() + seconds
        while time.monotonic() < limit:
            process.poll()  # a child that ended but was not asked after would count as alive
            os.killpg(process.pid, 0)
            time.sleep(POLL_SECONDS)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def environment(folder: JobFolder, ncu: Path | None) -> dict[str, str]:
    """Variables of the process.

    Nsight Compute writes a lock file to TMPDIR and its section files to HOME, so both are folders of ours; caches keep
    their place, lest everything is compiled anew.
    """
    home = settings.cache_dir() / "capture-home"
    _make(home)
    user, inherited = Path.home(), settings.inherited_environment()
    changed = {
        "HOME": str(home),
        "TMPDIR": str(folder.temporary),
        "PYTHONUSERBASE": site.getuserbase(),
        "PYTHONUNBUFFERED": "1",
        "XDG_CACHE_HOME": inherited.get("XDG_CACHE_HOME", str(user / ".cache")),
        "TRITON_CACHE_DIR": inherited.get("TRITON_CACHE_DIR", str(user / ".triton" / "cache")),
        "WORKBENCH_CACHE_DIR": str(settings.cache_dir()),
        "MPLBACKEND": "agg",  # a notebook's own backend would start a kernel's machinery
    }
    ours = str(Path(workbench.__file__).resolve().parents[1])
    changed["PYTHONPATH"] = os.pathsep.join(filter(None, (ours, inherited.get("PYTHONPATH", ""))))
    if ncu is not None:
        changed["PATH"] = os.pathsep.join((str(ncu.parent), inherited.get("PATH", os.defpath)))
    # What one capture sets for itself must not reach another that is started from inside it.
    kept = {name: value for name, value in inherited.items() if not name.startswith("NSPY_")}
    return kept | changed


@contextlib.contextmanager
def only_one(cancelled: Callable[[], bool]) -> Iterator[None]:
    """Wait until no other capture runs on this machine: two at a time would fight for the counters.

    Raises
    ------
    CaptureCancelled
        It was cancelled meanwhile.
    InvalidArgument
        The folder of caches cannot be written.
    """
    path = settings.cache_dir() / "capture.lock"
    _make(path.parent)
    try:
        opened = path.open("w")
    except OSError as error:
        raise _no_cache(path, error) from None
    with opened as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if cancelled():
                    raise CaptureCancelled("the capture was cancelled while it waited for another one.") from None
                time.sleep(POLL_SECONDS)
        yield


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _no_cache(folder, error) from None


def _no_cache(path: Path, error: OSError) -> InvalidArgument:
    return InvalidArgument(
        f"{path} cannot be written: {error.strerror or error}. Set WORKBENCH_CACHE_DIR to a folder that can."
    )
