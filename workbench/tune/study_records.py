"""What a study found, as records of timing: one a configuration, the finals' samples where it came so far."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from statistics import median
from typing import Any

from workbench.records import Environment, Record, TimingRecord
from workbench.records.methods import FINALS, STUDY
from workbench.tune.study import Result, Study, source_digest
from workbench.tune.study_trials import Finalist, Trial


def records_of(
    study: Study, surroundings: Mapping[str, Any], result: Result | None = None, *, seed: int | None = None
) -> Iterator[Record]:
    """Records of all timed configurations of a study.

    Parameters
    ----------
    study
    surroundings
        What the bench said about itself; see `workbench.records.Environment`.
    result
        Of the finals; its configurations are recorded with its samples.
    seed
        Of the inputs.
    """
    environment = Environment.model_validate_json(json.dumps(dict(surroundings)))
    common: dict[str, Any] = {
        "operator": study.space.operator,
        "provider": "cuda",
        "policy": getattr(study.space, "policy", None),
        "environment": environment,
        "workload": study.space.workload,
        "source_digest": source_digest(study.space),
        "seed": seed,
    }
    final = {} if result is None else {_key(each): each for each in result.finalists}
    for trial in study.timed:
        better = final.get(trial.key)
        # A trial's median has an interval, too; that of few samples is wide.
        shown = better or Finalist(trial.config, trial.samples_us, trial.beside_us, trial.rel_error)
        low, high = shown.interval_us()
        yield TimingRecord(
            **common,
            configuration=trial.config,
            method=FINALS if better else STUDY,
            samples_us=shown.samples_us,
            median_us=round(shown.median_us, 3),
            low_us=round(low, 3),
            high_us=round(high, 3),
            rel_error=trial.rel_error,
            throttled=trial.throttled,
            notes=_notes(trial, better),
        )


def _notes(trial: Trial, better: Finalist | None) -> str | None:
    if better is not None or not trial.dropped:
        return None
    return f"clearly slower after {len(trial.samples_us)} samples; the default took {median(trial.beside_us):.3f} us"


def _key(finalist: Finalist) -> str:
    return Trial(finalist.config, "timed").key
