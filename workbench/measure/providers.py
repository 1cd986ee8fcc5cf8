"""What a provider of an operator has to say and to do, so that it can be measured beside others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Protocol, TypeVar

import torch

Call = Callable[[], torch.Tensor]
"""One call on one input set; returns the tensor that it wrote."""

Inputs = TypeVar("Inputs", contravariant=True)


@dataclass(frozen=True)
class Precision:
    """How exact a provider means to be.

    Attributes
    ----------
    words : str
        Types that it computes in, such as "FP16 products, FP32 sums".
    limit : float
        Relative error against float64 above which a result is wrong, not merely rounded.
    row_share : float
        One row may err by so many times `limit`: fewer roundings average out.
    """

    words: str
    limit: float
    row_share: float = 2.0


class Provider(Protocol[Inputs]):
    """One way to compute an operator for one case: an implementation, its policy and its configuration."""

    @property
    def name(self) -> str:
        """Provider as records call it: "cuda", "triton", "torch", "flashinfer" ..."""
        ...

    @property
    def policy(self) -> str | None:
        """Scheduling policy, where there is one."""
        ...

    @property
    def variant(self) -> str:
        """How it is launched, in a word; "" where there is one way only."""
        ...

    @property
    def configuration(self) -> Mapping[str, Any]:
        """How it is built and launched, as plain data."""
        ...

    @property
    def notes(self) -> str:
        """What the reader of its figure has to know, such as "contiguous cache"; "" for nothing."""
        ...

    @property
    def precision(self) -> Precision | None:
        """How exact it means to be; None for one that computes nothing, such as a bare read."""
        ...

    def missing(self) -> str | None:
        """What brings the package that is not installed, as the end of "not installed; ..."; None where all is here."""
        ...

    def prepare(self, inputs: Inputs) -> Call:
        """Everything that is not timed, for one input set; returns what is.

        Raises
        ------
        InvalidArgument
            It cannot compute this case.
        """
        ...


def label(provider: Provider[Any]) -> str:
    """A provider in one line: name, policy and variant."""
    return " ".join(filter(None, (provider.name, provider.policy, provider.variant)))


def missing_module(module: str, remedy: str) -> str | None:
    """The remedy where a module is not installed, else None; imports nothing."""
    return None if find_spec(module) is not None else remedy
