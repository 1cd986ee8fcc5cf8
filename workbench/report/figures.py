"""The report's own charts as SVG: the strip over all steps, the static settings, the request lengths.

Colours are CSS variables of the page, so one drawing serves light, dark and print. The bins of single steps are drawn
by :mod:`workbench.widgets.schedule.svg`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

import numpy as np
import numpy.typing as npt

from workbench.report.analysis import LEVELS, Analysis
from workbench.widgets import text
from workbench.widgets.schedule.side import policy_title

Floats = npt.NDArray[np.float64]

WIDTH, LEFT, RIGHT = 1080, 128, 72
PLOT = WIDTH - LEFT - RIGHT
ROW, GAP, TOP = 44, 14, 24
FACTS = 30
LABEL = 18
"""Characters of a policy's name that fit to the left of the plot; the table above has all of it."""


@dataclass(frozen=True)
class Strip:
    """The strip and what its hover says.

    Attributes
    ----------
    svg : str
    columns : tuple of tuple of str
        One a pixel column: lines of text about its worst step.
    left, pitch : float
        Where the first column begins and how wide one is, in the drawing's units.
    """

    svg: str
    columns: tuple[tuple[str, ...], ...]
    left: float
    pitch: float


def clock(seconds: float) -> str:
    """Simulated time: ``41:03`` or ``1:02:33``."""
    whole = int(seconds)
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def strip(analysis: Analysis) -> Strip:
    """Call over the best, one row a policy: the worst step in each pixel, so that no bad step is lost."""
    sweep, table = analysis.sweep, analysis.table
    count = sweep.num_steps
    columns = min(PLOT, count)
    edges = np.arange(columns + 1) * count // columns
    ratio = sweep.over_best
    worst = np.maximum.reduceat(ratio, edges[:-1], axis=1)
    top = max(float(ratio.max()), LEVELS[-1]) * 1.02
    pitch = PLOT / columns
    y = float(TOP)
    parts = [_text(WIDTH, 12, "worst", "muted small", "end")]
    rows = [(row.policy, i) for i, row in enumerate(analysis.rows)]
    for policy, i in rows:
        base = y + ROW
        for level in (*LEVELS, 4.0):
            if level < top:
                at = base - ROW * math.log(level) / math.log(top)
                parts.append(_line(LEFT, at, LEFT + PLOT, at, "grid"))
                if policy == rows[0][0] and level.is_integer():
                    parts.append(_text(LEFT + PLOT + 5, at + 4, f"{level:g}\u00d7", "muted small"))
        heights = ROW * np.log(np.maximum(worst[i], 1.0)) / math.log(top)
        kind = "dynamic" if analysis.rows[i].kind == "dynamic" else "static"
        parts.append(f'<path class="area {kind}" d="{_area(heights, base, pitch)}"/>')
        parts.append(_line(LEFT, base, LEFT + PLOT, base, "base"))
        title = policy_title(policy)
        shown = (
            title if len(title) <= LABEL else f"\u2026{title[1 - LABEL :]}"
        )  # the end of file.py:function tells most
        parts.append(_text(LEFT - 10, base - 16, shown, "label", "end"))
        parts.append(_text(LEFT - 10, base - 3, analysis.rows[i].kind, "muted small", "end"))
        parts.append(_text(WIDTH, base - 16, f"{text.ratio(float(ratio[i].max()))}\u00d7", "label", "end"))
        for number, step in enumerate(analysis.worst, 1):
            if step.policy == policy:
                x = LEFT + (step.index + 0.5) * PLOT / count
                at = base - ROW * math.log(max(step.ratio, 1.0)) / math.log(top)
                parts.append(f'<path class="mark" d="M{x:.1f} {at - 2:.1f}l-4 -7h8z"/>')
                parts.append(_text(x, at - 11, str(number), "mark-text", "middle"))
        y = base + GAP
    y += 8
    facts = (("longest request", table.max_length, text.tokens), ("KV tokens", table.kv_tokens, text.tokens))
    for name, values, written in facts:
        base = y + FACTS
        most = np.maximum.reduceat(values, edges[:-1])
        parts.append(f'<path class="area fact" d="{_area(most / max(most.max(), 1) * FACTS, base, pitch)}"/>')
        parts.append(_line(LEFT, base, LEFT + PLOT, base, "base"))
        parts.append(_text(LEFT - 10, base - 3, name, "muted", "end"))
        parts.append(_text(WIDTH, base - 3, f"{written(int(most.max()))}", "muted", "end"))
        y = base + GAP
    bottom = y - GAP
    for tick, label in _step_ticks(analysis):
        x = LEFT + tick * PLOT / count
        anchor = "start" if tick == 0 else "middle"
        parts.append(_line(x, bottom, x, bottom + 4, "base"))
        parts.append(_text(x, bottom + 16, label, "muted small", anchor))
    cursor = f'<path class="cursor" id="cursor" d="M0 {TOP}V{bottom:.0f}" visibility="hidden"/>'
    description = "Call time over the best policy's at every step, by policy; the table above has the same in numbers."
    svg = _document("strip", bottom + 22, description, [*parts, cursor])
    words = tuple(_column(analysis, low, high) for low, high in itertools.pairwise(edges.tolist()))
    return Strip(svg, words, LEFT, pitch)


def _column(analysis: Analysis, low: int, high: int) -> tuple[str, ...]:
    """What the hover says of the steps in one pixel column: the worst of policy B among them."""
    sweep, table = analysis.sweep, analysis.table
    at = low + int(np.argmax(sweep.over_best[sweep.index(analysis.b), low:high]))
    number = int(analysis.steps.step_numbers[at])
    head = f"step {number:,}, {clock(float(table.start_s[at]))}"
    facts = f"{text.plural(int(table.batch[at]), 'request')}, {text.tokens(int(table.kv_tokens[at]))} KV tokens"
    longest = f"longest {text.tokens(int(table.max_length[at]))}"
    calls, ratios = sweep.call_us[:, at].tolist(), sweep.over_best[:, at].tolist()
    lines = (
        f"{policy_title(name)}: {text.us(call)} \u00b5s, {text.ratio(ratio)}\u00d7"
        for name, call, ratio in zip(sweep.policies, calls, ratios, strict=True)
    )
    return (head, f"{facts}, {longest}", *lines)


def _step_ticks(analysis: Analysis) -> Iterable[tuple[int, str]]:
    """About eight round engine steps, with the clock."""
    count, every = analysis.sweep.num_steps, analysis.every
    least = count * every / 8
    power = 10 ** math.floor(math.log10(max(least, 1)))
    distance = max(next(power * f for f in (1, 2, 5, 10) if power * f >= least), every)
    for number in range(0, count * every, distance):
        step = min(number // every, count - 1)
        word = "step " if number == 0 else ""
        yield step, f"{word}{number:,} \u00b7 {clock(float(analysis.table.start_s[step]))}"


def settings_curve(analysis: Analysis) -> str:
    """Mean call over the sampled steps by static setting, and the dynamic policies on the same steps."""
    search, sweep = analysis.search, analysis.sweep
    width, height, left = 520, 210, 44
    plot, top, base = width - left - 12, 22.0, height - 34.0
    means = dict(zip(search.settings, search.mean_call_us.tolist(), strict=True))
    lines = {name: float(sweep.call_us[sweep.index(name), search.steps].mean()) for name in (analysis.a,)}
    low = min([search.retuned_call_us, *means.values(), *lines.values()]) * 0.7
    high = max(max(means.values()), low * 2)

    def at(value: float) -> float:
        return base - (base - top) * math.log(value / low) / math.log(high / low)

    figures = []
    for family, word in (("fixed_splits", "pieces a request"), ("fixed_chunk", "tokens a piece")):
        points = [(int(name.partition("(")[2][:-1]), value) for name, value in means.items() if name.startswith(family)]
        first, last = math.log(points[0][0]), math.log(points[-1][0])
        spots = [(left + plot * (math.log(n) - first) / (last - first), at(v), n, v) for n, v in points]
        parts = []
        for value in _log_ticks(low, high):
            parts.append(_line(left, at(value), width - 12, at(value), "grid"))
            parts.append(_text(left - 6, at(value) + 4, f"{value:g}", "muted small", "end"))
        parts.append(_text(left, 12, f"mean call, \u00b5s, by {word}", "muted small"))
        for name, value in lines.items():
            parts.append(_line(left, at(value), width - 12, at(value), "dynamic-line"))
            label = f"{policy_title(name)} {text.us(value)}"
            parts.append(_text(left + 6, at(value) + 14, label, "label small"))
        parts.append('<path class="curve" d="M' + "L".join(f"{x:.1f} {y:.1f}" for x, y, _, _ in spots) + '"/>')
        best = search.best(family)
        for x, y, n, value in spots:
            tip = f"{policy_title(f'{family}({n})')}: {text.us(value)} \u00b5s"
            chosen = f"{family}({n})" == best
            kind = "spot best" if chosen else "spot"
            parts.append(
                f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{4 if chosen else 2.2}">'
                f"<title>{escape(tip)}</title></circle>"
            )
            if chosen:
                parts.append(_text(width - 12, 12, f"best {tip}", "mark-text", "end"))
        for n in (1, 2, 4, 8, 16, 32, 64, 128) if family == "fixed_splits" else (512, 2048, 8192, 32768, 98304):
            x = left + plot * (math.log(n) - first) / (last - first)
            label = f"{n}" if family == "fixed_splits" else text.tokens(n).replace(".0K", "K")
            parts.append(_text(x, base + 16, label, "muted small", "middle"))
        parts.append(_line(left, base, width - 12, base, "base"))
        name = f"Mean call by {policy_title(f'{family}(1)').rpartition(' ')[0]} setting"
        figures.append(_document(f"curve-{family}", height, name, parts, width))
    return "".join(figures)


def length_histogram(analysis: Analysis) -> str:
    """Prompt lengths of the trace: requests by length, on a logarithmic axis."""
    values = analysis.trace.input_tokens
    width, height, left = 520, 150, 44
    plot, base = width - left - 12, height - 30.0
    first, last = math.floor(math.log2(values.min())), math.floor(math.log2(values.max())) + 1
    bins = np.geomspace(2.0**first, 2.0**last, 4 * (last - first) + 1)
    counts, _ = np.histogram(values, bins)
    wide = plot / counts.size
    parts = [_text(left, 12, "requests by prompt tokens", "muted small")]
    for i, count in enumerate(counts.tolist()):
        tall = (base - 22) * count / max(int(counts.max()), 1)
        tip = f"{text.tokens(round(bins[i]))} to {text.tokens(round(bins[i + 1]))}: {text.plural(count, 'request')}"
        parts.append(
            f'<rect class="bar" x="{left + i * wide:.1f}" y="{base - tall:.1f}" width="{max(wide - 1, 0.5):.1f}" '
            f'height="{tall:.1f}"><title>{escape(tip)}</title></rect>'
        )
    parts.append(_text(left - 6, 26, f"{counts.max():,}", "muted small", "end"))
    for power in range(first, last + 1, max((last - first) // 7, 1)):
        x = left + plot * (power - first) / (last - first)
        anchor = "end" if power == last else "middle"
        parts.append(_text(x, base + 16, text.tokens(2**power).replace(".0K", "K"), "muted small", anchor))
    parts.append(_line(left, base, width - 12, base, "base"))
    return _document("lengths", height, "Requests of the trace by prompt length", parts, width)


def _log_ticks(low: float, high: float) -> list[float]:
    values = [f * 10.0**p for p in range(-3, 7) for f in (1, 2, 5)]
    return [value for value in values if low <= value <= high]


def _area(heights: Floats, base: float, pitch: float) -> str:
    """A stepped area above a base line."""
    steps: list[str] = [f"M{LEFT} {base:.1f}"]
    before = None
    for i, height in enumerate(np.round(heights, 1).tolist()):
        if height != before:
            steps.append(f"H{LEFT + i * pitch:.1f}V{base - height:.1f}")
            before = height
    return "".join([*steps, f"H{LEFT + heights.size * pitch:.1f}V{base:.1f}Z"])


def _text(x: float, y: float, words: str, kind: str, anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<path class="{kind}" d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}"/>'


def _document(name: str, height: float, description: str, parts: Sequence[str], width: int = WIDTH) -> str:
    return (
        f'<svg id="{name}" class="figure" viewBox="0 0 {width} {height:.0f}" role="img" '
        f"aria-label={quoteattr(description)}>{''.join(parts)}</svg>"
    )
