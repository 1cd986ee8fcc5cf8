"""What the browser is sent: a scene that stays while a slider moves, and a small frame that does not."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from workbench import devices
from workbench.tables import MODELS
from workbench.tune.study_search import METHODS
from workbench.widgets import text
from workbench.widgets.colours import THEMES
from workbench.widgets.tiles import words
from workbench.widgets.tiles.plots import word
from workbench.widgets.tiles.scene import here_of
from workbench.widgets.tiles.session import Session
from workbench.widgets.tiles.state import ATTENTION, CACHES, GPUS, OPERATORS, RANGES
from workbench.widgets.tiles.times import MARKS
from workbench.widgets.tiles.work import CASES, reasons_of

INSTRUCTIONS = {
    "instructions": "instructions",
    "tensor_core": "tensor core",
    "copy_engine": "copy engine (TMA)",
    "spills": "spill loads and stores",
}


def constants() -> dict[str, Any]:
    """What never changes."""
    return {
        "operators": list(OPERATORS.items()),
        "caches": list(CACHES.items()),
        "cases": list(CASES),
        "routers": [[name, f"{name}  {model.k:,} x {model.n}"] for name, model in MODELS.items()],
        "gpus": list(GPUS),
        "methods": list(METHODS),
        "ranges": {name: list(ends) for name, ends in RANGES.items()},
        "compared": ["", "", "registers", "spills, B", "shared, B", "CTAs an SM", "limited by", "waves",
                     "\u00b5s a call", "of default", "error"],
        "themes": {name: theme.to_dict() for name, theme in THEMES.items()},
    }  # fmt: skip


def frame_of(session: Session, scene: dict[str, Any], fault: dict[str, str] | None) -> dict[str, Any]:
    """Everything but the scene."""
    reasons = reasons_of(session.space, session.options, session.values)
    return {
        "settings": _settings(session),
        "parameters": _parameters(session, reasons),
        "refused": session.refused,
        "sentence": [asdict(run) for run in words.sentence(session, reasons)],
        "rows": words.compared(session),
        "limits": words.limits(session.resources),
        "code": _code(session),
        "work": _work(session),
        "study": study_of(session),
        "here": here_of(session, scene),
        "header": _header(session),
        "footer": _footer(session),
        "fault": fault,
    }


def _settings(session: Session) -> dict[str, Any]:
    state = session.state
    names = ("operator", "lengths", "cache", "group", "kv_heads", "q_len", "router", "m", "terms", "gpu", "whole",
             "method", "most", "applicable")  # fmt: skip
    gpu = devices.gpu(state.gpu).name
    return {name: getattr(state, name) for name in names} | {"gpu": gpu.removeprefix("NVIDIA ")}


def _parameters(session: Session, reasons: dict[str, list[str]]) -> list[dict[str, Any]]:
    """A slider each: its values, which of them cannot run with the others, and why."""
    values, default = session.values, session.known.default.to_dict()
    return [
        {
            "name": name,
            "meaning": session.space.meanings[name],
            "values": list(known),
            "words": [word(value) for value in known],
            "reasons": reasons[name],
            "at": known.index(values[name]),
            "default": known.index(default[name]),
        }
        for name, known in session.options.items()
    ]


def _code(session: Session) -> dict[str, Any] | None:
    """Instructions of the kernel on screen; None before they are counted."""
    found = session.resources
    if found is None or found.kernel is None:
        return None
    code = session.compiler.codes.get(found.kernel.key)
    if code is None:
        return {"counts": [], "words": "counting instructions"}
    if code.counts is None:
        return {"counts": [], "words": code.problem}
    counted = code.counts
    details = {name: getattr(counted, name) for name in ("tensor_core", "copy_engine", "spills")}
    counts = [
        [INSTRUCTIONS[name], text.count(number), ", ".join(f"{n} {kind}" for kind, n in details.get(name, {}).items())]
        for name, number in counted.summary().items()
    ]
    return {"counts": counts, "words": ""}


def _work(session: Session) -> dict[str, Any]:
    """What the compiler does."""
    compiler = session.compiler
    state = "refused" if session.refused else "ready" if session.resources is not None else "compiling"
    if state == "compiling" and not compiler.running:
        state = "waiting"
    return {"state": state, "done": compiler.done, "total": compiler.total, "problem": compiler.problem}


def study_of(session: Session) -> dict[str, Any]:
    """The study of the workload on screen: what can be done, how far it is, what it found."""
    study, known, read = session.study, session.known, session.read
    here = study.plan is not None and study.plan.space is known.space
    elsewhere = study.running and not here
    failed = sum(trial.state != "timed" for trial in known.trials.values())
    total = study.total if here else 0
    share = study.done / total if total else 0.0
    finished = read is not None and read.result is not None and not (here and study.running)
    return {
        "status": study.status if here else "idle",
        "actions": _actions(study.status if here else "idle", elsewhere, bool(known.trials), study.unavailable),
        "done": study.done if here else len(known.trials),
        "total": total,
        "share": round(share, 4),
        "words": _study_words(session, here, elsewhere),
        "counts": f"{study.done:,} of {total:,} tried" if here and total else "",
        "eta": _eta(study.eta_s) if here and study.status == "running" and 0 < study.done < total else "",
        "failed": text.plural(failed, "failure") if failed else "",
        "failures": [f"{words.difference(known.space.make(t.config), known.default)}: {t.state}: {t.reason}"
                     for t in list(known.trials.values()) if t.state != "timed"][:20],
        "unavailable": study.unavailable,
        "verdict": words.verdict(known),
        "can_apply": finished,
        "applied": session.applied,
        "journal": read.path.name if read is not None else "",
    }  # fmt: skip


def _actions(status: str, elsewhere: bool, some: bool, unavailable: str) -> list[list[str]]:
    """Buttons: what they ask for, and what is written on them."""
    if unavailable or elsewhere:
        return []
    if status in ("running", "finals", "starting"):
        return [["pause", "Pause"], ["cancel", "Cancel"]] if status != "starting" else [["cancel", "Cancel"]]
    if status in ("paused", "pausing"):
        return [["resume", "Resume"], ["cancel", "Cancel"]]
    if status == "cancelling":
        return []
    return [["start", "Go on" if some and status != "finished" else "Start a study"]]


def _study_words(session: Session, here: bool, elsewhere: bool) -> str:
    study, known = session.study, session.known
    if session.journal_problem:
        return session.journal_problem
    if elsewhere and study.plan is not None:
        return f"a study of {study.plan.space.workload.case} runs"
    if here and study.status not in ("idle", "finished"):
        said = {
            "starting": "making inputs on the GPU",
            "running": "each is checked against float64, then timed in turns with the default",
            "finals": "finals: the best take turns, the slower half goes",
            "pausing": "pausing after the trial in flight",
            "paused": "paused; the GPU is kept",
            "cancelling": "ending after the trial in flight",
            "cancelled": "cancelled; what was finished is in the journal",
            "failed": study.problem,
        }
        return said[study.status]
    if known.trials:
        return f"{text.plural(len(known.trials), 'trial')}, {known.measured_words}"
    if known.recorded.times:
        return f"{text.plural(len(known.recorded.times), 'configuration')} {known.recorded.words[0]}"
    return "no study and no records of this workload: times are modelled"


def _eta(seconds: float) -> str:
    if seconds < 90:
        return f"about {max(round(seconds), 1)} s to go"
    return f"about {round(seconds / 60)} min to go"


def _header(session: Session) -> list[str]:
    work, device = session.space.workload, session.known.device
    facts = [work.case, f"{CACHES[session.state.cache]} cache"] if session.state.operator == ATTENTION else [work.case]
    if session.state.operator != ATTENTION:
        facts.append(f"{session.state.terms} terms")
    return [*facts, f"{device.name}, {device.sms} SMs"]


def _footer(session: Session) -> list[str]:
    known = session.known
    lines = [f"{MARKS['modelled']} modelled, {MARKS['recorded']} recorded, {MARKS['measured']} measured"]
    lines += known.recorded.words
    if known.measured_words:
        lines.append(known.measured_words)
    if known.recorded.left_out:
        left_out = text.plural(known.recorded.left_out, "record")
        lines.append(f"{left_out} of an earlier kernel with other parameters left out")
    return [*lines, "resources: compiled, not run; residency by NVIDIA's occupancy rules"]
