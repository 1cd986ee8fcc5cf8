"""A capture under way: what it is doing, how to cancel it, and how to wait for it, in a notebook or a script."""

from __future__ import annotations

import asyncio
import atexit
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Generator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from workbench.errors import CaptureCancelled

Result = TypeVar("Result")


@dataclass(frozen=True)
class Progress:
    """Where a capture is.

    Attributes
    ----------
    stage : str
        In words: "waiting", "preparing", "profiling", "done" ...
    done, total : int
        Captures finished, and in all.
    seconds : float
        Since it was asked for.
    label : str
        What is being captured.
    """

    stage: str
    done: int
    total: int
    seconds: float
    label: str = ""


Listener = Callable[[Progress], None]


class Handle(Generic[Result]):
    """Work on a thread of its own; the event loop of a notebook's kernel stays free.

    ``await handle`` in a notebook, ``handle.result()`` in a script. `cancel` ends it with all its processes.

    Parameters
    ----------
    work
        Does the work, given this handle.
    total
        Captures in all.
    listener
        Called with each new `Progress`, on the work's thread. One that raises is told nothing more; the work goes on.
    """

    def __init__(self, work: Callable[[Handle[Result]], Result], total: int, listener: Listener | None = None) -> None:
        self._future: Future[Result] = Future()
        self._cancelled = threading.Event()
        self._began = time.monotonic()
        self._ended: float | None = None
        self._listener = listener
        self._progress = Progress("waiting", 0, total, 0.0)
        self._work = work
        self._future.set_running_or_notify_cancel()  # a task that stops waiting must not cancel the future itself
        self._thread = threading.Thread(target=self._run, name="workbench-capture", daemon=True)
        _UNDER_WAY.add(self)
        self._thread.start()

    def _run(self) -> None:
        try:
            value = self._work(self)
        except BaseException as error:
            self._ended = time.monotonic()
            self.say("cancelled" if isinstance(error, CaptureCancelled) else "failed")
            self._future.set_exception(error)
        else:
            self._ended = time.monotonic()
            self.say("done", self._progress.total)
            self._future.set_result(value)

    def say(self, stage: str, done: int | None = None, label: str | None = None) -> None:
        """Tell a new stage; for the work itself."""
        before = self._progress
        done, label = before.done if done is None else done, before.label if label is None else label
        self._progress = Progress(stage, done, before.total, self.seconds, label)
        if self._listener is not None:
            try:
                self._listener(self._progress)
            except Exception:  # a display that breaks must not lose the capture, nor whoever waits for it
                self._listener = None
                traceback.print_exc()

    @property
    def seconds(self) -> float:
        """Time since it was asked for, or until it ended."""
        return (self._ended or time.monotonic()) - self._began

    @property
    def progress(self) -> Progress:
        """Where it is now."""
        now = self._progress
        return Progress(now.stage, now.done, now.total, self.seconds, now.label)

    def done(self) -> bool:
        """Whether it ended, in whatever way."""
        return self._future.done()

    def cancel(self) -> None:
        """End it and every process of it; what is in the store stays. Returns at once."""
        self._cancelled.set()

    def cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._cancelled.is_set()

    def result(self, timeout: float | None = None) -> Result:
        """Wait for what it gives.

        Parameters
        ----------
        timeout
            Seconds to wait; None: until it ends.

        Raises
        ------
        TimeoutError
            It has not ended; it goes on.
        CaptureError
            It failed; the class says how.
        """
        try:
            return self._future.result(timeout)
        except KeyboardInterrupt:
            self.cancel()
            raise

    def __await__(self) -> Generator[Any, None, Result]:
        return self._wait().__await__()

    async def _wait(self) -> Result:
        try:
            return await asyncio.wrap_future(self._future)
        except asyncio.CancelledError:  # the cell that waited was interrupted
            self.cancel()
            raise

    def __repr__(self) -> str:
        now = self.progress
        return f"<{now.stage}: {now.done} of {now.total} captured, {now.seconds:.0f} s>"


_UNDER_WAY: weakref.WeakSet[Handle[Any]] = weakref.WeakSet()

END_SECONDS = 5.0
"""How long leaving Python waits for captures to be ended and their folders removed."""


def _end_all() -> None:
    for handle in list(_UNDER_WAY):
        if not handle.done():
            handle.cancel()
            handle._thread.join(END_SECONDS)


atexit.register(_end_all)
