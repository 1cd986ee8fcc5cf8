"""What the tuner answers to each kind of message that a view sends."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from workbench.errors import WorkbenchError
from workbench.widgets.base import Reply
from workbench.widgets.crossover.exports import cost_of, sglang_export
from workbench.widgets.crossover.words import card

if TYPE_CHECKING:
    from workbench.widgets.crossover.tuner import CrossoverTuner


def _set(tuner: CrossoverTuner, message: dict[str, Any]) -> Reply:
    tuner.set_from_view(message["view"], message["number"], dict(message["changes"]))
    return None


def _live(tuner: CrossoverTuner, message: dict[str, Any]) -> Reply:
    tuner.set_from_view(message["view"], message["number"], {}, action=str(message["action"]))
    return None


def _card(tuner: CrossoverTuner, message: dict[str, Any]) -> Reply:
    shown = tuner.session.evaluation
    if shown is None or message["scene"] != tuner.scene["number"]:
        return None
    return {"scene": message["scene"], "card": card(shown.board, max(1, int(message["m"])))}, []


def _file(tuner: CrossoverTuner, message: dict[str, Any]) -> Reply:
    """The rule or the screen as a file; `notice` is shown beside it, line by line."""
    what = message["what"]
    make: dict[str, Callable[[str], dict[str, Any]]] = {
        "svg": lambda theme: _content("crossover.svg", "image/svg+xml", tuner.to_svg(theme=theme)),
        "png": lambda theme: _content("crossover.png", "image/svg+xml", tuner.to_svg(theme=theme)),
        "code": lambda _: _content("tuner.py", "text/x-python", tuner.copy_as_code()),
        "table": lambda _: _content("dispatch.json", "application/json", tuner.table.encode().decode()),
        "module": lambda _: _content("router_dispatch.py", "text/x-python", tuner.to_module()),
        "sglang": lambda _: _sglang(tuner),
        "save": lambda _: {"notice": [f"Saved as {tuner.save()}.", 'router_gemm(provider="auto") finds it there.']},
    }
    try:
        return {"what": what, **make[what](message["theme"])}, []
    except WorkbenchError as error:
        return {"what": what, "problem": str(error)}, []


def _content(name: str, mime: str, text: str, notice: list[str] | None = None) -> dict[str, Any]:
    return {"name": name, "mime": mime, "text": text, "notice": notice or []}


def _sglang(tuner: CrossoverTuner) -> dict[str, Any]:
    made = sglang_export(tuner.session)
    notice: list[str] = []
    if made.lost:
        cost = cost_of(made.regret)
        notice = [f"SGLang's dict has one threshold and no names. It {cost} the rule on screen:", *made.lost]
    return _content("sglang_thresholds.py", "text/x-python", made.text, notice)


REPLIES: dict[str, Callable[[CrossoverTuner, dict[str, Any]], Reply]] = {
    "set": _set,
    "live": _live,
    "card": _card,
    "file": _file,
}
