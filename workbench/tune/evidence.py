"""Times of several providers at one number of rows, and what they say about the medians.

A *block* is what was measured in one go. Where its rounds were interleaved, round i of every provider met the same
clock and the same neighbours, so rounds are resampled together and what they share cancels in a difference. A figure
that came without samples, a reference, is a median with an assumed deviation.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from workbench.errors import InvalidArgument

Floats = npt.NDArray[np.float64]

LEAST_ROUNDS = 5
"""Rounds below which the bootstrap of a median means nothing."""


@dataclass(frozen=True)
class Block:
    """Samples that were taken in one go.

    Attributes
    ----------
    samples_us : mapping of str to tuple of float
        By provider, microseconds a call.
    paired : bool
        Round i of every provider ran beside round i of the others; all have as many.
    """

    samples_us: Mapping[str, tuple[float, ...]]
    paired: bool = True

    def __post_init__(self) -> None:
        counts = {name: len(values) for name, values in self.samples_us.items()}
        if not counts or min(counts.values()) < LEAST_ROUNDS or (self.paired and len(set(counts.values())) > 1):
            raise InvalidArgument(
                f"samples by provider: {counts}; give at least {LEAST_ROUNDS} each"
                + (", and equally many, for their rounds were interleaved" if self.paired else "")
            )
        for name, values in self.samples_us.items():
            if not all(0 < value < float("inf") for value in values):
                raise InvalidArgument(f"{name} has samples that are no times; give microseconds above 0")


@dataclass(frozen=True)
class Point:
    """All that is known at M rows.

    Attributes
    ----------
    m : int
        Rows.
    blocks : tuple of Block
    assumed : mapping of str to (float, float)
        For figures without samples: median in microseconds and its assumed relative standard deviation.
    """

    m: int
    blocks: tuple[Block, ...] = ()
    assumed: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, (median, deviation) in self.assumed.items():
            if not 0 < median < float("inf") or not 0 <= deviation < 1:
                raise InvalidArgument(
                    f"{name} at M = {self.m}: median {median}, deviation {deviation}; give microseconds above 0 and a "
                    "share of them from 0 to below 1"
                )

    def has(self, providers: Sequence[str]) -> bool:
        """Whether these can be compared here: each has samples, together or apart, or an assumed figure."""
        return bool(self._blocks_of(providers)) or all(
            name in self.assumed or any(name in block.samples_us for block in self.blocks) for name in providers
        )

    def rounds(self, providers: Sequence[str]) -> int:
        """Rounds in which all these ran interleaved."""
        return sum(len(block.samples_us[providers[0]]) for block in self._blocks_of(providers))

    def with_block(self, block: Block) -> Point:
        """The same and one block more."""
        return Point(self.m, (*self.blocks, block), self.assumed)

    def medians(self, providers: Sequence[str]) -> Floats:
        """Median of each provider, float64 [P], microseconds.

        Raises
        ------
        InvalidArgument
            `has` says no.
        """
        together = self._blocks_of(providers)
        if together:
            return np.median(_rounds(together, providers), axis=0)
        self._require(providers)
        return np.array([self._alone(name)[0] for name in providers])

    def draws(self, providers: Sequence[str], count: int, seed: int = 0) -> Floats:
        """Bootstrap draws of the medians (Efron 1979), float64 [count, P], microseconds.

        Interleaved rounds are resampled together, others provider by provider; an assumed figure is drawn from the
        normal distribution. The same seed gives the same draws; those of different M are independent.

        Raises
        ------
        InvalidArgument
            `has` says no.
        """
        together = self._blocks_of(providers)
        if together:
            rounds = _rounds(together, providers)
            return resampled_medians(rounds, np.random.default_rng((seed, self.m)), count)
        self._require(providers)
        columns = []
        for name in providers:
            # By name, so that a provider's draws do not depend on which others are asked for.
            random = np.random.default_rng((seed, self.m, zlib.crc32(name.encode())))
            median, deviation, values = self._alone(name)
            if values is None:
                drawn = median * (1 + deviation * random.standard_normal(count))
                columns.append(np.maximum(drawn, median * 1e-3))
            else:
                columns.append(resampled_medians(values[:, None], random, count)[:, 0])
        return np.stack(columns, axis=1)

    def _blocks_of(self, providers: Sequence[str]) -> list[Block]:
        return [block for block in self.blocks if block.paired and all(name in block.samples_us for name in providers)]

    def _require(self, providers: Sequence[str]) -> None:
        if not self.has(providers):
            raise InvalidArgument(f"M = {self.m} has no figures of all of {', '.join(providers)}; measure them there")

    def _alone(self, name: str) -> tuple[float, float, Floats | None]:
        """Median, assumed deviation, and samples where there are any, of one provider apart from the others."""
        values = [value for block in self.blocks for value in block.samples_us.get(name, ())]
        if not values:
            return *self.assumed[name], None
        return float(np.median(values)), 0.0, np.array(values)


def resampled_medians(rounds: npt.ArrayLike, random: np.random.Generator, count: int) -> Floats:
    """Medians of rounds drawn with replacement, the same rounds in every column.

    Parameters
    ----------
    rounds
        float64 [R, P].
    random
        Where the draws come from.
    count
        Draws.

    Returns
    -------
    numpy.ndarray
        float64 [count, P].
    """
    values = np.ascontiguousarray(np.asarray(rounds, dtype=np.float64).T)
    size = values.shape[1]
    taken = values[:, random.integers(size, size=(count, size), dtype=np.int32)]
    middle = ((size - 1) // 2, size // 2)
    taken.partition(middle, axis=-1)
    medians: Floats = taken[:, :, middle[0]] / 2 + taken[:, :, middle[1]] / 2
    return medians.T


def _rounds(blocks: Sequence[Block], providers: Sequence[str]) -> Floats:
    """Interleaved rounds of several blocks, float64 [R, P]."""
    return np.concatenate([np.array([block.samples_us[name] for name in providers]).T for block in blocks])
