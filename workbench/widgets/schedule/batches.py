"""What an explorer looks at: one batch, or the decode steps of a trace, with a name and the code that gives it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from workbench import workloads
from workbench.errors import StepOutOfRange, WorkloadError
from workbench.schedule import DecodeProblem
from workbench.workloads import FAMILIES, MIXES, DecodeSteps, RequestTrace

Lengths = npt.NDArray[np.int64]
Given: TypeAlias = "str | npt.ArrayLike | DecodeSteps | RequestTrace"

SAMPLE = "sample trace"
"""Name of the small trace that ships with the workbench."""

PRESETS: tuple[str, ...] = (SAMPLE, *MIXES, *FAMILIES)
"""Workloads offered by name, in the order of the menu."""

LONGEST_NAME = 80

MAX_BATCH = 256
"""The simulator's own cap of a batch."""


@dataclass(frozen=True, eq=False)
class Batches:
    """One or more batches to schedule.

    Attributes
    ----------
    name : str
        For the header; at most 80 characters.
    preset : str
        Its entry in :data:`PRESETS`, or "" for anything else.
    steps : DecodeSteps or None
        The steps of a trace.
    batch : int64 array [batch] or None
        The one batch that is not from a trace.
    trace : RequestTrace or None
        What the steps were simulated from, if it was here, so that another batch cap can be tried.
    """

    name: str
    preset: str = ""
    steps: DecodeSteps | None = None
    batch: Lengths | None = field(default=None, repr=False)
    trace: RequestTrace | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return 1 if self.steps is None else len(self.steps)

    def lengths(self, step: int) -> Lengths:
        """KV lengths of one step, int64 [batch].

        Raises
        ------
        StepOutOfRange
            There is no such step; negative numbers count from the end.
        """
        if self.steps is not None:
            return self.steps.lengths(step).astype(np.int64)
        if step not in (0, -1):
            raise StepOutOfRange(f"step {step} of {self.name}: it has one step, number 0")
        assert self.batch is not None
        return self.batch

    def requests(self, step: int) -> npt.NDArray[np.int32] | None:
        """Rows of the trace that the entries of ``lengths(step)`` belong to, or None without a trace."""
        return None if self.steps is None else self.steps.requests(step)


def batches(given: Given | Batches, max_batch: int = MAX_BATCH) -> Batches:
    """Read a workload in any form that the explorer takes.

    Parameters
    ----------
    given
        Decode steps; a request trace (simulated with the simulator's defaults); lengths [batch], 0 allowed; the name
        of a preset; or an expression such as "64x4K + 2x32K".
    max_batch
        Most requests at once where a trace is simulated.

    Raises
    ------
    WorkloadError
        It is none of these; the message says what was expected.
    """
    if isinstance(given, Batches):
        return given
    if isinstance(given, RequestTrace):
        return _simulated(given, max_batch)
    if isinstance(given, DecodeSteps):
        if not len(given):
            raise WorkloadError(f"{given.label}: there are no decode steps. Give a trace that generates tokens.")
        return Batches(_short(given.label.partition(" (")[0]), steps=given)
    if isinstance(given, str):
        return _by_name(given.strip(), max_batch)
    # The problem's own checks: a batch may be empty and a length may be 0, unlike in a pasted expression.
    values = DecodeProblem(given, 1, 1).lengths  # type: ignore[arg-type]
    return Batches(f"{values.size:,} given lengths", batch=values)


def _simulated(trace: RequestTrace, max_batch: int, preset: str = "") -> Batches:
    found = batches(workloads.simulate(trace, max_batch=max_batch))
    return replace(found, preset=preset, trace=trace)


def _by_name(name: str, max_batch: int) -> Batches:
    if name == SAMPLE:
        return _simulated(workloads.sample_trace(), max_batch, preset=SAMPLE)
    return Batches(_short(name), preset=name if name in PRESETS else "", batch=workloads.workload(name))


def _short(name: str) -> str:
    """A name for one line: white space joined, cut where it is long."""
    name = " ".join(name.split())
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "\u2026"
