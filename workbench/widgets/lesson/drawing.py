"""What the lessons' drawings share: an SVG element in JupyterLab's colours, and round numbers for an axis."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape

from workbench.widgets.colours import THEMES, Theme


@dataclass(frozen=True)
class Picture:
    """An SVG drawing that a notebook shows in place.

    Attributes
    ----------
    svg : str
        One ``<svg>`` element; its colours follow JupyterLab's theme.
    """

    svg: str

    def _repr_html_(self) -> str:
        return self.svg


def drawing(parts: list[str], *, name: str, width: int, height: int, says: str) -> Picture:
    """SVG elements as a picture.

    Parameters
    ----------
    parts
        Elements; their classes are those of :func:`_rules`.
    name
        Of the drawing's CSS class.
    width, height
        Pixels at full size.
    says
        The drawing in words, for who does not see it.
    """
    style = (
        f"<style>.{name} text {{ font: 11px ui-sans-serif, system-ui, sans-serif }} "
        f".{name} text {{ font-variant-numeric: tabular-nums }} "
        f".{name} .head {{ font-size: 13px; font-weight: 600 }} .{name} .strong {{ font-weight: 600 }} "
        f".{name} .mid {{ text-anchor: middle }} .{name} .end {{ text-anchor: end }} "
        + _rules(THEMES["light"], f".{name}")
        + " "
        + _rules(THEMES["dark"], f'[data-jp-theme-light="false"] .{name}')
        + "</style>"
    )
    return Picture(
        f'<svg class="{name}" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(says)}" style="width: 100%; max-width: {width}px">{style}{"".join(parts)}</svg>'
    )


def _rules(theme: Theme, under: str) -> str:
    """Colours: ``ink`` and ``slate`` for marks and text, ``soft`` for secondary text, stages as in the explorer."""
    tones: dict[str, str] = theme.to_dict()["stages"]  # type: ignore[assignment]
    found = [f"{under} .{stage} {{ fill: {tone} }}" for stage, tone in tones.items()]
    found += [
        f"{under} .grid {{ stroke: {theme.grid} }}",
        f"{under} .soft {{ fill: {theme.muted} }}",
        f"{under} .ink {{ fill: {theme.ink} }}",
        f"{under} .slate {{ fill: {theme.slate} }}",
        f"{under} .page {{ fill: {theme.background} }}",
        f"{under} .halo {{ paint-order: stroke; stroke: {theme.background}; stroke-width: 3px }}",
        f"{under} .line-ink {{ stroke: {theme.ink} }}",
        f"{under} .line-slate {{ stroke: {theme.slate} }}",
        f"{under} .line-soft {{ stroke: {theme.muted} }}",
        f"{under} .idle {{ fill: none; stroke: {theme.muted}; stroke-dasharray: 2 2 }}",
    ]
    return " ".join(found)


def round_numbers(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten from ``low`` to ``high``, both above 0: ticks of a logarithmic axis."""
    powers = range(math.floor(math.log10(low)), math.floor(math.log10(high)) + 1)
    return [value for power in powers for m in (1, 2, 5) if low <= (value := m * 10.0**power) <= high]


def steps(end: float, number: int = 5) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten from 0 to ``end``, at most ``number`` and one: ticks of an axis."""
    unit = 10.0 ** math.floor(math.log10(end / number))
    step = next(unit * m for m in (1, 2, 5, 10) if unit * m * number >= end)
    return [k * step for k in range(int(end / step) + 1)]
