"""The screen in other forms: a table, machine code, and code that opens the same view."""

from __future__ import annotations

import csv
import io

from workbench.errors import InvalidArgument
from workbench.tune.resources_sass import listing
from workbench.widgets.tiles.scene import stands_of
from workbench.widgets.tiles.session import Session
from workbench.widgets.tiles.state import ATTENTION, State

ATTENTION_ONLY = ("lengths", "cache", "group", "kv_heads", "q_len")
ROUTER_ONLY = ("router", "m", "terms")


def table_csv(session: Session) -> str:
    """The configurations that are listed: parameters, resources where they are known, times and where they are from."""
    out = io.StringIO()
    names = list(session.options)
    resources = ("registers", "spill_store_bytes", "spill_load_bytes", "shared_bytes", "threads", "resident_ctas",
                 "limited_by", "occupancy", "ctas", "waves")  # fmt: skip
    times = ("us", "low", "high", "origin", "words", "rel_error")
    writer = csv.writer(out)
    writer.writerow([*names, *resources, *times])
    for stand in stands_of(session.known):
        values = stand.config.to_dict()
        row = stand.resources.to_row() if stand.resources else {}
        writer.writerow(
            [*(values[name] for name in names), *(row.get(name, "") for name in resources)]
            + [getattr(stand.time, name) for name in times]
        )
    return out.getvalue()


def sass_of(session: Session) -> str:
    """Machine code of the configuration on screen; lines that multiply, copy or spill are marked.

    Raises
    ------
    InvalidArgument
        It cannot run, or does not compile.
    """
    found = session.compile()
    if found.kernel is None:
        raise InvalidArgument(f"there is no machine code: {found.problem}")
    return listing(found.kernel)


def as_code(state: State, default: dict[str, object]) -> str:
    """Python that opens the same view."""
    base = State()
    skipped = ROUTER_ONLY if state.operator == ATTENTION else ATTENTION_ONLY
    lines = ["from workbench import TileTuner", "", "TileTuner(", f"    {state.operator!r},"]
    for name in (*ATTENTION_ONLY, *ROUTER_ONLY, "gpu", "whole", "method", "most", "applicable"):
        value = getattr(state, name)
        if name not in skipped and (value != getattr(base, name) or name in ("lengths", "router", "m")):
            lines.append(f"    {name}={value!r},")
    changed = {name: value for name, value in state.values if value != default[name]}
    if changed:
        lines.append(f"    values={changed!r},")
    return "\n".join([*lines, ")"]) + "\n"
