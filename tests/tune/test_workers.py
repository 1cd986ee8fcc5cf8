"""A configuration that faults takes its process; the study goes on."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.tune.fake_bench import FakeFactory, small_space, true_us
from workbench.errors import NoGpu
from workbench.tune.measure import Effort, take_turns, try_config
from workbench.tune.workers import Worker

ROOT = Path(__file__).resolve().parents[2]
SPACE = small_space()
DEFAULT = SPACE.config(tile_n=16, stages=2, split_k=1)
GOOD = SPACE.config(tile_n=32, stages=4, split_k=8)
ILLS = {
    "compile": ("compile error", "too clever", 1),
    "wrong": ("wrong result", "relative error 0.5", 1),
    "launch": ("launch error", "CUDA_ERROR_INVALID_VALUE", 1),
    "fault": ("crashed", "takes no more work", 2),
    "killed": ("crashed", "signal 9", 2),
    "hangs": ("time-out", "longer than 2 s", 2),
}


@pytest.mark.parametrize("ill", ILLS)
def test_a_failure_is_a_trial_and_the_next_one_is_measured(ill):
    state, words, starts = ILLS[ill]
    bad = SPACE.config(tile_n=48, stages=3, split_k=2)
    with Worker(FakeFactory(ill=(("48 3 2", ill),)), call_s=2 if ill == "hangs" else 120) as worker:
        trial = try_config(worker, bad, DEFAULT, effort=Effort())
        assert (trial.state, words in trial.reason, trial.samples_us) == (state, True, ()), trial
        assert trial.config == bad.to_dict()
        after = try_config(worker, GOOD, DEFAULT, effort=Effort())
        assert after.state == "timed"
        assert after.relative == pytest.approx(true_us(GOOD) / true_us(DEFAULT), rel=1e-3)
        assert worker.starts == starts


def test_turns_go_on_without_the_one_that_kills_the_process():
    bad = SPACE.config(tile_n=48, stages=3, split_k=2)
    with Worker(FakeFactory(ill=(("48 3 2", "killed"),)), call_s=120) as worker:
        taken = take_turns(worker, [DEFAULT, bad, GOOD], 5)
    assert [len(us) for us in taken.us] == [5, 0, 5]


def test_no_gpu_is_told_as_it_is():
    with Worker(FakeFactory(missing=True)) as worker, pytest.raises(NoGpu, match="no NVIDIA driver"):
        worker.about()


def test_a_process_measures_something_else():
    with Worker(FakeFactory()) as worker:
        assert worker.about()["gpu"] == "NVIDIA H200"
        worker.become(FakeFactory(gpu="NVIDIA H20"))
        assert worker.about()["gpu"] == "NVIDIA H20"
        assert worker.prepare(GOOD) == 1e-6
        assert worker.starts == 1
        with pytest.raises(NoGpu):
            worker.become(FakeFactory(missing=True))
        worker.become(FakeFactory())
        assert worker.prepare(GOOD) == 1e-6
        assert worker.starts == 2


def test_clearly_slower_takes_few_samples_and_says_so():
    with Worker(FakeFactory()) as worker:
        slow = try_config(worker, DEFAULT, DEFAULT, best=0.5, effort=Effort(first=2, rounds=9))
        fast = try_config(worker, GOOD, DEFAULT, best=0.7, effort=Effort(first=2, rounds=9))
    assert (slow.dropped, len(slow.samples_us)) == (True, 2)
    assert (fast.dropped, len(fast.samples_us), len(fast.beside_us)) == (False, 9, 9)


PARENT = """
import sys
from tests.tune.fake_bench import FakeFactory, small_space
from workbench.tune.workers import Worker
worker = Worker(FakeFactory(ill=(("32 4 8", "hangs"),)), call_s=500)
worker.about()
print(worker.pid, flush=True)
worker.prepare(small_space().config(tile_n=32, stages=4, split_k=8))
"""


def test_a_child_that_is_busy_for_ever_ends_with_its_parent():
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True, cwd=ROOT) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        time.sleep(0.3)  # the call is on its way
        assert _runs(child)
        parent.kill()
    deadline = time.monotonic() + 60
    while _runs(child):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _runs(pid):
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return not status.rpartition(")")[2].split()[0].startswith(("Z", "X"))
