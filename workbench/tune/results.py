"""What a search comes to: a dispatch table with its regret, and the closest thing that SGLang's form can hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

import workbench
from workbench.errors import InvalidArgument
from workbench.records.parts import Environment
from workbench.tables import Choice, DispatchTable, RegretNote, Span, TrafficNote
from workbench.tables.sglang import ABOVE, BELOW
from workbench.tune.crossover import CrossoverSearch
from workbench.tune.recorded import evidence_digest
from workbench.tune.regret import Curves, Regret, regret
from workbench.tune.traffic import Traffic


def best_choice(search: CrossoverSearch) -> Choice:
    """The fastest allowed provider at every M: winners where there are, interpolated medians elsewhere.

    Raises
    ------
    InvalidArgument
        No M was measured.
    """
    return Curves(search.points, search.allowed, draws=1, seed=search.settings.seed).best().merged()


def spans_of(search: CrossoverSearch) -> tuple[Span, ...]:
    """The intervals of a search, cut where the provider to use changes and continued to 0 and without end."""
    choice = best_choice(search)
    intervals = search.intervals()
    spans: list[Span] = []
    first, last = intervals[0].low, intervals[-1].high
    if first > 0:
        spans.append(Span(low=0, high=first - 1, provider=choice.at(first), basis="outside"))
    for interval in intervals:
        if interval.winner is not None:
            name = interval.winner
            spans.append(
                Span(
                    low=interval.low,
                    high=interval.high,
                    provider=name,
                    winner=name,
                    basis="measured",
                    measured=interval.measured,
                )
            )
            continue
        cuts = [interval.low, *(s for s in choice.starts if interval.low < s <= interval.high), interval.high + 1]
        spans += [
            Span(
                low=low,
                high=high - 1,
                provider=choice.at(low),
                basis="undecided",
                measured=tuple(m for m in interval.measured if low <= m < high),
            )
            for low, high in pairwise(cuts)
        ]
    spans.append(Span(low=last + 1, high=None, provider=choice.at(last), basis="outside"))
    return tuple(spans)


def make_table(
    search: CrossoverSearch,
    *,
    k: int,
    n: int,
    environment: Environment,
    origins: Sequence[str],
    traffic: Traffic | None = None,
    regrets: Sequence[Regret] = (),
) -> DispatchTable:
    """The dispatch table of a search.

    Parameters
    ----------
    search
        With at least one M measured; it need not be finished.
    k, n
        Shape of the weight, [n, k].
    environment
        GPU, versions and date of the measurement.
    origins
        Where the figures come from, in words.
    traffic, regrets
        What to note about its cost.

    Raises
    ------
    InvalidArgument
        No M was measured.
    """
    note = None
    if traffic is not None:
        note = TrafficNote(
            label=traffic.label,
            calls=float(traffic.calls.sum()),
            smallest=int(traffic.m[0]),
            largest=int(traffic.m[-1]),
        )
    return DispatchTable(
        k=k,
        n=n,
        precision=search.precision,
        providers={name: search.providers[name] for name in search.allowed},
        spans=spans_of(search),
        level=search.settings.level,
        environment=environment,
        origins=tuple(origins),
        evidence=evidence_digest(search.points),
        made_by=f"hpc-ops-workbench {workbench.__version__}",
        traffic=note,
        regret=tuple(RegretNote(against=r.against, us=r.us, low=r.low_us, high=r.high_us) for r in regrets),
    )


@dataclass(frozen=True)
class ThresholdFit:
    """The best rule of SGLang's form: one provider below an M, another from there on.

    Attributes
    ----------
    first : int or None
        Smallest M of `above`; None: never, so the dict has no entry.
    choice : Choice
        The rule.
    regret : Regret
        Against the best choice of the same search.
    lost : tuple of str
        What the form cannot express of that choice, a sentence each.
    """

    first: int | None
    choice: Choice
    regret: Regret
    lost: tuple[str, ...]


def fit_threshold(search: CrossoverSearch, traffic: Traffic, *, below: str = BELOW, above: str = ABOVE) -> ThresholdFit:
    """Find the threshold that costs least under the traffic.

    Every M of the traffic is tried as a threshold, and "never", so the minimum is exact for the interpolated medians.

    Parameters
    ----------
    search
        With figures of both providers.
    traffic
        The distribution of M.
    below, above
        The two providers that the engine has.

    Raises
    ------
    InvalidArgument
        A provider has no figures or is less accurate than the search allows, or no call lies inside what was measured.
    """
    for name in (below, above):
        if name not in search.allowed:
            raise InvalidArgument(
                f"{name} is not among the providers compared under {search.precision!r}: {', '.join(search.allowed)}. "
                "Measure it, or allow its precision."
            )
    curves = Curves(search.points, search.allowed, draws=1)
    inside = curves.inside(traffic.m)
    if not inside.any():
        raise InvalidArgument("no call of the traffic lies inside the M that were measured; measure there")
    m, weights = traffic.m[inside], traffic.weights[inside]
    low, high = (curves.times(m)[curves.providers.index(name)] * weights for name in (below, above))
    # costs[i]: `below` for the first i values of M, `above` for the rest
    costs = np.concatenate([[0.0], np.cumsum(low)]) + np.concatenate([np.cumsum(high[::-1])[::-1], [0.0]])
    at = int(np.argmin(costs))
    first = None if at == m.size else (0 if at == 0 else int(m[at]))
    label = f"one threshold ({above} from M = {first})" if first is not None else f"one threshold (never {above})"
    choice = Choice.always(below, label) if first is None else Choice.threshold(below, first, above, label)
    best = best_choice(search)
    settings = search.settings
    cost = regret(search.points, choice, best, traffic, level=settings.level, seed=settings.seed)
    return ThresholdFit(first, choice, cost, _lost(search, best, choice, {below, above}))


def _lost(search: CrossoverSearch, best: Choice, choice: Choice, named: set[str]) -> tuple[str, ...]:
    """What the fitted rule gives up, an interval a sentence; `named` are the providers that its form has."""
    lost = []
    for interval in search.intervals():
        used = {choice.at(interval.low), choice.at(interval.high)}
        if interval.winner is not None and used != {interval.winner}:
            rows = f"{interval.low:,}" + (f" to {interval.high:,}" if interval.high > interval.low else "")
            instead = " and ".join(sorted(used - {interval.winner}))
            lost.append(f"M {rows}: {interval.winner} wins, the form uses {instead}")
    if others := sorted(set(best.providers) - named):
        lost.append(f"the form has two providers; {', '.join(others)} cannot be named in it")
    return tuple(lost)
