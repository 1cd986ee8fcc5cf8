"""Several providers on one case: each checked against float64 first, then all that are right timed in turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from workbench.errors import LaunchError, WorkbenchError
from workbench.measure.clocks import ClockLog, Reader
from workbench.measure.providers import Precision, Provider, label
from workbench.measure.timing import Replay, Timer, Timing

State = Literal["timed", "wrong", "failed", "missing"]


@dataclass(frozen=True)
class Errors:
    """How far a result is from float64.

    Attributes
    ----------
    relative : float
        Norm of the difference over the norm of float64's.
    worst_row : float
        The same of the row that errs most.
    """

    relative: float
    worst_row: float

    def complaint(self, precision: Precision) -> str | None:
        """What is wrong, in words; None for a result that is right."""
        if not self.relative < float("inf"):  # NaN, too
            return "not a number, or never written"
        if self.relative > precision.limit:
            return f"relative error {self.relative:.2g}, allowed {precision.limit:g}"
        if self.worst_row > precision.row_share * precision.limit:
            return f"one row errs by {self.worst_row:.2g}, allowed {precision.row_share * precision.limit:g}"
        return None


@dataclass(frozen=True)
class Outcome:
    """What became of one provider on one case.

    Attributes
    ----------
    provider : Provider
    state : str
        "timed"; "wrong": computed something else, so not timed; "failed": raised; "missing": not installed.
    reason : str
        Why it was not timed; "" where it was.
    timing : Timing or None
    errors : Errors or None
        None where nothing was computed.
    clocks : ClockLog
        Readings of the run that timed it, shared by the providers that took turns.
    """

    provider: Provider[Any]
    state: State
    reason: str = ""
    timing: Timing | None = None
    errors: Errors | None = None
    clocks: ClockLog = field(default_factory=lambda: ClockLog(None))


def errors_of(result: torch.Tensor, expected: torch.Tensor) -> Errors:
    """Errors of a result against float64; infinite where a row that should be zero is not.

    Parameters
    ----------
    result : tensor [rows, ...]
    expected : float64 tensor of the same shape
    """
    difference = (result.double() - expected).flatten(1)
    norms = expected.flatten(1).norm(dim=1)
    rows = difference.norm(dim=1)
    shares = torch.where(rows == 0, rows, rows / norms)
    total = float(difference.norm()) / max(float(norms.norm()), torch.finfo(torch.float64).tiny)
    return Errors(total, float(shares.max()))


def compare(
    providers: Sequence[Provider[Any]],
    sets: Sequence[Any],
    expected: Sequence[torch.Tensor],
    *,
    timer: Timer,
    read_clocks: Reader | None = None,
    rounds: int = 15,
) -> list[Outcome]:
    """Check every provider on the first input sets and time those that are right on all of them.

    A provider that is missing, raises, or computes something wrong is reported as such, and the rest go on. What is
    checked is what is timed: the captured calls are replayed onto outputs filled with NaN, and compared.

    Parameters
    ----------
    providers
        In the order of the outcomes.
    sets
        Input sets that the calls rotate over.
    expected
        Results in float64 of the first ``len(expected)`` sets.
    timer
        Records and times; see :class:`workbench.measure.timing.Timer`.
    read_clocks
        See :func:`workbench.measure.clocks.reader`.
    rounds
        Timed replays of each.

    Raises
    ------
    LaunchError
        A provider failed and the GPU takes no more work after it, so the rest cannot be measured in this process.
    """
    found: list[Outcome | tuple[Replay, Errors | None]] = [_try(p, sets, expected, timer) for p in providers]
    good = {str(i): entry[0] for i, entry in enumerate(found) if not isinstance(entry, Outcome)}
    log = ClockLog(read_clocks)
    log.take("before")
    timings = timer.time(good, rounds, lambda: log.take("during")) if good else {}
    log.take("after")
    return [
        entry
        if isinstance(entry, Outcome)
        else Outcome(providers[i], "timed", timing=timings[str(i)], errors=entry[1], clocks=log)
        for i, entry in enumerate(found)
    ]


def _try(
    provider: Provider[Any], sets: Sequence[Any], expected: Sequence[torch.Tensor], timer: Timer
) -> Outcome | tuple[Replay, Errors | None]:
    """One provider's calls, captured and found right; or why not."""
    if remedy := provider.missing():
        return Outcome(provider, "missing", f"not installed; {remedy}")
    try:
        captured = timer.capture([provider.prepare(inputs) for inputs in sets])
        timer.finish()
        errors = None if provider.precision is None else _check(captured, expected, timer)
    except Exception as error:  # whatever a package raises: it is told, and the others are measured
        words = str(error) if isinstance(error, WorkbenchError) else f"{type(error).__name__}: {error}"
        _require_life(timer, f"{label(provider)} failed ({_short(words)})")
        return Outcome(provider, "failed", _short(words))
    if provider.precision is not None and errors is not None and (wrong := errors.complaint(provider.precision)):
        return Outcome(provider, "wrong", wrong, errors=errors)
    return captured, errors


def _check(captured: Replay, expected: Sequence[torch.Tensor], timer: Timer) -> Errors:
    """The largest errors over the sets that have an expected result, after one replay onto poisoned outputs."""
    results = [result for result in captured.results if isinstance(result, torch.Tensor)]
    for result in results:
        result.fill_(torch.nan)
    captured.replay()
    timer.finish()
    worst = [errors_of(result, reference) for result, reference in zip(results, expected, strict=False)]
    unwritten = any(bool(result.isnan().any()) for result in results)
    relative = float("nan") if unwritten else max(e.relative for e in worst)
    return Errors(relative, max(e.worst_row for e in worst))


def _require_life(timer: Timer, what: str) -> None:
    try:
        timer.finish()
    except Exception as error:
        raise LaunchError(
            f"{what}, and the GPU takes no more work in this process: {_short(str(error))}. "
            "What was finished before is kept; measure without that provider."
        ) from error


def _short(text: str, limit: int = 300) -> str:
    words = " ".join(text.split())
    return words if len(words) <= limit else words[: limit - 4] + " ..."
