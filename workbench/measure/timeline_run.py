"""One case under one policy, from inputs to a record: its timeline, and what stamping it costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from workbench.gpu.ahead import Job
from workbench.measure.attention_case import AttentionCase
from workbench.measure.attention_inputs import AttentionInputs, make_inputs
from workbench.measure.attention_providers import shape_of
from workbench.measure.stamps import COLUMNS
from workbench.measure.timeline import Timeline
from workbench.measure.timeline_capture import RUNS, Captured, capture_timeline, stamped_call
from workbench.measure.timeline_records import timeline_record
from workbench.measure.timing import time_interleaved
from workbench.ops.attention_decode import AttentionConfig, default_config, upload_plan
from workbench.ops.attention_decode.cuda import job
from workbench.records import Environment, TimelineRecord
from workbench.schedule import DecodePlan, Policy, plan_decode

SETS_BYTES = 300_000_000
"""Bytes of K and V in all input sets together: several times the L2 cache of any GPU in the catalogue."""

MOST_SETS = 24


@dataclass(frozen=True, eq=False)
class TimelineRun:
    """What was measured of one plan.

    Attributes
    ----------
    case : AttentionCase
    config : AttentionConfig
    captured : Captured
    call_us, stamped_call_us : float
        Median time of a call of the plain and of the instrumented kernel, in turns, microseconds.
    """

    case: AttentionCase
    config: AttentionConfig
    captured: Captured
    call_us: float
    stamped_call_us: float

    @property
    def timeline(self) -> Timeline:
        """The call of median makespan."""
        return self.captured.timeline

    def record(self, environment: Environment, source_digest: str | None) -> tuple[TimelineRecord, bytes]:
        """The record and its side file, for :meth:`workbench.records.Store.add`."""
        return timeline_record(
            self.timeline,
            environment=environment,
            case=self.case.name,
            cache=self.case.cache,
            parameters=self.case.parameters,
            configuration=self.config.to_dict(),
            makespans_us=self.captured.makespans_us,
            call_us=self.call_us,
            stamped_call_us=self.stamped_call_us,
            source_digest=source_digest,
        )


def early_config(case: AttentionCase) -> AttentionConfig:
    """The default configuration, which reads its map and cache before the kernel ahead has ended."""
    return default_config(shape_of(case), early=True)


def jobs(case: AttentionCase) -> tuple[Job, Job]:
    """The plain and the instrumented kernel of a case, to be compiled ahead."""
    shape, config = shape_of(case), early_config(case)
    return job(shape, config), job(shape, config, timeline=True)


def input_sets(case: AttentionCase, number: int | None = None) -> list[AttentionInputs]:
    """Random inputs of a case; by default so many that a call finds nothing of its own in the caches."""
    number = number or max(2, min(MOST_SETS, -(-SETS_BYTES // max(case.kv_bytes, 1))))
    return [
        make_inputs(
            case.lengths,
            group=case.group,
            kv_heads=case.kv_heads,
            head_dim=case.head_dim,
            page_size=case.page_size,
            q_len=case.q_len,
            cache=case.cache,
            query=case.cache,
            poison=False,
            seed=seed,
        )
        for seed in range(number)
    ]


def plan_here(case: AttentionCase, scheme: Policy, config: AttentionConfig) -> DecodePlan:
    """The plan of a case for the CTAs that this GPU holds."""
    sms = torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count
    return plan_decode(
        case.lengths,
        num_kv_heads=case.kv_heads,
        num_ctas=sms * config.ctas_per_sm,
        policy=scheme,
        tile=config.tile,
        q_len=case.q_len,
    )


def run_timeline(
    case: AttentionCase, scheme: Policy, sets: Sequence[AttentionInputs], *, runs: int = RUNS
) -> TimelineRun:
    """Stamp calls of a case under a policy, and time calls with and without stamps.

    Parameters
    ----------
    case : AttentionCase
    scheme : Policy
    sets : sequence of AttentionInputs
        From :func:`input_sets`, which serve every policy of a case.
    runs : int
        Least calls that are stamped.

    Raises
    ------
    As :func:`workbench.measure.timeline_capture.capture_timeline`.
    """
    config = early_config(case)
    plan = plan_here(case, scheme, config)
    maps = [upload_plan(plan, inputs.q.device) for inputs in sets]
    captured = capture_timeline(plan, sets, config, runs=runs, maps=maps)
    stamps = torch.zeros((maps[0].map.shape[0], len(COLUMNS)), dtype=torch.int64, device="cuda")
    pairs = list(zip(sets, maps, strict=True))
    variants = {"plain": None, "stamped": stamps}
    timings = time_interleaved(
        {name: [stamped_call(*pair, config, into) for pair in pairs] for name, into in variants.items()}
    )
    return TimelineRun(case, config, captured, timings["plain"].median_us, timings["stamped"].median_us)
