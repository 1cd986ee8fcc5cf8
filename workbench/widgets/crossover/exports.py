"""The rule on screen in other forms: SGLang's dict with what it cannot express, a Python module, and code."""

from __future__ import annotations

from dataclasses import dataclass, replace

from workbench.errors import InvalidArgument
from workbench.tables import Choice, format_sglang
from workbench.tables.sglang import ABOVE, BELOW
from workbench.tune import Regret
from workbench.widgets.crossover.session import Session
from workbench.widgets.crossover.state import State
from workbench.widgets.crossover.traffic import GIVEN, NAMES
from workbench.widgets.crossover.words import between, small_us


@dataclass(frozen=True)
class SglangExport:
    """SGLang's form of the rule on screen.

    Attributes
    ----------
    text : str
        A Python literal; what it cannot express stands above it in comments.
    rule : Choice
        What it does.
    regret : Regret
        Against the rule on screen.
    lost : tuple of str
        What it cannot express of the rule on screen, a sentence each.
    """

    text: str
    rule: Choice
    regret: Regret
    lost: tuple[str, ...]


def sglang_export(session: Session) -> SglangExport:
    """The rule on screen as a dict {(K, N): smallest M of the kernel}.

    A rule that has that form already is written as it is; for another the threshold that costs least is taken.

    Raises
    ------
    InvalidArgument
        Nothing was measured, or there are no figures of both providers that the form has.
    """
    shown = session.shown()
    board, rule, shape = shown.board, shown.rule.merged(), session.shape
    if _has_form(rule):
        first, kept = None if rule.providers == (BELOW,) else rule.starts[-1], rule
    elif board.fit is not None:
        first, kept = board.fit.first, next(price.rule for price in board.others if price.key == "one")
    else:
        why = next(price.problem for price in board.others if price.key == "one")
        raise InvalidArgument(f"K {shape[0]}, N {shape[1]} has no rule of SGLang's form: {why}")
    regret = board.pricing.regret(kept, rule)
    lost = tuple(_lost(rule, kept))
    upper = kept.providers[-1]
    if upper not in (BELOW, ABOVE):
        lost += (f"SGLang calls {ABOVE} from the threshold on; here that stands for {upper}",)
    table = {} if first is None else {shape: max(first, 1)}
    figures = board.figures
    lines = [
        f"Smallest M by (K, N) that leaves {BELOW}; on {figures.environment.gpu}.",
        f"Figures: {'; '.join(figures.origins)}.",
        f"Traffic: {board.traffic.label}.",
        f"{shape}: {_plain(cost_of(regret))} the rule it was made from.",
        *(f"    Cannot be expressed: {words}." for words in lost),
    ]
    head = "".join(f"# {' '.join(line.split())}\n" for line in lines)
    return SglangExport(head + (format_sglang(table) if table else "{}\n"), kept, regret, lost)


def cost_of(regret: Regret) -> str:
    """What the form costs against the rule that it was made from; it may be the cheaper one."""
    if regret.us >= 0:
        return f"loses {small_us(regret.us)} \u00b5s a call ({between(regret)}) to"
    gain = replace(regret, us=-regret.us, low_us=-regret.high_us, high_us=-regret.low_us)
    return f"gains {small_us(gain.us)} \u00b5s a call ({between(gain)}) on"


def as_code(state: State, *, traffic: str) -> str:
    """Python that opens the same view.

    Parameters
    ----------
    state
        The settings.
    traffic
        Title of the traffic, for a comment where it cannot be named.
    """
    lines = ["from workbench import CrossoverTuner", "", "CrossoverTuner(", f"    {state.router!r},"]
    default = State()
    for name in ("precision", "figures", "gpu", "mixed", "max_batch", "providers"):
        if (value := getattr(state, name)) != getattr(default, name) or name in ("precision", "figures"):
            lines.append(f"    {name}={value!r},")
    if state.traffic in NAMES:
        lines.append(f"    traffic={state.traffic!r},")
    elif state.traffic == GIVEN:
        lines.append(f"    traffic=traffic,  # {' '.join(traffic.split())}")
    if state.thresholds is not None:
        pieces = ", ".join(f"({first}, {name!r})" for first, name in state.thresholds)
        lines.append(f"    thresholds=[{pieces}],")
    return "\n".join([*lines, ")"]) + "\n"


def _has_form(rule: Choice) -> bool:
    """Whether a rule is FP32 up to some M and another provider from there on, or one of the two always."""
    return len(rule.providers) == 1 or (len(rule.providers) == 2 and rule.providers[0] == BELOW)


def _lost(rule: Choice, kept: Choice) -> list[str]:
    """Where two rules differ, a piece a sentence."""
    starts = sorted({*rule.starts, *kept.starts})
    found: list[str] = []
    for first, following in zip(starts, [*starts[1:], None], strict=True):
        wanted, given = rule.at(first), kept.at(first)
        if wanted != given:
            rows = f"from {max(first, 1):,} on" if following is None else f"{max(first, 1):,} to {following - 1:,}"
            found.append(f"M {rows}: {wanted} is wanted, the form uses {given}")
    return found


def _plain(words: str) -> str:
    return words.replace("\u2212", "-").replace("\u00b5", "u")
