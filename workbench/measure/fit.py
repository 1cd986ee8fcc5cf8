"""The constants of the cost model from measured calls, by least squares, with the error on cases left out.

A residual is made of what the model itself says (:meth:`DecodePlan.spans`), so the fit follows the model's form,
whatever that is. For each measured call, relative to its length:

    call        log(modelled call / measured call)
    bins        (modelled - measured) end of the last bin, where there is a timeline
    merge       (modelled - measured) time from there to the end of the last merge
    pieces      (modelled - measured) duration of each descriptor, all of a call together weighing one

The unknowns are the logarithms of the constants, so none becomes negative. Levenberg-Marquardt (Levenberg 1944,
Marquardt 1963) with differences of :data:`STEP` for derivatives, which are wider than the model's rounding to
nanoseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from workbench.errors import FitError
from workbench.measure.timeline import Timeline
from workbench.schedule import CostConstants, CostModel, DecodePlan
from workbench.schedule.fitted import NAMES

Floats = npt.NDArray[np.float64]

STEP = 0.02
"""Relative change of a constant for a derivative."""

LEAST_CHANGE = 3.0
"""Least absolute change of one."""

WEIGHTS = {"call": 1.0, "bins": 0.5, "merge": 0.5, "pieces": 0.5}
"""Weight of each kind of residual; the call is what decisions are made by."""

HOLD = 0.002
"""Weight of the logarithm of a constant over its start: keeps in place what the measurements do not determine."""

UNDETERMINED = 1e-3
"""A constant of which no residual depends on by more than this (a change by e times) is left as it was."""

MOST_STEPS = 40

NOT_FINITE = "the fit found no finite constants. Look at the measured times."


@dataclass(frozen=True, eq=False)
class Observation:
    """One measured call.

    Attributes
    ----------
    case, cache : str
    plan : DecodePlan
        What ran.
    call_us : float or None
        Median time of a call, launch included, microseconds.
    timeline : Timeline or None
        Of the same plan. At least one of the two is there.
    path : str
        Name of the record.
    kernel : str or None
        SHA-256 of the kernel's source, where the record says.
    """

    case: str
    cache: str
    plan: DecodePlan
    call_us: float | None = None
    timeline: Timeline | None = field(default=None, repr=False)
    path: str = ""
    kernel: str | None = None

    def __post_init__(self) -> None:
        if self.call_us is None and self.timeline is None:
            raise FitError(f"{self.case}, {self.plan.policy}: neither a call's time nor a timeline. Give one of them.")

    def residuals(self, cost: CostModel) -> list[float]:
        """Weighted residuals of this call under a model."""
        spans = self.plan.spans(cost)
        found = []
        if self.call_us is not None:
            call_us = (cost.constants.launch_ns + spans.makespan_ns) / 1e3
            found.append(WEIGHTS["call"] * float(np.log(call_us / self.call_us)))
        t = self.timeline
        if t is not None and t.makespan_ns:
            length = t.makespan_ns
            measured_merge = length - t.bins_ns
            pieces = ((spans.end_ns - spans.start_ns) - (t.end_ns - t.start_ns)) / length
            found.append(WEIGHTS["bins"] * (spans.bins_ns - t.bins_ns) / length)
            found.append(WEIGHTS["merge"] * (spans.merge_ns - measured_merge) / length)
            found += (WEIGHTS["pieces"] / np.sqrt(pieces.size) * pieces).tolist()
        return found

    def call_error(self, cost: CostModel) -> float | None:
        """log(modelled / measured) of the call; None where it was not timed."""
        if self.call_us is None:
            return None
        modelled = (cost.constants.launch_ns + self.plan.spans(cost).makespan_ns) / 1e3
        return float(np.log(modelled / self.call_us))


@dataclass(frozen=True, kw_only=True)
class CallError:
    """How far modelled calls are from measured ones, as a share of the measured; rms is of the logarithm.

    Attributes
    ----------
    calls : int
    rms, low, high : float
    """

    calls: int
    rms: float
    low: float
    high: float

    @classmethod
    def of(cls, logs: Sequence[float]) -> CallError:
        """Summarise log(modelled / measured) of some calls; zeros for none."""
        if not logs:
            return cls(calls=0, rms=0.0, low=0.0, high=0.0)
        values = np.asarray(logs)
        shares = np.expm1(values)
        rms = float(np.sqrt(np.mean(np.square(values))))
        return cls(calls=len(logs), rms=rms, low=float(shares.min()), high=float(shares.max()))

    def __str__(self) -> str:
        return f"{self.rms:.1%} rms of {self.calls} calls, {self.low:+.0%} to {self.high:+.0%}"


@dataclass(frozen=True, kw_only=True)
class Fit:
    """Constants that fit some calls.

    Attributes
    ----------
    constants : CostConstants
        Their source is still the start's; whoever keeps them says where they come from.
    error : CallError
        On the calls that were fitted.
    left_out : CallError
        On each case's calls by the constants that fit all other cases.
    left_out_cases : mapping of str to CallError
    undetermined : tuple of str
        Constants that no measurement depends on; they are the start's.
    timelines : int
        Calls with a timeline.
    """

    constants: CostConstants
    error: CallError
    left_out: CallError
    left_out_cases: Mapping[str, CallError]
    undetermined: tuple[str, ...]
    timelines: int


def fit(observations: Sequence[Observation], start: CostModel) -> Fit:
    """Fit the constants of one GPU and cache type.

    Parameters
    ----------
    observations : sequence of Observation
        Of one cache type and at least two cases, so that one can be left out.
    start : CostModel
        GPU, cache type and shape, and the constants to begin with.

    Raises
    ------
    FitError
        Too few calls or cases, calls of another cache type, or no constants fit better than nonsense.
    """
    cases = list(dict.fromkeys(o.case for o in observations))
    if len(cases) < 2 or len(observations) < len(NAMES):
        raise FitError(
            f"{len(observations)} calls of {len(cases)} cases do not determine {len(NAMES)} constants. "
            f"Give at least {len(NAMES)} calls of at least two cases."
        )
    if other := sorted({o.cache for o in observations} - {start.cache}):
        raise FitError(f"the model is of a {start.cache} cache, calls of {', '.join(other)}. Fit each by itself.")
    whole, undetermined = _solve(observations, start)
    left_out = {}
    logs: list[float] = []
    for case in cases:
        # From the start again: the whole has seen this case.
        others, _ = _solve([o for o in observations if o.case != case], start)
        own = [e for o in observations if o.case == case and (e := o.call_error(others)) is not None]
        left_out[case] = CallError.of(own)
        logs += own
    return Fit(
        constants=whole.constants,
        error=error_of(observations, whole),
        left_out=CallError.of(logs),
        left_out_cases=left_out,
        undetermined=undetermined,
        timelines=sum(o.timeline is not None for o in observations),
    )


def error_of(observations: Sequence[Observation], cost: CostModel) -> CallError:
    """How far a model is from the calls that were timed."""
    return CallError.of([e for o in observations if (e := o.call_error(cost)) is not None])


def _solve(observations: Sequence[Observation], start: CostModel) -> tuple[CostModel, tuple[str, ...]]:
    """The model whose constants fit best, and the names of those that nothing depends on."""
    origin = np.log([float(max(getattr(start.constants, name), 1)) for name in NAMES])

    def model(logs: Floats) -> CostModel:
        values = {name: max(round(float(np.exp(x))), 1) for name, x in zip(NAMES, logs, strict=True)}
        return replace(start, constants=CostConstants(**values, source=start.source))

    def residuals(logs: Floats) -> Floats:
        cost = model(logs)
        return np.array([r for o in observations for r in o.residuals(cost)])

    slopes = _jacobian(residuals, origin)
    free = np.linalg.norm(slopes, axis=0) > UNDETERMINED
    if not free.any():
        raise FitError("no constant changes what the model says of these calls. Give calls that have work.")

    def held(x: Floats) -> Floats:
        return np.concatenate([residuals(_with(origin, free, x)), HOLD * (x - origin[free])])

    try:
        with np.errstate(over="ignore", invalid="ignore"):  # told below
            found = _minimise(held, origin[free])
    except FitError:
        raise
    except (ArithmeticError, ValueError):  # a constant that leaves the numbers, as one call of 1e-300 us makes it
        raise FitError(NOT_FINITE) from None
    names = tuple(name for name, is_free in zip(NAMES, free.tolist(), strict=True) if not is_free)
    return model(_with(origin, free, found)), names


def _with(origin: Floats, free: npt.NDArray[np.bool_], values: Floats) -> Floats:
    result = origin.copy()
    result[free] = values
    return result


def _jacobian(function: Callable[[Floats], Floats], x: Floats) -> Floats:
    """Central differences, one column an unknown; a constant is a whole number, so a small one moves further."""
    columns = []
    for i in range(x.size):
        change = np.zeros_like(x)
        change[i] = step = max(STEP, LEAST_CHANGE / float(np.exp(x[i])))
        columns.append((function(x + change) - function(x - change)) / (2 * step))
    return np.stack(columns, axis=1)


def _minimise(function: Callable[[Floats], Floats], x: Floats) -> Floats:
    """Least squares by Levenberg-Marquardt: the smallest sum of squares found."""
    damping = 1e-3
    value = function(x)
    loss = float(value @ value)
    for _ in range(MOST_STEPS):
        slopes = _jacobian(function, x)
        normal, gradient = slopes.T @ slopes, slopes.T @ value
        before = loss
        while damping < 1e6:
            scaled = normal + damping * np.diag(np.maximum(np.diag(normal), 1e-12))
            step = np.clip(np.linalg.solve(scaled, -gradient), -1.0, 1.0)
            tried = function(x + step)
            tried_loss = float(tried @ tried)
            if tried_loss < loss:
                x, value, loss, damping = x + step, tried, tried_loss, damping / 3
                break
            damping *= 4
        if before - loss <= 1e-6 * before:
            break
    if not np.isfinite(loss):
        raise FitError(NOT_FINITE)
    return x
