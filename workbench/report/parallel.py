"""A sweep spread over processes: the same numbers, sooner."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.report.workers import spread
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
    work = partial(_there, policies=list(policies), cost=cost, problem=problem)
    starts = range(0, len(steps), TASK)
    tasks = (steps[start : start + TASK].batches() for start in starts)
    parts: dict[int, Sweep] = {}
    for number, part in spread(work, ((task.length, task.offsets) for task in tasks), min(jobs, len(starts))):
        parts[number] = part
        progress(sum(part.num_steps for part in parts.values()), len(steps))
    return Sweep.join(parts[number] for number in sorted(parts))


def _can_travel(policies: Sequence[Policy]) -> bool:
    try:
        pickle.dumps(list(policies))
    except (pickle.PicklingError, AttributeError, TypeError):
        return False
    return True


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
    task: tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]],
    *,
    policies: Sequence[Policy],
    cost: CostModel,
    problem: dict[str, Any],
) -> Sweep:
    """One task, lengths end to end and where each step begins, in its own process."""
    lengths, offsets = task
    return sweep(np.split(lengths, offsets[1:-1]), policies=policies, cost=cost, **problem)
