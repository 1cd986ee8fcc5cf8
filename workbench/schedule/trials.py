"""Batches that try a scheduler: edges that schedulers get wrong, random ones, and smaller forms of a failing one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

K = 1024
H200_CTAS = 528
"""CTAs of HPC-Ops' decode attention on an H200: 132 SMs x 4."""


@dataclass(frozen=True)
class Batch:
    """One call of a scheduler.

    Attributes
    ----------
    lengths : tuple of int
        Tokens of each request.
    num_kv_heads, num_ctas, tile : int
        As in :func:`workbench.schedule.plan_decode`.
    """

    lengths: tuple[int, ...]
    num_kv_heads: int
    num_ctas: int
    tile: int = 64

    def __str__(self) -> str:
        requests = _count(len(self.lengths), "request")
        tokens = ", ".join(map(str, self.lengths[:12])) + (", ..." if len(self.lengths) > 12 else "")
        tokens += " token" if self.lengths == (1,) else " tokens"
        heads, ctas = _count(self.num_kv_heads, "KV head"), _count(self.num_ctas, "CTA")
        return f"{requests} ({tokens}), {heads}, {ctas}, {self.tile}-token tiles"

    def call(self, name: str) -> str:
        """Python that makes the call again."""
        return f"{name}(np.array({list(self.lengths)}), {self.num_kv_heads}, {self.num_ctas}, {self.tile})"


def _count(n: int, what: str) -> str:
    return f"{n} {what}" + ("" if n == 1 else "s")


def edges() -> Iterator[Batch]:
    """Small batches in which one thing is unusual, simplest first."""
    t = 64
    for lengths, heads, ctas in (
        ((t,), 1, 1),
        ((1,), 1, 1),
        ((t,), 1, 4),
        ((0,), 1, 2),
        ((t, 0, 2 * t), 1, 2),
        ((0, 0, 1), 1, 3),
        ((t - 1, t, t + 1), 1, 2),
        ((2 * t - 1, 2 * t, 2 * t + 1), 1, 5),
        ((t,) * 7, 1, 3),
        ((t,) * 3, 1, 7),
        ((9 * t,), 1, 4),
        ((t, 2 * t), 2, 3),
        ((1, 0, 3 * t), 4, 5),
        ((100 * t, 1, 1, 1, 1, 1), 1, 8),
        ((1, 1, 1, 1, 1, 100 * t), 1, 8),
        ((1,) * 40, 8, 16),
    ):
        yield Batch(lengths, heads, ctas)
    yield Batch((31, 32, 33, 64), 1, 3, 32)
    yield Batch((127, 128, 129, 64), 1, 3, 128)


def random_batches(seed: int, count: int) -> Iterator[Batch]:
    """``count`` batches of many shapes; the same ones for the same seed."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        tile = int(rng.choice([32, 64, 64, 64, 128]))
        size = int(rng.integers(1, 33))
        kind = int(rng.integers(5))
        if kind == 0:
            lengths = rng.integers(0, 4 * tile, size)
        elif kind == 1:
            lengths = tile * rng.integers(0, 9, size) + rng.integers(-1, 2, size)
        elif kind == 2:
            lengths = np.minimum(rng.lognormal(6.5, 1.2, size), 30_000).astype(np.int64)
        elif kind == 3:
            lengths = rng.integers(1, 3 * tile, size)
            lengths[rng.integers(size)] = rng.integers(20, 200) * tile + rng.integers(tile)
        else:
            lengths = np.full(size, rng.integers(1, 20 * tile))
        ctas = int(rng.choice([1, 2, 3, int(rng.integers(4, 20)), int(rng.integers(20, 140))]))
        yield Batch(tuple(np.maximum(lengths, 0).tolist()), int(rng.choice([1, 1, 2, 4, 8])), ctas, tile)


def scored() -> dict[str, Batch]:
    """The batches that a right scheduler is scored on: an H200's 528 CTAs, by name."""
    rng = np.random.default_rng(0)
    long_tail = np.minimum(rng.lognormal(8.3, 1.2, 64), 128 * K).astype(np.int64)
    batches = {
        "64x0.5K": (512,) * 64,
        "64x4K": (4 * K,) * 64,
        "32x0.125K+32x4K": (128,) * 32 + (4 * K,) * 32,
        "2x32K+30x4K": (32 * K,) * 2 + (4 * K,) * 30,
        "1x64K+15x4K": (64 * K,) + (4 * K,) * 15,
        "1x128K+31x4K": (128 * K,) + (4 * K,) * 31,
        "64 lognormal": tuple(long_tail.tolist()),
    }
    cases = {name: Batch(lengths, 1, H200_CTAS) for name, lengths in batches.items()}
    cases["64 lognormal, 8 KV heads"] = Batch(batches["64 lognormal"], 8, H200_CTAS)
    return cases


def smaller(batch: Batch) -> Iterator[Batch]:
    """Simpler batches than ``batch``, the boldest steps first."""
    lengths, size = batch.lengths, len(batch.lengths)
    block = size // 2
    while block:
        for at in range(0, size, block):
            if block < size:
                yield dataclasses.replace(batch, lengths=lengths[:at] + lengths[at + block :])
        block //= 2
    for heads in _down(batch.num_kv_heads, 1):
        yield dataclasses.replace(batch, num_kv_heads=heads)
    for ctas in _down(batch.num_ctas, 1):
        yield dataclasses.replace(batch, num_ctas=ctas)
    if batch.tile != 64:
        yield dataclasses.replace(batch, tile=64)
    for at, length in enumerate(lengths):
        whole = length // batch.tile * batch.tile
        for value in dict.fromkeys((0, 1, batch.tile, whole, *_down(length // batch.tile, 0, batch.tile), length - 1)):
            if 0 <= value < length:
                yield dataclasses.replace(batch, lengths=(*lengths[:at], value, *lengths[at + 1 :]))


def _down(value: int, least: int, unit: int = 1) -> list[int]:
    """Values from ``least`` towards ``value``: half the way, three quarters, ... up to ``value - 1``, in units."""
    steps, step = [], value - least
    while step > 0:
        steps.append((value - step) * unit)
        step //= 2
    return steps


def shrink(batch: Batch, fails: Callable[[Batch], bool], most_calls: int = 2000) -> Batch:
    """The smallest failing batch that small steps lead to.

    Parameters
    ----------
    batch
        Fails.
    fails
        Whether another batch fails in the same way.
    most_calls
        Calls of ``fails`` after which the best batch so far is returned.
    """
    calls, improved = 0, True
    while improved:
        improved = False
        for candidate in smaller(batch):
            if calls == most_calls:
                return batch
            calls += 1
            if fails(candidate):
                batch, improved = candidate, True
                break
    return batch
