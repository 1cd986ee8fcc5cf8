"""The tuner's screen as one SVG text: for exported notebooks and the export menu. It needs no script and no network."""

from __future__ import annotations

import math
from collections.abc import Sequence

from workbench.tables import parse_shape
from workbench.widgets.colours import THEMES, mix
from workbench.widgets.crossover.frames import frame_of
from workbench.widgets.crossover.scene import Curve, Scene, Zone, make_scene, zones_of
from workbench.widgets.crossover.session import Evaluation, Session
from workbench.widgets.crossover.styles import Style, style_of, title_of
from workbench.widgets.crossover.words import rows
from workbench.widgets.schedule.svg_pen import Pen, fit, text_width

MARGIN, LEFT, RIGHT = 16, 62, 176
PLOT, STRIP, LANE = 280, 16, 44
LEAST_WIDTH = 720
LINE = 15


def render_svg(session: Session, *, theme: str = "light", width: int = 1100) -> str:
    """Draw the screen.

    Parameters
    ----------
    session
        What is shown.
    theme
        "light" or "dark".
    width
        Pixels, at least 720.

    Returns
    -------
    str
        One ``<svg>`` element with ``viewBox``, ``role="img"``, a title and a description.
    """
    return _Drawing(session, theme, max(width, LEAST_WIDTH)).document()


class _Drawing(Pen):
    """Writes one document from top to bottom."""

    def __init__(self, session: Session, theme: str, width: int) -> None:
        super().__init__(THEMES[theme], width)
        self.session, self.name = session, theme
        self.frame = frame_of(session, None)
        self.y = float(MARGIN)
        self.scene: Scene | None = None

    def document(self) -> str:
        """The finished text."""
        shown = self.session.evaluation
        header = " / ".join(self.frame["header"])
        self.text(MARGIN, self.y + 12, f"Crossover  {header}", size=13, bold=True)
        self.y += 26
        if shown is None:
            self.text(MARGIN, self.y + 12, "Nothing was measured yet.", fill=self.theme.muted)
            self.y += 24
            words = header
        else:
            words = "".join(run["text"] for run in self.frame["answer"]["sentence"])
            self.paragraph(words, 14, margin=MARGIN, below=12)
            self._table(shown)
            self._chart(shown)
            self._footer()
        line = f'<path d="M0 0V6" stroke="{self.theme.muted}" stroke-width="1.4"/>'
        hatch = (
            f'<defs><pattern id="undecided" width="6" height="6" patternUnits="userSpaceOnUse" '
            f'patternTransform="rotate(45)">{line}</pattern></defs>'
        )
        return self.finished(f"Crossover tuner, {header}", words, margin=MARGIN, defs=hatch)

    def _table(self, shown: Evaluation) -> None:
        model = parse_shape(self.session.state.router)[2]
        muted = self.theme.muted
        bar, end = MARGIN + 330, self.width - MARGIN - 320
        columns = (self.width - MARGIN - 250, self.width - MARGIN - 90, self.width - MARGIN)
        heads = self.frame["answer"]["headings"]
        self.text(MARGIN + 320, self.y + 10, heads[1], fill=muted, size=11, anchor="end")
        for x, words in zip(columns, heads[3:], strict=True):
            self.text(x, self.y + 10, words, fill=muted, size=11, anchor="end")
        self.y += 16
        for row in rows(shown, model):
            base = self.y + 13
            self.text(MARGIN, base, fit(row.title, 268, 12), bold=row.ours)
            if row.problem:
                self.text(MARGIN + 330, base, fit(row.problem, self.width - MARGIN - 340, 11), fill=muted, size=11)
            else:
                self.text(MARGIN + 320, base, row.cost, bold=row.ours, anchor="end")
                room = max(end - bar, 40)
                pale = mix(self.theme.slate, self.theme.background, 0.55)
                self.rect(bar, self.y + 4, room * row.share, 9, self.theme.ink if row.ours else pale)
                if row.high > row.low:
                    self.rect(
                        bar + room * row.low, self.y + 7.5, max(room * (row.high - row.low), 1), 2, self.theme.ink
                    )
                for x, words in zip(columns, (row.lost, row.interval, row.a_pass), strict=True):
                    self.text(x, base, words, anchor="end")
            self.y += 19
        self.y += 12

    def _chart(self, shown: Evaluation) -> None:
        scene = self.scene = make_scene(shown.board)
        self.y += 26  # the numbers of the thresholds
        top, bottom = self.y, self.y + PLOT
        right = self.width - MARGIN - RIGHT
        muted, grid = self.theme.muted, self.theme.grid
        for value, words in scene.y_ticks:
            y = self._y(value, top, bottom)
            self.line(MARGIN + LEFT, y, right, y, grid)
            self.text(MARGIN + LEFT - 6, y + 4, words, fill=muted, size=11, anchor="end")
        self.text(MARGIN, top + 8, "\u00b5s", fill=muted, size=11)
        self._unmeasured(scene, top, bottom)
        for zone in scene.fastest:
            if zone.provider is None:
                self._box(zone, top, bottom, "url(#undecided)", ' opacity="0.22"')
        for curve in scene.curves:
            self._curve(curve, top, bottom)
        self._labels(scene.curves, top, bottom, right)
        self._thresholds(shown, top, bottom + 2 * STRIP + 10)
        self.y = bottom + 6
        self._strip("fastest", scene.fastest)
        self._strip("your rule" if shown.own else "best choice", zones_of(shown.rule, scene.last_m))
        self._strip("in use", scene.in_use)
        answer = self.frame["answer"]
        self._lane("calls", scene, scene.calls, max(scene.calls), self.theme.slate, ["share of the calls"])
        lost = [max(value, 0.0) for value in answer["lost"]]
        self._lane("lost", scene, lost, 1.0, self.theme.requests[0], answer["lost_note"])
        last = -100.0
        for value, words in scene.x_ticks:
            x = self._x(value)
            if x - last > text_width(words, 11) + 14:
                self.text(x, self.y + 10, words, fill=muted, size=11, anchor="middle")
                last = x
        self.text(MARGIN, self.y + 10, "M", fill=muted, size=11)
        self.y += 24

    def _unmeasured(self, scene: Scene, top: float, bottom: float) -> None:
        """Nothing is claimed beyond the M that were measured."""
        first, last = scene.measured
        for low, high in ((1, first - 1), (last + 1, scene.last_m)):
            if low <= high:
                self._box(Zone(low, high, None), top, bottom, self.theme.grid, ' opacity="0.55"')
                x, end = self._x(low - 0.5), self._x(high + 0.5)
                if end - x > 90:
                    middle = (x + end) / 2
                    self.text(middle, bottom - 8, "not measured", fill=self.theme.muted, size=11, anchor="middle")

    def _thresholds(self, shown: Evaluation, top: float, bottom: float) -> None:
        """A line a threshold with its number; numbers that would touch stand in a second row, or are left out."""
        ends = [-100.0, -100.0]
        for first in shown.rule.starts[1:]:
            if self.scene is None or first > self.scene.last_m:
                continue
            x, words = self._x(first - 0.5), f"{first:,}"
            self.line(x, top - 2, x, bottom, self.theme.ink)
            half = text_width(words, 11) / 2 + 3
            level = next((i for i, end in enumerate(ends) if x - half >= end), None)
            if level is not None:
                ends[level] = x + half
                self.text(x, top - 5 - 12 * level, words, size=11, bold=True, anchor="middle")

    def _x(self, m: float) -> float:
        low, high = math.log2(0.72), math.log2((self.scene.last_m if self.scene else 1) * 1.12)
        left, right = MARGIN + LEFT, self.width - MARGIN - RIGHT
        return left + (math.log2(max(m, 0.72)) - low) / (high - low) * (right - left)

    def _y(self, us: float, top: float, bottom: float) -> float:
        low, high = self.scene.us if self.scene else (1.0, 2.0)
        return bottom - (math.log(us) - math.log(low)) / (math.log(high) - math.log(low)) * (bottom - top)

    def _style(self, name: str) -> tuple[Style, str]:
        style = style_of(name, self.theme)
        return style, style.colour(self.name)

    def _curve(self, curve: Curve, top: float, bottom: float) -> None:
        style, colour = self._style(curve.provider)
        xs = [self._x(m) for m in curve.m]
        upper = [f"{x:.1f} {self._y(us, top, bottom):.1f}" for x, us in zip(xs, curve.high, strict=True)]
        lower = [f"{x:.1f} {self._y(us, top, bottom):.1f}" for x, us in zip(xs, curve.low, strict=True)]
        line = [f"{x:.1f} {self._y(us, top, bottom):.1f}" for x, us in zip(xs, curve.us, strict=True)]
        faint = "" if curve.allowed else ' opacity="0.35"'
        self.parts.append(f'<g{faint}><path d="M{"L".join([*upper, *lower[::-1]])}Z" fill="{colour}" opacity="0.16"/>')
        dash = f' stroke-dasharray="{style.dash}"' if style.dash else ""
        self.parts.append(f'<path d="M{"L".join(line)}" fill="none" stroke="{colour}" stroke-width="1.8"{dash}/></g>')

    def _labels(self, curves: Sequence[Curve], top: float, bottom: float, right: float) -> None:
        wanted = sorted(((self._y(curve.us[-1], top, bottom), curve) for curve in curves), key=lambda pair: pair[0])
        at = top - LINE
        places = []
        for y, curve in wanted:
            at = max(y, at + LINE)
            places.append((at, curve))
        over = max(places[-1][0] - bottom, 0) if places else 0
        for y, curve in places:
            style, colour = self._style(curve.provider)
            dash = f' stroke-dasharray="{style.dash}"' if style.dash else ""
            self.parts.append(
                f'<path d="M{right + 8:.1f} {y - over:.1f}h22" stroke="{colour}" stroke-width="2"{dash} fill="none"/>'
            )
            words = f"{title_of(curve.provider)} {curve.mark}"
            ink = self.theme.ink if curve.allowed else self.theme.muted
            self.text(right + 35, y - over + 4, fit(words, RIGHT - 35, 11), size=11, fill=ink)

    def _box(self, zone: Zone, top: float, bottom: float, fill: str, extra: str = "") -> None:
        x, end = self._x(zone.low - 0.5), self._x(zone.high + 0.5)
        self.rect(x, top, max(end - x, 1), bottom - top, fill, extra)

    def _strip(self, title: str, zones: Sequence[Zone]) -> None:
        self.text(MARGIN + LEFT - 6, self.y + 12, title, fill=self.theme.muted, size=11, anchor="end")
        for zone in zones:
            x, end = self._x(zone.low - 0.5), self._x(zone.high + 0.5)
            if zone.provider is None:
                self._box(zone, self.y, self.y + STRIP, "url(#undecided)")
            else:
                colour = self._style(zone.provider)[1]
                self._box(zone, self.y, self.y + STRIP, mix(colour, self.theme.background, 0.3))
                self.rect(x, self.y, 2, STRIP, colour)
            words = "undecided" if zone.provider is None else title_of(zone.provider)
            if zone.provider is not None and end - x > text_width(words, 11) + 10:
                self.text(x + 6, self.y + 12, words, size=11)
        self.y += STRIP + 4

    def _lane(
        self, title: str, scene: Scene, values: Sequence[float], peak: float, colour: str, note: Sequence[str]
    ) -> None:
        bottom = self.y + LANE
        self.text(MARGIN + LEFT - 6, bottom - 4, title, fill=self.theme.muted, size=11, anchor="end")
        for (first, last), value in zip(scene.bins, values, strict=True):
            if value > 0:
                x, end = self._x(first - 0.5), self._x(last + 0.5)
                tall = max(value / peak * (LANE - 6), 0.75)
                self.rect(x, bottom - tall, max(end - x - 0.7, 0.8), tall, colour)
        self.line(MARGIN + LEFT, bottom, self.width - MARGIN - RIGHT, bottom, self.theme.line)
        for at, words in enumerate(reversed(note)):
            x = self.width - MARGIN - RIGHT + 8
            self.text(x, bottom - 4 - 13 * at, fit(words, RIGHT - 8, 11), fill=self.theme.muted, size=11)
        self.y = bottom + 6

    def _footer(self) -> None:
        for words in self.frame["footer"]:
            self.text(MARGIN, self.y + 11, fit(words, self.width - 2 * MARGIN, 11), fill=self.theme.muted, size=11)
            self.y += LINE
