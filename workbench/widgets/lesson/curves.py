"""Numbers over a knob, as lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from workbench.errors import InvalidArgument

if TYPE_CHECKING:
    import plotly.graph_objects as go

HUES = ("#4f7fc4", "#d9622b", "#3f9d78", "#c99634", "#8a6fb8")
NEUTRAL = "#7d8894"
"""Text and axes. All of these are legible on JupyterLab's light and dark page, whose colours plotly cannot follow."""


def curves(
    x: Sequence[float],
    lines: Mapping[str, Sequence[float]],
    *,
    title: str,
    x_title: str,
    y_title: str,
    levels: Mapping[str, float] | None = None,
    log_x: bool = False,
    log_y: bool = False,
    markers: bool = True,
) -> go.FigureWidget:
    """A line chart.

    Parameters
    ----------
    x, lines
        Positions, and for each name as many values.
    title, x_title, y_title
        With units.
    levels
        Dotted horizontal lines by name, in the colour of the line of the same position.
    log_x, log_y
        Logarithmic axes; the ticks of a logarithmic x axis are the values of ``x``.
    markers
        Draw the points too.

    Raises
    ------
    InvalidArgument
        When a line has another number of values, or there are more lines than colours.
    """
    import plotly.graph_objects as go

    if len(lines) > len(HUES) or any(len(values) != len(x) for values in lines.values()):
        raise InvalidArgument(f"up to {len(HUES)} lines of {len(x)} values can be drawn; got {len(lines)}.")
    mode = "lines+markers" if markers else "lines"
    traces = [
        go.Scatter(x=list(x), y=list(values), name=name, mode=mode, line={"color": hue, "width": 2})
        for (name, values), hue in zip(lines.items(), HUES, strict=False)
    ]
    traces += [
        go.Scatter(
            x=[x[0], x[-1]], y=[level, level], name=name, mode="lines", line={"color": hue, "width": 1, "dash": "dot"}
        )
        for (name, level), hue in zip((levels or {}).items(), HUES, strict=False)
    ]
    axis = {"gridcolor": "rgba(125,136,148,0.25)", "zeroline": False, "linecolor": NEUTRAL, "ticks": "outside"}
    ticks = {"type": "log", "tickvals": list(x), "ticktext": [f"{value:g}" for value in x]} if log_x else {}
    vertical = {"type": "log"} if log_y else {"rangemode": "tozero"}
    # The layout goes whole to the constructor: views saved with the notebook keep only that.
    return go.FigureWidget(
        traces,
        layout={
            "title": {"text": title, "font": {"size": 14}},
            "height": 340,
            "margin": {"l": 60, "r": 20, "t": 50, "b": 50},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "font": {"color": NEUTRAL, "size": 12},
            "xaxis": {"title": {"text": x_title}, **axis, **ticks},
            "yaxis": {"title": {"text": y_title}, **axis, **vertical},
            "hovermode": "x unified",
            "legend": {"orientation": "v"},
        },
    )
