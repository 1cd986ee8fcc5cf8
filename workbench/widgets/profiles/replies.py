"""What the browser answers to each kind of message that a view sends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from workbench.errors import WorkbenchError
from workbench.widgets.base import Reply
from workbench.widgets.profiles.bins import Lane
from workbench.widgets.profiles.frames import legend, rows

if TYPE_CHECKING:
    from workbench.widgets.profiles.browser import ProfileBrowser


def _set(browser: ProfileBrowser, message: dict[str, Any]) -> Reply:
    browser.set_from_view(message["view"], message["number"], dict(message["changes"]))
    return None


def _pick(browser: ProfileBrowser, message: dict[str, Any]) -> Reply:
    """Pick a capture, or drop it; `alone` drops all others."""
    picks, key = browser.session.state.picks, str(message["key"])
    rest = () if message.get("alone") else tuple(one for one in picks if one != key)
    changed = rest if key in picks and not message.get("alone") else (*rest, key)
    browser.set_from_view(message["view"], message["number"], {"picks": changed})
    return None


def _note(browser: ProfileBrowser, message: dict[str, Any]) -> Reply:
    browser.note_from_view(message["view"], message["number"], str(message["key"]), str(message["text"]))
    return None


def _reload(browser: ProfileBrowser, message: dict[str, Any]) -> Reply:
    browser.reload_from_view(message["view"], message["number"])
    return None


def _rows(browser: ProfileBrowser, message: dict[str, Any]) -> Reply:
    if message["frame"] != browser.frame["number"]:
        return None  # the table has changed since; the view asks again
    first, last = int(message["first"]), int(message["last"])
    return {"frame": message["frame"], "first": first, "rows": rows(browser.session, first, last)}, []


def _bins(browser: ProfileBrowser, message: dict[str, Any]) -> Reply:
    """Plan and stamps of each picked capture: words and charts as text, pieces as arrays."""
    found: list[dict[str, Any]] = []
    buffers: list[bytes] = []
    session = browser.session
    for entry, capture in zip(legend(session), session.picked, strict=True):
        one = session.beside(capture)
        lanes = [_lane(lane, buffers) for lane in (one.planned, one.measured) if lane is not None]
        busy = None if one.busy is None else asdict(one.busy)
        found.append({**entry, "lanes": lanes, "busy": busy, "words": one.words})
    return {"frame": message["frame"], "captures": found}, buffers


def _lane(lane: Lane, buffers: list[bytes]) -> dict[str, Any]:
    first = len(buffers)
    buffers += [array.tobytes() for array in (lane.column, lane.start, lane.foot, lane.end, lane.shade)]
    return {"title": lane.title, "columns": lane.columns, "span_us": lane.span_us, "buffers": first}


def _file(browser: ProfileBrowser, message: dict[str, Any]) -> Reply:
    """The captures as a file: those that are picked, or all that the filters let through."""
    what = message["what"]
    make: dict[str, Callable[[str], tuple[str, str, str | bytes]]] = {
        "csv": lambda _: ("captures.csv", "text/csv", browser.to_csv()),
        "parquet": lambda _: ("captures.parquet", "application/vnd.apache.parquet", browser.to_parquet()),
        "html": lambda _: ("captures.html", "text/html", browser.to_html()),
        "svg": lambda theme: ("captures.svg", "image/svg+xml", browser.to_svg(theme=theme)),
        "png": lambda theme: ("captures.png", "image/svg+xml", browser.to_svg(theme=theme)),
        "code": lambda _: ("browser.py", "text/x-python", browser.copy_as_code()),
    }
    try:
        name, mime, content = make[what](message["theme"])
    except WorkbenchError as error:
        return {"what": what, "problem": str(error)}, []
    said = {"what": what, "name": name, "mime": mime}
    return ({**said, "text": content}, []) if isinstance(content, str) else (said, [content])


REPLIES: dict[str, Callable[[ProfileBrowser, dict[str, Any]], Reply]] = {
    "set": _set,
    "pick": _pick,
    "note": _note,
    "reload": _reload,
    "rows": _rows,
    "bins": _bins,
    "file": _file,
}
