"""Studies: every outcome is kept, a killed driver repeats at most the trial in flight, finals halve."""

from __future__ import annotations

import subprocess
import sys
import threading
from itertools import pairwise
from pathlib import Path

import pytest

from tests.tune.fake_bench import GPU, FakeFactory, small_space, true_us
from workbench.errors import StudyError
from workbench.tune.measure import Effort
from workbench.tune.space import key_of
from workbench.tune.study import Study
from workbench.tune.study_journal import about_of
from workbench.tune.workers_local import LocalPool

ROOT = Path(__file__).resolve().parents[2]
EFFORT = Effort(first=2, rounds=4, finalists=12, final_rounds=9)
BEST = (32, 4, 8)


def shape(config):
    return config["tile_n"], config["stages"], config["split_k"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A study of 100 in which some fail, with its result and its journal."""
    path = tmp_path_factory.mktemp("study") / "s.journal"
    ill = (("16 2 1", "wrong"), ("24 3 2", "killed"), ("48 6 16", "compile"))
    with (
        Study(small_space(), path, gpu=GPU, effort=EFFORT) as study,
        LocalPool(FakeFactory(ill=ill), call_s=120) as pool,
    ):
        study.run(pool)
        yield study, study.finals(pool), path


def test_every_configuration_is_tried_and_failures_are_kept(finished):
    study, _, _ = finished
    assert len(study.trials) == len(set(study.trials)) == len(small_space()) + (study.default not in small_space())
    assert {(shape(t.config), t.state) for t in study.failed} == {
        ((16, 2, 1), "wrong result"),
        ((24, 3, 2), "crashed"),
        ((48, 6, 16), "compile error"),
    }
    assert shape(study.best.config) == BEST
    assert all(len(t.samples_us) == (2 if t.dropped else 4) for t in study.timed)
    assert any(t.dropped for t in study.timed)


def test_finals_end_with_the_best_and_the_default_in_turns(finished):
    study, result, _ = finished
    assert shape(result.best.config) == BEST
    assert result.default.config == study.default.to_dict()
    assert len(result.finalists) == 4
    assert all(len(each.samples_us) == len(each.beside_us) == 9 for each in result.finalists)
    gain, low, high = result.gain()
    assert low <= gain <= high
    assert gain == pytest.approx(1 - true_us(small_space().make(result.best.config)) / true_us(study.default), abs=1e-3)


def test_a_finished_study_measures_nothing_again(finished, tmp_path):
    study, result, path = finished
    copy = tmp_path / "copy.journal"
    copy.write_bytes(path.read_bytes())
    log = tmp_path / "log"
    with Study(small_space(), copy, gpu=GPU, effort=EFFORT) as again, LocalPool(FakeFactory(log=str(log))) as pool:
        again.run(pool)
        assert again.finals(pool) == result
        assert again.trials == study.trials
    assert not log.exists()


DRIVER = """
import sys
from tests.tune.fake_bench import GPU, FakeFactory, small_space
from workbench.tune.study import Study
from workbench.tune.workers_local import LocalPool
journal, log = sys.argv[1:]
if __name__ == "__main__":
    with Study(small_space(), journal, gpu=GPU) as study, LocalPool(FakeFactory(log=log, slow_s=0.01)) as pool:
        study.run(pool, progress=lambda at: print(at.done, flush=True))
"""


def test_after_kill_9_at_most_the_trial_in_flight_is_repeated(tmp_path):
    journal, log = tmp_path / "s.journal", tmp_path / "log"
    for enough in (20, 60):
        with subprocess.Popen(
            [sys.executable, "-c", DRIVER, str(journal), str(log)], stdout=subprocess.PIPE, text=True, cwd=ROOT
        ) as driver:
            assert driver.stdout is not None
            for line in driver.stdout:
                if int(line) >= enough:
                    break
            driver.kill()
    last = subprocess.run(
        [sys.executable, "-c", DRIVER, str(journal), str(log)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    total = len(small_space()) + (small_space().default() not in small_space())
    assert int(last.stdout.splitlines()[-1]) == total
    default = small_space().default()
    own = f"{default.tile_n} {default.stages} {default.split_k}"  # taken along by each process
    keys = [line.partition("@")[0] for line in log.read_text().splitlines()]
    tried = [key for key in keys if key != own]
    assert total - 1 <= len(tried) <= total - 1 + 2  # two kills
    assert max(tried.count(key) for key in tried) <= 2


def test_a_line_cut_short_is_taken_off(tmp_path):
    path = tmp_path / "s.journal"
    with Study(small_space(), path, gpu=GPU) as study, LocalPool(FakeFactory()) as pool:
        study.run(pool, most=5)
        before = dict(study.trials)
    whole = path.read_bytes()
    path.write_bytes(whole + whole.splitlines()[-1][:40])
    with Study(small_space(), path, gpu=GPU) as study, LocalPool(FakeFactory()) as pool:
        assert study.trials == before
        study.run(pool, most=7)
    with Study(small_space(), path, gpu=GPU) as study:
        assert len(study.trials) == 7


@pytest.mark.parametrize("method", ["random", "tpe"])
def test_samplers_find_good_ones_and_repeat_none(tmp_path, method):
    path = tmp_path / "s.journal"
    with LocalPool(FakeFactory()) as pool:
        for most in (15, 40):
            with Study(small_space(), path, gpu=GPU, method=method, seed=3) as study:
                study.run(pool, most=most)
                assert len(study.trials) == most
    order = [shape(t.config) for t in study.timed]
    assert len(set(order)) == 40
    assert true_us(small_space().make(study.best.config)) <= 5.5


def test_stop_ends_after_the_trial_in_flight(tmp_path):
    stop = threading.Event()

    def after_three(at):
        assert at.total == 100 + (small_space().default() not in small_space())
        assert at.eta_s >= 0
        if at.done == 3:
            stop.set()

    with Study(small_space(), tmp_path / "s", gpu=GPU) as study, LocalPool(FakeFactory()) as pool:
        study.run(pool, progress=after_three, stop=stop)
        assert len(study.trials) == 3
        study.run(pool, most=4)
        assert len(study.trials) == 4


def test_a_default_that_fails_ends_the_study_with_its_reason(tmp_path):
    default = small_space().default()
    ill = ((f"{default.tile_n} {default.stages} {default.split_k}", "wrong"),)
    with Study(small_space(), tmp_path / "s", gpu=GPU) as study, LocalPool(FakeFactory(ill=ill)) as pool:
        with pytest.raises(StudyError, match=r"default configuration cannot be measured: wrong result: .*0\.5"):
            study.run(pool)
        assert not study.trials


def test_other_gpus_other_spaces_and_two_drivers_are_refused(tmp_path):
    path = tmp_path / "s"
    with Study(small_space(), path, gpu=GPU) as study:
        with pytest.raises(StudyError, match="open in another process"):
            Study(small_space(), path, gpu=GPU)
        other = LocalPool(FakeFactory(gpu="NVIDIA H100 80GB HBM3"))
        with other, pytest.raises(StudyError, match=r"a trial ran on NVIDIA H100 80GB HBM3.*kept apart"):
            study.run(other)
    with pytest.raises(StudyError, match=r"differs in .*gpu"):
        Study(small_space(), path, gpu="NVIDIA H20")
    with pytest.raises(StudyError, match="differs in space"):
        Study(small_space(stages=(2, 3)), path, gpu=GPU)
    assert about_of(path)["gpu"] == GPU
    (tmp_path / "no").write_text("{}\n")
    with pytest.raises(StudyError, match="is no journal"):
        Study(small_space(), tmp_path / "no", gpu=GPU)


def test_keeping_a_trial_appends_a_line_and_rewrites_nothing(tmp_path):
    path, kept = tmp_path / "s", []
    with Study(small_space(), path, gpu=GPU) as study, LocalPool(FakeFactory()) as pool:
        study.run(pool, most=21, progress=lambda _: kept.append(path.read_bytes()))
        assert key_of(study.default) in study.trials
    assert len(kept) == 21
    for before, after in pairwise(kept):
        assert after.startswith(before)
        assert 0 < len(after) - len(before) < 4096
