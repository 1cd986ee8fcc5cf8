"""The answer in words and in a table, from ``plan.metrics()`` alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

from workbench.schedule import Metrics
from workbench.widgets import text
from workbench.widgets.schedule.side import Side

SAME = 0.005
"""Calls whose times differ by less than this share are called equal."""

NEAR_BOUND = 1.1
"""A makespan below this many times its bound is called bound by the memory system."""

PARTS = (
    ("launch", "launch_us"),
    ("reading", "stream_us"),
    ("fixed", "fixed_us"),
    ("waiting", "waiting_us"),
    ("merge", "merge_us"),
)
"""What a call's time is made of, in the order of the bar, and the metric of each; they sum to ``call_us``."""


@dataclass(frozen=True)
class Run:
    """Words of one kind: ``""``, ``"strong"``, ``"side"`` (the letter of a policy) or ``"request"``."""

    text: str
    kind: str = ""


@dataclass(frozen=True)
class Cell:
    """One number of the table: its text, its unit, and the metric it is."""

    text: str
    unit: str = ""
    metric: str = ""


@dataclass(frozen=True)
class Part:
    """One part of a bar: its kind, microseconds, share of the longer call, and text."""

    kind: str
    value: float
    share: float
    text: str


@dataclass(frozen=True)
class Row:
    """One line of the table; a policy without a plan has a problem instead of cells."""

    key: str
    title: str
    cells: tuple[Cell, ...] = ()
    bar: tuple[Part, ...] = ()
    problem: str = ""


HEADINGS = (
    ("call", True),
    ("makespan / bound", True),
    ("max / mean", False),
    ("idle", True),
    ("merge", True),
    ("partials", False),
)
"""Column titles and whether the cost model is in them; an exact count has no mark."""

MARKS = {"modelled": "\u25cb", "measured": "\u25cf"}
"""Mark of a number by what its source begins with."""


def mark(source: str) -> str:
    """An open circle for modelled constants, a full one for measured ones."""
    return MARKS[source.partition(":")[0].partition(" ")[0]]


def sentence(a: Side | None, b: Side | None) -> tuple[Run, ...]:
    """What the two plans amount to, in one or two sentences."""
    if a is None or b is None:
        good = a or b
        if good is None:
            return (Run("Neither policy gives a valid plan."),)
        bad = "B" if good.key == "A" else "A"
        return (Run(bad, "side"), Run(" has no valid plan. "), *_alone(good))
    if a.metrics.tiles == 0:
        return (Run("Nothing to schedule", "strong"), Run(": this step reads no KV cache."))
    fast, slow = (a, b) if a.metrics.call_us <= b.metrics.call_us else (b, a)
    quick, late = fast.metrics, slow.metrics
    gain = late.call_us / quick.call_us - 1
    if gain < SAME:
        return (Run("A", "side"), Run(" and "), Run("B", "side"), *_equal(fast, slow))
    words = f"{text.ratio(gain + 1)}\u00d7 faster" if gain >= 0.2 else f"{100 * gain:.0f} % faster"
    head = (Run(fast.key, "side"), Run(" is "), Run(words, "strong"), Run(" than "), Run(slow.key, "side"), Run(". "))
    # Reading and waiting belong together: where bins are uneven, those that still read share the bandwidth with fewer.
    costs = {
        "waiting": late.stream_us + late.waiting_us - quick.stream_us - quick.waiting_us,
        "fixed": late.fixed_us - quick.fixed_us,
        "merge": late.merge_us - quick.merge_us,
    }
    return head + _because(max(costs, key=lambda part: costs[part]), fast, slow)


def _alone(side: Side) -> tuple[Run, ...]:
    if side.metrics.tiles == 0:
        return (Run("This step reads no KV cache."),)
    return (Run(side.key, "side"), Run(f" takes {text.us(side.metrics.call_us)} \u00b5s."))


def _equal(fast: Side, slow: Side) -> tuple[Run, ...]:
    quick, late = text.us(fast.metrics.call_us), text.us(slow.metrics.call_us)
    if quick == late:
        return (Run(" take the same "), Run(quick, "strong"), Run(" \u00b5s. "), *_waits(slow, "Both wait "))
    a, b = (quick, late) if fast.key == "A" else (late, quick)
    return (Run(" are within 1 %: "), Run(a, "strong"), Run(" and "), Run(b, "strong"), Run(" \u00b5s."))


def _because(part: str, fast: Side, slow: Side) -> tuple[Run, ...]:
    quick, late = fast.metrics, slow.metrics
    key = Run(slow.key, "side")
    if part == "fixed":
        more = Run(text.us(late.fixed_us - quick.fixed_us), "strong")
        empty = f", {text.plural(late.empty_ctas, 'empty CTA')}" if slow.plan.static_grid and late.empty_ctas else ""
        chunks = f"{text.plural(late.descriptors, 'chunk')} against {text.count(quick.descriptors)}{empty}."
        return (key, Run(" spends "), more, Run(f" \u00b5s more a CTA on fixed costs: {chunks}"))
    if part == "merge":
        more = Run(text.us(late.merge_us - quick.merge_us), "strong")
        chunks = f"up to {text.plural(late.max_chunks, 'chunk')} a request against {text.count(quick.max_chunks)}."
        return (key, Run(" merges "), more, Run(f" \u00b5s longer: {chunks}"))
    if over_bound(late) < NEAR_BOUND:
        bound = Run(f"{text.ratio(over_bound(late))}\u00d7", "strong")
        return (key, Run(" is "), bound, Run(" its bound: the memory system, not the schedule, sets its time."))
    if late.waiting_us < quick.waiting_us:
        ends = Run(text.us(late.bins_us), "strong")
        return (key, Run("'s last CTA ends at "), ends, Run(" \u00b5s, "), Run(fast.key, "side"),
                Run(f"'s at {text.us(quick.bins_us)} \u00b5s."))  # fmt: skip
    return (key, *_waits(slow, " waits "))


def _waits(side: Side, verb: str) -> tuple[Run, ...]:
    m = side.metrics
    if m.culprit_request is None:
        return ()
    lengths = side.plan.lengths
    length = int(lengths[m.culprit_request])
    facts = f"{text.of_tokens(length)}, {text.percent(length / int(lengths.sum()))} of the KV read."
    of = Run(f" of {'its ' if verb == ' waits ' else ''}{text.us(m.call_us)} \u00b5s for ")
    head = (Run(verb), Run(text.us(m.waiting_us), "strong"), of)
    request = Run(f"request {m.culprit_request}", "request")
    if side.late_requests == (m.culprit_request,):
        finish = "finishes" if m.last_ctas == 1 else "finish"
        return (*head, Run(f"{text.plural(m.last_ctas, 'CTA')} that {finish} "), request, Run(f": {facts}"))
    return (*head, Run(f"the last {text.plural(m.last_ctas, 'CTA')}; "), request, Run(f" ends last: {facts}"))


def rows(a: Side | None, b: Side | None, titles: tuple[str, str], problems: tuple[str, str]) -> tuple[Row, ...]:
    """The table: a row for A, one for B, and their difference where both have a plan."""
    longest = max((side.metrics.call_us for side in (a, b) if side), default=0.0)
    found = [
        Row(key, title, _cells(side.metrics), _bar(side.metrics, longest)) if side else Row(key, title, problem=problem)
        for key, side, title, problem in zip("AB", (a, b), titles, problems, strict=True)
    ]
    if a and b:
        found.append(_difference(a.metrics, b.metrics))
    return tuple(found)


def over_bound(m: Metrics) -> float:
    """``makespan / bound``: the inverse of the efficiency; infinite where CTAs start although nothing is to be read."""
    return 1 / m.efficiency if m.efficiency else math.inf


def _cells(m: Metrics) -> tuple[Cell, ...]:
    return (
        Cell(text.us(m.call_us), "\u00b5s", "call_us"),
        Cell(text.ratio(over_bound(m)), "\u00d7" if m.efficiency else "", "efficiency"),
        Cell(text.ratio(m.max_over_mean), "\u00d7", "max_over_mean"),
        Cell(text.percent(m.idle_fraction), "", "idle_fraction"),
        Cell(text.us(m.merge_us), "\u00b5s", "merge_us"),
        Cell(text.size(m.partial_bytes), "", "partial_bytes"),
    )


def _bar(m: Metrics, longest: float) -> tuple[Part, ...]:
    values = ((kind, float(getattr(m, name))) for kind, name in PARTS)
    return tuple(Part(kind, value, value / longest if longest else 0.0, text.us(value)) for kind, value in values)


def _difference(a: Metrics, b: Metrics) -> Row:
    def change(name: str) -> str:
        value = float(getattr(b, name) - getattr(a, name))
        return text.signed(text.us(abs(value)), value)

    def between(first: float, second: float) -> str:
        if not math.isfinite(second - first):
            return text.NOTHING
        return text.signed(text.ratio(abs(second - first)), second - first)

    idle = b.idle_fraction - a.idle_fraction
    spill = b.partial_bytes - a.partial_bytes
    cells = (
        Cell(change("call_us"), "\u00b5s", "call_us"),
        Cell(between(over_bound(a), over_bound(b)), "", "efficiency"),
        Cell(between(a.max_over_mean, b.max_over_mean), "", "max_over_mean"),
        Cell(text.signed(f"{100 * abs(idle):.0f}", idle), "", "idle_fraction"),
        Cell(change("merge_us"), "\u00b5s", "merge_us"),
        Cell(text.signed(text.size(abs(spill)), spill), "", "partial_bytes"),
    )
    names = dict(PARTS)
    parts = tuple(Part(kind, 0.0, 0.0, change(names[kind])) for kind in ("waiting", "fixed", "reading", "merge"))
    return Row("B \u2212 A", "", cells, parts)
