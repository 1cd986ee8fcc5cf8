"""Studies on a Dask cluster of made-up GPUs: each does its part, a lost worker loses no result, models stay apart."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from types import SimpleNamespace

import pytest

pytest.importorskip("distributed")

from tests.tune.fake_bench import GPU, FakeFactory, PerWorkerFactory, small_space, true_us
from workbench.errors import InvalidArgument, StudyError
from workbench.tune.cluster import Cluster, _pass_on, _try, _visible
from workbench.tune.measure import Effort
from workbench.tune.study import Study
from workbench.tune.study_trials import Trial

# Dask's own sockets and loops are closed when the process ends.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
EFFORT = Effort(first=1, rounds=2, finalists=4, final_rounds=5)


@pytest.fixture(scope="module")
def cluster():
    with Cluster(gpus=(0, 1)) as made:
        made._client.run(small_space)  # so that configurations arrive there without torch
        yield made


def test_two_gpus_share_the_trials_and_one_does_the_finals(cluster, tmp_path):
    log = tmp_path / "log"
    factory = FakeFactory(log=str(log), slow_s=0.02, ill=(("16 3 2", "killed"), ("24 3 2", "wrong")))
    (where,) = cluster.models(factory)
    assert (where.gpu, len(where.workers)) == (GPU, 2)
    pool = cluster.pool(factory, where)
    assert pool.slots == 2
    with Study(small_space(), tmp_path / "s", gpu=GPU, effort=EFFORT) as study:
        study.run(pool)
        assert len(study.trials) == len(study.search.configs)
        assert Counter(t.state for t in study.failed) == {"crashed": 1, "wrong result": 1}
        assert study.finals(pool).best.config["tile_n"] == 32
    by_process = Counter(line.rpartition("@")[2] for line in log.read_text().splitlines())
    assert len(by_process) >= 2
    assert sorted(by_process.values())[-2] > 2  # neither did nearly everything


def test_a_worker_that_dies_loses_nothing(cluster, tmp_path):
    factory = FakeFactory(slow_s=0.05)
    (where,) = cluster.models(factory)
    pool = cluster.pool(factory, where)
    pids = list(cluster._client.run(os.getpid).values())
    killed = threading.Event()

    def kill_one(at):
        if at.done == 20 and not killed.is_set():
            os.kill(pids[0], signal.SIGKILL)
            killed.set()

    with Study(small_space(), tmp_path / "s", gpu=GPU, effort=EFFORT) as study:
        study.run(pool, progress=kill_one)
        assert killed.is_set()
        assert len(study.timed) == len(study.search.configs)


def test_models_of_gpus_are_told_apart(cluster, tmp_path):
    factory = PerWorkerFactory()
    places = {where.gpu: where for where in cluster.models(factory)}
    assert list(places) == ["NVIDIA H100 80GB HBM3", "NVIDIA H200"]
    for gpu, where in places.items():
        assert (len(where.workers), where.only) == (1, False)
        with Study(small_space(), tmp_path / gpu, gpu=gpu, effort=EFFORT) as study:
            study.run(cluster.pool(factory, where), most=8)
            assert {trial.gpu for trial in study.trials.values()} == {gpu}


def test_another_cluster_of_this_machine_is_no_hindrance(cluster):
    with Cluster(gpus=(0,)) as other:
        assert len(other.workers()) == 1
        assert len(cluster.workers()) == 2


def test_no_scheduler_is_told():
    with pytest.raises(StudyError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:1"):
        Cluster("tcp://127.0.0.1:1", wait_s=1)


def test_ordinals_are_those_that_this_process_sees(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert _visible(3) == "3"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4, GPU-77")
    assert (_visible(0), _visible(1)) == ("4", "GPU-77")
    with pytest.raises(InvalidArgument, match="leaves 2"):
        _visible(2)


@pytest.mark.parametrize("address", ["rubbish", "http://x", ":::"])
def test_what_is_no_address_is_told(address):
    with pytest.raises(StudyError, match="no Dask scheduler answers"):
        Cluster(address)


@pytest.mark.parametrize("gpus", [(-1,), (0, 0)])
def test_what_are_no_gpus(gpus):
    with pytest.raises(InvalidArgument, match="different numbers from 0"):
        Cluster(gpus=gpus)


class Ended:
    """A task of Dask that ended so."""

    def __init__(self, error):
        self.error = error

    def result(self):
        raise self.error


def test_a_configuration_that_takes_workers_with_it_has_crashed():
    from distributed import KilledWorker

    ended = Ended(KilledWorker("try-1", SimpleNamespace(address="tcp://127.0.0.1:9"), 4))
    done: Future = Future()
    _pass_on(ended, done, lambda reason: Trial({"stages": 3}, "crashed", reason))
    assert done.result().state == "crashed"
    assert "each worker of the cluster that ran it ended" in done.result().reason
    turns: Future = Future()
    _pass_on(ended, turns, None)
    with pytest.raises(StudyError, match="resume the study"):
        turns.result()


def test_a_scheduler_that_is_gone_is_told():
    done: Future = Future()
    _pass_on(Ended(CancelledError()), done, lambda reason: None)
    with pytest.raises(StudyError, match="the Dask scheduler is gone"):
        done.result()


def test_a_worker_with_several_threads_measures_one_at_a_time(monkeypatch):
    held: dict = {}
    monkeypatch.setattr("workbench.tune.cluster._held", held)
    space, factory = small_space(stages=(3, 4)), FakeFactory()
    configs = list(space)
    try:
        with ThreadPoolExecutor(4) as threads:
            tried = [threads.submit(_try, factory, 60.0, each, configs[0], float("inf"), EFFORT) for each in configs]
            assert [trial.result().config for trial in tried] == [config.to_dict() for config in configs]
        assert {trial.result().state for trial in tried} == {"timed"}
        assert [trial.result().median_us for trial in tried] == pytest.approx(list(map(true_us, configs)), abs=0.01)
    finally:
        held["worker"].close()
