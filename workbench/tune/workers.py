"""A process of its own for whatever runs on a GPU: a configuration that faults takes that process, not the study.

The process owns the GPU's context. After an illegal address or the like a context takes no more work, and a kernel that
never ends cannot be stopped from inside: then the process is ended and a fresh one started at the next call.
"""

from __future__ import annotations

import os
import threading
import traceback
from collections.abc import Callable, Sequence
from multiprocessing import connection, get_context, parent_process
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Self

from workbench.errors import CompileError, WorkbenchError
from workbench.tune.measure import Bench, Samples
from workbench.tune.study_trials import State, TrialFailed

START_S = 300.0
CALL_S = 60.0
_JOIN_S = 5.0
_WORDS = 400

_OK, _FAILED, _BECOME = "ok", "failed", "become"


class Worker:
    """A bench in a child process, started when it is first needed and started anew after it was lost.

    Parameters
    ----------
    factory
        Makes the bench, in the child; it must be picklable.
    call_s, start_s
        Seconds that a call may take, and that making the bench may take.

    Attributes
    ----------
    starts : int
        How often a process was started.
    """

    def __init__(self, factory: Callable[[], Bench], *, call_s: float = CALL_S, start_s: float = START_S) -> None:
        self._factory, self._call_s, self._start_s = factory, call_s, start_s
        self._process: Any = None
        self._pipe: Connection | None = None
        self._about: dict[str, Any] | None = None
        self.starts = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

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
            pipe.send((_BECOME, factory))
            self._hear(pipe)
        except (EOFError, OSError):
            self._end()  # a fresh process makes it at the next call

    def close(self) -> None:
        """End the process."""
        if self._pipe is not None:
            self._pipe.close()
        if self._process is not None:
            self._process.join(_JOIN_S if self._process.is_alive() else 0)
            if self._process.is_alive():
                self._process.kill()
                self._process.join()
            self._process.close()
        self._process = self._pipe = None

    def _call(self, name: str, *arguments: Any) -> Any:
        pipe = self._connected()
        try:
            pipe.send((name, arguments))
            if not pipe.poll(self._call_s):
                self._end()
                raise TrialFailed("time-out", f"{name} took longer than {self._call_s:g} s; its process was ended")
            kind, *said = pipe.recv()
        except (EOFError, OSError) as error:
            raise TrialFailed("crashed", self._last_words(error)) from None
        if kind == _OK:
            return said[0]
        state, reason, usable = said
        if not usable:
            self._end()
        raise TrialFailed(state, reason)

    def _connected(self) -> Connection:
        if self._pipe is not None:
            return self._pipe
        context = get_context("spawn")  # a process that has used CUDA or threads must not fork
        self._pipe, child = context.Pipe()
        self._process = context.Process(target=_serve, args=(child, self._factory), daemon=True)
        self._process.start()
        self.starts += 1
        child.close()
        try:
            self._hear(self._pipe)
        except (EOFError, OSError) as error:
            words = self._last_words(error)
            raise WorkbenchError(f"the measuring process could not start: {words}.") from None
        return self._pipe

    def _hear(self, pipe: Connection) -> None:
        """Take what the child says about the bench that it made."""
        if not pipe.poll(self._start_s):
            self._end()
            raise WorkbenchError(f"the measuring process was not ready within {self._start_s:g} s.")
        kind, said = pipe.recv()
        if kind != _OK:
            self._end()
            raise said
        self._about = said

    def _last_words(self, error: BaseException) -> str:
        """How the process ended; it is forgotten."""
        self._process.join(_JOIN_S)
        code = self._process.exitcode
        self._end()
        if code is not None and code < 0:
            return f"its process was ended by signal {-code}"
        return f"its process ended with code {code} ({type(error).__name__})"

    def _end(self) -> None:
        if self._process is not None and self._process.is_alive():
            self._process.kill()
        self.close()


def _serve(pipe: Connection, factory: Callable[[], Bench]) -> None:
    """Run in the child: make the bench, then answer calls until the other end is closed."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    bench = _make(pipe, factory)
    while bench is not None:
        try:
            name, arguments = pipe.recv()
        except EOFError:
            return
        if name == _BECOME:
            bench = None  # its memory on the GPU goes before the next one's comes
            bench = _make(pipe, arguments)
            continue
        try:
            pipe.send((_OK, getattr(bench, name)(*arguments)))
        except Exception as error:  # whatever a configuration does becomes its trial
            state, reason = _named(error)
            usable = True
            try:
                bench.alive()
            except Exception as death:
                state, usable = "crashed", False
                reason = f"{reason}; the GPU takes no more work in this process: {_short(death)}"
            pipe.send((_FAILED, state, reason, usable))
            if not usable:
                return


def _make(pipe: Connection, factory: Callable[[], Bench]) -> Bench | None:
    """The bench, after the parent was told about it; None where it cannot be made, which the parent raises."""
    try:
        bench = factory()
        pipe.send((_OK, bench.about()))
    except WorkbenchError as error:
        pipe.send((_FAILED, error))
    except Exception as error:
        pipe.send((_FAILED, WorkbenchError(f"the measuring process could not start: {_short(error)}")))
    else:
        return bench
    return None


def _named(error: Exception) -> tuple[State, str]:
    if isinstance(error, TrialFailed):
        return error.state, error.reason
    if isinstance(error, CompileError):
        return "compile error", _short(error)
    return "launch error", _short(error)


def _short(error: BaseException) -> str:
    words = str(error) if isinstance(error, WorkbenchError) else traceback.format_exception_only(error)[-1]
    text = " ".join(words.split())
    return text if len(text) <= _WORDS else text[: _WORDS - 4] + " ..."


def _end_with_parent() -> None:
    """A child that waits for a kernel does not notice that its parent was killed; this does."""
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)
