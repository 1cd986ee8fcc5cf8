"""A scene as one SVG text: for exported notebooks, reports, and the explorer's export menu.

It draws the same scene as the canvas, needs no script, no font file and no network, and is well-formed XML whatever
the names in it contain.
"""

from __future__ import annotations

import numpy as np

from workbench.widgets.colours import THEMES, Theme, mix
from workbench.widgets.schedule.axis import axis_ticks
from workbench.widgets.schedule.bars import bar_paths, caps
from workbench.widgets.schedule.lane import Lane
from workbench.widgets.schedule.layout import Layout
from workbench.widgets.schedule.marks import Block
from workbench.widgets.schedule.panel import Panel
from workbench.widgets.schedule.scene import Scene
from workbench.widgets.schedule.sentence import HEADINGS, Row
from workbench.widgets.schedule.svg_measured import measured_table, residual_strip
from workbench.widgets.schedule.svg_pen import ADVANCE, FONT, Pen, clean, fit, text_width

LEFT, RIGHT, MARGIN = 40, 158, 16
SILHOUETTE = 40
HEAD = 18
DASHES = {"mean": "5 3", "bound": "1 2", "other": "", "modelled": "", "makespan": "", "last": ""}
FAINT = ("other", "modelled")
"""Lines beside which the panel's own stand out."""

HALVES_FROM = 8
"""Pixels a column from which plan and measurement stand beside each other in it."""

LEAST_WIDTH = 640
BAR_WORDS = "launch, reading, fixed, waiting, merge"


def render_svg(scene: Scene, *, theme: str = "light", width: int = 1024) -> str:
    """Draw ``scene`` as an SVG document.

    Parameters
    ----------
    scene
        From :func:`workbench.widgets.schedule.scene.make_scene`.
    theme
        ``"light"`` or ``"dark"``.
    width
        Pixels, at least 640; the height follows from the scene.

    Returns
    -------
    str
        One ``<svg>`` element with ``viewBox``, ``role="img"``, a title and a description.
    """
    return _Drawing(scene, THEMES[theme], max(width, LEAST_WIDTH)).document()


class _Drawing(Pen):
    """Writes one document from top to bottom."""

    def __init__(self, scene: Scene, theme: Theme, width: int) -> None:
        super().__init__(theme, width)
        self.scene = scene
        self.y = float(MARGIN)
        self.pitch = (width - 2 * MARGIN - LEFT - RIGHT) / max(scene.columns, 1)
        if (per_sm := self.pitch * scene.columns / max(scene.sms, 1)) >= 1:
            self.pitch = int(per_sm) * scene.sms / scene.columns  # whole pixels an SM, so that SMs never alias
        self.plot = self.pitch * scene.columns

    def document(self) -> str:
        """The finished text."""
        scene = self.scene
        self._sentence()
        self._table()
        if scene.measured:
            measured_table(self, scene.measured, MARGIN, scene.mark)
        if scene.panels:
            self._legend()
            for panel, layout in zip(scene.panels, scene.layouts, strict=True):
                self._panel(panel, layout)
            self._axis()
        self._footer()
        height = round(self.y + MARGIN)
        hatch = (
            '<defs><pattern id="merge" width="5" height="5" patternUnits="userSpaceOnUse" '
            f'patternTransform="rotate(45)"><path d="M0 0V5" stroke="{self.theme.muted}" stroke-width="1.4"/>'
            "</pattern></defs>"
        )
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{height}" '
            f'viewBox="0 0 {self.width} {height}" role="img" font-family="{FONT}" font-size="12" '
            f'style="font-variant-numeric:tabular-nums"><title>{clean("Schedule: " + " / ".join(scene.header))}'
            f"</title><desc>{clean(scene.description)}</desc>{hatch}"
            f'<rect width="100%" height="100%" fill="{self.theme.background}"/>{"".join(self.parts)}</svg>'
        )

    def _sentence(self) -> None:
        theme = self.theme
        self.y += 12
        self.text(MARGIN, self.y, fit(" / ".join(self.scene.header), self.width - 2 * MARGIN, 12), fill=theme.muted)
        self.y += 26
        spans = []
        for run in self.scene.sentence:
            fill = {"request": theme.requests[0], "side": theme.ink}.get(run.kind, theme.ink)
            weight = ' font-weight="700"' if run.kind else ""
            spans.append(f'<tspan fill="{fill}"{weight}>{clean(run.text)}</tspan>')
        text = "".join(spans)
        length = sum(len(run.text) for run in self.scene.sentence)
        size = min(15.0, (self.width - 2 * MARGIN) / max(length * ADVANCE, 1))
        place = f'x="{MARGIN}" y="{self.y:.1f}" font-size="{size:.1f}" xml:space="preserve"'
        self.parts.append(f"<text {place}>{text}</text>")
        self.y += 14

    def _table(self) -> None:
        theme, right = self.theme, self.width - MARGIN
        room = right - MARGIN
        call = MARGIN + 0.25 * room
        bar, bar_end = MARGIN + 0.28 * room, MARGIN + 0.56 * room
        columns = [MARGIN + share * room for share in (0.66, 0.75, 0.81, 0.9, 1.0)]
        self.y += 12
        for x, (title, modelled) in zip((call, *columns), HEADINGS, strict=True):
            self.text(
                x, self.y, f"{self.scene.mark} {title}" if modelled else title, fill=theme.muted, size=11, anchor="end"
            )
        self.text(bar, self.y, fit(BAR_WORDS, bar_end - bar, 11), fill=theme.muted, size=11)
        self.y += 6
        for row in self.scene.rows:
            self.line(MARGIN, self.y, right, self.y, theme.grid)
            self.y += 17
            if row.key in "AB":
                self.badge(MARGIN, self.y - 11, row.key)
                self.text(MARGIN + 21, self.y, fit(row.title, 0.25 * room - 80, 12))
            else:
                self.text(MARGIN, self.y, row.key, fill=theme.muted)
            if row.problem:
                self.text(call, self.y, fit(row.problem.splitlines()[0], right - call, 12), fill=theme.muted)
            for x, cell in zip((call, *columns), row.cells, strict=False):
                bold = x == call and row.key in "AB"
                self.text(x, self.y, f"{cell.text} {cell.unit}".rstrip(), bold=bold, anchor="end")
            self._bar(row, bar, bar_end)
            self.y += 7

    def _bar(self, row: Row, left: float, right: float) -> None:
        theme = self.theme
        if row.key not in "AB":
            words = ", ".join(f"{part.text} {part.kind}" for part in row.bar if part.text[:1] in "+\u2212")
            self.text(left, self.y, fit(words, 1.1 * (right - left), 12), fill=theme.muted)
            return
        x, top = left, self.y - 11
        for part in row.bar:
            w = part.share * (right - left)
            fill = {
                "launch": "none",
                "reading": theme.slate,
                "fixed": mix(theme.slate, theme.background, theme.foot_share),
                "waiting": "none",
                "merge": "url(#merge)",
            }[part.kind]
            edge = f' stroke="{theme.muted}"' if part.kind in ("launch", "waiting", "merge") and w >= 1 else ""
            dash = ' stroke-dasharray="2 2"' if part.kind == "waiting" else ""
            self.rect(x, top, w, 13, fill, edge + dash)
            if part.kind != "merge" and w > text_width(part.text, 10) + 6:
                ink = theme.background if part.kind == "reading" else theme.ink
                self.text(x + w / 2, top + 10, part.text, fill=ink, size=10, anchor="middle")
            x += w

    def _legend(self) -> None:
        theme, x = self.theme, float(MARGIN)
        self.y += 16
        self.text(x, self.y, "Requests", fill=theme.muted)
        x += 64
        for chip in self.scene.legend:
            colours = theme.requests[chip.colour :] if chip.request is None else (theme.requests[chip.colour],)
            for colour in colours:
                self.rect(x, self.y - 9, 10, 10, colour)
                x += 10
            x += 5
            self.text(x, self.y, chip.label, bold=chip.selected)
            x += text_width(chip.label, 12) + 6
            self.text(x, self.y, chip.detail, fill=theme.muted)
            x += text_width(chip.detail, 12) + 12
        self.y += 8

    def _panel(self, panel: Panel, layout: Layout) -> None:
        theme, left, right = self.theme, MARGIN + LEFT, MARGIN + LEFT + self.plot
        self.y += HEAD
        unit = "\u00b5s" if self.scene.unit == "us" else "tiles"
        self.text(left - 8, self.y, unit, fill=theme.muted, size=11, anchor="end")
        self.badge(left, self.y - 11, panel.key)
        title = fit(panel.title, 0.45 * self.plot, 12.6)
        self.text(left + 20, self.y, title, bold=True)
        after = left + 28 + text_width(title, 12.6)
        if (room := right - 12 - text_width(panel.note_right, 11) - after) > 40:
            self.text(after, self.y, fit(panel.note, room, 11), fill=theme.muted, size=11)
        self.text(right, self.y, panel.note_right, fill=theme.muted, size=11, anchor="end")
        self.y += HEAD
        top, base = self.y, self.y + layout.height
        for value, words in layout.ticks:
            y = base - value * layout.scale
            self.line(left, y, right, y, theme.grid)
            self.text(left - 8, y + 4, words, fill=theme.muted, size=11, anchor="end")
        self._bins(panel, layout, f'transform="translate({left} {top:.1f})"')
        self._merge(panel, layout, left, base)
        self.line(left, base, right, base, theme.muted)
        self._lines(layout, left, top)
        for block in panel.blocks:
            self._block(block, layout, left, base)
        self._silhouette(panel, layout, base)
        self.y = base + 6
        if panel.residual:
            residual_strip(self, panel, left, self.plot, self.pitch)

    def _bins(self, panel: Panel, layout: Layout, move: str) -> None:
        """The lane; where the plan is drawn too, beside it if there is room, else where its bins end."""
        ghost, beside = panel.ghost, panel.ghost is not None and self.pitch >= HALVES_FROM
        lanes: list[tuple[Lane, tuple[float, float]]] = [(panel, (0.5 if beside else 0.0, 1.0))]
        if beside and ghost is not None:
            lanes.append((ghost, (0.0, 0.5)))
        for lane, part in lanes:
            for shade, (feet, bodies) in bar_paths(lane, self.pitch, layout.scale, layout.height, part).items():
                fill = self.theme.shades[shade]
                pale = mix(fill, self.theme.background, self.theme.foot_share)
                self.parts.append(f'<path d="{feet}" fill="{pale}" {move}/><path d="{bodies}" fill="{fill}" {move}/>')
        if ghost is not None and not beside:
            path = caps(ghost, self.pitch, layout.scale, layout.height)
            for stroke, thick in ((self.theme.background, 3), (self.theme.ink, 1)):
                self.parts.append(f'<path d="{path}" fill="none" stroke="{stroke}" stroke-width="{thick}" {move}/>')

    def _merge(self, panel: Panel, layout: Layout, left: float, base: float) -> None:
        low, high = (base - value * layout.scale for value in panel.merge)
        if low > high:
            self.rect(left, high, self.plot, low - high, "url(#merge)", ' opacity="0.6"')
        wide = max(1, round(self.pitch))
        lefts = (left + round(column * self.pitch) for column in np.flatnonzero(panel.late).tolist())
        ticks = "".join(f"M{x} {high - 6:.1f}h{wide}v3h{-wide}z" for x in lefts)
        if ticks:
            self.parts.append(f'<path d="{ticks}" fill="{self.theme.ink}"/>')

    def _block(self, block: Block, layout: Layout, left: float, base: float) -> None:
        room, tall = (block.last - block.first + 1) * self.pitch, (block.top - block.bottom) * layout.scale
        if tall < 14 or room < text_width(block.text, 11) + 4:
            return
        words = f"request {block.text}"
        words = words if room > text_width(words, 11) + 8 else block.text
        x, y = left + block.first * self.pitch + room / 2, base - (block.bottom + block.top) / 2 * layout.scale + 4
        halo = self.theme.requests[block.colour]  # so that no line of the panel runs through the words
        self.parts.append(f'<g stroke="{halo}" stroke-width="4" stroke-linejoin="round" paint-order="stroke">')
        self.text(x, y, words, fill=self.theme.on_request[block.colour], size=11, bold=True, anchor="middle")
        self.parts.append("</g>")

    def _lines(self, layout: Layout, left: float, top: float) -> None:
        theme, right = self.theme, left + self.plot
        end = right + 6 + SILHOUETTE
        for label in layout.labels:
            y, label_y = round(top + label.y) + 0.5, top + label.label_y
            stroke = theme.slate if label.kind in FAINT else theme.ink
            if label.y >= -HEAD / 2:  # the other panel's makespan may lie above this one: then its label has to do
                self.line(left, y, end, y, stroke, DASHES[label.kind])
                self.line(end, y, end + 9, label_y, theme.line)
            bold = label.kind == "makespan"
            self.text(end + 12, label_y + 4, label.label, fill=theme.muted, size=11)
            self.text(end + RIGHT - SILHOUETTE - 6, label_y + 4, label.text, size=11, bold=bold, anchor="end")

    def _silhouette(self, panel: Panel, layout: Layout, base: float) -> None:
        """How many columns are still running at each height: width over height, from the bottom up."""
        left, running = MARGIN + LEFT + self.plot + 6, panel.silhouette.size
        steps, edges = [f"M{left:.1f} {base:.1f}h{SILHOUETTE}"], np.unique(panel.silhouette, return_counts=True)
        for height, ending in zip(*(values.tolist() for values in edges), strict=True):
            running -= ending
            right = left + SILHOUETTE * running / panel.silhouette.size
            steps.append(f"V{base - height * layout.scale:.1f}H{right:.1f}")
        self.parts.append(f'<path d="{"".join(steps)}Z" fill="{self.theme.grid}" stroke="{self.theme.slate}"/>')

    def _axis(self) -> None:
        left, scene = MARGIN + LEFT, self.scene
        self.y += 8
        if scene.order == "load":
            self.text(left, self.y, "fullest", fill=self.theme.muted, size=11)
            self.text(left + self.plot, self.y, "emptiest", fill=self.theme.muted, size=11, anchor="end")
        else:
            for column, words in axis_ticks(scene, self.pitch):
                anchor = "start" if column == 0 else "middle"
                self.text(left + column * self.pitch, self.y, words, fill=self.theme.muted, size=11, anchor=anchor)
        self.y += 6

    def _footer(self) -> None:
        self.y += 12
        self.line(MARGIN, self.y, self.width - MARGIN, self.y, self.theme.line)
        self.y += 16
        self.text(MARGIN, self.y, ". ".join(self.scene.footer), fill=self.theme.muted, size=11)


__all__ = ["LEAST_WIDTH", "render_svg", "text_width"]
