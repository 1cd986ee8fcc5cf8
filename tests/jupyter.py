"""A JupyterLab server started through ``workbench lab``, for tests that look at it as a user's browser would."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Queue
from typing import Any

from tests.waiting import SECONDS, until

START_SECONDS = 180.0
"""Longest silence of a JupyterLab that starts on a busy machine."""

_ADDRESS = re.compile(r"(http://127\.0\.0\.1:(\d+)/lab\S*)\?token=([0-9a-f]{32,})")


@dataclass(frozen=True)
class Server:
    """A running server."""

    page: str
    """Address of the page it opens, without the token."""
    port: int
    token: str
    process: subprocess.Popen[str]
    lines: list[str]
    """What it has printed."""

    def get(self, path: str, *, token: bool = True, data: dict[str, Any] | None = None) -> tuple[int, str]:
        """Status and body of a request: GET, or POST where there is data."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}")
        if token:
            request.add_header("Authorization", f"token {self.token}")
        if data is not None:
            request.data = json.dumps(data).encode()
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()


def reachable(port: int) -> bool:
    """Whether something accepts connections at a port: Jupyter prints its address a little before it listens."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=SECONDS).close()
    except ConnectionRefusedError:
        return False
    return True


@contextmanager
def serve(python: Path, *arguments: str, cwd: Path, env: dict[str, str]) -> Iterator[Server]:
    """``workbench lab --no-browser`` until the block ends.

    Parameters
    ----------
    python
        Interpreter of the environment that has the workbench.
    arguments
        Further options of ``workbench lab``.
    cwd
        Folder to start it in.
    env
        Its whole environment.
    """
    command = [str(python), "-m", "workbench", "lab", "--no-browser", *arguments]
    process = subprocess.Popen(command, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    lines: list[str] = []
    queue: Queue[str | None] = Queue()

    def read(stream: Any) -> None:
        for line in stream:
            lines.append(line)
            queue.put(line)
        queue.put(None)

    reader = threading.Thread(target=read, args=(process.stdout,), daemon=True)
    reader.start()
    try:
        while True:
            try:
                line = queue.get(timeout=START_SECONDS)
            except Empty:
                raise AssertionError(f"JupyterLab said nothing for {START_SECONDS} s:\n{''.join(lines)}") from None
            if line is None:
                raise AssertionError(f"JupyterLab ended with {process.wait()}:\n{''.join(lines)}")
            if found := _ADDRESS.search(line):
                until(lambda port=int(found[2]): reachable(port))
                yield Server(found[1], int(found[2]), found[3], process, lines)
                break
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        reader.join(timeout=SECONDS)
        process.stdout.close()
