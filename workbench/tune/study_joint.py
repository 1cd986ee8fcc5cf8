"""One configuration for several workloads: a default is chosen by the shape, when lengths are not known yet."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workbench.tune.study_trials import Trial


@dataclass(frozen=True)
class Joint:
    """A configuration over several workloads, each time relative to the default's.

    Attributes
    ----------
    key : str
        The configuration as text.
    relative : dict of str to float
        By workload.
    """

    key: str
    relative: dict[str, float]

    @property
    def mean(self) -> float:
        """Geometric mean over the workloads: each counts alike, however long it takes."""
        return math.exp(sum(map(math.log, self.relative.values())) / len(self.relative))

    @property
    def worst(self) -> float:
        """Of the workload that it serves worst."""
        return max(self.relative.values())


def joint(trials: Mapping[str, Sequence[Trial]]) -> list[Joint]:
    """Configurations that were timed on all workloads, the smallest geometric mean first.

    Parameters
    ----------
    trials
        By workload; each one's times are relative to the same default configuration.
    """
    timed = {
        name: {trial.key: trial.relative for trial in each if trial.state == "timed"} for name, each in trials.items()
    }
    if not timed:
        return []
    common = set.intersection(*(set(each) for each in timed.values()))
    found = [Joint(key, {name: each[key] for name, each in timed.items()}) for key in sorted(common)]
    return sorted(found, key=lambda each: each.mean)
