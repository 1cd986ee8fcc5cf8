"""Providers made up for tests: true times by M, and samples with the faults that real ones have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

Curve = Callable[[int], float]

CROSSING: Mapping[str, Curve] = {"flat": lambda m: 9 + 0.010 * m, "steep": lambda m: 6 + 0.030 * m}
"""One crossing: at M = 150 both take 10.5 us; "steep" wins below, "flat" above."""

TWICE: Mapping[str, Curve] = {
    "steep": lambda m: 6 + 0.03 * m if m <= 1024 else 30 + 0.01 * m,
    "flat": lambda m: 9 + 0.02 * m,
}
"""Two crossings: "flat" wins from 301 to 2099, where "steep" is too slow up to a change of its kernel at 1024."""

STEPS: Mapping[str, Curve] = {"tiled": lambda m: 6 + 3 * -(-m // 64), "smooth": lambda m: 7.5 + 0.046 * m}
"""A tile of 64 rows: times jump just above each multiple, and the winner changes at many of them."""


def winners(curves: Mapping[str, Curve], largest: int) -> list[str]:
    """Who is really fastest at each M from 0 (entry 0 stands for nothing)."""
    return ["", *(min(curves, key=lambda name: curves[name](m)) for m in range(1, largest + 1))]


def changes(truth: Sequence[str]) -> list[int]:
    """First M of each new winner."""
    return [m for m in range(2, len(truth)) if truth[m] != truth[m - 1]]


@dataclass
class Laboratory:
    """Measures made-up providers, rounds interleaved.

    Noise is relative and larger for small M (heteroscedastic), one sample in twenty is an outlier, and a drift that all
    providers share moves through the rounds.
    """

    curves: Mapping[str, Curve]
    seed: int = 0
    noise: float = 0.01
    drift: float = 0.03
    outliers: float = 0.05
    calls: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)

    def __call__(self, providers: Sequence[str], m: int, rounds: int) -> dict[str, list[float]]:
        self.calls.append((m, rounds))
        random = self.random
        wave = 1 + self.drift * np.sin(np.linspace(0, 3, rounds) + random.uniform(0, 6))
        samples = {}
        for name in providers:
            deviation = self.noise * (1 + 8 / (m + 8))
            factor = 1 + deviation * random.standard_normal(rounds)
            factor += (random.random(rounds) < self.outliers) * random.exponential(0.5, rounds)
            samples[name] = (self.curves[name](m) * np.maximum(factor, 0.2) * wave).tolist()
        return samples
