"""Finals: what each round measures, what it leaves, and what a journal makes unnecessary; on a pool in this process."""

from __future__ import annotations

from concurrent.futures import Future
from itertools import pairwise

import pytest

from tests.tune.fake_bench import GPU, FakeBench, small_space, true_us
from workbench.errors import StudyError
from workbench.tune.measure import Effort, Samples, take_turns, try_config
from workbench.tune.space import key_of
from workbench.tune.study import Study
from workbench.tune.study_finals import Finals, Result

EFFORT = Effort(first=2, rounds=4, finalists=12, final_rounds=9)


class Here:
    """A pool that measures at once; `fails` have no samples in a round, and after `most` rounds it is interrupted."""

    slots = 1

    def __init__(self, fails=(), most=99):
        self.bench, self.fails, self.most = FakeBench(), fails, most
        self.rounds = []

    def try_config(self, config, default, best, effort):
        return done(try_config(self.bench, config, default, best=best, effort=effort))

    def take_turns(self, configs, rounds):
        if len(self.rounds) == self.most:
            raise KeyboardInterrupt
        self.rounds.append(([key_of(config) for config in configs], rounds))
        taken = take_turns(self.bench, configs, rounds)
        return done(
            Samples(tuple(() if key_of(c) in self.fails else us for c, us in zip(configs, taken.us, strict=True)))
        )


def done(value):
    future = Future()
    future.set_result(value)
    return future


@pytest.fixture
def study(tmp_path):
    with Study(small_space(), tmp_path / "s.journal", gpu=GPU, effort=EFFORT) as study:
        study.run(Here())
        yield study


def test_the_slower_half_goes_and_the_rest_get_more_samples(study):
    pool = Here()
    result = study.finals(pool)
    kept, rounds = zip(*((set(keys), rounds) for keys, rounds in pool.rounds), strict=True)
    assert [len(keys) for keys in kept] == [13, 7, 4]
    assert list(rounds) == [4, 8, 9]
    assert all(study.search.default_key in keys for keys in kept)
    assert kept[0] >= kept[1] >= kept[2]
    for before, after in pairwise(kept):
        times = {key: true_us(study.search.configs[key]) for key in before - {study.search.default_key}}
        gone = [times[key] for key in before - after]
        assert max(times[key] for key in after - {study.search.default_key}) <= min(gone)
    assert [each.median_us for each in result.finalists] == sorted(each.median_us for each in result.finalists)
    assert {key_of(study.space.make(each.config)) for each in result.finalists} == kept[-1]
    assert result.default.relative == 1


def test_an_interrupted_round_is_all_that_is_measured_again(study):
    with pytest.raises(KeyboardInterrupt):
        study.finals(Here(most=2))
    assert study.result() is None
    pool = Here()
    result = study.finals(pool)
    assert len(pool.rounds) == 1
    assert study.result() == result
    nothing = Here(most=0)
    assert study.finals(nothing) == result


def test_one_that_fails_in_a_round_is_left_out(study):
    first = study.timed[0].key
    assert first != study.search.default_key
    result = study.finals(Here(fails={first}))
    assert first not in {key_of(study.space.make(each.config)) for each in result.finalists}
    assert len(result.finalists) == 4


def test_without_times_of_the_default_there_is_no_result(study, tmp_path):
    with pytest.raises(StudyError, match="the default failed in the last round"):
        study.finals(Here(fails={study.search.default_key}))
    with (
        Study(small_space(), tmp_path / "empty.journal", gpu=GPU) as empty,
        pytest.raises(StudyError, match="was not timed"),
    ):
        empty.finals(Here())


def test_one_that_could_be_the_default_stays_however_slow(study, monkeypatch):
    slowest = max(study.timed, key=lambda trial: (not trial.dropped, trial.relative)).key
    monkeypatch.setattr(type(study.space), "could_be_default", lambda self, config, default: key_of(config) == slowest)
    finals = Finals(study.space, study.search, study.default, study.trials, EFFORT, study.journal)
    pool = Here()
    result = finals.run(pool)
    assert all(slowest in keys for keys, _ in pool.rounds)
    assert isinstance(result, Result)
    assert slowest in {key_of(study.space.make(each.config)) for each in result.finalists}
