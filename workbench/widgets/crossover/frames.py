"""What the browser is sent: a scene that stays while a threshold moves, and a small frame that does not."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from workbench.errors import InvalidArgument
from workbench.tables import CLASSES, MODELS, Choice, RouterModel, parse_shape
from workbench.widgets import text
from workbench.widgets.colours import THEMES
from workbench.widgets.crossover.board import Board
from workbench.widgets.crossover.figures import LIVE, MODES
from workbench.widgets.crossover.scene import bins_to, make_scene
from workbench.widgets.crossover.session import Evaluation, Session
from workbench.widgets.crossover.styles import style_of, title_of
from workbench.widgets.crossover.traffic import MAX_BATCH
from workbench.widgets.crossover.words import rows, sentence, small_us

REASONS = {"grid": "first sweep", "overlap": "more rounds where intervals overlap", "bracket": "narrowing a crossing"}


def constants() -> dict[str, Any]:
    """What never changes."""
    return {
        "routers": [[name, f"{name}  {model.k:,} x {model.n}"] for name, model in MODELS.items()],
        "classes": [[name, name, f"relative error up to {_power(bound)}"] for name, bound in CLASSES.items()],
        "modes": [[name, title] for name, title in MODES.items()],
        "max_batch": list(MAX_BATCH),
        "themes": {name: theme.to_dict() for name, theme in THEMES.items()},
    }


def scene_of(session: Session) -> dict[str, Any]:
    """The chart, or its absence."""
    shown = session.evaluation
    if shown is None:
        return {"scene": None, "styles": {}}
    board = shown.board
    made = make_scene(board)
    names = [curve.provider for curve in made.curves]
    styles = {
        name: {"dash": style_of(name, THEMES["light"]).dash, "title": title_of(name)}
        | {theme: style_of(name, colours).colour(theme) for theme, colours in THEMES.items()}
        for name in [*names, *board.in_use.providers]
    }
    return {"scene": asdict(made), "styles": styles}


def frame_of(session: Session, fault: dict[str, str] | None) -> dict[str, Any]:
    """Everything else."""
    shown, state = session.evaluation, session.state
    model = parse_shape(state.router)[2]
    content: dict[str, Any] = {
        "settings": _settings(session),
        "fault": fault,
        "live": live_of(session),
        "answer": None,
        "header": _header(session),
        "footer": [],
    }
    if shown is not None:
        content |= {"answer": _answer(shown, model), "footer": _footer(shown)}
    return content


def live_of(session: Session) -> dict[str, Any]:
    """The measurement: what can be done, and how far it is."""
    live = session.live
    done, total = live.progress(*session.shape)
    here = live.shape == session.shape
    words = ""
    if live.running and not here and live.shape is not None:
        words = f"K {live.shape[0]:,}, N {live.shape[1]} is being measured"
    elif live.status == "running" and live.last is None:
        words = "checking every provider against float64"
    elif live.running and live.last is not None:
        words = f"M = {live.last.m:,}: {REASONS[live.last.reason]}"
    elif here and live.status == "failed":
        words = live.problem
    elif here and live.status == "stopped":
        words = "cancelled; what was measured stays"
    elif here and live.status == "finished":
        words = "every crossing is as narrow as the settings ask"
    action = "" if live.unavailable or (live.running and not here) else _action(live.status, here, done)
    return {
        "status": live.status if here or live.running else "idle",
        "done": done,
        "total": total,
        "words": words,
        "action": action,
        "unavailable": live.unavailable,
    }


def _action(status: str, here: bool, done: int) -> str:
    """What the button does; empty: nothing now."""
    if status == "running":
        return "cancel"
    if status == "stopping" or (status == "finished" and here):
        return ""
    return "resume" if done else "measure"


def _settings(session: Session) -> dict[str, Any]:
    state, shown = session.state, session.evaluation
    figures = shown.board.figures if shown else session.figures()
    providers = []
    for name, own in figures.classes.items() if figures else ():
        origin = figures.of[name] if figures else None
        compared = figures is not None and name in figures.search.providers
        allowed = figures is not None and name in figures.search.allowed
        providers.append(
            {"name": name, "title": title_of(name), "class": own, "compared": compared, "allowed": allowed,
             "mark": origin.mark if origin else "", "origin": origin.words if origin else ""}
        )  # fmt: skip
    source = session.source
    return {
        "router": state.router,
        "own_router": "" if state.router in MODELS else state.router,
        "precision": state.precision,
        "figures": state.figures,
        "gpu": state.gpu,
        "gpus": session.gpus if state.figures != LIVE else [],
        "traffic": state.traffic,
        "traffics": [[name, each.title] for name, each in session.sources.items()],
        "mixed": state.mixed,
        "max_batch": state.max_batch,
        "passes": source.passes,
        "simulated": source.simulated,
        "providers": providers,
    }


def _header(session: Session) -> list[str]:
    k, n, model = parse_shape(session.state.router)
    facts = [model.name] if model else []
    facts.append(f"K {k:,}, N {n:,}")
    shown = session.evaluation
    return [*facts, shown.board.figures.environment.gpu] if shown else facts


def _answer(shown: Evaluation, model: RouterModel | None) -> dict[str, Any]:
    board = shown.board
    loser = shown.rule if shown.own else board.in_use
    words = "to the best choice" if shown.own else f"by {board.in_use.label.partition(' (')[0]}"
    lost, note = _lost(board, loser, words)
    level = f"{board.figures.search.settings.level:.0%}".replace("%", " %")
    return {
        "own": shown.own,
        "pieces": [[first, name] for first, name in zip(shown.rule.starts, shown.rule.providers, strict=True)],
        "allowed": [[name, title_of(name)] for name in board.allowed],
        "sentence": [asdict(run) for run in sentence(shown, model)],
        "headings": ["", "\u00b5s a call", "", "lost", level, "\u00b5s a pass" if model else ""],
        "rows": [asdict(row) for row in rows(shown, model)],
        "lost": lost,
        "lost_note": note,
    }


def _lost(board: Board, rule: Choice, words: str) -> tuple[list[float], list[str]]:
    """Where a rule loses, each bin over the peak, and what is written beside it."""
    bins = bins_of(board)
    try:
        lost = board.pricing.lost(rule, board.best, [first for first, _ in bins])
    except InvalidArgument:  # a provider of the table in use has no figures; its row says so
        return [0.0] * len(bins), [words, "cannot be said"]
    peak = float(lost.max())
    if peak <= 0:
        return [0.0] * len(bins), [words, "nothing"]
    return (lost / peak).round(4).tolist(), [words, f"peak {small_us(peak)} \u00b5s a call"]


def bins_of(board: Board) -> tuple[tuple[int, int], ...]:
    """The bins of the chart's lanes."""
    return bins_to(max(board.figures.search.points[-1].m, int(board.traffic.m[-1])))


def _footer(shown: Evaluation) -> list[str]:
    board = shown.board
    sources = {f"{origin.mark} {origin.words}": None for origin in board.figures.of.values()}
    words = [*sources, f"traffic: {board.traffic.label}"]
    priced = [price.regret for price in shown.prices if price.regret is not None]
    outside = min((regret.outside for regret in priced), default=0.0)
    if outside:
        words.append(f"{text.percent(outside)} of the calls lie outside what was measured and are left out")
    words += [
        f"{regret.rule}: {text.percent(regret.outside)} of the calls are left out, for it lacks figures there; the "
        f"best choice takes {text.fine_us(regret.against_us)} \u00b5s for the others"
        for regret in priced
        if regret.outside > outside
    ]
    return [*words, *board.figures.notes]


def _power(bound: float) -> str:
    """A bound such as 5e-4."""
    digits, _, power = f"{bound:.0e}".partition("e")
    return f"{digits}e{int(power)}"
