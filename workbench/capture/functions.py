"""A user's own kernel: any importable function that launches GPU work."""

from __future__ import annotations

import hashlib
import inspect
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from workbench.capture.operators import Prepared, Setting, load
from workbench.capture.requests import Request
from workbench.errors import InvalidArgument
from workbench.records import Workload
from workbench.records.documents import fault_of


class UserFunction:
    """Captures ``function(**configuration, **workload)``.

    A function that returns a callable made its inputs and compiled its kernels by then, and the callable is what is
    profiled; any other function is called once to warm up and once to be profiled. Torch's random numbers are seeded
    before, where the function's module imports torch.
    """

    providers: tuple[str, ...] = ()
    default_policy: str | None = None

    def describe(self, workload: str | Setting) -> Workload:
        """A name, or keyword arguments with an optional ``case``."""
        if isinstance(workload, str):
            return _workload(workload, {})
        parameters = dict(workload)
        case = parameters.pop("case", None) or ",".join(f"{name}={value}" for name, value in parameters.items())
        if not isinstance(case, str) or not all(isinstance(name, str) for name in parameters):
            raise InvalidArgument(f"workload {workload!r}: give a case in text and keywords of the function.")
        return _workload(re.sub(r"[^A-Za-z0-9._+=,()-]", "-", case).lstrip("-._+=,()")[:100] or "default", parameters)

    def identity(self, request: Request) -> tuple[dict[str, Any], str | None]:
        """The configuration as it was given, and the digest of the file that the function is in."""
        return dict(request.configuration), _digest(load(request.target))

    def prepare(self, request: Request, seed: int) -> Prepared:
        """Import the function and let it make its inputs."""
        function = load(request.target)
        if not callable(function):
            raise InvalidArgument(f"{request.target} is {function!r}; give a function that launches GPU work.")
        arguments = {**request.workload.parameters, **request.configuration}
        if (torch := sys.modules.get("torch")) is not None:
            torch.manual_seed(seed)
        made = function(**arguments)
        call: Callable[[], Any] = made if callable(made) else partial(function, **arguments)
        return Prepared(call)


def _workload(case: str, parameters: dict[str, Any]) -> Workload:
    try:
        return Workload(case=case, parameters=parameters)
    except ValidationError as error:
        raise InvalidArgument(
            f"workload {case[:100]!r}: give a short name and plain values. {fault_of(error)}."
        ) from None


def _digest(function: Callable[..., Any]) -> str | None:
    """SHA-256 of the file that a function comes from; None where it has none."""
    try:
        file = inspect.getsourcefile(function)
        return None if file is None else hashlib.sha256(Path(file).read_bytes()).hexdigest()
    except (TypeError, OSError):
        return None
