"""The measurement of decode attention: which providers, on which inputs, and what came out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from workbench.errors import InvalidArgument
from workbench.gpu.ahead import Job, compile_ahead
from workbench.measure.attention_case import PROVIDERS, VARIANTS, AttentionCase, check_choices
from workbench.measure.attention_inputs import AttentionInputs, make_inputs
from workbench.measure.attention_providers import (
    BareRead,
    CudaAttention,
    TorchAttention,
    TritonAttention,
    shape_of,
)
from workbench.measure.clocks import Reader
from workbench.measure.compare import Outcome, compare
from workbench.measure.figures import known_gpu
from workbench.measure.floors import READ_JOB
from workbench.measure.map_build import MAP_JOB
from workbench.measure.providers import Provider
from workbench.measure.rivals import FlashAttention3, FlashInferAttention, HpcOpsAttention
from workbench.measure.timing import Timer
from workbench.ops.attention_decode import attention_reference, cuda, default_config
from workbench.schedule import Policy, cost_model, resolve
from workbench.schedule.search import search_static

SETS_BYTES = 300_000_000
"""Bytes of K and V in all input sets of a case together, at least: five times the L2 cache of an H200."""

MAX_SETS = 24
CHECKED_SETS = 2
"""Input sets whose results are compared with float64; the others must merely be written."""

SPLITS = (2, 4, 8, 16, 32)
CHUNKS = (1024, 2048, 4096, 8192)
"""Static settings that are tried on the GPU where all of them are asked for."""

METHOD = (
    "Median of replays of a CUDA graph of at least 24 calls that rotate over input sets, its variants taking turns; "
    "KV caches together exceed the L2 cache; checked against float64 on poisoned outputs first"
)

_OTHERS: Mapping[str, Callable[[AttentionCase], list[Provider[AttentionInputs]]]] = {
    "torch": lambda case: [TorchAttention(case)],
    "flashinfer": lambda case: [FlashInferAttention(case)],
    "fa3": lambda case: [FlashAttention3(case)],
    "hpc": lambda case: [HpcOpsAttention(case), HpcOpsAttention(case, dynamic=False)],
}


@dataclass(frozen=True)
class Settings:
    """What to measure, and how long.

    Attributes
    ----------
    providers : tuple of str
        Of :data:`PROVIDERS`.
    policies : tuple of str or Policy
        Policies that our kernel is measured under.
    variants : tuple of str
        Launches of it; static settings are measured with the first.
    splits : bool
        Try every one of :data:`SPLITS` and :data:`CHUNKS` on the GPU, not only those that the cost model prefers.
    rounds : int
        Timed replays.
    seed : int
        Of the first input set; the others follow.

    Raises
    ------
    InvalidArgument
        For a name that is not known.
    """

    providers: tuple[str, ...] = PROVIDERS
    policies: tuple[str | Policy, ...] = ("balanced", "hpc-ops", "lpt")
    variants: tuple[str, ...] = tuple(VARIANTS)
    splits: bool = False
    rounds: int = 15
    seed: int = 0

    def __post_init__(self) -> None:
        check_choices(self.providers, self.variants)
        for policy in self.policies:
            resolve(policy)


@dataclass(frozen=True)
class CaseResult:
    """What came out for one case.

    Attributes
    ----------
    case : AttentionCase
    outcomes : list of Outcome
    sets : int
        Input sets that the calls rotated over.
    """

    case: AttentionCase
    outcomes: list[Outcome] = field(repr=False)
    sets: int = 0


def providers_of(case: AttentionCase, settings: Settings, gpu: str, sms: int) -> list[Provider[AttentionInputs]]:
    """Everything that is measured on one case, in the order of the table.

    Parameters
    ----------
    case, settings
    gpu : str
        Name by the driver; ``balanced`` decides by its costs with the case's cache, where the catalogue has it.
    sms : int
        SMs of the GPU.
    """
    known = known_gpu(gpu)
    cost = cost_model(known, cache=case.cache, group=case.group, head_dim=case.head_dim) if known else None
    decides = f"decides by the costs of {cost.gpu}, {case.cache} cache" if cost else ""
    named = [resolve(name, cost) for name in settings.policies]
    found: list[Provider[AttentionInputs]] = [BareRead(case)]
    if "cuda" in settings.providers:
        for scheme in named:
            notes = decides if scheme.name == "balanced" else ""
            found += [CudaAttention(case, scheme, variant, notes) for variant in settings.variants]
        ctas = sms * default_config(shape_of(case)).ctas_per_sm
        found += [
            CudaAttention(case, resolve(name), settings.variants[0])
            for name in _static(case, settings, ctas)
            if name not in {scheme.name for scheme in named}
        ]
    if "triton" in settings.providers and named:
        found.append(TritonAttention(case, _for_triton(named)))
    for name in settings.providers:
        found += _OTHERS[name](case) if name in _OTHERS else []
    return found


def _static(case: AttentionCase, settings: Settings, num_ctas: int) -> list[str]:
    if settings.splits:
        return [*(f"fixed_splits({n})" for n in SPLITS), *(f"fixed_chunk({n})" for n in CHUNKS)]
    tried = search_static([case.lengths], num_kv_heads=case.kv_heads, num_ctas=num_ctas, q_len=case.q_len)
    return [tried.best(family) for family in ("fixed_splits", "fixed_chunk")]


def _for_triton(named: Sequence[Policy]) -> Policy:
    return next((scheme for scheme in named if scheme.name == "balanced"), named[0])


def jobs(cases: Sequence[AttentionCase]) -> list[Job]:
    """What has to be compiled for the cases."""
    shapes = dict.fromkeys(shape_of(case) for case in cases)
    return [READ_JOB, MAP_JOB, *(cuda.job(shape, default_config(shape)) for shape in shapes)]


def compile_for(cases: Sequence[AttentionCase]) -> None:
    """Compile the kernels of the cases on all cores, before the first is measured."""
    compile_ahead(jobs(cases))


def inputs_of(case: AttentionCase, seed: int, device: str) -> Iterator[AttentionInputs]:
    """Input sets of a case, enough of them to exceed the caches in total."""
    number = max(CHECKED_SETS, min(MAX_SETS, -(-SETS_BYTES // max(case.kv_bytes, 1))))
    for at in range(number):
        yield make_inputs(
            case.lengths,
            group=case.group,
            kv_heads=case.kv_heads,
            head_dim=case.head_dim,
            page_size=case.page_size,
            q_len=case.q_len,
            cache=case.cache,
            query=case.cache,
            poison=False,
            seed=seed + at,
            device=device,
        )


def measure(
    case: AttentionCase,
    providers: Sequence[Provider[Any]],
    settings: Settings,
    timer: Timer,
    read_clocks: Reader | None = None,
    device: str = "cuda",
) -> CaseResult:
    """Check and time the providers on one case.

    Raises
    ------
    InvalidArgument
        For a batch without any token.
    LaunchError
        See :func:`workbench.measure.compare.compare`.
    """
    if not np.any(case.lengths):
        raise InvalidArgument(f"case {case.name} has no token to attend to. Give at least one length above 0.")
    sets = list(inputs_of(case, settings.seed, device))
    expected: list[torch.Tensor] = [
        attention_reference(*inputs.arguments(), **inputs.keywords())[0] for inputs in sets[:CHECKED_SETS]
    ]
    outcomes = compare(providers, sets, expected, timer=timer, read_clocks=read_clocks, rounds=settings.rounds)
    return CaseResult(case, outcomes, len(sets))
