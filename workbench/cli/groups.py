"""Options that several commands have, declared once: the fields of a dataclass are the options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from dataclasses import MISSING, fields
from functools import wraps
from inspect import Parameter
from typing import Any, get_type_hints

Command = Callable[..., None]


def takes(*groups: type[Any], but: Collection[str] = ()) -> Callable[[Command], Command]:
    """Give a command the options that dataclasses declare; its first parameters are objects of them, in this order.

    Parameters
    ----------
    *groups
        Dataclasses, each field annotated as typer has it.
    but
        Fields that are no options of this command; they have their defaults.
    """
    names = [[field.name for field in fields(group) if field.name not in but] for group in groups]

    def decorate(command: Command) -> Command:
        @wraps(command)
        def called(**given: Any) -> None:
            made = [group(**{name: given.pop(name) for name in own}) for group, own in zip(groups, names, strict=True)]
            command(*made, **given)

        own = list(inspect.signature(command, eval_str=True).parameters.values())[len(groups) :]
        parameters = [
            *(each for group in groups for each in _parameters(group) if each.name not in but),
            *(each.replace(kind=Parameter.KEYWORD_ONLY) for each in own),
        ]
        # What typer reads.
        vars(called)["__signature__"] = inspect.Signature(parameters)
        called.__annotations__ = {each.name: each.annotation for each in parameters}
        return called

    return decorate


def _parameters(group: type[Any]) -> list[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        Parameter(
            field.name,
            Parameter.KEYWORD_ONLY,
            annotation=hints[field.name],
            default=Parameter.empty if field.default is MISSING else field.default,
        )
        for field in fields(group)
    ]
