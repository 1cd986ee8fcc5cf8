"""A trace's decode steps under several policies: where each one loses, and how much.

:func:`sweep` gives the numbers of ``plan_decode(...).metrics(cost)`` for every step and policy; built-in policies
are computed for many steps at once (:mod:`workbench.schedule.block_policies`), any other by making each plan.
:func:`sweep_ranges` gives the same a range of steps at a time, for a screen that fills while it is looked at.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.errors import InvalidArgument
from workbench.schedule.block_policies import evaluate
from workbench.schedule.blocks import Block, Ints, Outcome, offsets_of
from workbench.schedule.costs import CostModel, given_or_default
from workbench.schedule.policies import Policy, UserFunction, plan_decode, resolve
from workbench.schedule.problem import MAX_LENGTH, DecodeProblem
from workbench.schedule.sweep_result import BY_POLICY, Floats, Sweep

__all__ = ["BY_POLICY", "RANGE", "AnyPolicy", "Sweep", "sweep", "sweep_ranges"]

AnyPolicy = str | Policy | UserFunction

RANGE = 256
"""Steps that are computed together: enough to share the cost of array operations, few enough to stay in the cache."""


def sweep(
    batches: Sequence[npt.ArrayLike],
    *,
    policies: Sequence[AnyPolicy],
    num_kv_heads: int,
    num_ctas: int,
    tile: int = 64,
    min_process_len: int = 512,
    q_len: int = 1,
    cost: CostModel | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Sweep:
    """Every step under every policy.

    Parameters
    ----------
    batches
        KV lengths of each step, integers [batch]: a list, or the simulated steps of :mod:`workbench.workloads`.
    policies
        As ``plan_decode`` takes them, but that the name ``"balanced"`` decides by ``cost``; their names must differ.
    num_kv_heads, num_ctas, tile, min_process_len, q_len
        As for ``plan_decode``.
    cost
        Default: H200, FP8 cache.
    progress
        Called after each range with (steps done, steps in all).

    Returns
    -------
    Sweep

    Raises
    ------
    InvalidArgument
        As ``plan_decode``, or for no or equally named policies.
    InvalidPlan
        A user's function returned a wrong plan.
    """
    parts = []
    for steps, part in sweep_ranges(
        batches,
        policies=policies,
        num_kv_heads=num_kv_heads,
        num_ctas=num_ctas,
        tile=tile,
        min_process_len=min_process_len,
        q_len=q_len,
        cost=cost,
    ):
        parts.append(part)
        if progress:
            progress(steps.stop, len(batches))
    return Sweep.join(parts)


def sweep_ranges(
    batches: Sequence[npt.ArrayLike],
    *,
    policies: Sequence[AnyPolicy],
    num_kv_heads: int,
    num_ctas: int,
    tile: int = 64,
    min_process_len: int = 512,
    q_len: int = 1,
    cost: CostModel | None = None,
    size: int = RANGE,
) -> Iterator[tuple[range, Sweep]]:
    """:func:`sweep`, a range of steps at a time: yields the range and its sweep, in order; at least one.

    Parameters
    ----------
    size
        Steps a range.
    """
    cost = given_or_default(cost)
    chosen = [resolve(policy, cost) for policy in policies]
    names = [policy.name for policy in chosen]
    if not names or len(set(names)) < len(names):
        raise InvalidArgument(f"policies are {', '.join(names) or 'none'}. Give one or more with different names.")
    settings: dict[str, Any] = {
        "num_kv_heads": num_kv_heads,
        "num_ctas": num_ctas,
        "tile": tile,
        "min_process_len": min_process_len,
        "q_len": q_len,
    }
    # One plan each, of the first step, so that what plan_decode refuses is refused here in the same words.
    sample: npt.ArrayLike = batches[0] if len(batches) else []
    for policy in chosen:
        plan_decode(sample, policy=policy, **settings)
    for start in range(0, max(len(batches), 1), size):
        steps = range(start, min(start + size, len(batches)))
        lengths, offsets = _lengths(batches, steps, settings)
        yield steps, _sweep(lengths, offsets, chosen, settings, cost)


def _lengths(batches: Sequence[npt.ArrayLike], steps: range, settings: dict[str, Any]) -> tuple[Ints, Ints]:
    """Lengths of some steps end to end and where each step begins, checked as ``plan_decode`` checks them."""
    part = batches[steps.start : steps.stop]
    if hasattr(part, "batches"):  # simulated steps hold them end to end already
        rows = part.batches()
        return _checked(rows.length.astype(np.int64), rows.offsets, settings)
    arrays = [DecodeProblem(batch, **settings).lengths for batch in part]  # type: ignore[arg-type]
    offsets = offsets_of(np.array([array.size for array in arrays], np.int64))
    return np.concatenate([np.zeros(0, np.int64), *arrays]), offsets


def _checked(lengths: Ints, offsets: Ints, settings: dict[str, Any]) -> tuple[Ints, Ints]:
    tiles = np.diff(offsets_of(-(-lengths // settings["tile"]))[offsets]) * settings["num_kv_heads"]
    if (lengths < 0).any() or (tiles > MAX_LENGTH).any():
        for low, high in itertools.pairwise(offsets):
            DecodeProblem(lengths[low:high], **settings)
    return lengths, offsets


def _sweep(lengths: Ints, offsets: Ints, chosen: list[Policy], settings: dict[str, Any], cost: CostModel) -> Sweep:
    tile, floor = settings["tile"], settings["min_process_len"] // settings["tile"]
    block = Block(-(-lengths // tile), offsets, settings["num_kv_heads"], settings["num_ctas"], floor, tile)
    columns: dict[str, list[Floats]] = {name: [] for name in BY_POLICY}
    for policy in chosen:
        outcome = evaluate(policy, block, cost)
        if outcome is None:
            outcome = _planned(policy, lengths, offsets, settings, cost)
        for name, values in _metrics(outcome, block, cost).items():
            columns[name].append(values)
    return Sweep(
        policies=tuple(policy.name for policy in chosen),
        **{name: np.stack(rows) for name, rows in columns.items()},
        bound_us=_bound_ns(block, cost) / 1e3,
        tiles=block.totals,
        batch=np.diff(offsets),
        source=cost.source,
    )


def _planned(policy: Policy, lengths: Ints, offsets: Ints, settings: dict[str, Any], cost: CostModel) -> Outcome:
    """Times of plans made one by one."""
    rows = []
    for low, high in itertools.pairwise(offsets.tolist()):
        plan = plan_decode(lengths[low:high], policy=policy, **settings)
        spans = plan.spans(cost)
        per_slot = np.bincount(spans.slot, weights=plan.bin_tiles, minlength=plan.num_ctas)
        rows.append((spans.bins_ns, spans.busy_ns, spans.bins_ns, spans.merge_ns, int(per_slot.max())))
    return Outcome(*np.array(rows, np.int64).reshape(-1, 5).T)


def _metrics(outcome: Outcome, block: Block, cost: CostModel) -> dict[str, Floats]:
    """The arithmetic of :func:`workbench.schedule.metrics.summarise`, of whole arrays."""
    slots, totals, bins = block.num_ctas, block.totals, outcome.bins_ns
    makespan, busy = outcome.makespan_ns, outcome.busy_ns
    with np.errstate(invalid="ignore"):  # an empty batch divides 0 by 0
        idle = np.where(bins > 0, 1 - busy / (slots * bins), 0.0)
        max_over_mean = np.where(totals > 0, outcome.most * slots / totals, 0.0)
    return {
        "makespan_us": makespan / 1e3,
        "call_us": (cost.constants.launch_ns + makespan) / 1e3,
        "waiting_us": (bins - busy / slots) / 1e3,
        "idle_fraction": idle,
        "max_over_mean": max_over_mean,
        "merge_us": outcome.merge_ns / 1e3,
    }


def _bound_ns(block: Block, cost: CostModel) -> Ints:
    """:func:`workbench.schedule.metrics.bound_ns` of each step, int64 [steps]."""
    alone = cost.pace(block.totals, block.tile, block.num_ctas).reading_ns(block.even)
    longest = np.maximum(alone, cost.stream_ns(block.totals, block.tile))
    return np.where(block.totals > 0, longest + cost.constants.descriptor_ns, 0)
