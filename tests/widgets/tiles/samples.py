"""Records and benches that are made up, for tests and screenshots: times by a formula, on a GPU that is not there."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.tune.fake_bench import GPU, FakeBench, FakeFactory, small_space, true_us
from tests.waiting import until
from workbench.records import Environment, Store, TimingRecord
from workbench.tune.measure import Bench
from workbench.tune.space import Space
from workbench.tune.study import source_digest

DATE = datetime.date(2026, 11, 30)


def error_of(config: Any) -> float:
    """Fewer stages err more here, so that time and error are at odds."""
    return 1e-6 * (1 + 1 / config.stages)


def record(space: Space, config: Any, **changes: Any) -> TimingRecord:
    """One made-up time of a configuration."""
    us = round(true_us(config), 3)
    fields: dict[str, Any] = {
        "operator": space.operator,
        "provider": "cuda",
        "policy": getattr(space, "policy", None),
        "environment": Environment(gpu=GPU, date=DATE, sms=132),
        "workload": space.workload,
        "source_digest": source_digest(space),
        "configuration": config.to_dict(),
        "samples_us": (us - 0.01, us, us + 0.01),
        "median_us": us,
        "low_us": us - 0.01,
        "high_us": us + 0.01,
        "rel_error": error_of(config),
    }
    return TimingRecord(**fields | changes)


def store_of(folder: Path, space: Space, configs: Iterable[Any]) -> Store:
    """A store of them."""
    store = Store(folder)
    for config in configs:
        store.add(record(space, config))
    return store


def bench(space: Space) -> Callable[[], Bench]:
    """Measures by the formula, in a process of its own."""
    return FakeFactory(slow_s=0.02)


def ill_bench(space: Space) -> Callable[[], Bench]:
    """Likewise, and one configuration computes something else."""
    return FakeFactory(slow_s=0.02, ill=(("32 3 4", "wrong"), ("4 2 0 64", "wrong")))


def missing_bench(space: Space) -> Callable[[], Bench]:
    """Cannot be made."""
    return FakeFactory(missing=True)


@dataclass(frozen=True)
class Gate:
    """Lets a bench begin as many configurations as a test says, so that what it finds does not depend on time.

    Attributes
    ----------
    folder : Path
        Of tickets, a file each; a bench in another process takes one for each configuration that is new to it.
    """

    folder: Path

    def let(self, more: int) -> None:
        """Let so many more begin."""
        self.folder.mkdir(exist_ok=True)
        for _ in range(more):
            (self.folder / uuid.uuid4().hex).touch()

    def bench(self, space: Space) -> Callable[[], Bench]:
        """Measures by the formula, behind this gate."""
        return GatedFactory(self)


@dataclass(frozen=True)
class GatedFactory:
    """Makes a `GatedBench` in another process."""

    gate: Gate

    def __call__(self) -> Bench:
        small_space()  # so that configurations arrive without torch, which would take longer than a call may
        return GatedBench(gate=self.gate)


@dataclass
class GatedBench(FakeBench):
    """One that waits for a ticket before each configuration that it has not seen."""

    gate: Gate | None = None
    begun: set[str] = field(default_factory=set)

    def prepare(self, config: Any) -> float:
        assert self.gate is not None
        if str(config) not in self.begun:
            until(self._ticket)
            self.begun.add(str(config))
        return super().prepare(config)

    def _ticket(self) -> bool:
        ticket = next(self.gate.folder.iterdir(), None)  # type: ignore[union-attr]
        if ticket is None:
            return False
        ticket.unlink()
        return True
