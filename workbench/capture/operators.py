"""What can be captured: operators of the workbench by name, and any importable function that launches GPU work.

An operator is an adapter with two methods. `describe` runs where the capture is asked for and imports no torch;
`prepare` runs in the capture's own process, on the GPU. `register` adds one.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from workbench.capture.requests import Request
from workbench.errors import InvalidArgument
from workbench.records import Workload

Setting = Mapping[str, Any]


@dataclass(frozen=True)
class Stamped:
    """What the instrumented build of a kernel wrote in one call.

    Attributes
    ----------
    content : bytes
        Side file of a timeline record (.npz), as `workbench.measure.timeline.Timeline` reads it.
    makespan_us : float
        From the first stamp to the last, microseconds.
    """

    content: bytes
    makespan_us: float


@dataclass(frozen=True)
class Instrumented:
    """The instrumented build of a kernel, ready to run.

    Attributes
    ----------
    call : callable
        Launches it on torch's current stream.
    read : callable
        What the last call wrote; synchronises.
    """

    call: Callable[[], object]
    read: Callable[[], Stamped]


@dataclass(frozen=True)
class Prepared:
    """A call that is ready to be profiled: inputs made, kernels compiled.

    Attributes
    ----------
    call : callable
        Launches the work, and nothing else, on torch's current stream.
    bytes_read : int or None
        Least bytes that a call reads from device memory.
    instrumented : callable or None
        Makes the instrumented build of the same call.
    """

    call: Callable[[], object]
    bytes_read: int | None = None
    instrumented: Callable[[], Instrumented] | None = None


class Operator(Protocol):
    """Adapter of one operator."""

    providers: tuple[str, ...]
    default_policy: str | None

    def describe(self, workload: str | Setting) -> Workload:
        """The workload in full.

        Raises
        ------
        InvalidArgument
            It is no workload of this operator.
        """
        ...

    def identity(self, request: Request) -> tuple[dict[str, Any], str | None]:
        """The whole configuration, defaults included, and SHA-256 over the sources, both as they are now.

        The digest is None where it is not known. Needs no GPU.

        Raises
        ------
        InvalidArgument
            The operator has no such configuration.
        """
        ...

    def prepare(self, request: Request, seed: int) -> Prepared:
        """Make inputs from a seed and everything else that a call needs; needs a GPU."""
        ...


_REGISTRY: dict[str, str] = {
    "attention_decode": "workbench.capture.attention:AttentionDecode",
    "function": "workbench.capture.functions:UserFunction",
    "router_gemm": "workbench.capture.router:RouterGemm",
}


def register(name: str, target: str) -> None:
    """Make an operator known by name.

    Parameters
    ----------
    name
        As in records, such as ``router_gemm``.
    target
        ``module:class`` of its adapter, an `Operator`; the capture's process imports it too.

    Raises
    ------
    InvalidArgument
        The name is taken, or cannot be one.
    """
    if _REGISTRY.get(name, target) != target:
        raise InvalidArgument(f"operator {name!r} is {_REGISTRY[name]} already; choose another name.")
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,63}", name) or not re.fullmatch(r"[\w.]+:\w+", target):
        raise InvalidArgument(
            f"register({name!r}, {target!r}): give a name such as 'my_op' and 'package.module:Class'."
        )
    _REGISTRY[name] = target


def operator_names() -> tuple[str, ...]:
    """Operators known by name."""
    return tuple(sorted(_REGISTRY.keys() - {"function"}))


def load(target: str) -> Any:
    """The object that ``module:name`` names.

    Raises
    ------
    InvalidArgument
        There is no such module or name in it.
    """
    module, _, name = target.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ModuleNotFoundError, AttributeError) as error:
        raise InvalidArgument(f"{target} cannot be imported: {error}. Give package.module:name.") from None
    return found


def adapter_target(operator: str) -> str:
    """``module:class`` of a registered operator's adapter.

    Raises
    ------
    InvalidArgument
        There is none of that name.
    """
    if operator not in _REGISTRY:
        raise InvalidArgument(
            f"no operator is called {operator!r}; there are {', '.join(operator_names())}. A function of yours "
            "is given as itself or as 'package.module:function'."
        )
    return _REGISTRY[operator]


def adapter_of(operator: str) -> Operator:
    """The adapter of a registered operator.

    Raises
    ------
    InvalidArgument
        There is none of that name.
    """
    made: Operator = load(adapter_target(operator))()
    return made


def adapter_for(target: str) -> Operator:
    """The adapter that a request's target names: an operator's own, or the one of users' functions."""
    found = load(target)
    made: Operator = found() if isinstance(found, type) else adapter_of("function")
    return made


def target_of(function: Callable[..., Any]) -> str:
    """How another process imports a function: ``module:name``.

    Raises
    ------
    InvalidArgument
        No other process can: it was defined in a notebook's cell, a script or inside another function.
    """
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
    if not module or module == "__main__" or not re.fullmatch(r"[A-Za-z_][\w.]*", name):
        raise InvalidArgument(
            f"{function!r} cannot be captured: another process has to import it. Put it at the top level of a file, "
            "such as my_kernels.py, and import it from there."
        )
    return f"{module}:{name}"


def folders_for(targets: Iterable[str]) -> tuple[str, ...]:
    """Folders in which another process finds the modules of targets: where they were imported from, then this one."""
    found = []
    for module in {target.partition(":")[0] for target in targets}:
        file = getattr(sys.modules.get(module), "__file__", None)
        if file is not None:
            path = Path(file).resolve()
            found.append(str(path.parents[module.count(".") + (path.name == "__init__.py")]))
    return tuple(dict.fromkeys([*sorted(found), str(Path.cwd())]))
