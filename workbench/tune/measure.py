"""The protocol between a study and what measures: prepare one configuration, then sample several in turns.

Whatever implements `Bench` lives in a worker process (`workbench.tune.workers`): `workbench.tune.measure_gpu` on a GPU,
anything picklable in a test.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Protocol

from workbench.tune.study_trials import Trial, TrialFailed


@dataclass(frozen=True)
class Samples:
    """Times of several configurations, taken in turns.

    Attributes
    ----------
    us : tuple of tuple of float
        Microseconds a call, in the order of the configurations.
    throttled : tuple of str
        What held the clocks down meanwhile.
    """

    us: tuple[tuple[float, ...], ...]
    throttled: tuple[str, ...] = ()


class Bench(Protocol):
    """One workload on one GPU, inputs made once."""

    def about(self) -> dict[str, Any]:
        """Surroundings: at least ``gpu``, the name by the driver."""
        ...

    def prepare(self, config: Any) -> float:
        """Compile, run and check a configuration; returns the relative error.

        Raises
        ------
        TrialFailed
            It does not compile, cannot be launched, or computes something else.
        """
        ...

    def sample(self, configs: Sequence[Any], rounds: int) -> Samples:
        """So many samples of each, taken in turns; what is not prepared is prepared first."""
        ...

    def alive(self) -> None:
        """Pass where the GPU takes more work; raise whatever it says where it does not."""
        ...


class Caller(Protocol):
    """Calls a bench wherever it lives; `workbench.tune.workers.Worker` is one."""

    def about(self) -> dict[str, Any]:
        """As the bench's."""
        ...

    def prepare(self, config: Any) -> float:
        """As the bench's; besides, TrialFailed says "crashed" and "time-out"."""
        ...

    def sample(self, configs: Sequence[Any], rounds: int) -> Samples:
        """As the bench's, likewise."""
        ...


@dataclass(frozen=True)
class Effort:
    """How many samples a trial and the finals take.

    Attributes
    ----------
    first : int
        Samples after which a configuration that is clearly slower is dropped.
    rounds : int
        Samples of one that is not.
    clearly : float
        Clearly slower: the fastest sample is above the best known relative time by this factor.
    finalists : int
        Configurations that halving starts with, besides the default.
    final_rounds : int
        Samples in the last round of it.
    """

    first: int = 3
    rounds: int = 7
    clearly: float = 1.1
    finalists: int = 16
    final_rounds: int = 31


def try_config(caller: Caller, config: Any, default: Any, *, best: float = float("inf"), effort: Effort) -> Trial:
    """Try one configuration; every failure of it becomes a trial that says so.

    Parameters
    ----------
    caller
        Where it runs.
    config, default
        The configuration, and the one that it takes turns with.
    best
        Smallest time relative to the default's that is known so far.
    effort
        How many samples.
    """
    started = time.perf_counter()
    values: dict[str, Any] = config.to_dict()
    error: float | None = None
    gpu = ""
    try:
        gpu = str(caller.about()["gpu"])
        error = caller.prepare(config)
        taken = caller.sample([config, default], effort.first)
        own, beside = taken.us
        throttled = taken.throttled
        dropped = min(own) > median(beside) * best * effort.clearly
        if not dropped and effort.rounds > effort.first:
            more = caller.sample([config, default], effort.rounds - effort.first)
            own, beside = own + more.us[0], beside + more.us[1]
            throttled = tuple(dict.fromkeys(throttled + more.throttled))
    except TrialFailed as failed:
        seconds = round(time.perf_counter() - started, 3)
        return Trial(values, failed.state, failed.reason, rel_error=error, gpu=gpu, seconds=seconds)
    return Trial(
        values,
        "timed",
        samples_us=_rounded(own),
        beside_us=_rounded(beside),
        rel_error=error,
        dropped=dropped,
        gpu=gpu,
        throttled=throttled,
        seconds=round(time.perf_counter() - started, 3),
    )


def take_turns(caller: Caller, configs: Sequence[Any], rounds: int) -> Samples:
    """Sample several configurations in turns.

    Where the process ends meanwhile, each is tried by itself, so that the others are still measured; one that fails has
    no samples.
    """
    try:
        taken = caller.sample(configs, rounds)
    except TrialFailed:
        good = [config for config in configs if _passes(caller, config)]
        again = iter(caller.sample(good, rounds).us if good else ())
        return Samples(tuple(_rounded(next(again)) if config in good else () for config in configs))
    return Samples(tuple(map(_rounded, taken.us)), taken.throttled)


def _passes(caller: Caller, config: Any) -> bool:
    try:
        caller.prepare(config)
        caller.sample([config], 1)
    except TrialFailed:
        return False
    return True


def _rounded(samples: Sequence[float]) -> tuple[float, ...]:
    return tuple(round(sample, 3) for sample in samples)
