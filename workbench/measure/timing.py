"""Time GPU calls as they run in a serving engine: captured in a graph, on inputs that are not in the caches.

One graph holds at least :data:`MIN_CALLS` calls that rotate over input sets which together exceed the L2 cache several
times, so each call finds its inputs in device memory. The graph is replayed and timed with events; a sample is the
time of one replay over its calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Protocol

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


class Replay(Protocol):
    """Calls that were recorded once and can be run again as one."""

    @property
    def calls(self) -> int:
        """Number of calls that one replay makes."""
        ...

    @property
    def results(self) -> Sequence[object]:
        """What each input set's call returned, in the memory that every replay writes."""
        ...

    def replay(self) -> None:
        """Run the calls."""
        ...


class Timer(Protocol):
    """What records and times calls: :class:`GraphTimer` on a GPU, a made-up clock in a test."""

    def capture(self, calls: Sequence[Callable[[], object]]) -> Replay:
        """Record the calls of one variant, one an input set."""
        ...

    def time(self, variants: Mapping[str, Replay], rounds: int, busy: Callable[[], None]) -> dict[str, Timing]:
        """Time variants in turns; ``busy`` is called in each round, while work that is not timed runs."""
        ...

    def finish(self) -> None:
        """Wait until everything launched has run; raises where the device can take no more work."""
        ...


@dataclass(frozen=True, eq=False)
class GraphReplay:
    """Calls captured in a CUDA graph; see :class:`Replay`.

    A graph holds addresses and no memory, so ``kept`` holds the calls, and they hold what the graph reads.
    """

    graph: torch.cuda.CUDAGraph
    calls: int
    results: tuple[object, ...]
    kept: tuple[Callable[[], object], ...]

    def replay(self) -> None:
        """Launch the graph on torch's current stream."""
        self.graph.replay()


@dataclass(frozen=True)
class GraphTimer:
    """Times CUDA graphs with events.

    Attributes
    ----------
    min_calls : int
        Least calls in a graph.
    """

    min_calls: int = MIN_CALLS

    def capture(self, calls: Sequence[Callable[[], object]]) -> GraphReplay:
        """One graph of the calls in turn, repeated until there are ``min_calls``; each call runs once before."""
        side = _Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for call in calls:
                call()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        rounds = -(-self.min_calls // len(calls))
        graph = torch.cuda.CUDAGraph()
        # The outer context restores torch's stream also where a broken capture keeps the inner one from it.
        with torch.cuda.stream(torch.cuda.current_stream()), torch.cuda.graph(graph):
            for _ in range(rounds):
                results = [call() for call in calls]
        return GraphReplay(graph, rounds * len(calls), tuple(results), tuple(calls))

    def time(self, variants: Mapping[str, Replay], rounds: int, busy: Callable[[], None]) -> dict[str, Timing]:
        """Time the replays of several graphs, which take turns so that drift hits all alike."""
        for captured in variants.values():
            for _ in range(WARM_REPLAYS):
                captured.replay()
        samples: dict[str, list[float]] = {name: [] for name in variants}
        for _ in range(rounds):
            for name, captured in variants.items():
                start, end = _Event(enable_timing=True), _Event(enable_timing=True)
                start.record()
                captured.replay()
                end.record()
                end.synchronize()
                samples[name].append(start.elapsed_time(end) * 1000 / captured.calls)
            for captured in variants.values():  # so that whoever looks at the clocks sees the GPU at this work
                captured.replay()
            busy()
            torch.cuda.synchronize()
        return {name: Timing(tuple(values), variants[name].calls) for name, values in samples.items()}

    def finish(self) -> None:
        """Wait for the GPU."""
        torch.cuda.synchronize()


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
    timer = GraphTimer(min_calls)
    captured = {name: timer.capture(calls) for name, calls in variants.items()}
    return timer.time(captured, replays, lambda: None)
