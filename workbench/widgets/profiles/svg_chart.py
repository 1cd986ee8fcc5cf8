"""A chart as SVG: the same axes, lines and points that the browser draws."""

from __future__ import annotations

import math
from collections.abc import Sequence

from workbench.widgets.profiles.chart import Chart, Line, Place
from workbench.widgets.schedule.svg_pen import Pen, clean, fit

PLOT, AXIS, LABELS, BELOW = 250, 58, 134, 34
DASHES = {"datasheet": "5 4", "guide": "2 3"}
APART = 15
"""Pixels between neighbouring labels and letters."""


def draw_chart(pen: Pen, chart: Chart, *, left: float, right: float, letters: str) -> None:
    """Draw a chart at the pen's height, and move the pen below it.

    Parameters
    ----------
    pen
        Collects the elements.
    chart
        What to draw; nothing where it has neither lines nor points.
    left, right
        Edges, labels included, pixels.
    letters
        Letter of each picked capture.
    """
    if not chart.lines and not chart.points:
        return
    _Drawing(pen, chart, left, right, letters).draw()


class _Drawing:
    def __init__(self, pen: Pen, chart: Chart, left: float, right: float, letters: str) -> None:
        self.pen, self.chart, self.letters = pen, chart, letters
        self.edge, self.left, self.right = left, left + AXIS, right - LABELS
        self.top = pen.y + 18
        self.bottom = self.top + PLOT

    def draw(self) -> None:
        self._axes()
        for line in self.chart.lines:
            points = "L".join(f"{x:.1f} {y:.1f}" for x, y in map(self._at, line.places))
            dash = f' stroke-dasharray="{DASHES[line.style]}"' if line.style in DASHES else ""
            self.pen.parts.append(
                f'<path d="M{points}" fill="none" stroke="{self._hue(line)}" stroke-width="1.5"{dash}/>'
            )
        self._labels()
        self._points()
        self.pen.y = self.bottom + BELOW + 4

    def _at(self, place: Place) -> tuple[float, float]:
        return self.left + place[0] * (self.right - self.left), self.bottom - place[1] * PLOT

    def _hue(self, line: Line) -> str:
        theme = self.pen.theme
        return theme.requests[line.pick] if line.pick >= 0 else theme.ink if line.style == "measured" else theme.slate

    def _axes(self) -> None:
        pen, chart, muted = self.pen, self.chart, self.pen.theme.muted
        pen.text(self.edge, pen.y + 8, chart.y_label, fill=muted, size=11)
        for share, words in chart.y_ticks:
            y = self._at((0, share))[1]
            pen.line(self.left, y, self.right, y, pen.theme.grid)
            pen.text(self.left - 6, y + 4, words, fill=muted, size=11, anchor="end")
        for share, words in chart.x_ticks:
            pen.text(
                self._at((share, 0))[0], self.bottom + 14, fit(words, 120, 11), fill=muted, size=11, anchor="middle"
            )
        middle = (self.left + self.right) / 2
        pen.text(middle, self.bottom + 28, chart.x_label, fill=muted, size=11, anchor="middle")
        pen.line(self.left, self.bottom, self.right, self.bottom, pen.theme.line)

    def _labels(self) -> None:
        """Right of the plot where a line ends there, on its back where it ends earlier."""
        named = [line for line in self.chart.lines if line.label and len(line.places) > 1]
        outside = [line for line in named if line.style == "series" or line.places[-1][0] > 0.98]
        last = -math.inf
        for line in sorted(outside, key=lambda one: -one.places[-1][1]):
            last = max(self._at(line.places[-1])[1], last + APART)
            self.pen.text(self.right + 8, last + 4, fit(line.label, LABELS - 8, 11), size=11, fill=self._hue(line))
        slopes = sorted((line for line in named if line not in outside), key=lambda one: -one.places[0][1])
        for at, line in enumerate(slopes):
            self._along(line, (at + 1.4) / (len(slopes) + 1.6), below=0 < at == len(slopes) - 1)

    def _along(self, line: Line, share: float, *, below: bool) -> None:
        (x0, y0), (x1, y1) = self._at(line.places[0]), self._at(line.places[-1])
        x, y = x0 + share * (x1 - x0), y0 + share * (y1 - y0)
        angle = math.degrees(math.atan2(y1 - y0, x1 - x0))
        self.pen.parts.append(
            f'<text transform="translate({x:.1f} {y:.1f}) rotate({angle:.1f})" y="{15 if below else -6}" '
            f'text-anchor="middle" font-size="11" fill="{self._hue(line)}">{clean(line.label)}</text>'
        )

    def _points(self) -> None:
        theme, pen = self.pen.theme, self.pen
        tags: list[tuple[float, float]] = []
        places = [(*self._at(point.place), point) for point in self.chart.points]
        for x, y, point in sorted(places, key=lambda one: (one[2].pick >= 0, one[1])):
            colour = theme.requests[point.pick] if point.pick >= 0 else theme.slate
            if point.low is not None and point.high is not None:
                pen.line(x, self._at((0, point.low))[1], x, self._at((0, point.high))[1], colour)
            pen.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{4.5 if point.pick >= 0 else 3}" fill="{colour}"/>')
            if point.pick >= 0:
                tag = _free(x, y, tags)
                tags.append((x, tag))
                pen.line(x + 4, y, x + 12, tag, colour)
                pen.rect(x + 12, tag - 7.5, 15, 15, colour, ' rx="2"')
                on = theme.on_request[point.pick]
                pen.text(x + 19.5, tag + 4, self.letters[point.pick], fill=on, size=11, bold=True, anchor="middle")


def _free(x: float, y: float, taken: Sequence[tuple[float, float]]) -> float:
    """The nearest height at or below `y` where a letter touches no other."""
    near = sorted(other for at, other in taken if abs(at - x) < 2 * APART)
    for other in near:
        if abs(other - y) < APART + 2:
            y = other + APART + 2
    return y
