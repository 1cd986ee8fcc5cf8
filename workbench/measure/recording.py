"""What was measured, as records and as figures of a table."""

from __future__ import annotations

import math
from collections.abc import Mapping

from workbench.measure.compare import Outcome
from workbench.measure.figures import Figure
from workbench.records import Environment, TimingRecord, Workload, origin_label

_ROUNDED = 3
"""Decimals of a sample, microseconds."""


def record_of(
    outcome: Outcome,
    workload: Workload,
    environment: Environment,
    *,
    operator: str,
    method: str,
    seed: int | None,
    digests: Mapping[tuple[str, str], str],
) -> TimingRecord | None:
    """A timed outcome as a record; None for one that was not timed.

    Parameters
    ----------
    outcome, workload
        What came out, on what.
    environment
        Of this process; the clocks of the outcome's own run are put into it.
    operator, method
        As in the record.
    seed
        Of the first input set; None where nothing was random.
    digests
        SHA-256 of kernel sources by operator and provider.
    """
    timing, provider = outcome.timing, outcome.provider
    if timing is None:
        return None
    low, high = timing.interval_us()
    return TimingRecord(
        operator=operator,
        provider=provider.name,
        policy=provider.policy,
        configuration=dict(provider.configuration),
        environment=environment.model_copy(update={"clocks": outcome.clocks.clocks}),
        workload=workload,
        source_digest=digests.get((operator, provider.name)),
        method=method,
        samples_us=tuple(round(sample, _ROUNDED) for sample in timing.samples_us),
        median_us=round(timing.median_us, _ROUNDED),
        low_us=round(low, _ROUNDED),
        high_us=round(high, _ROUNDED),
        rel_error=None if outcome.errors is None else float(f"{outcome.errors.relative:.4g}"),
        seed=seed,
        clock_readings=outcome.clocks.kept(),
        throttled=outcome.clocks.throttled,
        notes=provider.notes or None,
    )


def figure_of(outcome: Outcome, workload: Workload, environment: Environment, *, operator: str) -> Figure:
    """An outcome as a figure of a table, measured now."""
    provider, timing = outcome.provider, outcome.timing
    low, high = timing.interval_us() if timing else (None, None)
    return Figure(
        operator=operator,
        case=workload.case,
        dtype=workload.dtype or "",
        provider=provider.name,
        policy=provider.policy,
        variant=provider.variant,
        # A package that is not there has no version to tell.
        configuration={} if outcome.state == "missing" else dict(provider.configuration),
        origin=origin_label("measured", gpu=environment.gpu, date=environment.date),
        state=outcome.state,
        reason=outcome.reason,
        median_us=timing.median_us if timing else None,
        low_us=low,
        high_us=high,
        # An error that is no number is in the reason; JSON has no infinity.
        rel_error=outcome.errors.relative if outcome.errors and math.isfinite(outcome.errors.relative) else None,
        throttled=outcome.clocks.throttled,
        notes=provider.notes,
    )
