"""The card of recorded times: ours in each policy beside what others take, each with its source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench import devices
from workbench.errors import InvalidArgument, WorkbenchError
from workbench.schedule import plan_decode
from workbench.widgets import text
from workbench.widgets.schedule.offers import Offer
from workbench.widgets.schedule.recorded import FLOOR, MARKS, Figure, Shown
from workbench.widgets.schedule.sentence import mark
from workbench.widgets.schedule.side import policy_title

if TYPE_CHECKING:
    from workbench.widgets.schedule.session import Session

PROVIDERS = {
    "hpc": "HPC-Ops",
    "hpc-dynamic": "HPC-Ops dynamic",
    "hpc-static": "HPC-Ops static",
    "fa3": "FlashAttention-3",
    "flashinfer": "FlashInfer",
    "torch": "torch SDPA",
    "read": "reading the same bytes",
}
"""Providers other than ours by the names that readers know."""

CACHES = {"fp8": "FP8", "bf16": "BF16"}

FEW = 3
"""Policies of ours that are shown before all are asked for, besides A and B."""

MANY_TIMES = 5
"""Others that take so many times as long as the fastest are shown only when all are asked for: beside their bars nobody
could tell the lengths of the rest."""


@dataclass(frozen=True)
class Line:
    """One time of the card.

    Attributes
    ----------
    key : str
        "A", "B", "AB" or "" as the policy is on screen.
    title, detail : str
        Whose it is; how it was built.
    kind : str
        "ours", "other" or "floor".
    share, low, high : float
        Median and ends of its interval over the longest time of the card, 0 to 1; the ends are the median where
        no interval is known.
    median, interval, error, modelled, source : str
        Texts of the cells.
    brief : bool
        Whether it is shown before all are asked for.
    """

    key: str
    title: str
    detail: str
    kind: str
    share: float
    low: float
    high: float
    median: str
    interval: str
    error: str
    modelled: str
    source: str
    brief: bool


@dataclass(frozen=True)
class FiguresCard:
    """What is known of the workload from records.

    Attributes
    ----------
    sentence, detail : str
        The answer; what exactly was measured.
    lines : tuple of Line
        Fastest first.
    offers : tuple of Offer
    mark : str
        Of the modelled column.
    problem : str
        What could not be read.
    """

    sentence: str
    detail: str
    lines: tuple[Line, ...]
    offers: tuple[Offer, ...]
    mark: str
    problem: str


def figures_card(session: Session) -> FiguresCard:
    """Describe what the records hold for the workload, GPU, cache type and heads on screen."""
    state, shown, library = session.state, session.shown, session.library
    figures = library.figures(shown)
    circle = mark(session.cost.source)
    if not figures:
        words, offers = _nothing(session, shown)
        return FiguresCard(words, "", (), offers, circle, library.problem)
    best = best_of_each(figures)
    offers = _as_measured(session, best)
    case = library.case_of(shown.lengths)
    detail = f"{case}, {CACHES[state.cache]} cache, {_heads(state.num_kv_heads, state.q_len)}"
    return FiguresCard(sentence(best), detail, _lines(session, best), offers, circle, library.problem)


def best_of_each(figures: Sequence[Figure]) -> list[tuple[Figure, int]]:
    """The fastest configuration of each provider and policy, with the number of configurations; fastest first.

    Only the newest day of each counts: an older figure is of an older kernel. What a tuning study measured counts where
    nothing else is known: under one policy it has many configurations, under the others none, so the least of them
    would say nothing of policies.
    """
    groups: dict[tuple[str, str], list[Figure]] = {}
    for figure in figures:
        groups.setdefault((figure.provider, figure.policy), []).append(figure)
    found = []
    for given in groups.values():
        group = [figure for figure in given if not figure.of_study] or given
        newest = max(figure.date for figure in group)
        current = [figure for figure in group if figure.date == newest]
        found.append((min(current, key=lambda figure: figure.median_us), len(current)))
    return sorted(found, key=lambda entry: entry[0].median_us)


def sentence(best: Sequence[tuple[Figure, int]]) -> str:
    """Our fastest against the fastest of the others and the floor, in words."""
    ours = next((figure for figure, _ in best if figure.is_ours), None)
    rivals = [figure for figure, _ in best if not figure.is_ours and figure.provider != FLOOR]
    floor = next((figure for figure, _ in best if figure.provider == FLOOR), None)
    if ours is None:
        return f"No time of ours, {text.plural(len(rivals), 'time')} of others." if rivals else "Only the floor."
    words = f"Ours takes {text.us(ours.median_us)} \u00b5s under {policy_title(ours.policy)}"
    if floor is not None:
        words += f", {text.ratio(ours.median_us / floor.median_us)}\u00d7 the time of reading the same bytes"
    if rivals:
        rival = rivals[0]
        quotient = rival.median_us / ours.median_us
        faster = f"{text.ratio(quotient)}\u00d7 faster" if quotient >= 1 else f"{text.ratio(1 / quotient)}\u00d7 slower"
        words += f"; {faster} than {_title(rival)}, the fastest of the others"
    return words + "."


def _lines(session: Session, best: Sequence[tuple[Figure, int]]) -> tuple[Line, ...]:
    ours = [figure.policy for figure, _ in best if figure.is_ours]
    brief = {*ours[:FEW], session.state.policy_a, session.state.policy_b}
    slow = MANY_TIMES * min((f.median_us for f, _ in best if f.provider != FLOOR), default=0.0)
    picked = [
        (f, count, f.policy in brief if f.is_ours else f.provider == FLOOR or f.median_us <= slow) for f, count in best
    ]
    longest = max(figure.high_us or figure.median_us for figure, _, is_brief in picked if is_brief)
    return tuple(_line(session, figure, count, longest, is_brief) for figure, count, is_brief in picked)


def _line(session: Session, figure: Figure, count: int, longest: float, brief: bool) -> Line:
    state = session.state
    ours = figure.is_ours
    key = "".join(k for k, name in (("A", state.policy_a), ("B", state.policy_b)) if ours and name == figure.policy)
    low, high = figure.low_us or figure.median_us, figure.high_us or figure.median_us
    # By half the width of the interval, as it is nearly even about the median.
    spread = f"\u00b1{text.fine_us((high - low) / 2)}" if figure.low_us is not None else ""
    return Line(
        key=key,
        title=_title(figure),
        detail=_detail(figure, count),
        kind="ours" if ours else "floor" if figure.provider == FLOOR else "other",
        share=min(figure.median_us / longest, 1.0),
        low=min(low / longest, 1.0),
        high=min(high / longest, 1.0),
        median=text.us(figure.median_us),
        interval=spread,
        error=_error(figure),
        modelled=_modelled(session, figure) if figure.provider == "cuda" else "",
        source=f"{MARKS[figure.kind]} {figure.origin}",
        brief=brief,
    )


def _title(figure: Figure) -> str:
    if figure.is_ours:
        return ("ours in Triton, " if figure.provider == "triton" else "ours, ") + policy_title(figure.policy)
    return PROVIDERS.get(figure.provider, figure.provider)


def _error(figure: Figure) -> str:
    return "" if figure.rel_error is None else f"{100 * figure.rel_error:.2f} %"


def _detail(figure: Figure, count: int) -> str:
    """How it was built: the two settings of the screen first; of others, the software."""
    config = figure.config
    parts = [figure.software] if figure.software else []
    if (ctas := _whole(config, "ctas_per_sm")) is not None:
        parts.append(f"{text.plural(ctas, 'CTA')} an SM")
    if "tile" in config:
        parts.append(f"tile {config['tile']}")
    parts += [f"{name.replace('_', ' ')} {value}" for name, value in sorted(config.items()) if _is_number(name, value)]
    parts += [
        name.replace("_", " ") if value else f"no {name.replace('_', ' ')}"
        for name, value in sorted(config.items())
        if isinstance(value, bool)
    ]
    if count > 1:
        parts.append(f"best of {count}")
    if figure.error_of:
        parts.append(f"error of {figure.error_of}")
    return ", ".join(parts)


def _whole(config: Mapping[str, Any], name: str) -> int | None:
    """A whole number above 0 of a configuration; None for anything else that a record may hold there."""
    value = config.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _is_number(name: str, value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and name not in ("ctas_per_sm", "tile")


def _modelled(session: Session, figure: Figure) -> str:
    """The call by the cost model for the plan that the policy makes now, with the CTAs and tile of the record."""
    state = session.state
    arguments: dict[str, Any] = state.plan_arguments()
    config = figure.config
    resident = state.gpu.sms * (_whole(config, "ctas_per_sm") or state.ctas_per_sm)
    arguments["num_ctas"] = _whole(config, "num_ctas") or resident
    arguments["tile"] = _whole(config, "tile") or state.tile
    try:
        plan = plan_decode(session.lengths, policy=session.policy(figure.policy), **arguments)
    except WorkbenchError:  # a policy that this version does not have
        return text.NOTHING
    return text.us(plan.metrics(session.cost).call_us)


def _as_measured(session: Session, best: Sequence[tuple[Figure, int]]) -> tuple[Offer, ...]:
    """The settings of our fastest figure, where the screen has others."""
    ours = next((figure for figure, _ in best if figure.is_ours), None)
    if ours is None:
        return ()
    names = ("ctas_per_sm", "tile")
    built = {name: _whole(ours.config, name) for name in names}
    changes = {name: value for name, value in built.items() if value not in (None, getattr(session.state, name))}
    if not changes:
        return ()
    words = {"ctas_per_sm": text.plural(changes.get("ctas_per_sm") or 0, "CTA") + " an SM",
             "tile": f"tile {changes.get('tile')}"}  # fmt: skip
    return (Offer("Plan as measured: " + ", ".join(words[name] for name in changes), changes),)


def _nothing(session: Session, shown: Shown) -> tuple[str, tuple[Offer, ...]]:
    """What is said and offered where nothing is recorded for the screen."""
    library = session.library
    if not library.cases:
        return "Nothing is recorded here.", ()
    name = session.workload.name if session.workload.steps is None else f"step {session.state.step:,}"
    if others := library.others(shown):
        setting = f"{shown.gpu}, {CACHES[shown.cache]}, {_heads(shown.num_kv_heads, shown.q_len)}"
        found = ((_known(other.gpu), other) for other in others)
        offers = tuple(_setting(gpu, other) for gpu, other in found if gpu and other.cache in CACHES)
        return f"Nothing is recorded of {name} on {setting}. It is on", offers
    cases = tuple(Offer(case, {"workload": case}) for case in library.nearest(shown.lengths))
    return f"Nothing is recorded of {name}. Nearest:", cases


def _setting(gpu: str, other: Shown) -> Offer:
    changes = {"gpu": gpu, "cache": other.cache, "num_kv_heads": other.num_kv_heads, "q_len": other.q_len}
    return Offer(f"{gpu}, {CACHES[other.cache]}, {_heads(other.num_kv_heads, other.q_len)}", changes)


def _known(gpu: str) -> str:
    """The catalogue's name of a GPU, or ""."""
    try:
        return devices.gpu(gpu).name
    except InvalidArgument:
        return ""


def _heads(num_kv_heads: int, q_len: int) -> str:
    return f"{text.plural(num_kv_heads, 'KV head')}, {text.plural(q_len, 'query token')}"
