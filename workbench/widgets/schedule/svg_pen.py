"""Words, boxes and lines as SVG text."""

from __future__ import annotations

from xml.sax.saxutils import escape

from workbench.widgets.colours import Theme

FONT = "Inter, ui-sans-serif, system-ui, 'Segoe UI', 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif"

# Average advance of a character over its font size, for deciding whether a label fits.
ADVANCE = 0.58


class Pen:
    """Collects elements from top to bottom.

    Parameters
    ----------
    theme
        Colours.
    width
        Pixels of the document.

    Attributes
    ----------
    parts : list of str
        Elements so far.
    y : float
        Where the next thing begins, pixels from the top.
    """

    def __init__(self, theme: Theme, width: int) -> None:
        self.theme, self.width = theme, width
        self.parts: list[str] = []
        self.y = 0.0

    def text(
        self, x: float, y: float, words: str, *, fill: str = "", size: float = 0, bold: bool = False, anchor: str = ""
    ) -> None:
        """Words at a point on their baseline; ``anchor`` as SVG has it."""
        style = f' font-size="{size:g}"' if size else ""
        style += ' font-weight="600"' if bold else ""
        style += f' text-anchor="{anchor}"' if anchor else ""
        place = f'x="{x:.1f}" y="{y:.1f}" fill="{fill or self.theme.ink}"{style}'
        self.parts.append(f"<text {place}>{clean(words)}</text>")

    def rect(self, x: float, y: float, w: float, h: float, fill: str, extra: str = "") -> None:
        """A filled box; ``extra`` are further attributes."""
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" fill="{fill}"{extra}/>')

    def line(self, x1: float, y1: float, x2: float, y2: float, stroke: str, dash: str = "") -> None:
        """A straight line; ``dash`` as SVG has it."""
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" stroke="{stroke}" fill="none"{dashed}/>')

    def paragraph(self, words: str, size: float, *, margin: float, below: float, fill: str = "") -> None:
        """Words from where the next thing begins, in as many lines as they need between the margins.

        Parameters
        ----------
        words
        size
            Of the font, pixels.
        margin
            Pixels on either side.
        below
            Pixels between the last baseline and the next thing.
        fill
            Colour; that of ink if empty.
        """
        line = ""
        for word in words.split(" "):
            longer = f"{line} {word}".strip()
            if text_width(longer, size) > self.width - 2 * margin and line:
                self.text(margin, self.y + size, line, size=size, fill=fill)
                self.y += size + 5
                longer = word
            line = longer
        self.text(margin, self.y + size, line, size=size, fill=fill)
        self.y += size + below

    def finished(self, title: str, description: str, *, margin: float, defs: str = "") -> str:
        """The document that the elements so far make; ``defs`` are elements that others refer to."""
        height = self.y + margin
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {height:.0f}" width="{self.width}" '
            f'height="{height:.0f}" role="img" font-family="{FONT}" font-size="12">'
        )
        named = f"<title>{clean(title)}</title><desc>{clean(description)}</desc>"
        back = f'<rect width="100%" height="100%" fill="{self.theme.background}"/>'
        return "\n".join([head, named, *filter(None, [defs]), back, *self.parts, "</svg>"])

    def badge(self, x: float, y: float, key: str) -> None:
        """The letter of a policy in a box."""
        self.rect(x, y, 14, 14, self.theme.ink if key == "A" else self.theme.slate, ' rx="2"')
        self.text(x + 7, y + 11, key, fill=self.theme.background, size=11, bold=True, anchor="middle")


def text_width(words: str, font_size: float) -> float:
    """About how wide ``words`` are, in pixels."""
    return len(words) * font_size * ADVANCE


def fit(words: str, room: float, size: float) -> str:
    """``words``, cut with an ellipsis where they are too wide."""
    most = max(int(room / (size * ADVANCE)), 4)
    return words if len(words) <= most else words[: most - 1] + "\u2026"


def clean(words: str) -> str:
    """Text safe inside an element: XML's special characters escaped, control characters (not XML at all) dropped."""
    return escape("".join(c for c in words if c >= " " and not 0xD800 <= ord(c) <= 0xDFFF and c not in "\ufffe\uffff"))
