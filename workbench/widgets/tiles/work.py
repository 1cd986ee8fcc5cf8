"""From the settings to a space, and from wished values to a configuration of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from workbench.errors import InvalidArgument
from workbench.tables import parse_shape
from workbench.tune.space import Space, Value
from workbench.tune.spaces import attention_space, router_space
from workbench.widgets.tiles.state import ATTENTION, State

CASES = ("64x0.5K", "64x4K", "32x0.125K + 32x4K", "2x32K + 30x4K", "1x64K + 15x4K", "1x128K + 31x4K")
"""Batches that are offered by name; there are records of them."""


def space_of(state: State) -> Space:
    """The space of the workload on screen.

    Raises
    ------
    WorkbenchError
        The lengths, the router or the shape cannot be.
    """
    if state.operator == ATTENTION:
        space: Space = attention_space(
            state.lengths,
            cache=state.cache,
            whole=state.whole,
            group=state.group,
            kv_heads=state.kv_heads,
            q_len=state.q_len,
        )
        if not getattr(space, "case").lengths.any():  # noqa: B009 (an attention space has one)
            raise InvalidArgument(f"{state.lengths!r} has no token to attend to; give a length above 0.")
        space.default()  # says whether the kernel takes the heads
        return space
    k, n = parse_shape(state.router)[:2]
    return router_space(state.m, n, k, terms=state.terms, whole=state.whole)


def options_of(space: Space, default: Any) -> dict[str, tuple[Value, ...]]:
    """Values of each parameter that can be set: the space's, and the default's own."""
    return {
        name: tuple(sorted({*values, getattr(default, name)}))
        if getattr(default, name) not in values
        else tuple(sorted(values))
        for name, values in space.parameters.items()
    }


def with_values(
    options: Mapping[str, tuple[Value, ...]], before: Mapping[str, Value], wished: object
) -> tuple[tuple[str, Value], ...]:
    """The values on screen after a wish, in the order of the parameters.

    Parameters
    ----------
    options
        Values of each parameter.
    before
        Values so far.
    wished
        A mapping, pairs, or a configuration; parameters that it lacks stay.

    Raises
    ------
    InvalidArgument
        There is no such parameter, or it does not take the value.
    """
    try:
        changes = dict(cast(Any, getattr(wished, "to_dict", lambda: wished)()))
    except (TypeError, ValueError):
        raise InvalidArgument(
            f"values are {str(wished)[:80]!r}; give a mapping such as {{'stages': 4}}, or a configuration."
        ) from None
    for name, value in changes.items():
        if name not in options:
            raise InvalidArgument(f"there is no parameter {str(name)[:40]!r}; there are {', '.join(options)}.")
        known = options[name]
        if type(value) is not type(known[0]) or value not in known:
            raise InvalidArgument(
                f"{name} is {str(value)[:40]!r}; here it is one of {', '.join(map(str, known))}. "
                "whole=True has every value that the kernel declares."
            )
    return tuple((name, changes.get(name, before[name])) for name in options)


def reasons_of(
    space: Space, options: Mapping[str, tuple[Value, ...]], values: Mapping[str, Value]
) -> dict[str, list[str]]:
    """Why each value of each parameter cannot run with the other values on screen; "" where it can."""
    return {
        name: [space.why_invalid(space.make({**values, name: value})) or "" for value in known]
        for name, known in options.items()
    }
