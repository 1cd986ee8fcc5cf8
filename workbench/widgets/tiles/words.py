"""The answer in words and numbers: a sentence, the configuration beside the default and the best, and the study."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from workbench.tune import tuned
from workbench.tune.resources import Resources
from workbench.widgets import text
from workbench.widgets.tiles.known import Known
from workbench.widgets.tiles.plots import word
from workbench.widgets.tiles.scene import numbers_of, relative, spilled_bytes
from workbench.widgets.tiles.session import Session
from workbench.widgets.tiles.times import MODELLED, Time

MOST_WAYS = 4
"""Single changes that make a refused combination run, named at most."""


@dataclass(frozen=True)
class Run:
    """Some words; `kind` is "", "strong" or "refused"."""

    text: str
    kind: str = ""


def sentence(session: Session, reasons: dict[str, list[str]]) -> list[Run]:
    """What the configuration on screen comes to."""
    if refused := session.refused:
        return [Run("This cannot run: "), Run(refused, "refused"), Run(f". {_ways(session, reasons)}")]
    known, found = session.known, session.resources
    time = known.time(session.config)
    runs = [] if found is None else _needs(found)
    runs += [Run("A call takes "), Run(f"{text.fine_us(time.us)} \u00b5s", "strong"), Run(f", {time.words}")]
    share = relative(known, time)
    if share is not None and session.config != known.default:
        runs.append(Run(f", {share:.3f} of the default's"))
    elif session.config == known.default:
        runs.append(Run(": this is the default"))
    runs.append(Run("."))
    if time.origin == MODELLED and session.space.operator == "attention_decode":
        runs.append(Run(" The model knows tile and CTAs an SM, and nothing of warps, stages and prefetch."))
    if failure := known.failure(session.config):
        runs.append(Run(f" The study could not time it: {failure}.", "refused"))
    return runs


def _needs(found: Resources) -> list[Run]:
    """Resources in a sentence."""
    if found.kernel is None or found.occupancy is None:
        return [Run("It does not compile: "), Run(" ".join(found.problem.split())[:400], "refused"), Run(". ")]
    resident, facts = found.occupancy, found.kernel.facts
    if not resident.ctas_per_sm:
        return [Run("It cannot be launched: "), Run(found.problem, "refused"), Run(". ")]
    spilled = spilled_bytes(facts)
    return [
        Run(f"{text.plural(resident.ctas_per_sm, 'CTA')}", "strong"),
        Run(f" of {found.launch.threads} threads {'fits' if resident.ctas_per_sm == 1 else 'fit'} an SM, "),
        Run(" and ".join(resident.limited_by), "strong"),
        Run(" stopping the next; "),
        Run(f"{text.plural(found.launch.ctas, 'CTA')} are "),
        Run(f"{found.waves:.2f} waves", "strong"),
        Run("; "),
        Run("nothing spills. " if spilled == 0 else f"{spilled:,} bytes spill. " if spilled else "spills unknown. "),
    ]


def _ways(session: Session, reasons: dict[str, list[str]]) -> str:
    """Which single changes would make it run, the nearest value of each parameter."""
    values, ways = session.values, []
    for name, known in session.options.items():
        able = [value for value, reason in zip(known, reasons[name], strict=True) if not reason]
        if able:
            here = known.index(values[name])
            nearest = min(able, key=lambda value: abs(known.index(value) - here))
            ways.append(f"{name} {word(nearest)}")
    if not ways:
        return "No change of a single parameter makes it run."
    return f"It would with {' or '.join(ways[:MOST_WAYS])}."


def compared(session: Session) -> list[dict[str, Any]]:
    """The configuration on screen, the default and the best, a row each."""
    known = session.known
    entries: list[tuple[str, str, Any]] = []
    if not session.refused:
        entries.append(("here", "on screen", session.config))
    entries.append(("default", "default", known.default))
    best = known.best()
    if best is not None:
        title = "best measured" if known.time(best).origin == "measured" or known.result else "best recorded"
        entries.append(("best", title, best))
    return [_row(session, *entry) for entry in entries]


def _row(session: Session, key: str, title: str, config: Any) -> dict[str, Any]:
    known = session.known
    time, found = known.time(config), known.resources.get(config)
    cells, _ = numbers_of(known, time, found)
    limited = found.occupancy.limited_by if found and found.occupancy else ()
    interval = "" if time.low == time.high else f"{text.fine_us(time.low)} to {text.fine_us(time.high)}"
    return {
        "key": key,
        "title": title,
        "differs": "" if key == "default" else difference(config, known.default),
        "values": config.to_dict(),
        "cells": [*cells[:4], " and ".join(limited) or text.NOTHING, *cells[4:]],
        "mark": time.mark,
        "words": time.words,
        "interval": interval,
        "problem": found.problem if found else "",
    }


def difference(config: Any, default: Any) -> str:
    """What a configuration changes of the default."""
    ours, theirs = config.to_dict(), default.to_dict()
    return ", ".join(f"{name} {word(value)}" for name, value in ours.items() if value != theirs[name]) or "the default"


def limits(found: Resources | None) -> list[dict[str, Any]]:
    """How many CTAs each resource of an SM would allow by itself, and how much of it the resident ones take."""
    if found is None or found.occupancy is None:
        return []
    resident = found.occupancy
    return [
        {
            "title": name,
            "allows": f"{allowed:,}",
            "share": round(resident.ctas_per_sm / allowed, 4) if allowed else 1.0,
            "limiting": name in resident.limited_by,
        }
        for name, allowed in resident.limits.items()
    ]


def verdict(known: Known) -> str:
    """The best against the default, with its interval; "" before anything but the default has a time."""
    best = known.best()
    if best is None:
        return ""
    if known.result is not None:
        gain, low, high = known.result.gain()
        if len(known.result.finalists) == 1 or best == known.default:
            return "The default is the fastest of the study."
        changed = difference(best, known.default)
        words = f"{changed}: saves {gain:.1%} of the default's time ({low:.1%} to {high:.1%}, in turns)."
        could = tuned.applicable(known.space, known.result)
        if could is None or could.config != known.result.best.config:
            words += f" It changes {', '.join(known.space.bound)}, which only the caller can."
        return words
    time, default = known.time(best), known.time(known.default)
    if default.origin != time.origin:
        return f"{difference(best, known.default)} is the fastest that has a time; the default has none."
    if best == known.default:
        return f"The default is the fastest of {text.plural(len(known.timed()), 'configuration')} with times."
    return f"{difference(best, known.default)}: {_between(time, default)}"


def _between(time: Time, default: Time) -> str:
    """Two times that were not finalists of one study: the widest interval that theirs allow."""
    low, high = time.low / default.high, time.high / default.low
    share = time.relative if time.relative is not None else time.us / default.us
    sure = "" if high < 1 else ", so perhaps nothing"
    return f"{share:.3f} of the default's time ({low:.3f} to {high:.3f} by both intervals{sure})."
