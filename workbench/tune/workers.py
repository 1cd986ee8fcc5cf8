"""A process of its own for whatever runs on a GPU: a configuration that faults takes that process, not the study.

The process owns the GPU's context. After an illegal address or the like a context takes no more work, and a kernel that
never ends cannot be stopped from inside: then the process is ended and a fresh one started at the next call.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from multiprocessing import connection
from multiprocessing.connection import Connection
from types import TracebackType
from typing import IO, Any, Self

from workbench.errors import InvalidArgument, WorkbenchError
from workbench.tune import workers_child as child
from workbench.tune.measure import Bench, Samples
from workbench.tune.study_trials import TrialFailed

START_S = 300.0
CALL_S = 60.0
_JOIN_S = 5.0
_LAST_BYTES = 2000


class Worker:
    """A bench in a child process, started when it is first needed and started anew after it was lost.

    It is started as a program, not as a copy of this process: so a script needs no ``if __name__``, a notebook's cells
    do not run again, and processes that may have no children of `multiprocessing`, such as Dask's, may have this one.

    Parameters
    ----------
    factory
        Makes the bench, in the child; it must be picklable and importable there.
    call_s, start_s
        Seconds that a call may take, and that making the bench may take.

    Attributes
    ----------
    starts : int
        How often a process was started.
    """

    def __init__(self, factory: Callable[[], Bench], *, call_s: float = CALL_S, start_s: float = START_S) -> None:
        self._factory, self._call_s, self._start_s = factory, call_s, start_s
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Connection | None = None
        self._said: IO[bytes] | None = None
        self._about: dict[str, Any] | None = None
        self.starts = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """The child; None where none runs."""
        return self._process.pid if self._process else None

    def about(self) -> dict[str, Any]:
        """Surroundings of the bench; asked once.

        Raises
        ------
        WorkbenchError
            The bench cannot be made here, for example without a GPU.
        """
        if self._about is None:
            self._connected()
        assert self._about is not None  # _connected asked
        return self._about

    def prepare(self, config: Any) -> float:
        """See `workbench.tune.measure.Caller`."""
        return float(self._call("prepare", config))

    def sample(self, configs: Sequence[Any], rounds: int) -> Samples:
        """See `workbench.tune.measure.Caller`."""
        taken: Samples = self._call("sample", list(configs), rounds)
        return taken

    def become(self, factory: Callable[[], Bench]) -> None:
        """Measure something else from now on: the process stays, and makes another bench.

        Raises
        ------
        WorkbenchError
            The bench cannot be made.
        """
        self._factory, self._about = factory, None
        pipe = self._pipe
        if pipe is None:
            return
        try:
            pipe.send((child.BECOME, ()))
            pipe.send(factory)
            self._hear(pipe)
        except (EOFError, OSError):
            self._end()  # a fresh process makes it at the next call

    def close(self) -> None:
        """End the process: at once where it is at work."""
        if self._pipe is not None:
            self._pipe.close()
        if self._process is not None:
            try:
                self._process.wait(_JOIN_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._said is not None:
            self._said.close()
        self._process = self._pipe = self._said = None

    def _call(self, name: str, *arguments: Any) -> Any:
        pipe = self._connected()
        try:
            pipe.send((name, arguments))
            if not pipe.poll(self._call_s):
                self._end()
                raise TrialFailed("time-out", f"{name} took longer than {self._call_s:g} s; its process was ended")
            kind, *said = pipe.recv()
        except (EOFError, OSError):
            raise TrialFailed("crashed", self._last_words()) from None
        if kind == child.OK:
            return said[0]
        state, reason, usable = said
        if not usable:
            self._end()
        raise TrialFailed(state, reason)

    def _connected(self) -> Connection:
        if self._pipe is not None:
            return self._pipe
        self._pipe, other = connection.Pipe()
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the process)
        program = [sys.executable, "-m", child.__name__, str(other.fileno()), str(os.getpid())]
        with other:
            self._process = subprocess.Popen(
                program,
                pass_fds=[other.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=self._said,
                stderr=self._said,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        self.starts += 1
        try:
            self._pipe.send(sys.path)
            self._pipe.send(self._factory)
            self._hear(self._pipe)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            self._end()
            raise InvalidArgument(
                f"{self._factory!r} cannot be sent to the measuring process: {error}. Give a function or class at the "
                "top level of a module."
            ) from None
        except (EOFError, OSError):
            raise WorkbenchError(f"the measuring process could not start: {self._last_words()}.") from None
        return self._pipe

    def _hear(self, pipe: Connection) -> None:
        """Take what the child says about the bench that it made."""
        if not pipe.poll(self._start_s):
            self._end()
            raise WorkbenchError(f"the measuring process was not ready within {self._start_s:g} s.")
        kind, said = pipe.recv()
        if kind != child.OK:
            self._end()
            raise said
        self._about = said

    def _last_words(self) -> str:
        """How the process ended, and the last line that it printed; it is forgotten."""
        assert self._process is not None
        assert self._said is not None
        try:
            code = self._process.wait(_JOIN_S)
        except subprocess.TimeoutExpired:
            code = 0  # it closed its end and goes on
        self._said.seek(max(0, self._said.seek(0, os.SEEK_END) - _LAST_BYTES))
        lines = self._said.read().decode(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        self._end()
        ended = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
        return f"its process {ended}" + (f", having said {last!r}" if last else "")

    def _end(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
        self.close()
