"""Processes that left their capture's group, which a program does that makes a session of its own."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path


def end_strays(folder: Path) -> None:
    """Kill every process that was started with a TMPDIR in a capture's folder, whatever session it is in now.

    Linux tells what a process was started with; elsewhere this finds none.
    """
    mark = f"\0TMPDIR={folder}{os.sep}".encode()
    for status in Path("/proc").glob("[0-9]*/environ"):
        # Gone meanwhile, or another user's.
        with contextlib.suppress(OSError):
            if mark in b"\0" + status.read_bytes():
                os.kill(int(status.parent.name), signal.SIGKILL)
