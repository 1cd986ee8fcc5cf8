"""A small plan as a picture: one column a resident CTA, time upwards, every tile large enough to count."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import TypeAlias

import numpy as np

from workbench.errors import InvalidArgument
from workbench.schedule import CostModel, DecodePlan, Spans
from workbench.widgets import text
from workbench.widgets.colours import THEMES, Theme, request_classes
from workbench.widgets.lesson.drawing import Picture

Height: TypeAlias = Callable[[float], float]
"""Microseconds to the y of the drawing."""

MOST_CTAS = 64
WIDTH, HEIGHT = 760, 240
LEFT, RIGHT, TOP, BOTTOM = 46, 150, 38, 34
GAP = 2
LABEL = 13
"""Least size of a block, pixels, for the number of its request to be written into it."""


def picture(plan: DecodePlan, cost: CostModel | None = None, *, title: str = "", until_us: float = 0.0) -> Picture:
    """Draw a plan.

    Parameters
    ----------
    plan
        Of at most 64 resident CTAs; larger ones are for the explorer.
    cost
        Default: H200, FP8 cache.
    title
        Written above; the policy and the predicted time follow it.
    until_us
        The time axis reaches at least so far, so that two pictures can be compared.

    Raises
    ------
    InvalidArgument
        For more CTAs.
    """
    if plan.num_ctas > MOST_CTAS:
        raise InvalidArgument(
            f"the plan has {plan.num_ctas} CTAs; a picture shows up to {MOST_CTAS}. Use ScheduleExplorer."
        )
    spans, metrics = plan.spans(cost), plan.metrics(cost)
    end_us = max(metrics.makespan_us, until_us, 1e-3)
    pitch, scale = (WIDTH - LEFT - RIGHT) / plan.num_ctas, (HEIGHT - TOP - BOTTOM) / end_us
    floor = HEIGHT - BOTTOM

    def y(us: float) -> float:
        return floor - us * scale

    parts = _axis(end_us, y) + _blocks(plan, spans, pitch, y)
    if metrics.merge_us:
        band = f'x="{LEFT}" width="{pitch * plan.num_ctas:.1f}" y="{y(metrics.makespan_us):.1f}"'
        parts.append(f'<rect class="merge" {band} height="{metrics.merge_us * scale:.1f}"><title>merge</title></rect>')
        if metrics.merge_us * scale >= LABEL:
            middle = y(metrics.makespan_us - metrics.merge_us / 2) + 4
            parts.append(
                f'<text class="axis mid" x="{LEFT + pitch * plan.num_ctas / 2:.1f}" y="{middle:.1f}">merge</text>'
            )
    parts += _lines(metrics.makespan_us, metrics.bound_us, y)
    for c in range(0, plan.num_ctas, max(1, round(plan.num_ctas / 8))):
        parts.append(f'<text class="axis mid" x="{LEFT + (c + 0.5) * pitch:.1f}" y="{floor + 14}">{c}</text>')
    parts.append(
        f'<text class="axis mid" x="{LEFT + pitch * plan.num_ctas / 2:.1f}" y="{HEIGHT - 4}">resident CTA</text>'
    )
    head = ": ".join(filter(None, (title, plan.policy)))
    waves = f" in {plan.waves} waves" if plan.waves > 1 else ""
    parts.append(f'<text class="head" x="0" y="14">{escape(head)}, {text.us(metrics.makespan_us)} us{waves}</text>')
    said = f"{plan.policy}: {metrics.descriptors} pieces on {plan.num_ctas} CTAs, {text.us(metrics.makespan_us)} us"
    return Picture(
        f'<svg class="wb-picture" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(said)}" style="width: 100%; max-width: {WIDTH}px">{_style()}{"".join(parts)}</svg>'
    )


def _blocks(plan: DecodePlan, spans: Spans, pitch: float, y: Height) -> list[str]:
    """A pale foot, a solid body and the request's number for each descriptor."""
    classes, _ = request_classes(plan.lengths, None)
    gap = GAP if pitch >= 4 * GAP else GAP / 4
    width = pitch - gap
    parts = []
    for i, row in enumerate(plan.descriptors):
        request, first, last = row["request"], row["first_tile"], row["first_tile"] + row["num_tiles"] - 1
        x = LEFT + int(spans.slot[row["cta"]]) * pitch + gap / 2
        start, foot, end = (int(t) / 1e3 for t in (spans.start_ns[i], spans.foot_ns[i], spans.end_ns[i]))
        bottom, middle, top = y(start) - gap / 2, y(start + foot), y(end)
        colour = f"c{classes[request]}"
        says = f"request {request}, KV head {row['kv_head']}, tiles {first} to {last}"
        parts.append(
            f"<g><title>{says}, {text.us(start)} to {text.us(end)} us</title>"
            f'<rect class="{colour} foot" x="{x:.1f}" y="{middle:.1f}" width="{width:.1f}" '
            f'height="{max(bottom - middle, 0):.1f}"/>'
            f'<rect class="{colour}" x="{x:.1f}" y="{top:.1f}" width="{width:.1f}" height="{middle - top:.1f}"/>'
        )
        if width >= LABEL and middle - top >= LABEL:
            at = f'x="{x + width / 2:.1f}" y="{(top + middle) / 2 + 4:.1f}"'
            parts.append(f'<text class="on {colour}t" {at}>{request}</text>')
        parts.append("</g>")
    return parts


def _axis(end_us: float, y: Height) -> list[str]:
    raw = end_us / 4
    unit = 10.0 ** np.floor(np.log10(raw))
    step = next(unit * m for m in (1, 2, 5, 10) if unit * m >= raw)
    parts = [f'<text class="axis end" x="{LEFT - 6}" y="{TOP - 8}">us</text>']
    for k in range(int(end_us / step) + 1):
        at = y(k * step)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(f'<text class="axis end" x="{LEFT - 6}" y="{at + 4:.1f}">{k * step:g}</text>')
    return parts


def _lines(makespan_us: float, bound_us: float, y: Height) -> list[str]:
    done, bound = y(makespan_us), y(bound_us)
    marks = (
        ("done", done, done, f"done {text.us(makespan_us)}"),
        ("bound", bound, max(bound, done + 15), f"no plan below {text.us(bound_us)}"),  # labels do not touch
    )
    return [
        f'<line class="{name}" x1="{LEFT}" x2="{WIDTH - RIGHT + 6}" y1="{at:.1f}" y2="{at:.1f}"/>'
        f'<text class="axis" x="{WIDTH - RIGHT + 10}" y="{label + 4:.1f}">{words}</text>'
        for name, at, label, words in marks
    ]


def _style() -> str:
    def rules(theme: Theme, under: str) -> str:
        found = [f"{under} .c{i} {{ fill: {colour} }}" for i, colour in enumerate(theme.requests)]
        found += [f"{under} .c{i}t {{ fill: {colour} }}" for i, colour in enumerate(theme.on_request)]
        found += [
            f"{under} .grid {{ stroke: {theme.grid} }}",
            f"{under} .axis {{ fill: {theme.muted} }}",
            f"{under} .head {{ fill: {theme.ink} }}",
            f"{under} .done, {under} .bound {{ stroke: {theme.ink} }}",
            f"{under} .merge {{ fill: {theme.slate}; fill-opacity: 0.25 }}",
            f"{under} .foot {{ fill-opacity: {theme.foot_share} }}",
        ]
        return " ".join(found)

    return (
        "<style>.wb-picture text { font: 11px ui-sans-serif, system-ui, sans-serif } "
        ".wb-picture .head { font-size: 13px; font-weight: 600 } "
        ".wb-picture .mid, .wb-picture .on { text-anchor: middle } "
        ".wb-picture .end { text-anchor: end } .wb-picture .bound { stroke-dasharray: 1 2 } "
        + rules(THEMES["light"], ".wb-picture")
        + " "
        + rules(THEMES["dark"], '[data-jp-theme-light="false"] .wb-picture')
        + "</style>"
    )
