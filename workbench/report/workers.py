"""Work spread over processes that answer one task at a time, and none of which is left when the work ends.

Each process has a connection of its own, and the caller's thread alone reads and writes them. So an interruption leaves
no thread that waits for a process which is gone, as the pools of the standard library can.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.resource_tracker import ensure_running
from typing import Any, TypeVar

from workbench.errors import WorkerLost

Task = TypeVar("Task")
Answer = TypeVar("Answer")


def spread(work: Callable[[Task], Answer], tasks: Iterable[Task], processes: int) -> Iterator[tuple[int, Answer]]:
    """Numbers of the tasks and their answers, in the order in which they are ready.

    Parameters
    ----------
    work
        Called in the processes; it, tasks and answers are pickled.
    tasks
        Taken one by one as processes are free.
    processes
        How many.

    Raises
    ------
    Exception
        What `work` raises, of the task that raised it first.
    WorkerLost
        A process ended before its answer.
    """
    workers: dict[Connection, BaseProcess] = {}
    try:
        with _interrupts_held():
            for _ in range(processes):
                connection, process = _start(work)
                workers[connection] = process
        waiting = enumerate(tasks)
        asked: dict[Connection, int] = {}

        def ask(connection: Connection) -> None:
            for number, task in waiting:
                connection.send(task)
                asked[connection] = number
                return

        for connection in workers:
            ask(connection)
        while asked:
            for ready in wait(list(asked)):
                assert isinstance(ready, Connection)  # `wait` takes other things too
                number, answer = asked.pop(ready), _answer(ready, workers[ready])
                ask(ready)
                yield number, answer
    finally:
        for process in workers.values():
            process.kill()
        for connection, process in workers.items():
            process.join()
            connection.close()


def _start(work: Callable[[Task], Answer]) -> tuple[Connection, BaseProcess]:
    # A fresh interpreter each: a fork would copy the threads' locks of the progress display.
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, work), daemon=True)
    process.start()
    theirs.close()  # so that ours ends with the process
    return ours, process


def _answer(connection: Connection, process: BaseProcess) -> Any:
    try:
        answer = connection.recv()
    except (EOFError, ConnectionError):
        process.join()
        raise WorkerLost(
            f"A process ended with code {process.exitcode} before its work was done; a system that is short of memory "
            "does that. Give fewer processes."
        ) from None
    if isinstance(answer, Exception):
        raise answer
    return answer


def _serve(connection: Connection, work: Callable[[Task], Answer]) -> None:
    """Answer tasks until the connection or the parent ends."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        try:
            task = connection.recv()
        except EOFError:
            return
        try:
            connection.send(work(task))
        except Exception as error:  # the parent raises it
            connection.send(error)


def _end_with_parent() -> None:
    """End this process when the one that started it is gone: a killed parent cannot tell it to stop."""
    parent = parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Hold Ctrl-C back while processes start; it is raised at the end of the block.

    It reaches every process of a terminal. Those started here leave it to this one, which ends them; and none is left
    half started, without what it is to be told.
    """
    held: list[int] = []
    ensure_running()  # the first process to start would start it, which lets interrupts through again
    main = threading.current_thread() is threading.main_thread()
    # The mask is for the children, which inherit it. Here some other thread, one of NumPy's, can still get the signal.
    handler = signal.signal(signal.SIGINT, lambda number, _: held.append(number)) if main else None
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        if handler is not None:
            signal.signal(signal.SIGINT, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if held:
            signal.raise_signal(signal.SIGINT)
