"""A widget's screen as a picture for whoever opens the saved notebook without its kernel."""

from __future__ import annotations

import base64
import html


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
