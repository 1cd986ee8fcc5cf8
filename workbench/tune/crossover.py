"""Find where one provider of the router product overtakes another, measuring where it matters.

`CrossoverSearch` is a state that says what to measure next and takes samples; it never measures itself, so it can be
stopped between any two calls, kept as JSON and gone on with. Three kinds of proposal, in this order:

1. the coarse grid, with both sides of each likely step of a tile (64 and 65);
2. more rounds where intervals overlap, up to a limit, unless the difference is too small to matter;
3. the middle of a bracket: between two neighbours whose winners differ, or beside an undecided one, until the bracket
   is as narrow as `Settings.width` says.

Nothing is assumed about the curves: a winner may change any number of times.
"""

from __future__ import annotations

import json
import math
import operator
from bisect import insort
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from workbench.errors import InvalidArgument
from workbench.tables.precision import allows, check_class
from workbench.tune.evidence import Block, Point
from workbench.tune.intervals import Crossing, Interval, crossings_of, intervals_of
from workbench.tune.settings import COARSE_GRID, LARGEST_M, Settings
from workbench.tune.verdicts import Verdict, compare

__all__ = ["COARSE_GRID", "LARGEST_M", "CrossoverSearch", "Proposal", "Settings"]


class Proposal(BaseModel):
    """What to measure next: all these providers at M, rounds interleaved."""

    model_config = ConfigDict(frozen=True)

    m: int
    providers: tuple[str, ...]
    rounds: int
    reason: str
    """"grid", "overlap" or "bracket"."""


class CrossoverSearch:
    """The state of a search for crossovers.

    Parameters
    ----------
    providers
        Precision class of each provider, by name.
    precision
        Least accurate class allowed; assign to `precision` to change it, what was measured stays.
    settings
        How to decide and when to stop.
    points
        What is known already, such as from records.

    Raises
    ------
    InvalidArgument
        A class is not known, no provider is accurate enough, or two points have the same M.
    """

    def __init__(
        self,
        providers: Mapping[str, str],
        *,
        precision: str = "split",
        settings: Settings | None = None,
        points: Iterable[Point] = (),
    ) -> None:
        if not isinstance(providers, Mapping):
            raise InvalidArgument(
                f"providers are a {type(providers).__name__}; give the precision class of each by name, such as "
                "{'cuda': 'split', 'cublas-fp32': 'fp32'}"
            )
        self.providers = {name: check_class(own) for name, own in providers.items()}
        self.settings = settings or Settings()
        given = list(points)
        self._points = {point.m: point for point in given}
        if len(self._points) < len(given):
            raise InvalidArgument("two points have the same M; give one with the blocks of both")
        self._verdicts: dict[tuple[int, tuple[str, ...]], Verdict] = {}
        self.precision = precision

    @property
    def precision(self) -> str:
        """Least accurate class allowed."""
        return self._precision

    @precision.setter
    def precision(self, name: str) -> None:
        limit = check_class(name)
        allowed = tuple(provider for provider, own in self.providers.items() if allows(limit, own))
        if not allowed:
            classes = ", ".join(f"{provider} ({own})" for provider, own in self.providers.items())
            raise InvalidArgument(f"no provider is as accurate as {name!r}; there are {classes or 'none'}.")
        self._precision, self.allowed = limit, allowed

    @property
    def points(self) -> tuple[Point, ...]:
        """What is known, by ascending M."""
        return tuple(self._points[m] for m in sorted(self._points))

    def add(self, m: int, samples_us: Mapping[str, Sequence[float]], *, paired: bool = True) -> None:
        """Take what was measured.

        Parameters
        ----------
        m
            Rows.
        samples_us
            By provider, microseconds a call in the order taken.
        paired
            Rounds were interleaved: sample i of every provider was taken beside sample i of the others.

        Raises
        ------
        InvalidArgument
            Too few samples, unequal numbers of them, values that are no times, or an unknown provider.
        """
        try:
            samples = {name: tuple(map(float, values)) for name, values in samples_us.items()}
        except (AttributeError, TypeError, ValueError):
            raise InvalidArgument("samples are no numbers by provider; give {name: [microseconds, ...]}") from None
        if unknown := sorted(map(str, set(samples) - set(self.providers))):
            raise InvalidArgument(f"samples of {', '.join(unknown)}; this search has {', '.join(self.providers)}")
        try:
            rows = -1 if isinstance(m, bool) else operator.index(m)
        except TypeError:
            rows = -1
        if not 1 <= rows <= LARGEST_M:
            raise InvalidArgument(f"m={m!r}; give a whole number of rows between 1 and {LARGEST_M:,}")
        self._points[rows] = self._points.get(rows, Point(rows)).with_block(Block(samples, paired))
        self._verdicts = {key: verdict for key, verdict in self._verdicts.items() if key[0] != rows}

    def verdicts(self) -> tuple[Verdict, ...]:
        """Comparison of the allowed providers at each M where all were measured, by ascending M."""
        return tuple(self._verdict(point) for point in self.points if point.has(self.allowed))

    def intervals(self) -> tuple[Interval, ...]:
        """Intervals of M from the first to the last measured, each with a winner or undecided."""
        return intervals_of(self.verdicts())

    def crossings(self) -> tuple[Crossing, ...]:
        """Changes of the winner."""
        return crossings_of(self.intervals())

    def next(self) -> Proposal | None:
        """What to measure next, or None when the search is finished."""
        return next(iter(self.pending()), None)

    def pending(self) -> list[Proposal]:
        """Everything that is worth measuring by what is known now, the next one first."""
        limits = self.settings
        known = [v.m for v in self.verdicts()]
        missing = [m for m in sorted(set(limits.grid)) if m not in set(known)]
        found = [self._propose(m, limits.rounds, "grid") for m in missing]
        verdicts = self.verdicts()
        for verdict in verdicts:
            again = verdict.rounds or limits.rounds
            if verdict.winner is None and not verdict.tie and again * 2 <= limits.rounds << (limits.looks - 1):
                found.append(self._propose(verdict.m, again, "overlap"))
        room = limits.most_points - len(known) - len(missing)
        for a, b in pairwise(verdicts):
            if a.winner != b.winner and b.m - a.m > max(1, math.floor(limits.width * a.m)) and room > 0:
                found.append(self._propose(_middle(a.m, b.m), limits.rounds, "bracket"))
                room -= 1
        return found

    def progress(self) -> tuple[int, int]:
        """Points measured, and an estimate of how many there will be; the estimate moves as brackets appear."""
        done = len(self.verdicts())
        wanted = 0
        for proposal in self.pending():
            if proposal.reason == "grid":
                wanted += 1
            elif proposal.reason == "bracket":
                a, b = self._around(proposal.m)
                wanted += max(1, math.ceil(math.log2((b - a) / max(1, math.floor(self.settings.width * a)))))
        return done, min(done + wanted, max(self.settings.most_points, done))

    def to_json(self) -> str:
        """The whole state, to go on with later."""
        return json.dumps(
            {
                "schema_version": 1,
                "providers": self.providers,
                "precision": self.precision,
                "settings": self.settings.model_dump(mode="json"),
                "points": [_dump(point) for point in self.points],
            },
            allow_nan=False,
        )

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Go on from a state that was kept.

        Raises
        ------
        InvalidArgument
            It is no such state.
        """
        try:
            state = _State.model_validate_json(text)
        except ValidationError as error:
            fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
            place = ".".join(map(str, fault["loc"]))
            raise InvalidArgument(f"this is no state of a search: {place}: {fault['msg']}. Start a new one.") from None
        points = [
            Point(p.m, tuple(Block(b.samples_us, b.paired) for b in p.blocks), dict(p.assumed)) for p in state.points
        ]
        return cls(state.providers, precision=state.precision, settings=state.settings, points=points)

    def _verdict(self, point: Point) -> Verdict:
        key = (point.m, self.allowed)
        if key not in self._verdicts:
            limits = self.settings
            self._verdicts[key] = compare(
                point,
                self.allowed,
                level=limits.level,
                looks=limits.looks,
                tolerance=limits.tolerance,
                draws=limits.draws,
                seed=limits.seed,
            )
        return self._verdicts[key]

    def _propose(self, m: int, rounds: int, reason: str) -> Proposal:
        return Proposal(m=m, providers=self.allowed, rounds=rounds, reason=reason)

    def _around(self, m: int) -> tuple[int, int]:
        """The neighbouring measured M."""
        known = [v.m for v in self.verdicts()]
        insort(known, m)
        at = known.index(m)
        return known[at - 1], known[at + 1]


class _BlockState(BaseModel):
    samples_us: dict[str, tuple[float, ...]]
    paired: bool


class _PointState(BaseModel):
    m: Annotated[int, Field(ge=1, le=LARGEST_M)]
    blocks: tuple[_BlockState, ...] = ()
    assumed: dict[str, tuple[float, float]] = {}


class _State(BaseModel):
    model_config = ConfigDict(allow_inf_nan=False)

    schema_version: Annotated[int, Field(ge=1, le=1)]
    providers: dict[str, str]
    precision: str
    settings: Settings
    points: tuple[_PointState, ...]


def _dump(point: Point) -> dict[str, Any]:
    blocks = [{"samples_us": dict(block.samples_us), "paired": block.paired} for block in point.blocks]
    return {"m": point.m, "blocks": blocks, "assumed": dict(point.assumed)}


def _middle(a: int, b: int) -> int:
    """A whole number strictly between, in the middle by ratio."""
    return min(max(round(math.sqrt(a * b)), a + 1), b - 1)
