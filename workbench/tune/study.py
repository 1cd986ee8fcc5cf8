"""A study: try the configurations of a space, keep every outcome, and let the best of them compete in turns.

Each trial checks one configuration before it is timed, and times it in turns with the default. A trial is kept as soon
as it is finished, whatever came out. `Study.finals` then lets the best compete: `workbench.tune.study_finals`.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from typing import Any, Self

from workbench import devices
from workbench.errors import InvalidArgument, StudyError
from workbench.gpu.source import Source
from workbench.tune.measure import Effort
from workbench.tune.space import Space, key_of
from workbench.tune.study_finals import Finals, Result
from workbench.tune.study_journal import Journal
from workbench.tune.study_pool import Pool
from workbench.tune.study_search import Search
from workbench.tune.study_trials import Trial

__all__ = ["Pool", "Progress", "Result", "Study", "source_digest"]


@dataclass(frozen=True)
class Progress:
    """How far a study is.

    Attributes
    ----------
    trial : Trial
        The one that was just finished.
    done, total : int
        Trials finished, and in all.
    best : Trial or None
        Fastest so far, relative to the default.
    eta_s : float
        Seconds to go, by the mean of this run's trials.
    """

    trial: Trial
    done: int
    total: int
    best: Trial | None
    eta_s: float


class Study:
    """One space on one model of GPU.

    Parameters
    ----------
    space
        What is tried.
    path
        Journal; what is in it is not tried again.
    gpu
        Name of the GPU by its driver; a study is of one model.
    method, seed
        As `workbench.tune.study_search.Search`.
    configs
        Only these; the journal keeps them. Default: those that it has, or the whole space.
    effort
        How many samples.
    writable
        False: the study is only looked at, also while another process goes on with it.

    Raises
    ------
    StudyError
        The journal is open elsewhere, of another study, or damaged.
    InvalidArgument
        As `workbench.tune.study_search.Search`.
    """

    def __init__(
        self,
        space: Space,
        path: str | os.PathLike[str],
        *,
        gpu: str,
        method: str = "grid",
        seed: int = 0,
        configs: Sequence[Any] | None = None,
        effort: Effort | None = None,
        writable: bool = True,
    ) -> None:
        self.space, self.gpu, self.effort = space, gpu, effort or Effort()
        # An unknown GPU has no default of its own; the architecture is the same, or nothing would run.
        known = next((g.name for g in devices.CATALOGUE.values() if gpu in (g.name, *g.aliases)), "H200")
        self.default = space.default(known)
        parameters = {
            name: tuple(dict.fromkeys([*values, getattr(self.default, name)]))
            for name, values in space.parameters.items()
        }
        about = {
            "space": space.to_dict(),
            "gpu": gpu,
            "source": source_digest(space),
            "default": self.default.to_dict(),  # what times are relative to
        }
        self.journal = Journal(path, about, parameters, writable=writable)
        try:
            if configs is None:
                self.search = Search(space, method, self.default, seed, self.journal.configs(space))
            else:
                self.search = Search(space, method, self.default, seed, configs)
                self.journal.note("configs", [config.to_dict() for config in configs])
            self.trials: dict[str, Trial] = {trial.key: trial for trial in self.journal.trials}
        except BaseException:
            self.journal.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.journal.close()

    @property
    def timed(self) -> list[Trial]:
        """Trials that have times, fastest first."""
        return sorted((t for t in self.trials.values() if t.state == "timed"), key=lambda trial: trial.relative)

    @property
    def failed(self) -> list[Trial]:
        """Trials that have none."""
        return [trial for trial in self.trials.values() if trial.state != "timed"]

    @property
    def best(self) -> Trial | None:
        """The fastest trial; None before there is one."""
        return next(iter(self.timed), None)

    def run(
        self,
        pool: Pool,
        *,
        most: int | None = None,
        progress: Callable[[Progress], None] | None = None,
        stop: threading.Event | None = None,
    ) -> None:
        """Try what was not tried, until all was, ``most`` trials are in the journal, or ``stop`` is set.

        Raises
        ------
        InvalidArgument
            `most` is below 1.
        StudyError
            The default cannot be measured, so nothing can be compared with it.
        """
        if most is not None and most < 1:
            raise InvalidArgument(f"most is {most}; a study has at least one trial.")
        total = min(len(self.search.configs), most or len(self.search.configs))
        pending: dict[Future[Trial], str] = {}
        started, before = time.perf_counter(), len(self.trials)
        while True:
            while len(pending) < self._slots(pool) and not (stop and stop.is_set()):
                if len(self.trials) + len(pending) >= total:
                    break
                config = self.search.next(self.trials.values(), pending.values())
                if config is None:
                    break
                best = self.best.relative if self.best else float("inf")
                pending[pool.try_config(config, self.default, best, self.effort)] = key_of(config)
            if not pending:
                return
            for future in wait(pending, return_when=FIRST_COMPLETED).done:
                del pending[future]
                trial = future.result()
                self._keep(trial)
                each = (time.perf_counter() - started) / (len(self.trials) - before)
                if progress:
                    done = len(self.trials)
                    progress(Progress(trial, done, total, self.best, each * (total - done)))

    def finals(self, pool: Pool) -> Result:
        """Halve the best until few are left, and time those at length; rounds that are in the journal are not repeated.

        Raises
        ------
        StudyError
            The default has no time, or was lost.
        """
        return self._finals.run(pool)

    def result(self) -> Result | None:
        """The finals that are in the journal; None where they are not finished. Measures nothing."""
        return self._finals.kept()

    @property
    def _finals(self) -> Finals:
        return Finals(self.space, self.search, self.default, self.trials, self.effort, self.journal)

    def _slots(self, pool: Pool) -> int:
        # The default alone is tried first: a study without it compares nothing.
        return pool.slots if self.search.default_key in self.trials else 1

    def _keep(self, trial: Trial) -> None:
        if trial.gpu and trial.gpu != self.gpu:
            raise StudyError(
                f"a trial ran on {trial.gpu}, and this study is of {self.gpu}. Figures of different GPUs are kept "
                "apart: start a study for each."
            )
        if trial.key == self.search.default_key and trial.state != "timed":
            raise StudyError(f"the default configuration cannot be measured: {trial.state}: {trial.reason}.")
        self.journal.add(trial)
        self.trials[trial.key] = trial


def source_digest(space: Space) -> str:
    """SHA-256 over the kernel's source and headers, as records have it."""
    source = space.job(space.default()).source
    digests = (source if isinstance(source, Source) else Source.file(source)).digests()
    return hashlib.sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest()
