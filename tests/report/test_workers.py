"""Processes answer, fail in the words of their work, and are gone when the work ends, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from multiprocessing import active_children

import pytest

from workbench.errors import InvalidArgument, WorkerLost
from workbench.report import workers
from workbench.report.workers import spread


def double(number):
    if number < 0:
        raise InvalidArgument(f"{number} is below 0")
    if number == 13:
        os._exit(7)
    return 2 * number


@pytest.fixture(autouse=True)
def none_is_left():
    before = set(active_children())
    yield
    assert set(active_children()) == before


def test_every_task_is_answered_once():
    assert dict(spread(double, iter(range(20, 31)), 3)) == {number: 2 * (20 + number) for number in range(11)}


def test_there_may_be_fewer_tasks_than_processes_and_none():
    assert list(spread(double, [1], 2)) == [(0, 2)]
    assert list(spread(double, [], 1)) == []


def test_answers_larger_than_a_pipe_come_whole():
    assert dict(spread(bytes, [1 << 20, 3 << 20], 2)) == {0: bytes(1 << 20), 1: bytes(3 << 20)}


def test_what_the_work_raises_is_raised_here():
    with pytest.raises(InvalidArgument, match="-1 is below 0"):
        list(spread(double, [1, -1, 2], 1))


def test_a_process_that_dies_is_told():
    with pytest.raises(WorkerLost, match="ended with code 7 before its work was done"):
        list(spread(double, [13, 1], 1))


def test_who_stops_listening_leaves_no_process():
    answers = spread(double, [1, 2, 3], 2)
    next(answers)
    assert active_children()
    answers.close()


@pytest.mark.usefixtures("heeds_interruptions")
def test_an_interruption_while_processes_start_is_raised_when_they_are_started():
    """Whichever thread the system gives the signal to: here one that lets it through, as NumPy's do."""
    reached = []

    def interrupted():
        with workers._interrupts_held():
            other = threading.Thread(target=signal.raise_signal, args=(signal.SIGINT,))
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # the thread inherits it
            other.start()
            other.join()
            reached.append("the end")
        reached.append("beyond it")

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert reached == ["the end"]
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_a_process_started_meanwhile_does_not_get_it():
    words = "import signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))"
    with workers._interrupts_held():
        inside = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    after = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    assert (inside.stdout, after.stdout) == ("True\n", "False\n")
