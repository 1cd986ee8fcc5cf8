"""Asking a command a question that it answers at once, such as its version; one that does not answer is ended."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence


def ask(command: Sequence[str], seconds: float) -> subprocess.CompletedProcess[str]:
    """Run a command and take what it prints.

    `subprocess.run` ends the command alone when time is up, and then waits for whatever holds its output. ncu is a
    shell script in most installations, so what hangs is a child of it: here the whole group is ended.

    Parameters
    ----------
    command
        Program and arguments.
    seconds
        Limit.

    Raises
    ------
    OSError
        It cannot be started.
    subprocess.TimeoutExpired
        It took longer.
    """
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=seconds)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)
