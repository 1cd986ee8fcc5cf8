"""Records and benches that are made up, for tests and screenshots: times by a formula, on a GPU that is not there."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tests.tune.fake_bench import GPU, FakeFactory, true_us
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


def slow_bench(space: Space) -> Callable[[], Bench]:
    """Likewise, and takes its time."""
    return FakeFactory(slow_s=0.2)


def ill_bench(space: Space) -> Callable[[], Bench]:
    """Likewise, and one configuration computes something else."""
    return FakeFactory(slow_s=0.02, ill=(("32 3 4", "wrong"), ("4 2 0 64", "wrong")))


def missing_bench(space: Space) -> Callable[[], Bench]:
    """Cannot be made."""
    return FakeFactory(missing=True)
