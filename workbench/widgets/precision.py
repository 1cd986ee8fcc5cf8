"""A precision view as a picture: a row an arm, from its error to the tokens that it sends elsewhere.

It is a drawing and not a widget: there is nothing to set once the arms are computed, and it stays readable on a page
without a kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from workbench.widgets.colours import THEMES, Theme
from workbench.widgets.lesson.drawing import Picture

if TYPE_CHECKING:
    from workbench.measure.precision import ArmReport, PrecisionView

WIDTH = 1000
ROW, TOP, MARGINS, BOTTOM = 38, 66, 118, 62
ERRORS = (232, 560)
"""Left and right of the error histograms."""
NUMBER = 640
"""Right end of the relative errors."""
TOKENS = (668, 880)
"""Left and right of the shares of tokens."""
MOVED = WIDTH - 8
CHARACTER = 6.2
LEVEL = 13


def precision_picture(view: PrecisionView) -> Picture:
    """Draw a precision view.

    Parameters
    ----------
    view
        Of `workbench.measure.precision.precision_view`.

    Returns
    -------
    Picture
        Above, a row an arm: the distribution of its errors, its relative error, the share of tokens whose experts
        differ with its 95 % interval, and the share whose weights moved by more than the bound. Below, how far the
        last expert taken lies above the next one, with each arm's error in the same unit.
    """
    figures = view.to_dict()
    arms = list(view.arms.values())
    edges: list[float] = figures["edges"]
    errors = _Axis(*_used(edges, [arm.errors.tolist() for arm in arms]), *ERRORS)
    shares = _Axis(*_shares(arms), *TOKENS)
    bottom = TOP + ROW * len(arms)
    height = bottom + BOTTOM + MARGINS + 30
    parts = [*_heads(view), *_powers(errors, TOP, bottom, _plain)]
    parts += _powers(shares, TOP, bottom, lambda power: _percent(10.0**power))
    peak = max(1, *(max(arm.errors.tolist()) for arm in arms))
    for at, arm in enumerate(arms):
        parts += _row(arm, figures["arms"][arm.arm], TOP + ROW * at, edges, peak, errors, shares)
    parts += _margins(view, arms, edges, bottom + BOTTOM, bottom + BOTTOM + MARGINS)
    said = f"Precision of {view.router.name}: " + "; ".join(
        f"{arm.title}, relative error {arm.rel_error:.1e}, {arm.changed} of {arm.tokens} tokens with other experts"
        for arm in arms
    )
    return Picture(
        f'<svg class="wb-precision" viewBox="0 0 {WIDTH} {height}" xmlns="http://www.w3.org/2000/svg" role="img" '
        f'aria-label="{escape(said)}" style="width: 100%; max-width: {WIDTH}px">{_style()}{"".join(parts)}</svg>'
    )


def _heads(view: PrecisionView) -> list[str]:
    router = view.router
    title = f"{router.name}: what the arithmetic of the router changes"
    source = f"{view.data}; {view.tokens:,} tokens; arms {view.computed}; against float64"
    return [
        _text(0, 14, title, "head"),
        _text(0, 32, source),
        _text(ERRORS[0], TOP - 12, "error of a score, over the root mean square of all"),
        _text(NUMBER, TOP - 12, "rel. error", "end"),
        _text(TOKENS[0], TOP - 12, "tokens with other experts, 95 %"),
        _text(MOVED, TOP - 12, "weights moved", "end"),
    ]


def _row(
    arm: ArmReport,
    figures: Mapping[str, Any],
    top: float,
    edges: Sequence[float],
    peak: int,
    errors: _Axis,
    shares: _Axis,
) -> list[str]:
    base, middle = top + ROW - 6, top + ROW / 2 + 1
    ours = "ours" if arm.arm in ("split", "split3") else "area"
    half = f"half of the scores err by up to {_small(arm.quantiles[0.5])}, all by up to {_small(arm.quantiles[1.0])}"
    parts = [
        f"<g><title>{escape(arm.title)}: {half}</title>",
        f'<line class="grid" x1="0" x2="{WIDTH}" y1="{top + ROW - 5.5:.1f}" y2="{top + ROW - 5.5:.1f}"/>',
        _text(0, middle + 4, arm.title, "name"),
        f'<path class="{ours}" d="{_area(arm.errors.tolist(), edges, errors, base, (ROW - 8) / peak)}"/>',
        _text(NUMBER, middle + 4, _small(arm.rel_error), "end name"),
    ]
    low, high = shares(figures["changed_low"]), shares(figures["changed_high"])
    parts.append(f'<line class="whisker" x1="{low:.1f}" x2="{high:.1f}" y1="{middle:.1f}" y2="{middle:.1f}"/>')
    none = arm.changed == 0
    dot = shares(arm.changed_share) if not none else low
    parts.append(f'<circle class="{"none" if none else "dot"}" cx="{dot:.1f}" cy="{middle:.1f}" r="3.5"/>')
    words = f"none, below {_percent(figures['changed_high'])}" if none else _percent(arm.changed_share)
    parts.append(_text(max(high, dot) + 8, middle + 4, words, "name"))
    moved = "none" if arm.moved == 0 else _percent(arm.moved_share)
    return [*parts, _text(MOVED, middle + 4, moved, "end name"), "</g>"]


def _margins(
    view: PrecisionView, arms: Sequence[ArmReport], edges: Sequence[float], top: float, bottom: float
) -> list[str]:
    """How close the choice is, with the error of each arm in the unit of the choice."""
    counts = view.margins.tolist()
    marks = [arm.choice_error for arm in arms if arm.choice_error > 0]
    low, high = _used(edges, [counts])
    place = _Axis(min([low, *marks]) / 2, high, ERRORS[0], TOKENS[1])
    scale = (bottom - top - 4) / max(*counts, 1)
    unit = "softmax" if view.router.scoring == "softmax" else "sigmoid"
    biased = " and bias" if view.router.biased else ""
    groups = "" if view.group_margins is None else "(groups have margins of their own)"
    parts = [
        _text(0, top + 12, "margin of the choice", "name"),
        _text(0, top + 28, "k-th expert over the next,"),
        _text(0, top + 42, f"after {unit}{biased}"),
        _text(0, top + 56, groups),
        f'<path class="area" d="{_area(counts, edges, place, bottom, scale)}"/>',
        *_powers(place, bottom, bottom, _plain),
    ]
    last = [-math.inf] * 3
    for arm in sorted(arms, key=lambda arm: arm.choice_error):
        if arm.choice_error <= 0:
            continue
        x = place(arm.choice_error)
        level = next((i for i, end in enumerate(last) if x >= end), len(last) - 1)
        last[level] = x + len(arm.arm) * CHARACTER + 12
        y = top - 20 + LEVEL * level
        kind = "mark ours-line" if arm.arm in ("split", "split3") else "mark"
        parts.append(f'<line class="{kind}" x1="{x:.1f}" x2="{x:.1f}" y1="{y - 8:.1f}" y2="{bottom:.1f}"/>')
        parts.append(_text(x + 4, y, arm.arm))
    words = "tokens by margin, and each arm's rms error in the same unit; what lies left of a line is at risk"
    return [*parts, _text(TOKENS[1], bottom + 28, words, "end")]


def _area(counts: Sequence[int], edges: Sequence[float], place: _Axis, base: float, scale: float) -> str:
    """A histogram as a stepped outline; bins outside the axis are left out."""
    filled = [i for i, count in enumerate(counts) if count]
    if not filled:
        return ""
    steps = [f"M{place(edges[filled[0]]):.1f} {base:.1f}"]
    for i in range(filled[0], filled[-1] + 1):
        y = base - counts[i] * scale
        steps.append(f"L{place(edges[i]):.1f} {y:.1f}L{place(edges[i + 1]):.1f} {y:.1f}")
    return "".join([*steps, f"L{place(edges[filled[-1] + 1]):.1f} {base:.1f}Z"])


def _powers(axis: _Axis, top: float, bottom: float, words: Callable[[int], str]) -> list[str]:
    """Grid lines and labels at powers of ten."""
    parts = []
    for power in axis.powers:
        x = axis(10.0**power)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{top - 4:.1f}" y2="{bottom:.1f}"/>')
        parts.append(_text(x, bottom + 12, words(power), "mid"))
    return parts


def _plain(power: int) -> str:
    return "1" if power == 0 else f"1e{power}"


@dataclass(frozen=True)
class _Axis:
    """A logarithmic axis from `low` to `high` between two x; what lies outside stands at its ends."""

    low: float
    high: float
    left: float
    right: float

    def __call__(self, value: float) -> float:
        inside = min(max(value, self.low), self.high)
        return self.left + math.log(inside / self.low) / math.log(self.high / self.low) * (self.right - self.left)

    @property
    def powers(self) -> list[int]:
        """Powers of ten inside."""
        return list(range(math.ceil(math.log10(self.low)), math.floor(math.log10(self.high)) + 1))


def _used(edges: Sequence[float], histograms: Sequence[Sequence[int]]) -> tuple[float, float]:
    """Ends of the bins that hold all but a thousandth of the counts at either side, and some room."""
    low, high = math.inf, 0.0
    for counts in histograms:
        total, seen = sum(counts), 0
        for i, count in enumerate(counts):
            seen += count
            if count and seen >= 1e-3 * total:
                low = min(low, edges[i])
                break
        high = max((edges[i + 1] for i, count in enumerate(counts) if count), default=high) if total else high
    if not low < high:
        return edges[0], edges[-1]
    return low / 1.3, high * 1.3


def _shares(arms: Sequence[ArmReport]) -> tuple[float, float]:
    """Ends of the axis of shares: from below one token to the largest interval."""
    return 0.4 / max(arm.tokens for arm in arms), max(0.01, *(arm.changed_interval()[1] for arm in arms)) * 4


def _small(value: float) -> str:
    """A relative error, such as 2.4e-6; 0 where there is none."""
    if value == 0:
        return "0"
    digits, _, power = f"{value:.1e}".partition("e")
    return f"{digits}e{int(power)}"


def _percent(share: float) -> str:
    """A share in percent, two digits."""
    return f"{100 * share:.2g} %"


def _text(x: float, y: float, words: str, kind: str = "") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(words)}</text>'


def _style() -> str:
    def rules(theme: Theme, under: str, ours: str) -> str:
        return " ".join(
            f"{under} {selector} {{ {rule} }}"
            for selector, rule in (
                ("text", f"fill: {theme.muted}"),
                (".head", f"fill: {theme.ink}"),
                (".name", f"fill: {theme.ink}"),
                (".grid", f"stroke: {theme.grid}"),
                (".area", f"fill: {theme.slate}"),
                (".ours", f"fill: {ours}"),
                (".whisker", f"stroke: {theme.ink}"),
                (".dot", f"fill: {theme.ink}"),
                (".none", f"fill: {theme.background}; stroke: {theme.ink}"),
                (".mark", f"stroke: {theme.ink}"),
                (".ours-line", f"stroke: {ours}"),
            )
        )

    light, dark = THEMES["light"], THEMES["dark"]
    return (
        "<style>.wb-precision text { font: 11px ui-sans-serif, system-ui, sans-serif; "
        "font-variant-numeric: tabular-nums } .wb-precision .head { font-size: 13px; font-weight: 600 } "
        ".wb-precision .name { font-size: 12px } .wb-precision .mid { text-anchor: middle } "
        ".wb-precision .end { text-anchor: end } .wb-precision .mark { stroke-width: 1.2 } "
        + rules(light, ".wb-precision", light.requests[0])
        + " "
        + rules(dark, '[data-jp-theme-light="false"] .wb-precision', dark.requests[0])
        + "</style>"
    )
