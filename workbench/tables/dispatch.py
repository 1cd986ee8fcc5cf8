"""A saved dispatch table of the router product: for one GPU, one shape and one precision class, a provider for every M.

A table is a JSON document with all that it rests on. It is checked when it is made and when it is read; its digest
covers the whole content, so an edited file is refused and not half believed.
"""

from __future__ import annotations

import hashlib
import json
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from workbench import devices
from workbench.errors import InvalidArgument, TableError
from workbench.records.parts import DIGEST, Count, Environment, Name, Part
from workbench.tables.choice import Choice
from workbench.tables.models import LARGEST
from workbench.tables.precision import CLASSES, allows

SCHEMA_VERSION = 1
MAX_SPANS = 4096

Basis = Literal["measured", "undecided", "outside", "chosen"]


class Span(Part):
    """Neighbouring M with one provider."""

    low: Count
    high: Count | None
    """Last M of the span; None: no end."""
    provider: Name
    """Who computes it."""
    winner: Name | None = None
    """Who was shown to be fastest at every measured M here; None: nobody was."""
    basis: Basis
    """"measured": the winner, at measured M and assumed between them. "undecided": figures differ by less than their
    uncertainty, or the winner changes between two measured M; the provider is the faster by interpolation.
    "outside": beyond the M that were measured, the provider nearest to them.
    "chosen": somebody's own choice; the figures name another provider, or no M here was measured."""
    measured: tuple[Count, ...] = ()
    """The M in it that were measured."""

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.high is not None and self.high < self.low:
            raise ValueError(f"the span from {self.low} ends at {self.high}")
        if (self.basis == "measured") != (self.winner is not None) or self.winner not in (None, self.provider):
            raise ValueError(f"the span from {self.low} is {self.basis!r} and has the winner {self.winner!r}")
        inside = all(self.low <= m and (self.high is None or m <= self.high) for m in self.measured)
        if (
            not inside
            or (self.basis == "measured" and not self.measured)
            or (self.basis == "outside" and self.measured)
        ):
            raise ValueError(f"the span from {self.low} is {self.basis!r} and measured at {list(self.measured)[:8]}")
        return self


class TrafficNote(Part):
    """The distribution of M that a regret was computed under."""

    label: str
    calls: Annotated[float, Field(gt=0)]
    """Calls of the product in it."""
    smallest: Count
    largest: Count


class RegretNote(Part):
    """Microseconds a call that the table loses against another rule under the traffic; below 0: it gains."""

    against: str
    us: float
    low: float
    high: float
    """Ends of the interval of `us`."""


class DispatchTable(Part):
    """Which provider to use for M rows.

    The fields that say what the table is for (`environment.gpu`, `k`, `n`, `precision`) are checked by `check`.
    """

    schema_version: Annotated[int, Field(ge=1)] = SCHEMA_VERSION
    kind: Literal["router-dispatch"] = "router-dispatch"
    operator: Literal["router_gemm"] = "router_gemm"
    k: Annotated[int, Field(gt=0, le=LARGEST)]
    n: Annotated[int, Field(gt=0, le=LARGEST)]
    precision: str
    """Least accurate class allowed."""
    providers: Annotated[dict[Name, str], Field(min_length=1)]
    """Class of each provider that was compared."""
    spans: Annotated[tuple[Span, ...], Field(min_length=1, max_length=MAX_SPANS)]
    """Without gap from M = 0 to the last, which has no end."""
    level: Annotated[float, Field(gt=0, lt=1)]
    """Confidence of a winner at one measured M, and of the intervals of `regret`."""
    environment: Environment
    """GPU, versions and date of the newest figure used."""
    origins: tuple[str, ...]
    """Where the figures come from, in words."""
    evidence: Annotated[str, Field(pattern=DIGEST)]
    """SHA-256 over the figures that were compared."""
    made_by: str
    """Name and version of the program that made the table."""
    traffic: TrafficNote | None = None
    regret: tuple[RegretNote, ...] = ()

    @model_validator(mode="after")
    def _agree(self) -> Self:
        for name, own in self.providers.items():
            if own not in CLASSES or self.precision not in CLASSES or not allows(self.precision, own):
                raise ValueError(f"provider {name} has the class {own!r}, where {self.precision!r} is allowed")
        expected = 0
        for span in self.spans:
            if span.low != expected:
                raise ValueError(f"a span begins at {span.low} and the last ended before {expected}")
            if span.provider not in self.providers:
                raise ValueError(f"the span from {span.low} names {span.provider}, which was not compared")
            if (span.high is None) != (span is self.spans[-1]):
                raise ValueError(f"the span from {span.low} ends at {span.high}; only the last has no end")
            expected = (span.high or 0) + 1
        return self

    @cached_property
    def choice(self) -> Choice:
        """The table as a rule."""
        starts, providers = (span.low for span in self.spans), (span.provider for span in self.spans)
        return Choice(tuple(starts), tuple(providers), f"table of {self.environment.date}").merged()

    def choose(self, m: int) -> str:
        """The provider for M rows.

        Raises
        ------
        InvalidArgument
            `m` is not a whole number from 0.
        """
        return self.choice.at(m)

    def check(self, *, gpu: str, k: int, n: int, other_gpu: bool = False) -> None:
        """Refuse the table where it was not made for.

        Parameters
        ----------
        gpu
            Name of the GPU at hand, any that the catalogue knows or what the driver says.
        k, n
            Shape of the weight, [n, k].
        other_gpu
            Accept a table of another GPU: its crossings are then a guess.

        Raises
        ------
        TableError
            Shape or GPU differ.
        """
        if (k, n) != (self.k, self.n):
            raise TableError(
                f"this dispatch table was made for K {self.k}, N {self.n}, and the weight has K {k}, N {n}. Crossings "
                "do not carry over to other shapes; make a table with `workbench crossover K,N`."
            )
        if not other_gpu and not same_gpu(gpu, self.environment.gpu):
            raise TableError(
                f"this dispatch table was measured on {self.environment.gpu}, and the GPU here is {gpu}. Make a table "
                "here with `workbench crossover`, or pass other_gpu=True to use this one all the same."
            )

    def encode(self) -> bytes:
        """The document as it is kept: JSON with sorted keys and a digest of the rest.

        Raises
        ------
        TableError
            A field of one's own holds what JSON does not have.
        """
        content = self.model_dump(mode="json")
        try:
            content["digest"] = _digest(content)
            text = json.dumps(content, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False)
        except (ValueError, TypeError, RecursionError) as error:
            raise TableError(f"the table cannot be written as JSON: {error}. Give finite numbers and text.") from None
        return text.encode() + b"\n"

    @classmethod
    def decode(cls, content: bytes) -> Self:
        """Read a document.

        Raises
        ------
        TableError
            It is no such table, its content is not what its digest says, or its schema is newer than this version's.
        """
        try:
            document: Any = json.loads(content, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise TableError(f"it is no dispatch table: {error}") from None
        if not isinstance(document, dict) or document.get("kind") != "router-dispatch":
            raise TableError('it is no dispatch table of the router: it lacks "kind": "router-dispatch"')
        version = document.get("schema_version")
        if isinstance(version, int) and version > SCHEMA_VERSION:
            raise TableError(
                f"its schema is {version}, and this version reads up to {SCHEMA_VERSION}. Update workbench."
            )
        digest = document.pop("digest", None)
        try:
            if digest != _digest(document):
                raise TableError("its content is not what its digest says: it was edited or damaged. Make it again.")
            if version is None:
                raise TableError("it does not say its schema_version, so it may mean something else. Make it again.")
            return cls.model_validate_json(json.dumps(document))
        except ValidationError as error:
            fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
            place = ".".join(map(str, fault["loc"]))
            raise TableError(f"it is no dispatch table: {f'{place}: ' if place else ''}{fault['msg']}") from None
        except (ValueError, RecursionError) as error:
            raise TableError(f"it is no dispatch table: {error}") from None


def same_gpu(a: str, b: str) -> bool:
    """Whether two names mean one model of GPU: by the catalogue, else letter by letter."""
    return _canonical(a) == _canonical(b)


def _canonical(name: str) -> str:
    try:
        return devices.gpu(name).name
    except InvalidArgument:
        return name.strip().casefold()


def _digest(content: dict[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")
