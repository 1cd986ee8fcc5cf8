"""Rules that a reader makes: read from what they gave, and written into a dispatch table without claiming more."""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

from workbench.errors import InvalidArgument
from workbench.tables import Choice, DispatchTable, RegretNote, Span
from workbench.tables.models import LARGEST
from workbench.tune import Regret

Pieces: TypeAlias = tuple[tuple[int, str], ...]
"""First M and provider of each piece, ascending, the first from 0."""

AnyRule: TypeAlias = Choice | Mapping[int, str] | Iterable[Sequence[Any]]

OWN = "your rule"

MOST_PIECES = 1024
"""Pieces of a rule: a table holds more spans than these and the figures' own boundaries cut."""


def pieces_of(given: AnyRule) -> Pieces:
    """A rule as pieces.

    Parameters
    ----------
    given
        A `Choice`, a mapping from the first M to a provider, or pairs of them. A first piece that begins at 1 begins
        at 0, for no call has fewer rows than 1 but 0.

    Raises
    ------
    InvalidArgument
        It is none of these, or the pieces do not cover every M once.
    """
    if isinstance(given, Choice):
        return tuple(zip(given.starts, given.providers, strict=True))
    try:
        items = list(given.items()) if isinstance(given, Mapping) else [(first, name) for first, name in given]
        pairs = [(operator.index(first), name) for first, name in items]
    except (TypeError, ValueError):
        raise InvalidArgument(
            f"thresholds are {str(given)[:80]!r}; give pairs of the first M and a provider, such as "
            "[(0, 'cublas-fp32'), (64, 'cuda')], or None for the best choice"
        ) from None
    pairs.sort()
    if pairs and pairs[0][0] == 1:
        pairs[0] = (0, pairs[0][1])
    firsts = [first for first, _ in pairs]
    if len(pairs) > MOST_PIECES:
        raise InvalidArgument(f"the rule has {len(pairs):,} pieces; give at most {MOST_PIECES:,}")
    inside = bool(firsts) and firsts[0] == 0 and firsts[-1] <= LARGEST
    if not inside or any(a == b for a, b in pairwise(firsts)) or not all(_is_name(n) for _, n in pairs):
        raise InvalidArgument(
            f"thresholds begin at {firsts[:8]}; give each first M once, from 0 to {LARGEST:,}, and a "
            "provider's name to each"
        )
    return tuple(pairs)


def check_providers(pieces: Pieces, allowed: Collection[str], precision: str) -> None:
    """Refuse a rule that names a provider which is not compared.

    Raises
    ------
    InvalidArgument
        A provider is not among `allowed`.
    """
    if other := sorted({name for _, name in pieces} - set(allowed)):
        raise InvalidArgument(
            f"the rule names {', '.join(other)}; compared here and accurate enough for {precision!r} are "
            f"{', '.join(allowed)}. Use one of these, or allow a less accurate class."
        )


def choice_of(pieces: Pieces, label: str = OWN) -> Choice:
    """Pieces as a `Choice`."""
    return Choice(tuple(first for first, _ in pieces), tuple(name for _, name in pieces), label)


def chosen_table(table: DispatchTable, rule: Choice, regrets: Sequence[Regret]) -> DispatchTable:
    """The table with a rule of one's own in place of the figures' best choice.

    Spans are cut where the rule changes. Where it names another provider than the figures do, or the cut leaves a piece
    in which no M was measured, the basis is "chosen" and there is no winner.

    Parameters
    ----------
    table
        What the figures come to.
    rule
        Over providers of `table`.
    regrets
        Of the rule, to be noted in the table.

    Raises
    ------
    pydantic.ValidationError
        A provider is not one of the table's.
    """
    spans: list[Span] = []
    for span in table.spans:
        end = float("inf") if span.high is None else span.high
        cuts = [span.low, *(start for start in rule.starts if span.low < start <= end)]
        for low, following in zip(cuts, [*cuts[1:], None], strict=True):
            high = span.high if following is None else following - 1
            measured = tuple(m for m in span.measured if low <= m and (high is None or m <= high))
            name = rule.at(low)
            if name != span.provider or (span.basis == "measured" and not measured):
                spans.append(Span(low=low, high=high, provider=name, basis="chosen", measured=measured))
            else:
                spans.append(span.model_copy(update={"low": low, "high": high, "measured": measured}))
    notes = tuple(RegretNote(against=r.against, us=r.us, low=r.low_us, high=r.high_us) for r in regrets)
    fields = {name: getattr(table, name) for name in type(table).model_fields}
    return DispatchTable(**fields | {"spans": tuple(spans), "regret": notes})


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value)
