"""What else a change of settings brings about: where the step and the selection end up, which parameters are kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from workbench.errors import InvalidArgument, StepOutOfRange
from workbench.widgets.schedule.batches import Batches
from workbench.widgets.schedule.state import State


def remember_parameters(state: State, changes: Mapping[str, Any]) -> State:
    """The state with the parameters of the fixed policies that were just chosen."""
    for name in ("policy_a", "policy_b"):
        base, _, number = getattr(state, name).removesuffix(")").partition("(")
        field = {"fixed_splits": "splits", "fixed_chunk": "chunk"}.get(base)
        if name in changes and field and number.isdigit():
            state = state.change(**{field: int(number)})
    return state


def place(state: State, new: Batches, before: tuple[Batches, State], *, follow: bool) -> State:
    """The state with step and selection checked against the workload.

    Parameters
    ----------
    state
        As asked for.
    new
        The workload that it is for.
    before
        Workload and state until now.
    follow
        Whether the selection follows its request to another step.

    Raises
    ------
    StepOutOfRange, InvalidArgument
        There is no such step or request.
    """
    old, earlier = before
    step = state.step
    if isinstance(step, bool) or not isinstance(step, (int, np.integer)) or not -len(new) <= step < len(new):
        raise StepOutOfRange(f"step is {step!r}. {new.name} has steps 0 to {len(new) - 1:,}.")
    step = int(step) % len(new)
    lengths = new.lengths(step)
    selection = state.selection
    if follow and selection is not None and (new is not old or step != earlier.step):
        rows, after = old.requests(earlier.step), new.requests(step)
        selection = None
        if new is old and rows is not None and after is not None and earlier.selection is not None:
            found = np.flatnonzero(after == rows[earlier.selection])
            selection = int(found[0]) if found.size else None
    if selection is not None:
        whole = isinstance(selection, (int, np.integer)) and not isinstance(selection, bool)
        if not whole or not 0 <= selection < lengths.size:
            raise InvalidArgument(f"selection is {selection!r}. This step has requests 0 to {lengths.size - 1:,}.")
        selection = int(selection)
    return state.change(step=step, selection=selection)
