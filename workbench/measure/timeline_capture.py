"""Run the instrumented kernel on a GPU and read its stamps."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median_low

import numpy as np
import numpy.typing as npt
import torch

from workbench.errors import InvalidArgument
from workbench.measure.attention_inputs import AttentionInputs
from workbench.measure.stamps import COLUMNS
from workbench.measure.timeline import Timeline
from workbench.measure.timing import GraphTimer
from workbench.ops.attention_decode import AttentionConfig, TaskMap, default_config, upload_plan
from workbench.ops.attention_decode.checks import infer_shape
from workbench.ops.attention_decode.cuda import launch
from workbench.schedule import DecodePlan

RUNS = 48
"""Calls that are stamped; the one of median makespan is kept."""

_NEXT = 8
"""Column of a descriptor in the map that names the bin's next one; see ``task_map.cuh``."""


@dataclass(frozen=True, eq=False)
class Captured:
    """Stamped calls of one plan.

    Attributes
    ----------
    timeline : Timeline
        The call of median makespan.
    makespans_us : tuple of float
        Of every stamped call, microseconds, in the order run.
    """

    timeline: Timeline
    makespans_us: tuple[float, ...]


def capture_timeline(
    plan: DecodePlan,
    sets: Sequence[AttentionInputs],
    config: AttentionConfig | None = None,
    *,
    runs: int = RUNS,
    alone: bool = False,
    maps: Sequence[TaskMap] | None = None,
) -> Captured:
    """Stamp calls of a plan and keep the one of median makespan.

    The calls rotate over the input sets in one graph, as :mod:`workbench.measure.timing` runs them; the first of each
    replay, which follows no other, is left out.

    Parameters
    ----------
    plan : DecodePlan
        Of any policy; it is uploaded.
    sets : sequence of AttentionInputs
        At least two sets of the plan's lengths, so large that together they exceed the L2 cache several times.
    config : AttentionConfig, optional
        Default: that of the shape, told to read map and cache early, which this function never rewrites.
    runs : int
        Least calls that are stamped.
    alone : bool
        Launch each call by itself, the GPU idle before and after, as a profiler does.
    maps : sequence of TaskMap, optional
        The plan uploaded once for each input set; made here by default.

    Raises
    ------
    InvalidArgument
        For fewer than two input sets, fewer than one run, or inputs of other lengths.
    InvalidPlan
        The plan does not compute the right thing.
    TimelineError
        The stamps contradict the plan.
    NoGpu
        Without a GPU.
    """
    if len(sets) < 2 or runs < 1:
        raise InvalidArgument(
            f"{len(sets)} input sets and {runs} runs; give at least 2 sets to rotate over, and 1 run."
        )
    for inputs in sets:
        if not np.array_equal(inputs.seq_lens.cpu().numpy(), plan.lengths):
            raise InvalidArgument("the inputs have other lengths than the plan. Make them of plan.lengths.")
    shape = infer_shape(sets[0].q, sets[0].k_cache, plan.q_len, sets[0].k_scale)
    config = (config or default_config(shape)).check(shape)
    maps = maps or [upload_plan(plan, inputs.q.device) for inputs in sets]
    rows = rows_of(plan, maps[0].map.cpu().numpy())
    stamps = torch.zeros((len(sets), maps[0].map.shape[0], len(COLUMNS)), dtype=torch.int64, device=sets[0].q.device)
    calls = [
        stamped_call(inputs, task_map, config, into) for inputs, task_map, into in zip(sets, maps, stamps, strict=True)
    ]
    replay = _one_by_one(calls) if alone else GraphTimer(min_calls=len(calls)).capture(calls).replay
    first = 0 if alone else 1
    found: list[Timeline] = []
    while len(found) < runs:
        stamps.zero_()
        torch.cuda.synchronize()
        replay()
        torch.cuda.synchronize()
        found += [Timeline.from_stamps(plan, call[rows]) for call in stamps.cpu().numpy()[first:]]
    makespans = tuple(timeline.makespan_us for timeline in found)
    return Captured(found[makespans.index(median_low(makespans))], makespans)


def stamped_call(
    inputs: AttentionInputs, task_map: TaskMap, config: AttentionConfig, stamps: torch.Tensor | None
) -> Callable[[], torch.Tensor]:
    """A call of the kernel that writes its stamps to ``stamps``; of the plain kernel where that is None.

    Parameters
    ----------
    stamps : int64 tensor [rows of the map, 10], CUDA, optional
    """
    shape = infer_shape(inputs.q, inputs.k_cache, inputs.q_len, inputs.k_scale)
    partial_out, partial_sum = task_map.partials(shape.rows, shape.head_dim)
    out = torch.empty(inputs.q.shape, dtype=torch.bfloat16, device=inputs.q.device)

    def call() -> torch.Tensor:
        launch(
            shape,
            config,
            q=inputs.q,
            k_cache=inputs.k_cache,
            v_cache=inputs.v_cache,
            block_table=inputs.block_table,
            map_=task_map.map,
            header=task_map.header,
            empties=task_map.empties,
            num_bins=task_map.num_bins,
            partial_out=partial_out,
            partial_sum=partial_sum,
            out=out,
            lse=None,
            q_scale=inputs.q_scale,
            k_scale=inputs.k_scale,
            v_scale=inputs.v_scale,
            scale=shape.head_dim**-0.5,
            early_map=not config.pdl or config.early_map,
            early_cache=not config.pdl or config.early_cache,
            timeline=stamps,
        )
        return out

    return call


def _one_by_one(calls: Sequence[Callable[[], object]]) -> Callable[[], None]:
    def replay() -> None:
        for call in calls:
            call()
            torch.cuda.synchronize()

    return replay


def rows_of(plan: DecodePlan, map_rows: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """Row of the map on the device that holds each descriptor of a plan, int64 [num_descriptors].

    A bin's first descriptor lies at the bin's index and names the next.

    Parameters
    ----------
    plan : DecodePlan
    map_rows : int32 array [rows, 12]
        The plan's map.

    Raises
    ------
    InvalidArgument
        The map is of another plan.
    """
    rows: list[int] = []
    for bin_, (low, high) in enumerate(itertools.pairwise(plan.bin_offsets.tolist())):
        at = bin_ if high > low else -1
        while at >= 0 and len(rows) < high:
            rows.append(at)
            at = int(map_rows[at, _NEXT])
        if at != -1 or len(rows) != high:
            raise InvalidArgument(f"the map's CTA {bin_} has not the {high - low} descriptors of the plan's.")
    return np.array(rows, np.int64)
