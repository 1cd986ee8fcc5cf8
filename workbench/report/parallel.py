"""A sweep spread over processes: the same numbers, sooner."""

from __future__ import annotations

import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import active_children, get_context, parent_process
from multiprocessing.connection import wait
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.schedule import CostModel, Policy
from workbench.schedule.sweep import Sweep, sweep, sweep_ranges
from workbench.workloads import DecodeSteps

TASK = 512
"""Steps that one process gets at a time."""

WORTH_IT = 16 * TASK
"""Steps from which starting processes (about half a second) pays."""


def available_cpus() -> int:
    """CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def parallel_sweep(
    steps: DecodeSteps,
    *,
    policies: Sequence[Policy],
    cost: CostModel,
    jobs: int,
    progress: Callable[[int, int], None],
    **problem: int,
) -> Sweep:
    """:func:`workbench.schedule.sweep.sweep` on up to ``jobs`` processes.

    A policy that cannot be sent to another process, such as a function from a user's file, keeps the work in this one.

    Parameters
    ----------
    steps, policies, cost, progress
        As for ``sweep``.
    jobs
        Processes, 1 or more.
    **problem
        ``num_kv_heads``, ``num_ctas``, ``tile``, ``min_process_len``, ``q_len``.
    """
    if jobs == 1 or len(steps) < WORTH_IT or not _can_travel(policies):
        return _here(steps, policies, cost, progress, problem)
    parts: dict[int, Sweep] = {}
    others = set(active_children())
    # A fresh interpreter each: a fork would copy the threads' locks of the progress display.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_end_with_parent) as pool:
        try:
            with _interrupts_held():
                tasks = {
                    pool.submit(_there, *_task(steps[start : start + TASK], policies, cost, problem)): start
                    for start in range(0, len(steps), TASK)
                }
            for task in as_completed(tasks):
                parts[tasks[task]] = task.result()
                progress(sum(part.num_steps for part in parts.values()), len(steps))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in set(active_children()) - others:
                child.terminate()  # else Ctrl-C would wait for the work that is under way
            raise
    return Sweep.join(parts[start] for start in sorted(parts))


def _can_travel(policies: Sequence[Policy]) -> bool:
    try:
        pickle.dumps(list(policies))
    except (pickle.PicklingError, AttributeError, TypeError):
        return False
    return True


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Ctrl-C reaches every process of a terminal; those started here leave it to this one, which ends them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_with_parent() -> None:
    """End this process when the one that started it is gone: a killed parent cannot tell the pool to stop."""
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _task(steps: DecodeSteps, policies: Sequence[Policy], cost: CostModel, problem: dict[str, int]) -> tuple[Any, ...]:
    """Arguments of `_there`."""
    batches = steps.batches()
    return batches.length, batches.offsets, list(policies), cost, problem


def _here(
    steps: DecodeSteps,
    policies: Sequence[Policy],
    cost: CostModel,
    progress: Callable[[int, int], None],
    problem: dict[str, int],
) -> Sweep:
    parts = []
    # DecodeSteps is a sequence of batches without being a typing.Sequence.
    for done, part in sweep_ranges(steps, policies=policies, cost=cost, **problem):  # type: ignore[arg-type]
        parts.append(part)
        progress(done.stop, len(steps))
    return Sweep.join(parts)


def _there(
    lengths: npt.NDArray[np.int32],
    offsets: npt.NDArray[np.int64],
    policies: Sequence[Policy],
    cost: CostModel,
    problem: dict[str, Any],
) -> Sweep:
    """One task, in its own process."""
    return sweep(np.split(lengths, offsets[1:-1]), policies=policies, cost=cost, **problem)
