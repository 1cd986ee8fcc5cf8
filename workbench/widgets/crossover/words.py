"""The answer in words and numbers: a sentence, a table of rules, the card of one M."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from workbench.errors import InvalidArgument
from workbench.tables import Choice, RouterModel
from workbench.tune import Regret
from workbench.widgets import text
from workbench.widgets.crossover.board import Board, Price
from workbench.widgets.crossover.scene import interval_of
from workbench.widgets.crossover.session import Evaluation
from workbench.widgets.crossover.styles import title_of

HEADINGS = ("rule", "\u00b5s a call", "lost", "95 %")
NO_RULE = "drag a threshold below, or click a piece"
MOST_PIECES = 4
"""Pieces of a rule that a sentence lists."""


@dataclass(frozen=True)
class Run:
    """Some words; `kind` is "", "strong" or "provider", and then `provider` is whose hue they have."""

    text: str
    kind: str = ""
    provider: str = ""


@dataclass(frozen=True)
class Row:
    """One rule of the table.

    Attributes
    ----------
    key, title : str
    cost, lost, interval, a_pass : str
        Numbers as written.
    share : float
        Its cost over the dearest one's.
    low, high : float
        The interval of its cost on the same scale.
    problem : str
        In place of numbers.
    ours : bool
        Whether it is the rule on screen.
    """

    key: str
    title: str
    cost: str = ""
    lost: str = ""
    interval: str = ""
    a_pass: str = ""
    share: float = 0.0
    low: float = 0.0
    high: float = 0.0
    problem: str = ""
    ours: bool = False


def small_us(value: float) -> str:
    """Microseconds of a difference: three decimals below 0.1; one that is not quite 0 says so."""
    if 0 < abs(value) < 0.0005:
        return "<0.001"
    return f"{value:.3f}" if abs(value) < 0.0995 else text.fine_us(value)


def signed_us(value: float) -> str:
    """The same with a sign."""
    if 0 < abs(value) < 0.0005:
        return small_us(value)
    return text.signed(small_us(abs(value)), value)


def between(regret: Regret) -> str:
    """The interval of a regret."""
    return f"{signed_us(regret.low_us)} to {signed_us(regret.high_us)}"


def sentence(shown: Evaluation, model: RouterModel | None) -> list[Run]:
    """What the screen comes to."""
    board, price = shown.board, shown.price
    if shown.own:
        runs = [Run("Your rule")]
        if price.regret is not None:
            runs += [Run(" loses "), Run(f"{small_us(price.regret.us)} \u00b5s a call", "strong")]
            runs += [Run(f" ({between(price.regret)}) to the best choice.")]
    else:
        runs = _rule_words(shown.rule)
    try:
        against = board.pricing.regret(shown.rule, board.in_use)
    except InvalidArgument:  # the row of the table in use says why
        return runs
    name = board.in_use.label.partition(" (")[0]
    if against.us == 0:
        return [*runs, Run(f" {name} does the same.")]
    verb, amount = ("gains", -against.us) if against.us < 0 else ("loses", against.us)
    runs += [Run(f" Against {name} it {verb} "), Run(f"{small_us(amount)} \u00b5s a call", "strong")]
    ends = sorted(abs(end) for end in (against.low_us, against.high_us))
    certain = against.low_us * against.high_us > 0
    words = f"{small_us(ends[0])} to {small_us(ends[1])}" if certain else f"{between(against)}, so perhaps nothing"
    runs.append(Run(f" ({words})"))
    if model is not None:
        runs.append(Run(f", {text.us(amount * model.layers)} \u00b5s a pass of {model.layers} layers"))
    return [*runs, Run(".")]


def rows(shown: Evaluation, model: RouterModel | None) -> list[Row]:
    """The reader's rule, and below it every other one, cheapest first; no row comes or goes while a threshold moves."""
    dearest = max(price.regret.cost_us for price in shown.board.others if price.regret is not None)
    own = [price for price in shown.prices if price.key == "own"]
    first = [_row(price, shown, dearest, model) for price in own] or [Row("own", "your rule", problem=NO_RULE)]
    return [*first, *(_row(price, shown, dearest, model) for price in shown.prices if price.key != "own")]


def card(board: Board, m: int) -> dict[str, Any]:
    """All that is known at one M: figures where it was measured, interpolation elsewhere, and who wins.

    Parameters
    ----------
    board
        What is on screen.
    m
        Rows, at least 1.
    """
    search = board.figures.search
    settings = search.settings
    verdict = next((v for v in search.verdicts() if v.m == m), None)
    at = next((point for point in search.points if point.m == m), None)
    lines: list[tuple[float, dict[str, Any]]] = []
    for name in board.figures.classes:
        line: dict[str, Any] = {"provider": name, "title": title_of(name), "allowed": name in board.allowed}
        if at is not None and at.has((name,)):
            us, low, high = interval_of(at, name, level=settings.level, seed=settings.seed)
            lines.append(
                (us, line | {"us": text.fine_us(us), "interval": f"{text.fine_us(low)} to {text.fine_us(high)}"})
            )
        elif (between_us := board.pricing.interpolated(name, m)) is not None:
            lines.append((between_us, line | {"us": f"~{text.fine_us(between_us)}", "interval": ""}))
    if verdict is not None:
        note = _verdict_words(verdict.winner, verdict.rival, verdict.low_us, verdict.high_us)
        subtitle = "measured"
    else:
        note, subtitle = (
            "",
            "not measured; interpolated between its neighbours" if lines else "outside what was measured",
        )
        owner = next((i for i in board.intervals if i.low <= m <= i.high), None)
        if owner is not None:
            note = (
                "undecided here" if owner.winner is None else f"{title_of(owner.winner)} assumed: it wins on both sides"
            )
    ordered = [line for _, line in sorted(lines, key=lambda pair: pair[0])]
    return {"m": m, "title": f"M = {m:,}", "subtitle": subtitle, "lines": ordered, "note": note}


def _verdict_words(winner: str | None, rival: str | None, low: float, high: float) -> str:
    if rival is None:
        return "nobody else is compared"
    ahead = f"{signed_us(low)} to {signed_us(high)} \u00b5s to {title_of(rival)}"
    return f"undecided: {ahead}" if winner is None else f"{title_of(winner)} is fastest: {ahead}"


def _rule_words(rule: Choice) -> list[Run]:
    pieces = list(zip(rule.starts, rule.providers, strict=True))
    head = "The best choice is "
    if len(pieces) > MOST_PIECES:
        names = sorted(set(rule.providers))
        listed = [Run(title_of(name), "provider", name) for name in names]
        joined = [part for run in listed for part in (run, Run(", "))][:-1]
        return [Run(head), *joined, Run(f" in {len(pieces)} pieces of M.")]
    runs = [Run(head)]
    for at, (first, name) in enumerate(pieces):
        runs.append(Run(title_of(name), "provider", name))
        runs.append(
            Run(" for every M" if len(pieces) == 1 else f" from {first:,}" if at else f" below M = {pieces[1][0]:,}")
        )
        runs.append(Run(", " if at < len(pieces) - 1 else "."))
    return runs


def _row(price: Price, shown: Evaluation, dearest: float, model: RouterModel | None) -> Row:
    ours = price.key == ("own" if shown.own else "best")
    title = {"own": "your rule", "best": "the best choice"}.get(price.key, price.rule.label)
    for name in dict.fromkeys(price.rule.providers):
        title = title.replace(f"({name} ", f"({title_of(name)} ").replace(f": {name})", f": {title_of(name)})")
    if price.regret is None:
        return Row(price.key, title, problem=price.problem, ours=ours)
    regret = price.regret
    nothing = regret.us == 0 and regret.low_us == regret.high_us == 0
    return Row(
        price.key,
        title,
        cost=text.fine_us(regret.cost_us),
        lost="0" if nothing else signed_us(regret.us),
        interval="" if nothing else between(regret),
        a_pass="" if model is None or nothing else text.signed(text.us(abs(regret.us) * model.layers), regret.us),
        share=min(1.0, regret.cost_us / dearest),
        low=max(0.0, (regret.against_us + regret.low_us) / dearest),
        high=min(1.0, (regret.against_us + regret.high_us) / dearest),
        ours=ours,
    )
