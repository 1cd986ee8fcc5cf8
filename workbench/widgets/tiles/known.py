"""All that is known of one workload's configurations: what each needs, how long it takes, and what became of it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from workbench import devices
from workbench.gpu.compile import is_compiled
from workbench.tune.resources import Resources, resources
from workbench.tune.space import Space
from workbench.tune.study import Result
from workbench.tune.study_trials import Trial
from workbench.widgets.tiles.times import MODELLED, Recorded, Time, config_key, modelled, trial_times

ROWS = 200
"""Configurations that are listed and drawn, at most."""


@dataclass
class Known:
    """Of one space on one GPU.

    Attributes
    ----------
    space : Space
    device : Gpu
    default : object
        The configuration that runs when none is given.
    recorded : Recorded
    resources : dict of object to Resources
        By configuration, of those that were compiled.
    trials : dict of str to Trial
        Of the study of this workload, by configuration.
    result : Result or None
        Its finals.
    measured_words : str
        Where the trials come from.
    version : int
        Grows with every change, so that charts are made anew.
    """

    space: Space
    device: devices.Gpu
    default: Any
    recorded: Recorded
    resources: dict[Any, Resources] = field(default_factory=dict)
    trials: dict[str, Trial] = field(default_factory=dict)
    result: Result | None = None
    measured_words: str = ""
    version: int = 0
    _measured: dict[str, Time] = field(default_factory=dict)
    _modelled: dict[Any, Time] = field(default_factory=dict)
    _promising: list[Any] | None = None
    _timed: tuple[int, list[Any]] = (-1, [])

    def add(self, found: Resources) -> None:
        """Keep what a configuration needs."""
        self.resources[found.config] = found
        self.version += 1

    def learn(self, trials: dict[str, Trial], result: Result | None, words: str) -> None:
        """Take what a study found so far."""
        self.trials, self.result, self.measured_words = trials, result, words
        self._measured = trial_times(trials.values(), result, words)
        self.version += 1

    def is_compiled(self, config: Any) -> bool:
        """Whether the kernel of a configuration is in the cache."""
        job = self.space.job(config)
        return is_compiled(job.source, job.entry, defines=job.defines, arch=job.arch)

    def find(self, config: Any) -> Resources:
        """What a configuration needs, compiled now if it was not; changes nothing here."""
        return resources(self.space, [config], gpu=self.device)[0]

    def time(self, config: Any) -> Time:
        """Measured if it was, recorded if there is a record, modelled otherwise."""
        key = config_key(config)
        known = self._measured.get(key) or self.recorded.times.get(key)
        if known is not None:
            return known
        if config not in self._modelled:
            self._modelled[config] = modelled(self.space, config, self.device)
        return self._modelled[config]

    def failure(self, config: Any) -> str:
        """Why a study could not time a configuration; "" where it could or did not try."""
        trial = self.trials.get(config_key(config))
        return "" if trial is None or trial.state == "timed" else f"{trial.state}: {trial.reason}"

    def timed(self) -> list[Any]:
        """Configurations of the kernel that were measured, or recorded and are in the space, fastest first.

        Records know more: launches that promise what only the caller can, for one, which nobody is to take for a gain.
        """
        if self._timed[0] != self.version:
            made = {key: self.space.make(json.loads(key)) for key in {**self.recorded.times, **self._measured}}
            able = [
                config
                for key, config in made.items()
                if config in self.space or (key in self._measured and self.space.why_invalid(config) is None)
            ]
            self._timed = self.version, sorted(able, key=lambda config: self.time(config).us)
        return self._timed[1]

    def best(self) -> Any | None:
        """The fastest of those that were measured, or else recorded; None where nothing was."""
        timed = [config for config in self.timed() if not self.failure(config)]
        if self.result is not None:
            return self.space.make(self.result.best.config)
        own = [config for config in timed if config_key(config) in self._measured]
        return next(iter(own or timed), None)

    def rows(self) -> list[Any]:
        """Configurations to list, those with times first, then as the cost model ranks them; at most `ROWS`."""
        if self._promising is None:
            self._promising = self.space.promising(len(self.space) + 1, self.device)
        timed = self.timed()
        chosen = list(dict.fromkeys([*timed[: ROWS - 1], self.default, *self._promising]))[:ROWS]
        return sorted(chosen, key=lambda config: (self.time(config).origin == MODELLED, self.time(config).us))
