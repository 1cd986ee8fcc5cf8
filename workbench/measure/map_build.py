"""How long the GPU takes to build a task map."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from workbench.errors import InvalidPlan
from workbench.gpu.ahead import Job
from workbench.measure.attention_case import AttentionCase
from workbench.measure.clocks import Reader
from workbench.measure.compare import Outcome, compare
from workbench.measure.figures import map_variant
from workbench.measure.providers import Call
from workbench.measure.timing import Timer
from workbench.ops.attention_decode import build_task_map
from workbench.schedule import Policy, plan_decode

MAP_JOB = Job(source="attention_decode/task_map.cu", entry="build_task_map")
MAP_SETS = 8
"""Batches that the builds rotate over."""

METHOD = (
    "Median of replays of a CUDA graph of at least 24 builds that rotate over eight batches, its variants taking "
    "turns; compared with the CPU's plan first"
)

GARBAGE = 0x5A5A5A5A
"""What the map's memory holds before the build that is checked."""


@dataclass(frozen=True, eq=False)
class MapBuild:
    """One policy's map for one number of CTAs; see :class:`workbench.measure.providers.Provider`.

    Its map is compared with the CPU's plan before its time counts.
    """

    case: AttentionCase
    scheme: Policy
    num_ctas: int
    notes: str = ""
    name: str = field(default="cuda", init=False)
    precision: None = field(default=None, init=False)

    @property
    def policy(self) -> str:
        """Name of the policy."""
        return self.scheme.name

    @property
    def variant(self) -> str:
        """Size of the map."""
        return map_variant(self.configuration)

    @property
    def configuration(self) -> dict[str, Any]:
        """Bins of the map."""
        return {"num_ctas": self.num_ctas}

    def missing(self) -> None:
        """Nothing: it comes with this package."""

    def prepare(self, inputs: torch.Tensor) -> Call:
        """Build once over garbage and compare with the CPU's plan.

        Raises
        ------
        InvalidPlan
            The map is another one.
        """
        common: dict[str, Any] = {
            "num_kv_heads": self.case.kv_heads,
            "max_seq_len": int(self.case.lengths.max()),
            "num_ctas": self.num_ctas,
            "q_len": self.case.q_len,
            "policy": self.scheme,
        }
        built = build_task_map(inputs, **common)
        built.map.fill_(GARBAGE)
        build_task_map(inputs, **common, out=built)
        mapped = built.plan(self.case.lengths)
        planned = plan_decode(
            self.case.lengths,
            num_kv_heads=self.case.kv_heads,
            num_ctas=self.num_ctas,
            policy=self.scheme,
            q_len=self.case.q_len,
        )
        if not (
            np.array_equal(mapped.bin_offsets, planned.bin_offsets)
            and np.array_equal(mapped.descriptors, planned.descriptors)
        ):
            raise InvalidPlan(f"{self.policy} as the GPU built it", ["it is not the plan that the CPU makes"])

        def call() -> torch.Tensor:
            build_task_map(inputs, **common, out=built)
            return built.map

        return call


def measure_map(
    case: AttentionCase, builds: list[MapBuild], timer: Timer, read_clocks: Reader | None, rounds: int
) -> list[Outcome]:
    """Check and time the builds of one case."""
    lengths = np.asarray(case.lengths, np.int32)
    sets = [torch.as_tensor(lengths, device="cuda") for _ in range(MAP_SETS)]
    return compare(builds, sets, [], timer=timer, read_clocks=read_clocks, rounds=rounds)
