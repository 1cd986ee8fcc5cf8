"""The finals of a study: in each round those that are left take turns, and the slower half goes.

The rest get twice as many samples in the next round, down to the last few, which are timed at length.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from statistics import median
from typing import Any

from workbench.errors import StudyError
from workbench.tune.measure import Effort, Samples
from workbench.tune.space import Space
from workbench.tune.study_journal import Journal
from workbench.tune.study_pool import Pool
from workbench.tune.study_search import Search
from workbench.tune.study_trials import Finalist, Trial

_LAST = 4
"""Configurations, the default among them, that the last round has."""


@dataclass(frozen=True)
class Result:
    """What the finals say.

    Attributes
    ----------
    finalists : tuple of Finalist
        Of the last round, fastest first; the default is one of them.
    default : Finalist
    """

    finalists: tuple[Finalist, ...]
    default: Finalist

    @property
    def best(self) -> Finalist:
        """The fastest."""
        return self.finalists[0]

    def gain(self) -> tuple[float, float, float]:
        """Share of the default's time that the best saves, and the ends of its interval."""
        low, high = self.best.relative_interval()
        return 1 - self.best.relative, 1 - high, 1 - low


@dataclass(frozen=True)
class Finals:
    """Lets the best trials compete in turns.

    Attributes
    ----------
    space : Space
    search : Search
        Whose configurations take part.
    default : object
        The configuration that every other is compared with.
    trials : mapping of str to Trial
        What is known of each.
    effort : Effort
        How many take part, and how many samples they get.
    journal : Journal
        Keeps each round.
    """

    space: Space
    search: Search
    default: Any
    trials: Mapping[str, Trial]
    effort: Effort
    journal: Journal

    def run(self, pool: Pool) -> Result:
        """Halve the best until few are left, and time those at length; rounds that are in the journal are not repeated.

        Raises
        ------
        StudyError
            The default has no time, or was lost.
        """
        default = self.trials.get(self.search.default_key)
        if default is None or default.state != "timed":
            raise StudyError("the default was not timed, so there is nothing to compare with. Run the study first.")
        known = self.search.configs
        timed = [t for t in self.trials.values() if t.state == "timed" and not t.dropped and t.key in known]
        others = sorted((t for t in timed if t.key != default.key), key=lambda trial: trial.relative)
        left = [default.key, *self._best_of([trial.key for trial in others], self.effort.finalists)]
        rounds = self.effort.rounds
        for number in range(len(left)):
            last = len(left) <= _LAST
            taken = self._round(pool, number, left, self.effort.final_rounds if last else rounds)
            if last:
                return self._result(taken, default.key)
            ranked = sorted((key for key in taken if key != default.key), key=lambda key: median(taken[key]))
            left = [default.key, *self._best_of(ranked, max(_LAST - 1, len(ranked) // 2))]
            rounds = min(2 * rounds, self.effort.final_rounds)
        raise AssertionError("each round of the finals has fewer configurations than the one before")

    def kept(self) -> Result | None:
        """The finals that are in the journal; None where they are not finished. Measures nothing."""
        try:
            return self.run(_Nobody())
        except (_Unfinished, StudyError):
            return None

    def _best_of(self, ranked: list[str], most: int) -> list[str]:
        """The first ones, the best that could be the default among them, however it compares with those that cannot."""
        chosen = ranked[:most]
        could = [key for key in ranked if self.space.could_be_default(self.search.configs[key], self.default)]
        if could and not set(could) & set(chosen):
            chosen[-1] = could[0]
        return chosen

    def _round(self, pool: Pool, number: int, keys: list[str], rounds: int) -> dict[str, tuple[float, ...]]:
        """Samples of the configurations of one round; one that failed in it has none and is left out."""
        name, asked = f"round {number}", {"configs": keys, "rounds": rounds}
        kept = self.journal.noted(name)
        if kept is None or kept["asked"] != asked:
            configs = [self.search.configs[key] for key in keys]
            samples = pool.take_turns(configs, rounds).result()
            kept = {"asked": asked, "us": [list(each) for each in samples.us], "throttled": list(samples.throttled)}
            self.journal.note(name, kept)
        return {key: tuple(us) for key, us in zip(keys, kept["us"], strict=True) if us}

    def _result(self, taken: dict[str, tuple[float, ...]], default: str) -> Result:
        if default not in taken:
            raise StudyError("the default failed in the last round of the finals. Run them again.")
        found = {
            key: Finalist(json.loads(key), us, taken[default], self.trials[key].rel_error) for key, us in taken.items()
        }
        return Result(tuple(sorted(found.values(), key=lambda each: each.median_us)), found[default])


class _Unfinished(Exception):
    """The journal lacks a round of the finals."""


class _Nobody:
    """A pool that measures nothing."""

    slots = 0

    def try_config(self, config: Any, default: Any, best: float, effort: Effort) -> Future[Trial]:
        raise _Unfinished

    def take_turns(self, configs: Sequence[Any], rounds: int) -> Future[Samples]:
        raise _Unfinished
