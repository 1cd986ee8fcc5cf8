"""A clock, a management library and providers that need no GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from workbench.measure.attention_inputs import AttentionInputs
from workbench.measure.providers import Call, Precision
from workbench.measure.timing import Replay, Timing
from workbench.ops.attention_decode import attention_reference
from workbench.records import ClockReading


@dataclass
class FakeReplay:
    call_list: Sequence[Callable[[], object]]
    results: tuple[object, ...]
    calls: int

    def replay(self) -> None:
        for call, kept in zip(self.call_list, self.results, strict=True):
            result = call()
            if result is not kept and isinstance(kept, torch.Tensor) and isinstance(result, torch.Tensor):
                kept.copy_(result)  # a graph's replay writes where its capture wrote


@dataclass
class FakeTimer:
    """Runs calls on the CPU and tells made-up times: ``first_us`` for the first variant, 1 us more for each next."""

    first_us: float = 10.0
    log: list[str] = field(default_factory=list)
    dead: str = ""
    """What `finish` raises from now on; a broken GPU."""

    def capture(self, calls: Sequence[Callable[[], object]]) -> FakeReplay:
        self.log.append("capture")
        return FakeReplay(calls, tuple(call() for call in calls), 2 * len(calls))

    def time(self, variants: Mapping[str, Replay], rounds: int, busy: Callable[[], None]) -> dict[str, Timing]:
        self.log.append("time")
        for _ in range(rounds):
            busy()
        return {
            name: Timing(tuple(self.first_us + at + 0.01 * sample for sample in range(rounds)), captured.calls)
            for at, (name, captured) in enumerate(variants.items())
        }

    def finish(self) -> None:
        if self.dead:
            raise RuntimeError(self.dead)


@dataclass
class FakeClocks:
    """Readings that follow a script: what holds the clocks down during the timed work."""

    held: tuple[str, ...] = ()
    sm_mhz: int = 1980

    def __call__(self, when: str) -> ClockReading:
        reasons = self.held if when == "during" else ("idle",)
        return ClockReading(when=when, sm_mhz=self.sm_mhz, memory_mhz=3201, max_sm_mhz=1980, reasons=reasons)


@dataclass(frozen=True, eq=False)
class Made:
    """A provider that computes by a function of the right result."""

    name: str = "made"
    alter: Callable[[torch.Tensor], torch.Tensor] = lambda right: right
    policy: str | None = None
    variant: str = ""
    configuration: Mapping[str, Any] = field(default_factory=dict)
    notes: str = ""
    precision: Precision | None = field(default_factory=lambda: Precision("bf16 out", 0.004))
    absent: str | None = None

    def missing(self) -> str | None:
        return self.absent

    def prepare(self, inputs: AttentionInputs) -> Call:
        right = attention_reference(*inputs.arguments(), **inputs.keywords())[0]
        out = torch.empty(inputs.q.shape, dtype=torch.bfloat16)

        def call() -> torch.Tensor:
            return out.copy_(self.alter(right.clone()))

        return call


@dataclass(frozen=True, eq=False)
class Raising(Made):
    """A provider that raises where it is prepared."""

    error: BaseException = field(default_factory=lambda: RuntimeError("no such luck"))

    def prepare(self, inputs: AttentionInputs) -> Call:
        raise self.error
