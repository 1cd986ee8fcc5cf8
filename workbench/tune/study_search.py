"""Which configuration a study tries next: in order, at random, or by Optuna's TPE."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Literal, get_args

from workbench.errors import InvalidArgument
from workbench.tune.space import Space, key_of
from workbench.tune.study_journal import require_optuna
from workbench.tune.study_trials import Trial

Method = Literal["grid", "random", "tpe"]
METHODS: tuple[str, ...] = get_args(Method)
_SEEDS = 1 << 32
_MOST_TRIES = 64
"""Suggestions that are invalid or known before one is taken from the list instead."""


class Search:
    """Proposes configurations that were not tried.

    Parameters
    ----------
    space
        Valid configurations.
    method
        ``"grid"``: all in the order of the space. ``"random"``, ``"tpe"``: Optuna's samplers over the declared values;
        combinations that cannot run are passed over and cost nothing.
    default
        The configuration that is proposed first.
    seed
        Of the samplers.
    configs
        Only these, in this order; default: the whole space.

    Raises
    ------
    InvalidArgument
        The method is not known, the seed is none, a configuration is not one of the space, or it has none that can run.
    """

    def __init__(
        self, space: Space, method: str, default: Any, seed: int = 0, configs: Sequence[Any] | None = None
    ) -> None:
        if method not in METHODS:
            raise InvalidArgument(f"method {method!r} is not known; give {', '.join(METHODS)}.")
        if type(seed) is not int or not 0 <= seed < _SEEDS:
            raise InvalidArgument(f"seed is {seed!r}; give a whole number from 0 to {_SEEDS - 1:,}.")
        if configs is None and not len(space):
            raise InvalidArgument(f"no configuration can run {space.workload.case}: {space.refused[0].reason}.")
        for config in configs or ():
            if config != default and config not in space:
                raise InvalidArgument(f"{config} is not in the space, or cannot run. Give configurations of the space.")
        listed = dict.fromkeys([default, *(space if configs is None else configs)])
        self.configs: dict[str, Any] = {key_of(config): config for config in listed}
        self.default_key = key_of(default)
        self._space, self._method, self._seed = space, method, seed
        self._told: set[str] = set()
        self._sampler: Any = None

    def next(self, finished: Collection[Trial], pending: Collection[str]) -> Any | None:
        """A configuration to try, or None where all were.

        Parameters
        ----------
        finished
            All trials so far.
        pending
            Keys of those that are being tried.
        """
        known = {trial.key for trial in finished} | set(pending)
        if self.default_key not in known:
            return self.configs[self.default_key]
        left = [key for key in self.configs if key not in known]
        if not left:
            return None
        if self._method == "grid":
            return self.configs[left[0]]
        for _ in range(_MOST_TRIES):
            if (suggested := self._suggest(finished)) in left:
                return self.configs[suggested]
        return self.configs[left[(self._seed + len(known)) % len(left)]]

    def _suggest(self, finished: Collection[Trial]) -> str:
        optuna = require_optuna()
        choices = optuna.distributions.CategoricalDistribution
        distributions = {name: choices(values) for name, values in self._space.parameters.items()}
        if self._sampler is None:
            sampler = optuna.samplers.RandomSampler if self._method == "random" else optuna.samplers.TPESampler
            # Another seed after each resumption, so that a sampler does not repeat itself.
            self._sampler = optuna.create_study(sampler=sampler(seed=(self._seed + len(finished)) % _SEEDS))
        for trial in finished:
            inside = all(trial.config[name] in values for name, values in self._space.parameters.items())
            if trial.key not in self._told and trial.state == "timed" and inside:
                params = {name: trial.config[name] for name in distributions}
                made = optuna.trial.create_trial(params=params, distributions=distributions, value=trial.relative)
                self._sampler.add_trial(made)
                self._told.add(trial.key)
        asked = self._sampler.ask(distributions)
        self._sampler.tell(asked, state=optuna.trial.TrialState.FAIL)
        return key_of(self._space.make(asked.params))
