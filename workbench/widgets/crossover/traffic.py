"""The traffic on screen: a distribution of M from what the reader gave."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from workbench.errors import InvalidArgument
from workbench.tune import Traffic
from workbench.tune.crossover import LARGEST_M
from workbench.workloads import DecodeSteps, RequestTrace, read_trace, sample_trace

SAMPLE, EVEN, GIVEN = "sample", "even", "given"
NAMES = {SAMPLE: "sample trace", EVEN: "each octave alike"}

AnyTraffic: TypeAlias = str | Path | Traffic | RequestTrace | DecodeSteps | Mapping[int, float]

MAX_BATCH = (1, 1 << 16)
REMEDY = (
    f"give {', '.join(NAMES)}, the file of a trace, a trace, simulated steps, a Traffic, or a number of calls by M "
    "such as {1: 5, 64: 1}"
)


class TrafficSource:
    """What a reader gave, turned into a `Traffic` for the settings of the engine.

    Parameters
    ----------
    given
        "sample", "even", the file of a trace, a trace, simulated steps, a number of calls by M, or a `Traffic`.

    Raises
    ------
    InvalidArgument
        It is none of these.
    TraceError
        The file is no trace.
    """

    def __init__(self, given: AnyTraffic) -> None:
        if isinstance(given, Path) or (isinstance(given, str) and given not in NAMES):
            if not _is_file(given):
                raise InvalidArgument(f"traffic is {str(given)[:80]!r}; {REMEDY}")
            given = read_trace(given)
        if isinstance(given, Mapping):
            given = Traffic.of(_calls(given))
        if not isinstance(given, (str, Traffic, RequestTrace, DecodeSteps)):
            raise InvalidArgument(f"traffic is of type {type(given).__name__}; {REMEDY}")
        self.given = given
        self.name = given if isinstance(given, str) else GIVEN
        self._made: dict[tuple[bool, int], Traffic] = {}

    @property
    def title(self) -> str:
        """For the menu."""
        if isinstance(self.given, str):
            return NAMES[self.given]
        return self.given.name if isinstance(self.given, RequestTrace) else self.given.label

    @property
    def passes(self) -> bool:
        """Whether it matters if prefill and decode share a pass."""
        return self.simulated or isinstance(self.given, DecodeSteps)

    @property
    def simulated(self) -> bool:
        """Whether a trace is simulated here, so that the largest batch matters."""
        return self.given == SAMPLE or isinstance(self.given, RequestTrace)

    def traffic(self, *, mixed: bool, max_batch: int) -> Traffic:
        """The distribution; made once for each setting.

        Raises
        ------
        InvalidArgument
            The trace makes no decode step.
        """
        if isinstance(self.given, Traffic):
            return self.given
        if self.given == EVEN:
            return Traffic.even()
        key = (mixed, max_batch)
        if key not in self._made:
            if isinstance(self.given, DecodeSteps):
                self._made[key] = Traffic.from_steps(self.given, mixed=mixed)
            else:
                trace = self.given if isinstance(self.given, RequestTrace) else sample_trace()
                self._made[key] = Traffic.from_trace(trace, mixed=mixed, max_batch=max_batch)
        return self._made[key]


def _is_file(path: str | Path) -> bool:
    try:
        return Path(path).is_file()
    except (OSError, ValueError):  # too long, or no path at all
        return False


def _calls(given: Mapping[int, float]) -> dict[int, float]:
    """Whole numbers of rows, and a number of calls each."""
    try:
        calls = {operator.index(m): float(count) for m, count in given.items()}
    except (TypeError, ValueError):
        calls = {}
    if not calls or max(calls) > LARGEST_M:
        raise InvalidArgument(
            f"traffic is {str(dict(given))[:80]}; give a number of calls by M, each M a whole number up to "
            f"{LARGEST_M:,}"
        )
    return calls
