"""The browser without a browser: what is in the store, which filters let it through, what is picked."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

from workbench import devices
from workbench.errors import InvalidArgument
from workbench.records import Store
from workbench.records.layout import slug
from workbench.widgets.profiles.bins import Beside, beside
from workbench.widgets.profiles.captures import Capture, read_captures, varying
from workbench.widgets.profiles.ceilings import Ceiling, ceilings
from workbench.widgets.profiles.columns import column_text, sorted_by, values_of
from workbench.widgets.profiles.compare import Row, compare
from workbench.widgets.profiles.counters import IMBALANCE, names_in
from workbench.widgets.profiles.notes import Notes
from workbench.widgets.profiles.parameter import parameters_of

VIEWS = {
    "compare": "Side by side",
    "roofline": "Roofline",
    "parameter": "Against a parameter",
    "schedule": "Schedule",
    "notes": "Notes and reports",
}
"""What is shown of the picked captures."""

MENUS = ("operator", "case", "gpu", "provider", "policy", "set")
"""Filters that are chosen from what there is."""

SORTS = (*MENUS, "config", "isolated", "replayed", "metric", "runs", "date")

MOST_PICKS = 5
LETTERS = "ABCDE"


@dataclass(frozen=True, kw_only=True)
class State:
    """Every setting of the browser.

    Attributes
    ----------
    operator, case, gpu, provider, policy, set : str
        Only captures with this value; "": all.
    config : str
        Words that the configuration has: ``stages=3`` is that value exactly, any other word is looked for in the
        configuration, the kernels' names and the note.
    since, until : str
        ISO days; "": no limit.
    picks : tuple of str
        Names of the records that are compared, the first as the base.
    metric, parameter : str
        Figure of the table's last column and of the chart against a parameter.
    view : str
        One of `VIEWS`.
    sort : str
    descending : bool
    """

    operator: str = ""
    case: str = ""
    gpu: str = ""
    provider: str = ""
    policy: str = ""
    set: str = ""
    config: str = ""
    since: str = ""
    until: str = ""
    picks: tuple[str, ...] = ()
    metric: str = IMBALANCE
    parameter: str = ""
    view: str = "compare"
    sort: str = "date"
    descending: bool = True


FILTERS = (*MENUS, "config", "since", "until")


class Session:
    """Settings, captures and what follows from both. A change is checked whole before any of it is kept.

    Parameters
    ----------
    store
        Where records are; None opens the shipped ones and the user's own.
    notes
        Where notes are.
    **settings
        As `State` has them; `picks` as `change` takes them.
    """

    def __init__(self, store: Store | None = None, notes: Notes | None = None, **settings: Any) -> None:
        self.store = Store() if store is None else store
        self.notes = Notes() if notes is None else notes
        self._ceilings: dict[str, tuple[Ceiling, ...]] = {}
        self._beside: dict[str, Beside] = {}
        self.captures, self.problems = read_captures(self.store)
        self.state = State()
        self.change(**settings)

    def reload(self) -> None:
        """Read the store again; picks that are gone are dropped."""
        self.captures, self.problems = read_captures(self.store)
        self._ceilings.clear()
        self._beside.clear()
        self.notes.reload()
        self._forget()
        there = {capture.key for capture in self.captures}
        self.state = replace(self.state, picks=tuple(key for key in self.state.picks if key in there))

    def change(self, **changes: Any) -> None:
        """Change settings.

        Raises
        ------
        InvalidArgument
            There is no such setting, or it cannot have the value; nothing is changed then.
        """
        known = [field.name for field in fields(State)]
        if unknown := sorted(set(changes) - set(known)):
            raise InvalidArgument(f"the browser has no setting {', '.join(unknown)}. It has {', '.join(known)}.")
        if "picks" in changes:
            changes["picks"] = self._picks(changes["picks"])
        state = replace(self.state, **changes)
        _check(state)
        self.state = state
        self._forget()

    def _forget(self) -> None:
        for name in ("shown", "picked", "rows", "default_parameter"):
            self.__dict__.pop(name, None)

    def _picks(self, given: Any) -> tuple[str, ...]:
        """Names of records from captures, names, beginnings of names, and paths."""
        several = isinstance(given, Iterable) and not isinstance(given, str)
        wanted = list(given) if several else [given]
        found: list[str] = []
        for one in wanted:
            name = one.key if isinstance(one, Capture) else str(one).replace("\\", "/").rpartition("/")[2]
            name = name.removesuffix(".json")
            matches = [capture.key for capture in self.captures if name and capture.key.startswith(name)]
            if len(set(matches)) != 1:
                how = "no capture" if not matches else f"{len(matches)} captures"
                raise InvalidArgument(f"pick {one!r} names {how} of this store. Give a Capture, its key or its path.")
            found.append(matches[0])
        if len(unique := tuple(dict.fromkeys(found))) > MOST_PICKS:
            raise InvalidArgument(f"{len(unique)} captures are picked; at most {MOST_PICKS} are compared.")
        return unique

    @cached_property
    def shown(self) -> tuple[Capture, ...]:
        """Captures that all filters let through, sorted."""
        passed = [capture for capture in self.captures if self._passes(capture, FILTERS)]
        state = self.state
        return tuple(sorted_by(passed, state.sort, state.metric, descending=state.descending))

    def _passes(self, capture: Capture, names: tuple[str, ...]) -> bool:
        return all(not (wanted := getattr(self.state, name)) or self._match(capture, name, wanted) for name in names)

    def _match(self, capture: Capture, name: str, wanted: str) -> bool:
        if name == "gpu":
            return slug(capture.gpu) in _gpu_slugs(wanted)
        if name == "config":
            return self._has_words(capture, wanted)
        if name == "since":
            return capture.date >= wanted
        if name == "until":
            return capture.date <= wanted
        return wanted in values_of(capture, name)

    def _has_words(self, capture: Capture, words: str) -> bool:
        where = " ".join((capture.configuration, *capture.kernels, self.notes.texts.get(capture.key, ""))).casefold()
        return all(self._has_word(capture, word, where) for word in words.split())

    def _has_word(self, capture: Capture, word: str, where: str) -> bool:
        name, equal, value = word.partition("=")
        if equal and name in capture.parameters:
            return capture.parameters[name].casefold() == value.casefold()
        return word.casefold() in where

    def facets(self, name: str) -> list[tuple[str, int]]:
        """Values of a filter and how many captures have each, as far as the other filters let them through."""
        others = tuple(other for other in FILTERS if other != name)
        passed = [capture for capture in self.captures if self._passes(capture, others)]
        counted = Counter(value for capture in passed for value in values_of(capture, name) if value)
        return sorted(counted.items())

    def values(self, name: str) -> frozenset[str]:
        """Different texts of a column among the captures on screen."""
        return frozenset(column_text(capture, name) for capture in self.shown)

    @property
    def chosen_gpu(self) -> str:
        """The GPU of the filter, by the name that records have for it."""
        wanted = self.state.gpu
        known = {capture.gpu for capture in self.captures if wanted and slug(capture.gpu) in _gpu_slugs(wanted)}
        return min(known, default=wanted)

    @cached_property
    def picked(self) -> tuple[Capture, ...]:
        """The picked captures, in the order of their letters."""
        by_key = {capture.key: capture for capture in self.captures}
        return tuple(by_key[key] for key in self.state.picks if key in by_key)

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """The picked captures side by side."""
        return compare(self.picked)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Figures that the table and the chart can show."""
        return names_in(self.shown)

    @cached_property
    def default_parameter(self) -> str:
        """The parameter on the axis: the one chosen, or the first that varies."""
        names = parameters_of(self.shown)
        return self.state.parameter if self.state.parameter in names else next(iter(names), "")

    @property
    def varying(self) -> tuple[str, ...]:
        """Parameters in which the captures on screen differ."""
        return varying(self.shown)

    def limits(self) -> dict[str, tuple[Ceiling, ...]]:
        """Ceilings of the GPUs of the picked captures."""
        for capture in self.picked:
            if capture.gpu not in self._ceilings:
                self._ceilings[capture.gpu] = ceilings(self.store, capture.gpu)
        return {capture.gpu: self._ceilings[capture.gpu] for capture in self.picked}

    def beside(self, capture: Capture) -> Beside:
        """The schedule of a capture's configuration."""
        if capture.key not in self._beside:
            self._beside[capture.key] = beside(self.store, capture)
        return self._beside[capture.key]


def _gpu_slugs(name: str) -> frozenset[str]:
    """A GPU's folders by any name of the catalogue."""
    try:
        known = devices.gpu(name)
    except InvalidArgument:  # a GPU that only records name
        return frozenset({slug(name)})
    return frozenset(slug(one) for one in (known.name, *known.aliases, name))


def _check(state: State) -> None:
    allowed: Mapping[str, tuple[str, ...]] = {"view": tuple(VIEWS), "sort": SORTS}
    for name, values in allowed.items():
        if getattr(state, name) not in values:
            raise InvalidArgument(f"{name} is {getattr(state, name)!r}; give one of {', '.join(values)}.")
    for field in fields(State):
        value = getattr(state, field.name)
        kind = {"picks": tuple, "descending": bool}.get(field.name, str)
        if not isinstance(value, kind):
            raise InvalidArgument(f"{field.name} is {value!r}; give {'True or False' if kind is bool else 'text'}.")
    for name in ("since", "until"):
        if day := getattr(state, name):
            try:
                written = datetime.date.fromisoformat(day).isoformat()
            except ValueError:
                written = ""
            if written != day:  # days are compared as text
                raise InvalidArgument(f"{name} is {day!r}; give a day such as 2026-11-29.")
