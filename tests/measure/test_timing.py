from __future__ import annotations

import numpy as np
import pytest

from workbench.measure.timing import Timing


def test_the_median_and_its_interval():
    samples = tuple(np.random.default_rng(3).normal(20.0, 1.0, 101))
    timing = Timing(samples, 24)
    low, high = timing.interval_us()
    assert timing.median_us == pytest.approx(np.median(samples))
    assert low < timing.median_us < high
    # Asymptotic standard error of the median of 101 normal samples: 1.2533 / sqrt(101).
    assert high - low == pytest.approx(2 * 1.96 * 1.2533 / 101**0.5, rel=0.3)
    assert timing.interval_us() == (low, high)


def test_a_wider_level_gives_a_wider_interval():
    timing = Timing(tuple(np.random.default_rng(4).normal(20.0, 1.0, 15)), 24)
    assert np.diff(timing.interval_us(0.99)) >= np.diff(timing.interval_us(0.8))


@pytest.mark.gpu
def test_a_graph_times_what_it_captured():
    import torch

    from workbench.measure.timing import GraphTimer

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
    assert [len(timing.samples_us) for timing in found.values()] == [5, 5]
    assert found["large"].median_us > found["small"].median_us > 0
    # Once before the capture, three warm replays, five timed ones and five untimed ones.
    assert float(small[0]) == 1 + 24 * 13


@pytest.mark.gpu
def test_an_error_in_a_capture_leaves_the_gpu_usable():
    import torch

    from workbench.measure.timing import GraphTimer

    calls = []

    def fails_the_second_time():
        calls.append(torch.zeros(1, device="cuda").add_(1))
        if len(calls) == 2:
            raise LookupError("in the middle of a capture")

    with pytest.raises(LookupError):
        GraphTimer().capture([fails_the_second_time])
    GraphTimer().finish()
    assert float(torch.ones(1, device="cuda")) == 1
