"""The screen as a picture for whoever opens the saved notebook without its kernel."""

from __future__ import annotations

import base64
import html

from workbench.widgets.schedule.scene import Scene
from workbench.widgets.schedule.svg import render_svg

NOTE = "Schedule explorer as it was when its cell was run. Run the cell again for the live one."


def still_picture(scene: Scene, mark: str) -> str:
    """The screen as an HTML image, which needs no script and passes the filters of untrusted notebooks.

    Parameters
    ----------
    scene
        What to draw.
    mark
        Class of the element, by which live views find and hide it.
    """
    data = base64.b64encode(render_svg(scene).encode()).decode()
    words = html.escape(scene.description)
    return (
        f'<div class="{mark}"><p><small>{NOTE}</small></p>'
        f'<img alt="{words}" style="max-width: 100%" src="data:image/svg+xml;base64,{data}"/></div>'
    )
