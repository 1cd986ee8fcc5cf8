"""Who is fastest at one measured M, or that the figures do not say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workbench.tune.evidence import Floats, Point

DECIDING_ROUNDS = 9
"""Interleaved rounds that a winner takes. From fewer the percentile interval of a median is too narrow: of two equal
kernels one was named the faster in 7 to 9 % of 600 tries with 5 or 7 rounds, and in 3 to 5 % with 9 to 15."""


@dataclass(frozen=True)
class Verdict:
    """The comparison at one M.

    Attributes
    ----------
    m : int
    winner : str or None
        Fastest provider, if the interval of every other one's difference from it lies above 0; None from fewer than
        `DECIDING_ROUNDS` interleaved rounds.
    leader : str
        Provider of the smallest median, the winner where there is one.
    medians_us : dict of str to float
        By provider, microseconds.
    bands_us : dict of str to (float, float)
        Interval of each median, microseconds, each on its own at the confidence asked for.
    rival : str or None
        The provider whose difference from the leader is least certain to be above 0; None where there is no other.
    low_us, high_us : float
        Interval of ``median(rival) - median(leader)``, microseconds; 0 without a rival.
    tie : bool
        No winner, and for every rival whose interval holds 0 it lies within the tolerance: choosing does not matter.
    rounds : int
        Interleaved rounds behind it; 0 where figures come from records.
    """

    m: int
    winner: str | None
    leader: str
    medians_us: dict[str, float]
    bands_us: dict[str, tuple[float, float]]
    rival: str | None
    low_us: float
    high_us: float
    tie: bool
    rounds: int


def compare(
    point: Point,
    providers: Sequence[str],
    *,
    level: float = 0.95,
    looks: int = 1,
    tolerance: float = 0.01,
    draws: int = 2000,
    seed: int = 0,
) -> Verdict:
    """Decide who is fastest at one M.

    The interval of a difference of medians is the percentile interval of its bootstrap. Its error is shared
    (Bonferroni) by the leader's rivals and by the looks: a point that is measured again until it is decided is tested
    several times.

    Parameters
    ----------
    point
        Figures of all the providers.
    providers
        Who is compared, at least one.
    level
        Confidence that no winner at this point is a false one.
    looks
        Times that the point may be looked at.
    tolerance
        Differences below this share of the leader's median do not matter.
    draws, seed
        Of the bootstrap.

    Raises
    ------
    InvalidArgument
        A provider has no figures there.
    """
    names = tuple(providers)
    medians = point.medians(names)
    drawn = point.draws(names, draws, seed)
    lead = int(np.argmin(medians))
    rivals = [i for i in range(len(names)) if i != lead]
    outer = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=0)
    bands = {name: (float(outer[0, i]), float(outer[1, i])) for i, name in enumerate(names)}
    by_name = dict(zip(names, medians.tolist(), strict=True))
    rounds = point.rounds(names)
    if not rivals:
        return Verdict(point.m, names[lead], names[lead], by_name, bands, None, 0.0, 0.0, False, rounds)
    low, high = difference_interval(drawn[:, rivals] - drawn[:, [lead]], 1 - (1 - level) / (len(rivals) * looks))
    enough = rounds == 0 or rounds >= DECIDING_ROUNDS
    winner = names[lead] if enough and (low > 0).all() else None
    bound = tolerance * medians[lead]
    open_ones = low <= 0
    tie = enough and winner is None and bool((np.maximum(-low, high)[open_ones] <= bound).all())
    nearest = int(np.argmin(low))
    return Verdict(
        point.m,
        winner,
        names[lead],
        by_name,
        bands,
        names[rivals[nearest]],
        float(low[nearest]),
        float(high[nearest]),
        tie,
        rounds,
    )


def difference_interval(draws: Floats, level: float) -> tuple[Floats, Floats]:
    """Percentile interval of bootstrap draws along the first axis: two arrays of the remaining shape."""
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return low, high
