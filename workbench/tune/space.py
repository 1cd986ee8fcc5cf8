"""What can be set of an operator's kernel for one workload: values, valid combinations, and why others are not.

A space is plain data and arithmetic: it is listed, counted and filtered on any machine, without torch and a GPU.
`workbench.tune.space_attention` and `workbench.tune.space_router` describe the two operators.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from workbench import devices
from workbench.errors import InvalidArgument
from workbench.gpu.ahead import Job
from workbench.records import Workload

Value = int | bool
Values = Mapping[str, Value]


class Config(Protocol):
    """A configuration: a frozen dataclass of an operator's ``config`` module."""

    def to_dict(self) -> dict[str, Any]:
        """The configuration as plain data."""
        ...


@dataclasses.dataclass(frozen=True)
class Refused:
    """A combination that cannot run.

    Attributes
    ----------
    values : dict
        By parameter.
    reason : str
        Such as "shared memory 245,760 > 232,448 bytes".
    """

    values: dict[str, Value]
    reason: str


@dataclasses.dataclass(frozen=True)
class Launch:
    """How a configuration is launched for the workload.

    Attributes
    ----------
    ctas, threads : int
        CTAs of the grid, and threads a CTA.
    shared_bytes : int
        Dynamic shared memory a CTA.
    """

    ctas: int
    threads: int
    shared_bytes: int


class Space(ABC):
    """All settings of one kernel for one workload, in the order of its parameters.

    Iterating gives the valid configurations; ``len`` is how many there are.

    Parameters
    ----------
    parameters
        Values of each parameter; `restrict` makes smaller spaces of them.

    Raises
    ------
    InvalidArgument
        A parameter is missing, unknown or has no value.

    Attributes
    ----------
    operator : str
        As records call it.
    bound : tuple of str
        Parameters that a default cannot change, for another call or the caller's promise decides them.
    meanings : dict of str to str
        What each parameter is, in a few words.
    """

    operator: ClassVar[str]
    bound: ClassVar[tuple[str, ...]] = ()
    meanings: ClassVar[dict[str, str]]

    def __init__(self, parameters: Mapping[str, Sequence[Value]]) -> None:
        if parameters.keys() != self.meanings.keys() or not all(map(len, parameters.values())):
            raise InvalidArgument(
                f"parameters {dict(parameters)!r}: {self.operator} has {', '.join(self.meanings)}; give each at least "
                "one value."
            )
        self.parameters: dict[str, tuple[Value, ...]] = {name: tuple(values) for name, values in parameters.items()}

    @property
    @abstractmethod
    def workload(self) -> Workload:
        """The workload as records have it."""

    @abstractmethod
    def make(self, values: Values) -> Any:
        """The configuration with these values, valid or not."""

    @abstractmethod
    def why_invalid(self, config: Any) -> str | None:
        """Why a configuration cannot run the workload, in words; None when it can."""

    @abstractmethod
    def default(self, gpu: str | devices.Gpu = "H200") -> Any:
        """The configuration that runs when none is given."""

    @abstractmethod
    def tuned_key(self) -> dict[str, Any]:
        """What a default is kept under; see `workbench.tables.tuned`."""

    @abstractmethod
    def job(self, config: Any) -> Job:
        """What has to be compiled for a configuration."""

    @abstractmethod
    def launch(self, config: Any, gpu: str | devices.Gpu = "H200") -> Launch:
        """How it is launched on a GPU."""

    @abstractmethod
    def modelled_us(self, config: Any, gpu: str | devices.Gpu = "H200") -> float:
        """Time of a call by the cost model of the operator, microseconds; not a measurement."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The space as plain data, from which `workbench.tune.spaces.space_from` makes it again."""

    @abstractmethod
    def _with(self, parameters: Mapping[str, Sequence[Value]]) -> Self:
        """The same workload with other values."""

    @cached_property
    def _listed(self) -> tuple[tuple[Any, ...], tuple[Refused, ...]]:
        valid, refused = [], []
        for combination in itertools.product(*self.parameters.values()):
            values = dict(zip(self.parameters, combination, strict=True))
            config = self.make(values)
            if (reason := self.why_invalid(config)) is None:
                valid.append(config)
            else:
                refused.append(Refused(values, reason))
        return tuple(valid), tuple(refused)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._listed[0])

    def __len__(self) -> int:
        return len(self._listed[0])

    def __contains__(self, config: object) -> bool:
        values: dict[str, Any] = getattr(config, "to_dict", dict)()
        return (
            values.keys() == self.parameters.keys()  # else it is no configuration of this operator
            and all(value in self.parameters[name] for name, value in values.items())
            and self.why_invalid(config) is None
        )

    @property
    def refused(self) -> tuple[Refused, ...]:
        """The combinations that cannot run, each with the reason."""
        return self._listed[1]

    def restrict(self, **wanted: Value | Sequence[Value]) -> Self:
        """A space with fewer or other values.

        Parameters
        ----------
        **wanted
            By parameter one value or several, such as ``stages=(4, 6), warps=8``. A value need not be among those
            listed so far; whether it can run, `why_invalid` says.

        Raises
        ------
        InvalidArgument
            There is no such parameter, no value, or one of another type.
        """
        parameters: dict[str, Sequence[Value]] = dict(self.parameters)
        for name, given in wanted.items():
            if name not in parameters:
                raise InvalidArgument(f"{self.operator} has no parameter {name!r}; it has {', '.join(parameters)}.")
            kind = type(self.parameters[name][0])
            said: Any = given
            several = isinstance(said, Iterable) and not isinstance(said, str)
            values = tuple(map(_plain, said if several else (said,)))
            if not values or any(type(value) is not kind for value in values):
                raise InvalidArgument(
                    f"{name} is {given!r}; give {kind.__name__} values such as {parameters[name][0]}."
                )
            parameters[name] = tuple(dict.fromkeys(values))
        return self._with(parameters)

    def could_be_default(self, config: Any, default: Any) -> bool:
        """Whether a configuration has the default's values of the `bound` parameters."""
        return all(getattr(config, name) == getattr(default, name) for name in self.bound)

    def applicable(self) -> Self:
        """The part of the space that could be the default: `bound` parameters have the default's values."""
        default = self.default()
        return self.restrict(**{name: getattr(default, name) for name in self.bound})

    def config(self, **values: Value) -> Any:
        """One configuration; parameters left out have the default's values.

        Raises
        ------
        InvalidArgument
            There is no such parameter, or the configuration cannot run the workload; the message says why.
        """
        if unknown := [name for name in values if name not in self.parameters]:
            raise InvalidArgument(
                f"{self.operator} has no parameter {unknown[0]!r}; it has {', '.join(self.parameters)}."
            )
        made = self.make({**self.default().to_dict(), **values})
        if reason := self.why_invalid(made):
            raise InvalidArgument(f"{made} cannot run {self.workload.case}: {reason}. `refused` lists what cannot run.")
        return made

    def promising(self, most: int, gpu: str | devices.Gpu = "H200") -> list[Any]:
        """The default and the configurations that the cost model ranks first, at most so many in all.

        Raises
        ------
        InvalidArgument
            `most` is below 1, or no configuration of the space can run; the message says why of one.
        """
        if most < 1:
            raise InvalidArgument(f"most is {most}; give 1 or more.")
        if not len(self):
            raise InvalidArgument(
                f"none of the {len(self.refused):,} configurations can run {self.workload.case}. The first: "
                f"{self.refused[0].reason}. Give other values."
            )
        ranked = sorted(self, key=lambda config: self.modelled_us(config, gpu))
        return list(dict.fromkeys([self.default(gpu), *ranked]))[:most]


def _plain(value: Any) -> Any:
    """A number of numpy as Python has it."""
    return value.item() if isinstance(value, np.generic) else value


def key_of(config: Config) -> str:
    """A configuration as text that two equal ones share: JSON with sorted keys, as the column ``config`` of records."""
    return json.dumps(config.to_dict(), sort_keys=True)
