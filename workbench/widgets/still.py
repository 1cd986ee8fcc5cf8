"""A widget's screen as a picture for whoever opens the saved notebook without its kernel; what one may be asked for."""

from __future__ import annotations

import base64
import html
from numbers import Integral

from workbench.errors import InvalidArgument
from workbench.widgets.colours import THEMES


def still_html(title: str, svg: str, words: str, mark: str) -> str:
    """A screen as an HTML image, which needs no script and passes the filters of untrusted notebooks.

    Parameters
    ----------
    title
        Name of the widget.
    svg
        The screen as an SVG document.
    words
        The screen in words, for who does not see it.
    mark
        Class of the element, by which live views find and hide it.
    """
    data = base64.b64encode(svg.encode()).decode()
    note = f"{title} as it was when its cell was run. Run the cell again for the live one."
    return (
        f'<div class="{mark}"><p><small>{note}</small></p>'
        f'<img alt="{html.escape(words)}" style="max-width: 100%" src="data:image/svg+xml;base64,{data}"/></div>'
    )


def check_picture(theme: object, width: object) -> None:
    """Check what a picture of a screen is asked for.

    Raises
    ------
    InvalidArgument
        `theme` is none of :data:`workbench.widgets.colours.THEMES`, or `width` is no whole number of pixels from 1.
    """
    if not isinstance(theme, str) or theme not in THEMES:
        raise InvalidArgument(f"theme is {theme!r}; give {' or '.join(repr(name) for name in THEMES)}.")
    if isinstance(width, bool) or not isinstance(width, Integral) or width < 1:
        raise InvalidArgument(f"width is {width!r}; give a whole number of pixels, such as 1100.")
