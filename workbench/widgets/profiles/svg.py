"""The browser's screen as one SVG text: for exported notebooks and the export menu. No script, no network."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.widgets import text
from workbench.widgets.colours import THEMES, mix
from workbench.widgets.profiles.bins import MERGE, Lane
from workbench.widgets.profiles.chart import Chart
from workbench.widgets.profiles.compare import BEYOND, Row
from workbench.widgets.profiles.frames import columns, facts, legend, own_chart, rows, same_in_all
from workbench.widgets.profiles.roofline import roofline
from workbench.widgets.profiles.session import LETTERS, Session
from workbench.widgets.profiles.svg_chart import draw_chart
from workbench.widgets.profiles.words import EMPTY, cautions, difference_words, sentence
from workbench.widgets.schedule.svg_pen import Pen, fit, text_width

MARGIN, LINE, LEAST_WIDTH = 16, 18, 720
LISTED = 12
"""Rows of the table in the picture, besides the picked ones."""

NOISE = {"within": "  within noise", "unknown": "  noise ?"}
SHORT_NOISE = {"within": " (noise)", "unknown": " (?)"}
"""Where many captures stand side by side."""

MOST_PIECES = 6000
"""Beyond, the picture of a schedule would be megabytes; it is left to the live view."""


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
        One ``<svg>`` element with ``viewBox``, ``role="img"``, a title and a description; every text is escaped.
    """
    return _Drawing(session, theme, max(width, LEAST_WIDTH)).document()


class _Drawing(Pen):
    """Writes one document from top to bottom."""

    def __init__(self, session: Session, theme: str, width: int) -> None:
        super().__init__(THEMES[theme], width)
        self.session = session
        self.y = float(MARGIN)

    def document(self) -> str:
        """The finished text."""
        session, words = self.session, sentence(self.session)
        head = " / ".join(facts(session))
        self.text(MARGIN, self.y + 12, f"Profiles  {head}", size=13, bold=True)
        self.y += 26
        self._paragraph(words, 14)
        if session.captures:
            self._table()
            self._view()
        else:
            self._help()
        return self.finished(f"Profile browser, {head}", words, margin=MARGIN)

    def _paragraph(self, words: str, size: float, fill: str = "") -> None:
        self.paragraph(words, size, margin=MARGIN, below=10, fill=fill)

    def _help(self) -> None:
        for what, code in EMPTY:
            self._paragraph(what, 12, self.theme.muted)
            for line in code.splitlines():
                self.text(MARGIN + 12, self.y + 8, line, size=12)
                self.y += 17
            self.y += 8

    def _mark(self, x: float, y: float, pick: int, letter: str) -> None:
        self.rect(x, y, 15, 15, self.theme.requests[pick], ' rx="2"')
        self.text(x + 7.5, y + 11.5, letter, fill=self.theme.on_request[pick], size=11, bold=True, anchor="middle")

    def _table(self) -> None:
        session = self.session
        every = rows(session, 0, len(session.shown) if len(session.shown) <= 200 else LISTED)
        listed = [row for at, row in enumerate(every) if at < LISTED or row["pick"] >= 0]
        if same := same_in_all(session):
            self._paragraph(f"the same in all: {same}", 11, self.theme.muted)
        named = columns(session)
        widths = self._widths(named, listed)
        x = float(MARGIN + 24)
        for column, wide in zip(named, widths, strict=True):
            end = column["number"]
            self.text(x + (wide - 12 if end else 0), self.y + 10, fit(column["title"], wide - 8, 11),
                      fill=self.theme.muted, size=11, anchor="end" if end else "")  # fmt: skip
            x += wide
        self.y += 16
        for row in listed:
            self.line(MARGIN, self.y, self.width - MARGIN, self.y, self.theme.grid)
            if row["pick"] >= 0:
                self._mark(MARGIN, self.y + 2, row["pick"], LETTERS[row["pick"]])
            x = float(MARGIN + 24)
            for column, cell, wide in zip(named, row["cells"], widths, strict=True):
                end = column["number"]
                bold = row["pick"] >= 0
                self.text(x + (wide - 12 if end else 0), self.y + 14, fit(cell, (wide - 8) / (1.1 if bold else 1), 12),
                          anchor="end" if end else "", bold=bold)  # fmt: skip
                x += wide
            self.y += 20
        if hidden := len(session.shown) - len(listed):
            self.text(MARGIN + 24, self.y + 13, f"and {text.plural(hidden, 'capture')} more", fill=self.theme.muted)
            self.y += 20
        self.y += 14

    def _widths(self, named: Sequence[dict[str, object]], listed: Sequence[dict[str, list[str]]]) -> list[float]:
        """Room for each column: what its longest text needs, all scaled to the width."""
        needed = [
            min(max([text_width(str(c["title"]), 11), *(text_width(row["cells"][at], 12) for row in listed)]), 260) + 22
            for at, c in enumerate(named)
        ]
        scale = (self.width - 2 * MARGIN - 24) / sum(needed)
        return [wide * scale for wide in needed]

    def _view(self) -> None:
        session = self.session
        picked, view = session.picked, session.state.view
        for at, said in enumerate(legend(session)):
            self._mark(MARGIN, self.y, at, said["letter"])
            self.text(MARGIN + 24, self.y + 12, fit(f"{said['title']}   {said['rest']}", self.width - 60, 12))
            self.y += LINE + 2
        for line in cautions(picked):
            self._paragraph(line, 12, self.theme.muted)
        self.y += 6
        if view == "parameter":
            self._chart(own_chart(session))
        if not picked:
            return
        if view == "roofline":
            self._chart(roofline(picked, session.limits()))
        elif view == "schedule":
            self._schedule()
        elif view == "compare":
            self._compare(session.rows)

    def _compare(self, found: Sequence[Row]) -> None:
        picked, left = self.session.picked, MARGIN + 250
        each = min((self.width - MARGIN - left) / max(len(picked), 1), 230)
        noise = NOISE if each >= 200 else SHORT_NOISE
        for at, letter in enumerate(LETTERS[: len(picked)]):
            self._mark(left + at * each + 49, self.y, at, letter)
        group = ""
        for row in found:
            if row.group != group:
                group = row.group
                self.text(MARGIN, self.y + 13, group, size=11, fill=self.theme.muted, bold=True)
                self.y += 19
            units = {row.scale.name or reading.unit for reading in row.readings if reading is not None}
            unit = units.pop() if len(units) == 1 else ""
            self.text(MARGIN, self.y + 12, fit(f"{row.title} {unit}".strip(), left - MARGIN - 8, 12))
            for at, (reading, change) in enumerate(zip(row.readings, row.differences, strict=True)):
                x = left + at * each
                if reading is not None:
                    value = row.scale.write(reading.value)
                    self.text(x + 64, self.y + 12, value if unit or not reading.unit else f"{value} {reading.unit}",
                              anchor="end")  # fmt: skip
                if change is not None:
                    fill = self.theme.ink if change.verdict == BEYOND else self.theme.muted
                    words = fit(f"{difference_words(row, change)}{noise.get(change.verdict, '')}", each - 78, 11)
                    self.text(x + 72, self.y + 12, words, fill=fill, size=11, bold=change.verdict == BEYOND)
            self.y += LINE
        self.y += 8

    def _chart(self, chart: Chart) -> None:
        draw_chart(self, chart, left=MARGIN, right=self.width - MARGIN, letters=LETTERS)
        for note in chart.notes:
            self.text(MARGIN, self.y + 11, fit(note, self.width - 2 * MARGIN, 11), fill=self.theme.muted, size=11)
            self.y += LINE - 2
        self.y += 6

    def _schedule(self) -> None:
        session = self.session
        found = [(at, session.beside(capture)) for at, capture in enumerate(session.picked)]
        span = max((lane.span_us for _, one in found for lane in (one.planned, one.measured) if lane), default=1.0)
        for at, one in found:
            self._mark(MARGIN, self.y, at, LETTERS[at])
            self.text(MARGIN + 24, self.y + 12, fit(one.words, self.width - 60, 12), fill=self.theme.muted)
            self.y += LINE + 4
            room = (self.width - 2 * MARGIN - 20) / 2
            lanes = [lane for lane in (one.planned, one.measured) if lane is not None]
            for which, lane in enumerate(lanes):
                self._lane(lane, MARGIN + which * (room + 20), room, span)
            self.y += 130 if lanes else 0

    def _lane(self, lane: Lane, left: float, room: float, span: float) -> None:
        bottom, tall = self.y + 112, 96
        self.text(left, self.y + 9, f"{lane.title}, {lane.span_us:.1f} \u00b5s", size=11, fill=self.theme.muted)
        if lane.start.size > MOST_PIECES:
            self.text(left, bottom - 40, f"{lane.start.size:,} pieces: see the live view", fill=self.theme.muted)
            return
        wide = room / lane.columns
        times = (lane.start.tolist(), lane.foot.tolist(), lane.end.tolist())
        for column, start, foot, end, shade in zip(lane.column.tolist(), *times, lane.shade.tolist(), strict=True):
            fill = self.theme.ink if shade == MERGE else mix(self.theme.requests[shade], self.theme.slate, 0.6)
            x, each = left + column * wide, max(wide - 0.3, 0.4)
            if foot > start:
                pale = mix(fill, self.theme.background, self.theme.foot_share)
                self.rect(x, bottom - foot / span * tall, each, (foot - start) / span * tall, pale)
            self.rect(x, bottom - end / span * tall, each, max((end - foot) / span * tall, 0.4), fill)
        self.line(left, bottom, left + room, bottom, self.theme.line)
