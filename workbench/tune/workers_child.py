"""The child of `workbench.tune.workers.Worker`: makes a bench and answers calls. Run as a module with a descriptor.

Messages are pickles over a socket that only the two processes have.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from workbench.errors import CompileError, WorkbenchError

if TYPE_CHECKING:
    from workbench.tune.measure import Bench
    from workbench.tune.study_trials import State

OK, FAILED, BECOME = "ok", "failed", "become"
_WORDS = 400
_LOOK_S = 0.5


def serve(pipe: Connection) -> None:
    """Make the bench that arrives, then answer calls until the other end is closed."""
    sys.path[:] = pipe.recv()  # before anything is unpickled that lies elsewhere
    bench = _make(pipe)
    while bench is not None:
        try:
            name, arguments = pipe.recv()
        except EOFError:
            return
        if name == BECOME:
            bench = None  # its memory on the GPU goes before the next one's comes
            bench = _make(pipe)
            continue
        try:
            pipe.send((OK, getattr(bench, name)(*arguments)))
        except Exception as error:  # whatever a configuration does becomes its trial
            state, reason = _named(error)
            usable = True
            try:
                bench.alive()
            except Exception as death:
                state, usable = "crashed", False
                reason = f"{reason}; the GPU takes no more work in this process: {_short(death)}"
            pipe.send((FAILED, state, reason, usable))
            if not usable:
                return


def _make(pipe: Connection) -> Bench | None:
    """The bench, after the parent was told about it; None where it cannot be made, which the parent raises."""
    try:
        factory: Callable[[], Bench] = pipe.recv()
        bench = factory()
        pipe.send((OK, bench.about()))
    except WorkbenchError as error:
        pipe.send((FAILED, error))
    except Exception as error:
        pipe.send((FAILED, WorkbenchError(f"the measuring process could not start: {_short(error)}")))
    else:
        return bench
    return None


def _named(error: Exception) -> tuple[State, str]:
    from workbench.tune.study_trials import TrialFailed

    if isinstance(error, TrialFailed):
        return error.state, error.reason
    if isinstance(error, CompileError):
        return "compile error", _short(error)
    return "launch error", _short(error)


def _short(error: BaseException) -> str:
    words = str(error) if isinstance(error, WorkbenchError) else traceback.format_exception_only(error)[-1]
    text = " ".join(words.split())
    return text if len(text) <= _WORDS else text[: _WORDS - 4] + " ..."


def _end_with(parent: int) -> None:
    """A child that waits for a kernel does not notice that its parent was killed; this does."""
    while os.getppid() == parent:
        time.sleep(_LOOK_S)
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_with, args=(int(sys.argv[2]),), daemon=True).start()
    serve(Connection(int(sys.argv[1])))
