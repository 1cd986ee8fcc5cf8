"""Time GPU calls as they run in a serving engine: captured in a graph, on inputs that are not in the caches.

One graph holds at least :data:`MIN_CALLS` calls that rotate over input sets which together exceed the L2 cache several
times, so each call finds its inputs in device memory. The graph is replayed and timed with events; a sample is the
time of one replay over its calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
import torch

_Stream: Any = torch.cuda.Stream  # untyped in torch, like the next
_Event: Any = torch.cuda.Event

MIN_CALLS = 24
WARM_REPLAYS = 3


@dataclass(frozen=True)
class Timing:
    """Samples of one call, microseconds.

    Attributes
    ----------
    samples_us : tuple of float
        One a replay of the graph.
    calls : int
        Calls in the graph.
    """

    samples_us: tuple[float, ...]
    calls: int

    @property
    def median_us(self) -> float:
        """Median of the samples."""
        return median(self.samples_us)

    def interval_us(self, level: float = 0.95, draws: int = 2000, seed: int = 0) -> tuple[float, float]:
        """Bootstrap interval of the median (percentile method, Efron 1979)."""
        generator = np.random.default_rng(seed)
        samples = np.asarray(self.samples_us)
        medians = np.median(generator.choice(samples, (draws, samples.size)), axis=1)
        low, high = np.quantile(medians, [(1 - level) / 2, (1 + level) / 2])
        return float(low), float(high)


def capture(calls: Sequence[Callable[[], object]], min_calls: int = MIN_CALLS) -> tuple[torch.cuda.CUDAGraph, int]:
    """One graph of the calls in turn, repeated until there are ``min_calls``; each call runs once before."""
    side = _Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for call in calls:
            call()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    rounds = -(-min_calls // len(calls))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(rounds):
            for call in calls:
                call()
    return graph, rounds * len(calls)


def time_interleaved(
    variants: dict[str, Sequence[Callable[[], object]]], *, replays: int = 15, min_calls: int = MIN_CALLS
) -> dict[str, Timing]:
    """Time several variants of the same work, their replays taking turns so that drift hits all alike.

    Parameters
    ----------
    variants : dict of str to sequence of callables
        For each variant, one callable an input set.
    replays : int
        Timed replays of each variant's graph.
    min_calls : int
        Least calls in a graph.
    """
    graphs = {name: capture(calls, min_calls) for name, calls in variants.items()}
    samples: dict[str, list[float]] = {name: [] for name in graphs}
    for graph, _ in graphs.values():
        for _ in range(WARM_REPLAYS):
            graph.replay()
    for _ in range(replays):
        for name, (graph, calls) in graphs.items():
            start, end = _Event(enable_timing=True), _Event(enable_timing=True)
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
            samples[name].append(start.elapsed_time(end) * 1000 / calls)
    return {name: Timing(tuple(values), graphs[name][1]) for name, values in samples.items()}
