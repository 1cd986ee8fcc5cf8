"""The tuner's screen as one SVG text: for exported notebooks and the export menu. It needs no script and no network."""

from __future__ import annotations

from typing import Any

from workbench.widgets.colours import FIRST_STEP, THEMES, mix
from workbench.widgets.schedule.svg_pen import Pen, fit, text_width
from workbench.widgets.tiles import words
from workbench.widgets.tiles.frames import constants, frame_of
from workbench.widgets.tiles.scene import scene_of
from workbench.widgets.tiles.session import Session

MARGIN, LEFT, GAP = 16, 54, 28
PLOT, SIDE = 190, 46
LEAST_WIDTH = 960
LISTED = 12
WIDE = 2.4
"""Width of the column that names what limits an SM, over that of a number."""

BEST = 2
"""Colour class of the best configuration; 0 is the one on screen, ink the default."""


def render_svg(session: Session, *, theme: str = "light", width: int = 1100) -> str:
    """Draw the screen.

    Parameters
    ----------
    session
        What is shown.
    theme
        "light" or "dark".
    width
        Pixels, at least 960.

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
        self.session = session
        self.scene = scene_of(session)
        self.frame = frame_of(session, self.scene, None)
        self.y = float(MARGIN)

    def document(self) -> str:
        """The finished text."""
        header = " / ".join(self.frame["header"])
        self.text(MARGIN, self.y + 12, f"Tiles  {header}", size=13, bold=True)
        self.y += 26
        said = "".join(run["text"] for run in self.frame["sentence"])
        values = self.frame["parameters"]
        chosen = "  ".join(f"{each['name']} {each['words'][each['at']]}" for each in values)
        self.paragraph(chosen, 12, margin=MARGIN, below=11, fill=self.theme.muted)
        self.paragraph(said, 15, margin=MARGIN, below=11)
        self._compared()
        half = (self.width - 2 * MARGIN - GAP) / 2
        top = self.y
        self._scatter("occupancy", "Time over occupancy", MARGIN, top, half)
        self._scatter("error", "Error over time", MARGIN + half + GAP, top, half)
        self.y = top + PLOT + 68
        self._parallel()
        self._list()
        if verdict := words.verdict(self.session.known):
            self.paragraph(f"Best against the default: {verdict}", 12, margin=MARGIN, below=11)
        for line in self.frame["footer"]:
            self.text(MARGIN, self.y + 11, fit(line, self.width - 2 * MARGIN, 11), fill=self.theme.muted, size=11)
            self.y += 15
        return self.finished(f"Tile tuner, {header}", said, margin=MARGIN)

    def _compared(self) -> None:
        """The configuration on screen beside the default and the best."""
        heads = constants()["compared"][2:]
        first, muted = MARGIN + 290, self.theme.muted
        shares = [WIDE if head == "limited by" else 1.0 for head in heads]
        step = (self.width - MARGIN - first) / sum(shares)
        ends = [first + sum(shares[: at + 1]) * step for at in range(len(heads))]
        for end, head in zip(ends, heads, strict=True):
            self.text(end, self.y + 10, head, fill=muted, size=11, anchor="end")
        self.y += 16
        for row in self.frame["rows"]:
            self._dot(MARGIN + 5, self.y + 9, row["key"])
            self.text(MARGIN + 16, self.y + 13, row["title"])
            self.text(MARGIN + 112, self.y + 13, fit(row["differs"], 200, 12), fill=muted)
            for at, cell in enumerate(row["cells"]):
                said = f"{cell} {row['mark']}" if at == 6 else cell
                self.text(ends[at], self.y + 13, fit(said, shares[at] * step - 4, 12), anchor="end", bold=at == 6)
            self.y += 20
        self.y += 14

    def _dot(self, x: float, y: float, key: str) -> None:
        if key == "here":
            ring = f'fill="none" stroke="{self.theme.requests[0]}" stroke-width="2"'
            self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" {ring}/>')
        else:
            colour = self.theme.requests[BEST] if key == "best" else self.theme.ink
            self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>')

    def _colour(self, row: dict[str, Any]) -> str:
        if "best" in row["tags"]:
            return self.theme.requests[BEST]
        return self.theme.ink if row["tags"] else self.theme.requests[FIRST_STEP + row["shade"]]

    def _scatter(self, kind: str, title: str, left: float, top: float, width: float) -> None:
        plot, theme = self.scene[kind], self.theme
        self.text(left, top + 11, title, bold=True)
        if plot["empty"]:
            self.text(left, top + PLOT / 2, fit(plot["empty"], width, 11), fill=theme.muted, size=11)
            return
        from_x, to_x, from_y, to_y = left + LEFT, left + width - 6, top + 24, top + 24 + PLOT

        def at(x: float, y: float) -> tuple[float, float]:
            return from_x + x * (to_x - from_x), to_y - y * (to_y - from_y)

        for place, said in plot["y"]["ticks"]:
            y = at(0, place)[1]
            self.line(from_x, y, to_x, y, theme.grid)
            self.text(from_x - 6, y + 4, said, fill=theme.muted, size=11, anchor="end")
        for place, said in plot["x"]["ticks"]:
            self.text(at(place, 0)[0], to_y + 14, said, fill=theme.muted, size=11, anchor="middle")
        self.text(to_x, to_y + 27, plot["x"]["title"], fill=theme.muted, size=11, anchor="end")
        self.text(left, to_y + 27, plot["y"]["title"], fill=theme.muted, size=11)
        for row, px, py in reversed(plot["points"]):
            each = self.scene["rows"][row]
            x, y = at(px, py)
            colour = self._colour(each)
            inside = theme.background if each["origin"] == "modelled" else colour
            share = ' fill-opacity="0.55"' if each["origin"] == "recorded" else ""
            edge = colour if each["tags"] else theme.requests[-1]
            radius = 4.5 if each["tags"] else 3
            self.parts.append(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{inside}"{share} stroke="{edge}"/>'
            )
        here = self.frame["here"][kind]
        if here:
            x, y = at(*here)
            ring = f'fill="none" stroke="{theme.requests[0]}" stroke-width="2.5"'
            self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6" {ring}/>')

    def _parallel(self) -> None:
        theme, columns = self.theme, self.scene["columns"]
        self.text(MARGIN, self.y + 11, "All parameters at once", bold=True)
        top, bottom = self.y + 40, self.y + 40 + PLOT
        step = (self.width - 2 * MARGIN - 2 * SIDE) / max(len(columns) - 1, 1)
        xs = [MARGIN + SIDE + at * step for at in range(len(columns))]

        def path(line: list[float | None]) -> str:
            parts, is_open = [], False
            for x, place in zip(xs, line, strict=True):
                if place is not None:
                    parts.append(f"{'L' if is_open else 'M'}{x:.1f} {bottom - place * (bottom - top):.1f}")
                is_open = place is not None
            return "".join(parts)

        for row in sorted(self.scene["rows"], key=lambda row: (bool(row["tags"]), row["shade"])):
            dash = ' stroke-dasharray="4 2"' if row["origin"] == "modelled" and not row["tags"] else ""
            colour = self._colour(row) if row["tags"] else mix(self._colour(row), theme.background, 0.6)
            width = 2 if row["tags"] else 1
            self.parts.append(
                f'<path d="{path(row["line"])}" fill="none" stroke="{colour}" stroke-width="{width}"{dash}/>'
            )
        if line := self.frame["here"]["line"]:
            stroke = f'stroke="{theme.requests[0]}" stroke-width="2.5"'
            self.parts.append(f'<path d="{path(line)}" fill="none" {stroke}/>')
        for x, column in zip(xs, columns, strict=True):
            self.line(x, top, x, bottom, theme.muted)
            self.text(x, top - 12, column["axis"]["title"], size=11, bold=True, anchor="middle")
            for place, said in column["axis"]["ticks"]:
                y = bottom - place * (bottom - top)
                wide = text_width(said, 11) + 4
                self.rect(x - 6 - wide, y - 7, wide, 14, theme.background, ' fill-opacity="0.75"')
                self.text(x - 7, y + 4, said, size=11, anchor="end")
        self.y = bottom + 22

    def _list(self) -> None:
        """The first configurations of the table."""
        scene, theme = self.scene, self.theme
        heads = scene["headings"]
        step = (self.width - 2 * MARGIN - 20) / len(heads)
        self.text(MARGIN, self.y + 11, "Configurations", bold=True)
        self.text(MARGIN + 100, self.y + 11, fit(scene["note"], self.width - 140, 11), fill=theme.muted, size=11)
        self.y += 20
        for at, head in enumerate(heads):
            self.text(MARGIN + 20 + (at + 1) * step, self.y + 10, head, fill=theme.muted, size=11, anchor="end")
        self.y += 16
        for row in scene["rows"][:LISTED]:
            for at, tag in enumerate(row["tags"]):
                self._dot(MARGIN + 5 + 10 * at, self.y + 8, tag)
            for at, cell in enumerate(row["cells"]):
                said = f"{cell} {row['mark']}" if at == len(heads) - 3 else cell
                self.text(MARGIN + 20 + (at + 1) * step, self.y + 12, said, anchor="end")
            self.y += 18
        self.y += 12
