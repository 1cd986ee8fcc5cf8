"""What the tuner answers to each kind of message that a view sends."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from workbench.errors import WorkbenchError
from workbench.widgets.base import Reply
from workbench.widgets.tiles.exports import sass_of, table_csv

if TYPE_CHECKING:
    from workbench.widgets.tiles.tuner import TileTuner


def _set(tuner: TileTuner, message: dict[str, Any]) -> Reply:
    tuner.set_from_view(message["view"], message["number"], dict(message["changes"]))
    return None


def _act(tuner: TileTuner, message: dict[str, Any]) -> Reply:
    tuner.set_from_view(message["view"], message["number"], {}, action=str(message["action"]))
    return None


def _file(tuner: TileTuner, message: dict[str, Any]) -> Reply:
    what = message["what"]
    make: dict[str, Callable[[str], tuple[str, str, str]]] = {
        "svg": lambda theme: ("tiles.svg", "image/svg+xml", tuner.to_svg(theme=theme)),
        "png": lambda theme: ("tiles.png", "image/svg+xml", tuner.to_svg(theme=theme)),
        "table": lambda _: ("configurations.csv", "text/csv", table_csv(tuner.session)),
        "sass": lambda _: ("kernel.sass", "text/plain", sass_of(tuner.session)),
        "code": lambda _: ("tuner.py", "text/x-python", tuner.copy_as_code()),
    }
    try:
        name, mime, content = make[what](message["theme"])
    except WorkbenchError as error:
        return {"what": what, "problem": str(error)}, []
    return {"what": what, "name": name, "mime": mime, "text": content}, []


REPLIES: dict[str, Callable[[TileTuner, dict[str, Any]], Reply]] = {"set": _set, "act": _act, "file": _file}
