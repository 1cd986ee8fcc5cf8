"""What a rule costs under a distribution of M, with the uncertainty of the samples carried through.

Between two measured M a time is interpolated linearly in log(M) and log(time), draw by draw; that is an assumption.
Outside the measured M nothing is assumed: such calls are left out, and their share is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from workbench.errors import InvalidArgument
from workbench.tables.choice import Choice
from workbench.tune.evidence import Floats, Point
from workbench.tune.traffic import Traffic


@dataclass(frozen=True)
class Regret:
    """Microseconds a call that one rule takes more than another, averaged over the traffic.

    Attributes
    ----------
    rule, against : str
        Labels of the two.
    us : float
        From the medians; below 0 the rule is the faster one.
    low_us, high_us : float
        Interval of it.
    cost_us, against_us : float
        Average time of a call under each, from the medians.
    outside : float
        Share of the calls whose M lies outside what was measured; they are not in the average.
    level : float
    """

    rule: str
    against: str
    us: float
    low_us: float
    high_us: float
    cost_us: float
    against_us: float
    outside: float
    level: float

    @property
    def share(self) -> float:
        """The difference over the cost of the other rule."""
        return self.us / self.against_us


class Curves:
    """Times of several providers as functions of M.

    Parameters
    ----------
    points
        What was measured; only those with figures of every provider are used.
    providers
        Whose times.
    draws, seed
        Of the bootstrap.

    Raises
    ------
    InvalidArgument
        No M has figures of all of them.
    """

    def __init__(self, points: Iterable[Point], providers: Sequence[str], *, draws: int = 1000, seed: int = 0) -> None:
        self.providers = tuple(dict.fromkeys(providers))
        used = sorted((point for point in points if point.has(self.providers)), key=lambda point: point.m)
        if not used:
            raise InvalidArgument(
                f"no M has figures of all of {', '.join(self.providers)}; measure them, or compare rules of others"
            )
        self.m = np.array([point.m for point in used], np.int64)
        self._medians = np.log(np.stack([point.medians(self.providers) for point in used], axis=1))
        self._draws = np.log(np.stack([point.draws(self.providers, draws, seed) for point in used], axis=2))

    def inside(self, m: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Whether each M lies between the smallest and the largest measured."""
        rows = np.asarray(m)
        within: npt.NDArray[np.bool_] = (rows >= self.m[0]) & (rows <= self.m[-1])
        return within

    def times(self, m: npt.ArrayLike) -> Floats:
        """Time of each provider at each M, from the medians: float64 [P, G], microseconds; M must be `inside`."""
        left, right, share = self._brackets(np.asarray(m, np.int64))
        between: Floats = np.exp(self._medians[:, left] * (1 - share) + self._medians[:, right] * share)
        return between

    def cost(self, rule: Choice, m: npt.NDArray[np.int64], weights: Floats) -> tuple[float, Floats]:
        """Average time of a call under a rule.

        Parameters
        ----------
        rule
            It may name only `providers`.
        m, weights
            int64 [G], all inside; float64 [G] with sum 1.

        Returns
        -------
        us : float
            From the medians.
        draws : numpy.ndarray
            float64 [draws], the same from each bootstrap draw.
        """
        place = {name: i for i, name in enumerate(self.providers)}
        column = np.array([place[name] for name in rule.providers])[rule.pieces_at(m)]
        left, right, share = self._brackets(m)
        us = np.exp(self._medians[column, left] * (1 - share) + self._medians[column, right] * share) @ weights
        total = np.zeros(self._draws.shape[0])
        for part in range(0, m.size, 256):  # a trace may have thousands of distinct M
            cut = slice(part, part + 256)
            below, above = self._draws[:, column[cut], left[cut]], self._draws[:, column[cut], right[cut]]
            total += np.exp(below * (1 - share[cut]) + above * share[cut]) @ weights[cut]
        return float(us), total

    def best(self, allowed: Sequence[str] | None = None, label: str = "the best choice") -> Choice:
        """The provider of the smallest interpolated median at every M from the first measured to the last.

        Below the first and above the last it continues with the nearest one's.
        """
        names = tuple(allowed or self.providers)
        rows = [self.providers.index(name) for name in names]
        # Between two measured M every log(time) is a line in log(M), so who is the fastest at both ends of a stretch is
        # so all through it; where two differ, the stretch is halved.
        m = self.m
        fastest = np.argmin(self.times(m)[rows], axis=0)
        while (open_at := np.flatnonzero((np.diff(fastest) != 0) & (np.diff(m) > 1))).size:
            between = (m[open_at] + m[open_at + 1]) // 2
            fastest = np.insert(fastest, open_at + 1, np.argmin(self.times(between)[rows], axis=0))
            m = np.insert(m, open_at + 1, between)
        starts = np.flatnonzero(np.diff(fastest)) + 1
        firsts = (0, *(m[starts]).tolist())
        return Choice(firsts, tuple(names[i] for i in (fastest[0], *fastest[starts])), label)

    def regret(self, rule: Choice, against: Choice, traffic: Traffic, *, level: float = 0.95) -> Regret:
        """Compare two rules on these figures and the same traffic.

        Parameters
        ----------
        rule, against
            They may name only `providers`. `against` is fixed before drawing, also where it is the best choice, so the
            interval is that of one difference and may hold 0.
        traffic
            The distribution of M.
        level
            Of the interval.

        Raises
        ------
        InvalidArgument
            No call lies inside what was measured, or a rule names another provider.
        """
        if unknown := sorted({*rule.providers, *against.providers} - set(self.providers)):
            raise InvalidArgument(f"{', '.join(unknown)}: no figures; these curves are of {', '.join(self.providers)}")
        inside = self.inside(traffic.m)
        if not inside.any():
            raise InvalidArgument(
                f"the traffic has M from {traffic.m[0]:,} to {traffic.m[-1]:,}, and measured are {self.m[0]:,} to "
                f"{self.m[-1]:,}; measure there or give other traffic"
            )
        m, weights = traffic.m[inside], traffic.weights[inside]
        outside = 0.0 if inside.all() else 1.0 - float(weights.sum())
        weights = weights / weights.sum()
        cost, cost_draws = self.cost(rule, m, weights)
        other, other_draws = self.cost(against, m, weights)
        low, high = np.quantile(cost_draws - other_draws, [(1 - level) / 2, (1 + level) / 2])
        return Regret(rule.label, against.label, cost - other, float(low), float(high), cost, other, outside, level)

    def _brackets(self, m: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], Floats]:
        """Neighbouring measured M of each, and how far it lies between them in log(M)."""
        if not self.inside(m).all():
            raise InvalidArgument(f"M from {m.min()} to {m.max()}; measured are {self.m[0]} to {self.m[-1]}")
        right = np.searchsorted(self.m, m, side="left")
        left = np.where(self.m[right] == m, right, right - 1)
        low, high = np.log(self.m[left]), np.log(self.m[right])
        share = np.where(right == left, 0.0, (np.log(m) - low) / np.where(high == low, 1.0, high - low))
        return left, right, share


def regret(
    points: Iterable[Point],
    rule: Choice,
    against: Choice,
    traffic: Traffic,
    *,
    level: float = 0.95,
    draws: int = 1000,
    seed: int = 0,
) -> Regret:
    """Compare two rules once: `Curves.regret` on the curves of the providers that they name.

    Parameters
    ----------
    points
        Figures of every provider that either rule names.
    rule, against, traffic, level
        As in `Curves.regret`.
    draws, seed
        Of the bootstrap.

    Raises
    ------
    InvalidArgument
        A provider has no figures, or no call lies inside what was measured.
    """
    curves = Curves(points, (*rule.providers, *against.providers), draws=draws, seed=seed)
    return curves.regret(rule, against, traffic, level=level)
