"""Carry out what a search proposes with a measurement that the caller brings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from workbench.errors import InvalidArgument
from workbench.tune.crossover import CrossoverSearch, Proposal

Measure = Callable[[str, int, int], Sequence[float]]
"""``measure(provider, m, rounds)``: that many samples, microseconds a call."""

MeasureTogether = Callable[[Sequence[str], int, int], Mapping[str, Sequence[float]]]
"""``measure(providers, m, rounds)``: samples of each, their rounds interleaved."""


def interleaved(measure: Measure) -> MeasureTogether:
    """Make an interleaved measurement of one that knows a single provider.

    Every round asks each provider for one sample; the order turns by one from round to round, so that nobody always
    comes after the same neighbour.
    """

    def together(providers: Sequence[str], m: int, rounds: int) -> dict[str, list[float]]:
        samples: dict[str, list[float]] = {name: [] for name in providers}
        for turn in range(rounds):
            first = turn % len(providers)
            for name in (*providers[first:], *providers[:first]):
                samples[name].extend(measure(name, m, 1))
        return samples

    return together


def checked(samples: object, providers: Sequence[str], m: int) -> Mapping[str, Sequence[float]]:
    """Return what a measurement returned, if it has samples of everybody asked for: a search would ask again for ever.

    Raises
    ------
    InvalidArgument
        It has not.
    """
    if not isinstance(samples, Mapping) or set(samples) != set(providers):
        given = ", ".join(map(str, samples)) if isinstance(samples, Mapping) else f"a {type(samples).__name__}"
        raise InvalidArgument(
            f"the measurement at M = {m} returned {given or 'nothing'}; return samples of each of "
            f"{', '.join(providers)}"
        )
    return samples


def steps(search: CrossoverSearch, measure: MeasureTogether) -> Iterator[Proposal]:
    """Measure until the search is finished, one proposal a step.

    The search is complete after each step: stop iterating to pause, iterate anew to go on.

    Parameters
    ----------
    search
        It takes the samples.
    measure
        Called once a step; what it raises ends the iteration and leaves the search as it was before the step.

    Yields
    ------
    Proposal
        What was just measured.

    Raises
    ------
    InvalidArgument
        What it returns is no samples of each provider that was asked for.
    """
    while (proposal := search.next()) is not None:
        samples = measure(proposal.providers, proposal.m, proposal.rounds)
        search.add(proposal.m, checked(samples, proposal.providers, proposal.m))
        yield proposal
