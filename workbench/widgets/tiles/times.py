"""How long a configuration takes, and where the figure comes from: measured in a study, recorded, or modelled."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from workbench import devices
from workbench.records import Store, TimingRecord, origin_label
from workbench.tune.space import Space, key_of
from workbench.tune.study import Result, source_digest
from workbench.tune.study_trials import Finalist, Trial

MEASURED, RECORDED, MODELLED = "measured", "recorded", "modelled"
MARKS = {MEASURED: "\u25cf", RECORDED: "\u25d0", MODELLED: "\u25cb"}


@dataclass(frozen=True)
class Time:
    """One configuration's time of a call.

    Attributes
    ----------
    us, low, high : float
        Median and the ends of its interval, microseconds; a modelled one has no interval, so all three are equal.
    origin : str
        Key of `MARKS`.
    words : str
        Such as "recorded (NVIDIA H200, 2026-11-29)".
    rel_error : float or None
        Against float64.
    relative : float or None
        Over the default's, where both took turns.
    relative_low, relative_high : float or None
        Ends of its interval, where both were finalists of a study.
    """

    us: float
    low: float
    high: float
    origin: str
    words: str
    rel_error: float | None = None
    relative: float | None = None
    relative_low: float | None = None
    relative_high: float | None = None

    @property
    def mark(self) -> str:
        """The sign that stands beside it."""
        return MARKS[self.origin]


@dataclass(frozen=True)
class Recorded:
    """What the records hold of a workload.

    Attributes
    ----------
    times : dict of str to Time
        By configuration; see `workbench.tune.space.key_of`.
    words : tuple of str
        Where they come from, each source once.
    left_out : int
        Records of the workload whose configuration is none of today's kernel.
    """

    times: dict[str, Time]
    words: tuple[str, ...]
    left_out: int


def recorded_times(store: Store, space: Space, gpu: devices.Gpu) -> Recorded:
    """Times of our kernel on a workload and a GPU, the newest of each configuration; of a day that of most samples."""
    work, today = space.workload, source_digest(space)
    policy = getattr(space, "policy", None)
    wanted = {"operator": space.operator, "provider": "cuda", "kind": "timing", "case": work.case, "dtype": work.dtype}
    wanted["gpu"] = gpu.name
    newest: dict[str, TimingRecord] = {}
    left_out = 0
    for _, record in store.records(**wanted):
        assert isinstance(record, TimingRecord)  # the kind was asked for
        if record.policy != policy or record.workload.parameters != work.parameters:
            continue
        if set(record.configuration) != set(space.parameters):
            left_out += 1
            continue
        key = json.dumps(record.configuration, sort_keys=True)
        known = newest.get(key)
        if known is None or _rank(record, today) > _rank(known, today):
            newest[key] = record
    times = {key: _time_of(record, today) for key, record in newest.items()}
    return Recorded(times, tuple(dict.fromkeys(time.words for time in times.values())), left_out)


def trial_times(trials: Iterable[Trial], result: Result | None, words: str) -> dict[str, Time]:
    """Times of a study's trials; those of its finals where there are some."""
    times = {}
    for trial in trials:
        if trial.state == "timed":
            times[trial.key] = Time(
                trial.median_us,
                min(trial.samples_us),
                max(trial.samples_us),
                MEASURED,
                words + (", given up early" if trial.dropped else ""),
                trial.rel_error,
                trial.relative,
            )
    for finalist in result.finalists if result else ():
        times[json.dumps(finalist.config, sort_keys=True)] = _of_finalist(finalist, words)
    return times


def modelled(space: Space, config: object, gpu: devices.Gpu) -> Time:
    """By the operator's cost model."""
    us = space.modelled_us(config, gpu)
    return Time(us, us, us, MODELLED, origin_label("modelled"))


def config_key(config: object) -> str:
    """The key of both mappings above."""
    return key_of(config)  # type: ignore[arg-type]


def _of_finalist(finalist: Finalist, words: str) -> Time:
    low, high = finalist.interval_us()
    ends = finalist.relative_interval()
    return Time(finalist.median_us, low, high, MEASURED, words, finalist.rel_error, finalist.relative, *ends)


def _rank(record: TimingRecord, today: str) -> tuple[bool, str, int]:
    return record.source_digest == today, str(record.environment.date), len(record.samples_us)


def _time_of(record: TimingRecord, today: str) -> Time:
    environment = record.environment
    words = origin_label("recorded", gpu=environment.gpu, date=environment.date)
    if record.source_digest != today:
        words += ", of earlier sources of the kernel"
    return Time(record.median_us, record.low_us, record.high_us, RECORDED, words, record.rel_error)
