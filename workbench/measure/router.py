"""The measurement of the router GEMM: which providers, on which inputs, and what came out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from workbench.errors import InvalidArgument
from workbench.gpu.ahead import Job
from workbench.measure.clocks import Reader
from workbench.measure.compare import Outcome, compare
from workbench.measure.providers import Call, Precision, Provider, missing_module
from workbench.measure.router_case import PROVIDERS, RouterCase, check_providers
from workbench.measure.timing import Timer
from workbench.ops.router_gemm import (
    RouterConfig,
    RouterWeight,
    cuda,
    default_config,
    router_gemm,
    router_reference,
    split_router_weight,
)

SETS_BYTES = 150_000_000
"""Bytes of the inputs in all sets of a case together, at least: more than twice the L2 cache of an H200."""

MAX_SETS = 48
CHECKED_SETS = 2
"""Input sets whose results are compared with float64; the others must merely be written."""

METHOD = (
    "Median of replays of a CUDA graph of at least 24 calls that rotate over input sets, its variants taking turns; "
    "activations and weights together exceed the L2 cache; checked against float64 on poisoned outputs first"
)

TERMS = 2
SPLIT = Precision("two bf16 products, FP32 sums", 6e-6)

CUBLAS: Mapping[str, tuple[str, Precision]] = {
    "cublas-fp32": ("torch", Precision("FP32 products and sums, x widened before", 2e-6)),
    "cublas-tf32": ("tf32", Precision("TF32 products, FP32 sums, x widened before", 1e-3)),
    "cublas-bf16": ("bf16", Precision("one bf16 product, FP32 sums, bf16 out", 6e-3)),
}
"""Providers that are torch's own, by the names of records: the operator's name for each, and how exact it is."""


@dataclass(frozen=True)
class RouterInputs:
    """Inputs of one call.

    Attributes
    ----------
    x : bf16 tensor [M, K]
    weight : RouterWeight
    """

    x: torch.Tensor
    weight: RouterWeight

    @property
    def shape(self) -> tuple[int, int]:
        """Of the scores."""
        return self.x.shape[0], self.weight.shape[0]


@dataclass(frozen=True)
class CudaRouter:
    """Our kernel in one configuration; see :class:`workbench.measure.providers.Provider`."""

    config: RouterConfig
    is_default: bool = False
    name: str = field(default="cuda", init=False)
    policy: None = field(default=None, init=False)
    precision: Precision = field(default=SPLIT, init=False)

    @property
    def variant(self) -> str:
        """Whether it is what runs when no configuration is given."""
        return "default" if self.is_default else ""

    @property
    def configuration(self) -> dict[str, Any]:
        """The configuration as plain data, and the terms of the weight."""
        return {**self.config.to_dict(), "terms": TERMS}

    @property
    def notes(self) -> str:
        """Same as :attr:`variant`, in words."""
        return "default configuration" if self.is_default else ""

    def missing(self) -> None:
        """Nothing: it comes with this package."""

    def prepare(self, inputs: RouterInputs) -> Call:
        """Make the output."""
        out = torch.empty(inputs.shape, device=inputs.x.device)
        return lambda: router_gemm(inputs.x, inputs.weight, provider="cuda", config=self.config, out=out)


@dataclass(frozen=True)
class PlainRouter:
    """A provider of the operator without a configuration of ours: Triton, or cuBLAS through torch."""

    name: str
    policy: None = field(default=None, init=False)
    variant: str = field(default="", init=False)

    @property
    def precision(self) -> Precision:
        """By its arithmetic."""
        return SPLIT if self.name == "triton" else CUBLAS[self.name][1]

    @property
    def configuration(self) -> dict[str, Any]:
        """Version of torch; of Triton, the terms of the weight."""
        return {"terms": TERMS} if self.name == "triton" else {"torch": torch.__version__}

    @property
    def notes(self) -> str:
        """Its arithmetic, in words."""
        return self.precision.words

    def missing(self) -> str | None:
        """What brings Triton."""
        return missing_module("triton", "pip install triton") if self.name == "triton" else None

    def prepare(self, inputs: RouterInputs) -> Call:
        """Make the output; plain bf16 gives bf16, as a linear layer does."""
        if self.name == "triton":
            out = torch.empty(inputs.shape, device=inputs.x.device)
            return lambda: router_gemm(inputs.x, inputs.weight, provider="triton", out=out)
        argument = CUBLAS[self.name][0]
        if argument == "bf16":
            out = torch.empty(inputs.shape, dtype=torch.bfloat16, device=inputs.x.device)
            return lambda: torch.mm(inputs.x, inputs.weight.terms[0].t(), out=out)
        out = torch.empty(inputs.shape, device=inputs.x.device)
        return lambda: router_gemm(inputs.x, inputs.weight, provider=argument, out=out)


def providers_of(
    case: RouterCase, names: Sequence[str] = PROVIDERS, sms: int = 132, configs: Sequence[RouterConfig] = ()
) -> list[Provider[RouterInputs]]:
    """What is measured on one case, in the order of the table.

    Parameters
    ----------
    case
    names
        Some of :data:`PROVIDERS`.
    sms
        SMs of the GPU, by which the default configuration goes.
    configs
        Configurations of our kernel besides the default.

    Raises
    ------
    InvalidArgument
        For a name that is not known, or none.
    """
    check_providers(names)
    if not names:
        raise InvalidArgument(f"no provider is given. Give some of {', '.join(PROVIDERS)}.")
    found: list[Provider[RouterInputs]] = []
    if "cuda" in names:
        default = default_config(case.m, case.n, case.k, TERMS, sms)
        found.append(CudaRouter(default, is_default=True))
        found += [CudaRouter(config) for config in dict.fromkeys(configs) if config != default]
    return found + [PlainRouter(name) for name in names if name != "cuda"]


def jobs(providers: Sequence[Provider[RouterInputs]]) -> list[Job]:
    """What has to be compiled for the providers."""
    configs = dict.fromkeys(provider.config for provider in providers if isinstance(provider, CudaRouter))
    return [cuda.job(config, TERMS) for config in configs]


def inputs_of(case: RouterCase, seed: int, device: str) -> Iterator[RouterInputs]:
    """Input sets of a case, enough of them to exceed the caches in total: normal, weights of deviation 1/16."""
    generator = torch.Generator(device).manual_seed(seed)
    for _ in range(max(CHECKED_SETS, min(MAX_SETS, -(-SETS_BYTES // case.input_bytes)))):
        weight = torch.randn((case.n, case.k), generator=generator, device=device) / 16
        x = torch.randn((case.m, case.k), generator=generator, device=device).bfloat16()
        yield RouterInputs(x, split_router_weight(weight, terms=TERMS))


def measure(
    case: RouterCase,
    providers: Sequence[Provider[RouterInputs]],
    timer: Timer,
    read_clocks: Reader | None = None,
    *,
    seed: int = 0,
    rounds: int = 15,
    device: str = "cuda",
) -> tuple[list[Outcome], int]:
    """Check and time the providers on one case; returns what came out, and the number of input sets.

    Raises
    ------
    InvalidArgument
        For a case without tokens.
    LaunchError
        See :func:`workbench.measure.compare.compare`.
    """
    if case.m < 1:
        raise InvalidArgument(f"case {case.name} has no token. Give at least one.")
    sets = list(inputs_of(case, seed, device))
    expected = [router_reference(inputs.x, inputs.weight.weight) for inputs in sets[:CHECKED_SETS]]
    return compare(providers, sets, expected, timer=timer, read_clocks=read_clocks, rounds=rounds), len(sets)


__all__ = [
    "METHOD",
    "PROVIDERS",
    "CudaRouter",
    "PlainRouter",
    "RouterCase",
    "RouterInputs",
    "inputs_of",
    "jobs",
    "measure",
    "providers_of",
]
