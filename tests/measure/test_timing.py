from __future__ import annotations

import contextlib
import gc
import weakref
from types import SimpleNamespace

import numpy as np
import pytest

from workbench.measure import timing
from workbench.measure.timing import GraphTimer, Timing


def test_the_median_and_its_interval():
    samples = tuple(np.random.default_rng(3).normal(20.0, 1.0, 101))
    timed = Timing(samples, 24)
    low, high = timed.interval_us()
    assert timed.median_us == pytest.approx(np.median(samples))
    assert low < timed.median_us < high
    # Asymptotic standard error of the median of 101 normal samples: 1.2533 / sqrt(101).
    assert high - low == pytest.approx(2 * 1.96 * 1.2533 / 101**0.5, rel=0.3)
    assert timed.interval_us() == (low, high)


def test_a_wider_level_gives_a_wider_interval():
    timed = Timing(tuple(np.random.default_rng(4).normal(20.0, 1.0, 15)), 24)
    assert np.diff(timed.interval_us(0.99)) >= np.diff(timed.interval_us(0.8))


class _Map:
    """Stands for memory that a call reads and nobody else keeps."""


@pytest.fixture
def no_gpu(monkeypatch):
    """torch's streams and graphs as objects that do nothing, so that a capture runs its calls as they are."""
    stream = SimpleNamespace(wait_stream=lambda other: None)
    monkeypatch.setattr(timing, "_Stream", lambda: stream)
    for name, value in {
        "current_stream": lambda: stream,
        "stream": lambda which: contextlib.nullcontext(),
        "synchronize": lambda: None,
        "CUDAGraph": object,
        "graph": lambda which: contextlib.nullcontext(),
    }.items():
        monkeypatch.setattr(timing.torch.cuda, name, value)


def test_a_replay_keeps_what_its_calls_hold_and_nothing_longer(no_gpu):
    def prepare():
        held = _Map()
        # The call returns nothing of what it reads, so its results alone would not keep it.
        return weakref.ref(held), lambda: bool(held)

    maps, calls = zip(*(prepare() for _ in range(3)), strict=True)
    captured = GraphTimer(min_calls=4).capture(calls)
    assert captured.calls == 6
    assert captured.results == (True,) * 3
    del calls
    gc.collect()
    assert all(held() is not None for held in maps)
    del captured
    gc.collect()
    assert all(held() is None for held in maps)


@pytest.mark.gpu
def test_a_replay_reads_its_own_inputs_after_others_were_allocated():
    import torch

    size = 1 << 20

    def prepare(value):
        held, out = torch.full((size,), value, device="cuda"), torch.empty(size, device="cuda")
        return out, lambda: out.copy_(held)

    outs, calls = zip(*(prepare(value) for value in (1.0, 2.0)), strict=True)
    captured = GraphTimer().capture(calls)
    del calls
    gc.collect()
    others = [torch.full((size,), -1.0, device="cuda") for _ in range(8)]  # would lie where freed inputs lay
    for out in outs:
        out.zero_()
    captured.replay()
    torch.cuda.synchronize()
    assert [(float(out.min()), float(out.max())) for out in outs] == [(1.0, 1.0), (2.0, 2.0)]
    assert all(float(other.max()) == -1.0 for other in others)


@pytest.mark.gpu
def test_a_graph_times_what_it_captured():
    import torch

    data = [torch.zeros(1 << 22, device="cuda") for _ in range(2)]
    small = [torch.zeros(1, device="cuda")]
    timer, busy = GraphTimer(), []
    captured = {
        "large": timer.capture([lambda d=d: d.add_(1) for d in data]),
        "small": timer.capture([lambda: small[0].add_(1)]),
    }
    assert captured["large"].calls == captured["small"].calls == 24
    found = timer.time(captured, 5, lambda: busy.append(1))
    assert len(busy) == 5
    assert [len(timed.samples_us) for timed in found.values()] == [5, 5]
    assert found["large"].median_us > found["small"].median_us > 0
    # Once before the capture, three warm replays, five timed ones and five untimed ones.
    assert float(small[0]) == 1 + 24 * 13


@pytest.mark.gpu
def test_an_error_in_a_capture_leaves_the_gpu_usable():
    import torch

    calls = []

    def fails_the_second_time():
        calls.append(torch.zeros(1, device="cuda").add_(1))
        if len(calls) == 2:
            raise LookupError("in the middle of a capture")

    with pytest.raises(LookupError):
        GraphTimer().capture([fails_the_second_time])
    GraphTimer().finish()
    assert float(torch.ones(1, device="cuda")) == 1
