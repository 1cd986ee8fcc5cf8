"""What was measured, as records and as figures of a table."""

from __future__ import annotations

from collections.abc import Mapping

from workbench.measure.attention_case import AttentionCase
from workbench.measure.compare import Outcome
from workbench.measure.figures import TASK_MAP, Figure
from workbench.records import Environment, TimingRecord, Workload, origin_label

METHOD = (
    "Median of replays of a CUDA graph of at least 24 calls that rotate over input sets, its variants taking turns; "
    "KV caches together exceed the L2 cache; checked against float64 on poisoned outputs first"
)
MAP_METHOD = (
    "Median of replays of a CUDA graph of at least 24 builds that rotate over eight batches, its variants taking "
    "turns; compared with the CPU's plan first"
)
_ROUNDED = 4
"""Decimals of a sample, microseconds."""


def record_of(
    outcome: Outcome,
    case: AttentionCase,
    environment: Environment,
    *,
    operator: str,
    seed: int | None,
    digests: Mapping[tuple[str, str], str],
) -> TimingRecord | None:
    """A timed outcome as a record; None for one that was not timed.

    Parameters
    ----------
    outcome, case
        What came out, on what.
    environment
        Of this process; the clocks of the outcome's own run are put into it.
    operator : str
        "attention_decode" or "task_map".
    seed
        Of the first input set.
    digests
        SHA-256 of kernel sources by operator and provider.
    """
    timing, provider = outcome.timing, outcome.provider
    if timing is None:
        return None
    low, high = timing.interval_us()
    is_map = operator == TASK_MAP
    parameters = case.parameters
    if is_map:
        shape = ("num_kv_heads", "q_len", "lengths")
        parameters = {name: parameters[name] for name in shape if name in parameters}
    return TimingRecord(
        operator=operator,
        provider=provider.name,
        policy=provider.policy,
        configuration=dict(provider.configuration),
        environment=environment.model_copy(update={"clocks": outcome.clocks.clocks}),
        workload=Workload(case=case.name, dtype=None if is_map else case.cache, parameters=parameters),
        source_digest=digests.get((operator, provider.name)),
        method=MAP_METHOD if is_map else METHOD,
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


def figure_of(outcome: Outcome, case: AttentionCase, environment: Environment, *, operator: str) -> Figure:
    """An outcome as a figure of a table, measured now."""
    provider, timing = outcome.provider, outcome.timing
    low, high = timing.interval_us() if timing else (None, None)
    wanted = outcome.state != "missing"
    return Figure(
        operator=operator,
        case=case.name,
        dtype="" if operator == TASK_MAP else case.cache,
        provider=provider.name,
        policy=provider.policy,
        variant=provider.variant,
        configuration=dict(provider.configuration) if wanted else {},
        origin=origin_label("measured", gpu=environment.gpu, date=environment.date),
        state=outcome.state,
        reason=outcome.reason,
        median_us=timing.median_us if timing else None,
        low_us=low,
        high_us=high,
        rel_error=outcome.errors.relative if outcome.errors else None,
        throttled=outcome.clocks.throttled,
        notes=provider.notes,
    )
