"""What any rule costs, fast enough to be asked while a threshold is dragged.

`workbench.tune.regret` adds up the whole traffic for every rule. Here the sums over the traffic are kept as prefix sums
for each provider, draw by draw, so a rule costs a difference of two of them for each of its pieces; the figures are the
same (a test compares them).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from workbench.errors import InvalidArgument
from workbench.tables import Choice
from workbench.tune import Curves, Point, Regret, Traffic
from workbench.tune.evidence import Floats

BLOCK = 32
"""Values of M between two kept sums."""


class Pricing:
    """Costs of rules under one traffic, from one set of figures.

    Parameters
    ----------
    points
        Figures of several providers.
    traffic
        The distribution of M.
    level, draws, seed
        Of the intervals, as for `workbench.tune.regret`.
    """

    def __init__(
        self, points: Iterable[Point], traffic: Traffic, *, level: float = 0.95, draws: int = 1000, seed: int = 0
    ) -> None:
        self.points, self.traffic = tuple(points), traffic
        self.level, self._draws, self._seed = level, draws, seed
        self._all = _in_every_block(self.points)
        self._sums: dict[frozenset[str], _Sums] = {}

    def regret(self, rule: Choice, against: Choice) -> Regret:
        """What `rule` takes more than `against`, as `workbench.tune.regret` gives it.

        Raises
        ------
        InvalidArgument
            A provider has no figures, or no call lies inside what was measured.
        """
        sums = self._of({*rule.providers, *against.providers})
        (cost, cost_draws), (other, other_draws) = sums.cost(rule), sums.cost(against)
        low, high = np.quantile(cost_draws - other_draws, [(1 - self.level) / 2, (1 + self.level) / 2])
        return Regret(
            rule.label,
            against.label,
            cost - other,
            float(low),
            float(high),
            cost,
            other,
            sums.outside,
            self.level,
        )

    def lost(self, rule: Choice, against: Choice, firsts: Sequence[int]) -> Floats:
        """Where the difference comes from: microseconds a call by bin of M; their sum is `Regret.us`.

        Parameters
        ----------
        firsts
            First M of each bin, ascending; the last bin has no end, and the first begins at 0.
        """
        sums = self._of({*rule.providers, *against.providers})
        bins = np.maximum(np.searchsorted(np.asarray(firsts), sums.m, side="right") - 1, 0)
        difference = sums.each(rule) - sums.each(against)
        return np.bincount(bins, difference, minlength=len(firsts)).astype(np.float64)

    def interpolated(self, provider: str, m: int) -> float | None:
        """A provider's time at an M that was not measured, microseconds; None outside what was."""
        try:
            curves = self._of({provider}).curves
        except InvalidArgument:  # its figures lie outside the traffic
            return None
        return float(curves.times(np.array([m]))[curves.providers.index(provider), 0]) if curves.inside(m) else None

    def _of(self, providers: set[str]) -> _Sums:
        """Sums for a set of providers; where every point has figures of all, one for every set."""
        key = self._all if providers <= self._all else frozenset(providers)
        if key not in self._sums:
            curves = Curves(self.points, sorted(key), draws=self._draws, seed=self._seed)
            self._sums[key] = _Sums(curves, self.traffic)
        return self._sums[key]


class _Sums:
    """Prefix sums of each provider's times over the traffic that lies inside what was measured."""

    def __init__(self, curves: Curves, traffic: Traffic) -> None:
        inside = curves.inside(traffic.m)
        if not inside.any():
            raise InvalidArgument(
                f"the traffic has M from {traffic.m[0]:,} to {traffic.m[-1]:,}, and measured are {curves.m[0]:,} to "
                f"{curves.m[-1]:,}; measure there or give other traffic"
            )
        self.curves = curves
        self.m, weights = traffic.m[inside], traffic.weights[inside]
        outside = 1.0 - float(weights.sum())
        self.outside = outside if outside > 1e-12 else 0.0
        self.weights = weights / weights.sum()
        self._times = curves.times(self.m) * self.weights
        self._rows = {name: row for row, name in enumerate(curves.providers)}
        self._kept: dict[str, Floats] = {}

    def each(self, rule: Choice) -> Floats:
        """Each M's part of the cost, float64 [G], microseconds a call."""
        rows = np.array([self._rows[name] for name in rule.providers])[rule.pieces_at(self.m)]
        parts: Floats = self._times[rows, np.arange(self.m.size)]
        return parts

    def cost(self, rule: Choice) -> tuple[float, Floats]:
        """Average time of a call from the medians, and from each draw."""
        edges = [*np.searchsorted(self.m, rule.starts).tolist(), self.m.size]
        total = np.zeros(1)
        for name, first, last in zip(rule.providers, edges, edges[1:], strict=False):
            if last > first:
                total = total + self._until(name, last) - self._until(name, first)
        return float(self.each(rule).sum()), total

    def _until(self, name: str, end: int) -> Floats:
        """Sum of the first `end` parts in each draw."""
        whole, rest = divmod(end, BLOCK)
        until: Floats = self._blocks(name)[whole]
        return until + self._part(name, whole * BLOCK, end) if rest else until

    def _blocks(self, name: str) -> Floats:
        if name not in self._kept:
            starts = range(0, self.m.size, BLOCK)
            parts = np.stack([self._part(name, at, min(at + BLOCK, self.m.size)) for at in starts])
            self._kept[name] = np.concatenate([np.zeros((1, parts.shape[1])), np.cumsum(parts, axis=0)])
        return self._kept[name]

    def _part(self, name: str, first: int, last: int) -> Floats:
        cut = slice(first, last)
        drawn: Floats = self.curves.cost(Choice.always(name), self.m[cut], self.weights[cut])[1]
        return drawn


def _in_every_block(points: Sequence[Point]) -> frozenset[str]:
    """Providers that every point has, together wherever rounds were interleaved; none if their draws would depend on
    which others are asked for.
    """
    named = {name for point in points for block in point.blocks for name in block.samples_us}
    named |= {name for point in points for name in point.assumed}
    paired = [block for point in points for block in point.blocks if block.paired]
    alike = all(point.has(tuple(named)) for point in points) and all(set(block.samples_us) == named for block in paired)
    return frozenset(named) if points and alike else frozenset()
