"""Where the trials of a study run."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, Protocol

from workbench.tune.measure import Effort, Samples
from workbench.tune.study_trials import Trial


class Pool(Protocol):
    """Where trials run: `workbench.tune.workers_local.LocalPool`, or the GPUs of a cluster."""

    @property
    def slots(self) -> int:
        """Trials that can run at the same time."""
        ...

    def try_config(self, config: Any, default: Any, best: float, effort: Effort) -> Future[Trial]:
        """See `workbench.tune.measure.try_config`."""
        ...

    def take_turns(self, configs: Sequence[Any], rounds: int) -> Future[Samples]:
        """See `workbench.tune.measure.take_turns`."""
        ...
