"""The tuner without a browser: settings, figures and traffic, and the prices that follow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from workbench.errors import InvalidArgument
from workbench.records import Store
from workbench.tables import Choice, DispatchTable, check_sglang, parse_shape, read_sglang
from workbench.tables.sglang import ThresholdTable
from workbench.tune import Traffic, make_table
from workbench.widgets.crossover.board import Board, Price
from workbench.widgets.crossover.figures import LIVE, RECORDED, Figures, recorded_figures, recorded_gpus
from workbench.widgets.crossover.live import Live
from workbench.widgets.crossover.rule import Pieces, check_providers, choice_of, chosen_table, pieces_of
from workbench.widgets.crossover.state import SETTINGS, State
from workbench.widgets.crossover.traffic import EVEN, GIVEN, SAMPLE, AnyTraffic, TrafficSource

KEPT = 16
"""Sets of figures and boards that are kept."""


@dataclass(frozen=True)
class Evaluation:
    """Everything that the screen shows, made from one state.

    Attributes
    ----------
    state : State
    board : Board
    rule : Choice
        The reader's, or the best choice.
    own : bool
        Whether it is the reader's.
    prices : tuple of Price
        All rules, cheapest first; those without a price last.
    """

    state: State
    board: Board
    rule: Choice
    own: bool
    prices: tuple[Price, ...]

    @property
    def price(self) -> Price:
        """Of the rule on screen."""
        return next(price for price in self.prices if price.key == ("own" if self.own else "best"))


class Session:
    """Settings with all that follows from them. A change is carried out whole or not at all.

    Parameters
    ----------
    traffic
        As `TrafficSource` takes it.
    in_use
        The engine's table, or a file that holds it in SGLang's form.
    store
        Where records are looked for.
    live
        The measurement here.
    **settings
        Of `State`.
    """

    def __init__(
        self,
        *,
        traffic: AnyTraffic,
        in_use: ThresholdTable | str | Path,
        store: Store | None,
        live: Live,
        **settings: Any,
    ) -> None:
        self.store = store or Store()
        self.in_use = read_sglang(in_use) if isinstance(in_use, (str, Path)) else check_sglang(in_use)
        self.live = live
        self._sources = {name: TrafficSource(name) for name in (SAMPLE, EVEN)}
        self._figures: dict[tuple[object, ...], Figures] = {}
        self._boards: dict[tuple[object, ...], Board] = {}
        self._gpus: dict[tuple[int, int], list[str]] = {}
        self.evaluation: Evaluation | None = None
        self.state = State()
        self.change(traffic=traffic, **settings)

    @property
    def source(self) -> TrafficSource:
        """Where the traffic on screen comes from."""
        return self._sources[self.state.traffic]

    @property
    def sources(self) -> Mapping[str, TrafficSource]:
        """Every traffic that can be chosen by name."""
        return self._sources

    @property
    def shape(self) -> tuple[int, int]:
        """K and N."""
        return parse_shape(self.state.router)[:2]

    @property
    def gpus(self) -> list[str]:
        """GPUs of which there are records of the shape."""
        if self.shape not in self._gpus:
            self._gpus[self.shape] = recorded_gpus(self.store, *self.shape)
        return self._gpus[self.shape]

    def change(self, **changes: Any) -> None:
        """Change settings at once.

        Raises
        ------
        WorkbenchError
            A value is not allowed, or nothing can be said under it; nothing is changed then.
        """
        if unknown := sorted(set(changes) - set(SETTINGS)):
            raise InvalidArgument(f"the tuner has no setting {', '.join(unknown)}; it has {', '.join(SETTINGS)}.")
        sources = self._sources
        traffic = changes.get("traffic")
        if "traffic" in changes and not (isinstance(traffic, str) and traffic == GIVEN and GIVEN in sources):
            source = TrafficSource(traffic)  # type: ignore[arg-type]  # it says what it cannot take
            sources = {**sources, source.name: sources.get(source.name, source) if source.name != GIVEN else source}
            changes["traffic"] = source.name
        if changes.get("providers") is not None:
            changes["providers"] = _names(changes["providers"])
        thresholds = changes.get("thresholds")
        named = thresholds if isinstance(thresholds, str) else None
        if thresholds is not None:
            changes["thresholds"] = None if named else pieces_of(thresholds)
        state = replace(self.state, **changes)
        if state.figures == LIVE and (changes.keys() & {"router", "figures"}):
            self.live.check(*parse_shape(state.router)[:2])
        before, self._sources = self._sources, sources
        try:
            found = self._evaluate(state, given=set(changes))
            if named:  # a rule of the board that the other changes lead to
                state = replace(found.state if found else state, thresholds=_rule_of(found, named))
                found = self._evaluate(state, given={"thresholds"})
            self.evaluation = found
        except BaseException:
            self._sources = before
            self.figures()  # a measurement here keeps the precision that stays
            raise
        self.state = state if self.evaluation is None else self.evaluation.state

    def refresh(self) -> None:
        """Take what the measurement here has found since the last look."""
        self._boards = {key: board for key, board in self._boards.items() if board.figures.mode != LIVE}
        self.evaluation = self._evaluate(self.state, given=set())

    def figures(self, state: State | None = None) -> Figures | None:
        """The figures of a state, or None where nothing was measured yet.

        Raises
        ------
        InvalidArgument
            There is no record of the shape.
        """
        state = state or self.state
        k, n = parse_shape(state.router)[:2]
        if state.figures == LIVE:
            found = self.live.figures(k, n)
            if found is not None and state.providers is None:
                found.search.precision = state.precision  # the search goes on under it
            return found if found is None else found.compare(state.providers, state.precision)
        key = (k, n, state.gpu)
        if key not in self._figures:
            _make_room(self._figures)
            self._figures[key] = recorded_figures(self.store, state.gpu, k, n, self.live.settings)
        compared = (*key, state.providers, state.precision)
        if compared not in self._figures:
            _make_room(self._figures)
            self._figures[compared] = self._figures[key].compare(state.providers, state.precision)
        return self._figures[compared]

    def table(self) -> DispatchTable:
        """The rule on screen as a dispatch table.

        Raises
        ------
        InvalidArgument
            Nothing was measured yet.
        """
        if self.state.figures == LIVE:
            self.refresh()
        shown = self.shown()
        board, (k, n) = shown.board, self.shape
        figures = board.figures
        table = make_table(
            figures.search,
            k=k,
            n=n,
            environment=figures.environment,
            origins=figures.origins,
            traffic=board.traffic,
            regrets=board.against(board.best),
        )
        return chosen_table(table, shown.rule, board.against(shown.rule)) if shown.own else table

    def shown(self) -> Evaluation:
        """What is on screen.

        Raises
        ------
        InvalidArgument
            Nothing was measured yet.
        """
        if self.evaluation is None:
            raise InvalidArgument("nothing was measured yet; start the measurement, or use figures='recorded'")
        return self.evaluation

    def _evaluate(self, state: State, given: set[str]) -> Evaluation | None:
        if "providers" not in given and given & {"router", "gpu", "figures"} and state.providers is not None:
            state = replace(state, providers=None)  # others have figures there
        figures = self.figures(state)
        if figures is None or not figures.search.verdicts():
            if state.figures == RECORDED and figures is not None:
                Board(
                    figures, *parse_shape(state.router)[:2], self._traffic(state), self.in_use
                )  # says what is lacking
            return None
        board = self._board(state, figures)
        if state.thresholds is not None:
            if "thresholds" in given:
                check_providers(state.thresholds, board.allowed, state.precision)
            elif not {name for _, name in state.thresholds} <= set(board.allowed):
                state = replace(state, thresholds=None)  # a provider of the rule is compared no longer
        if state.thresholds is None:
            prices, rule = board.others, board.best
        else:
            rule = choice_of(state.thresholds)
            prices = (board.price("own", rule), *board.others)
        ranked = sorted(prices, key=lambda price: float("inf") if price.regret is None else price.regret.us)
        return Evaluation(state, board, rule, state.thresholds is not None, tuple(ranked))

    def _board(self, state: State, figures: Figures) -> Board:
        key = (
            state.router, state.gpu, state.figures, state.providers, state.precision,
            self._sources[state.traffic], state.mixed, state.max_batch,
        )  # fmt: skip
        if key not in self._boards:
            _make_room(self._boards)
            k, n = parse_shape(state.router)[:2]
            self._boards[key] = Board(figures, k, n, self._traffic(state), self.in_use)
        return self._boards[key]

    def _traffic(self, state: State) -> Traffic:
        return self._sources[state.traffic].traffic(mixed=state.mixed, max_batch=state.max_batch)


def _rule_of(found: Evaluation | None, name: str) -> Pieces:
    """A rule of the board by its name."""
    if found is None:
        raise InvalidArgument(f"nothing was measured yet, so there is no rule {name!r}; give pairs of M and provider.")
    prices = {price.key: price for price in found.board.others}
    if name not in prices:
        raise InvalidArgument(f"there is no rule {name!r}; give {', '.join(prices)}, or pairs of M and provider.")
    if prices[name].problem:
        raise InvalidArgument(f"{prices[name].rule.label} is no rule here: {prices[name].problem}")
    return pieces_of(prices[name].rule)


def _names(given: Any) -> tuple[str, ...]:
    if isinstance(given, str):
        given = (given,)
    try:
        return tuple(dict.fromkeys(str(name) for name in given))
    except TypeError:
        raise InvalidArgument(f"providers is {given!r}; give names, or None for all with figures.") from None


def _make_room(kept: dict[Any, Any]) -> None:
    while len(kept) >= KEPT:
        del kept[next(iter(kept))]
