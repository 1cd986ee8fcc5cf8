"""Router GEMM as something to capture."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from workbench.capture.operators import Prepared, Setting
from workbench.capture.requests import Request
from workbench.errors import InvalidArgument
from workbench.measure.router_case import RouterCase
from workbench.records import Workload

if TYPE_CHECKING:
    from workbench.measure.router import CudaRouter, PlainRouter

TERMS = 2
"""Of the weight; what the serving engines use."""

_NAME = re.compile(r"M(\d+)-K(\d+)-N(\d+)")


class RouterGemm:
    """Captures one call of `workbench.ops.router_gemm` on a weight that was split into two terms before.

    A workload is "M64-K4096-N192" (tokens, hidden size, experts), or a dict with ``m``, ``k`` and ``n``. Providers are
    those of records: "cuda" and "triton" are ours; cuBLAS in FP32 and TF32 widens the activations in another kernel.
    """

    providers = ("cuda", "triton", "cublas-fp32", "cublas-tf32", "cublas-bf16")
    default_policy: str | None = None

    def describe(self, workload: str | Setting) -> Workload:
        """Tokens, hidden size and experts, checked."""
        if isinstance(workload, str):
            found = _NAME.fullmatch(workload)
            sizes: Setting = dict(zip("mkn", map(int, found.groups()), strict=True)) if found else {}
        else:
            sizes = workload
        whole = all(isinstance(size, int) and size > 0 for size in sizes.values())
        if sizes.keys() != set("mkn") or not whole or sizes["k"] % 8 or sizes["n"] % 8:
            raise InvalidArgument(
                f"workload {workload!r} of the router GEMM: give 'M64-K4096-N192' or m, k and n, whole numbers above "
                f"0, K and N "
                "multiples of 8."
            )
        return RouterCase(**sizes).workload

    def identity(self, request: Request) -> tuple[dict[str, Any], str | None]:
        """As records have it: the shape's configuration on this GPU with what was given in its place."""
        from workbench.measure.environment import source_digests

        digest = source_digests().get((request.operator, request.provider))
        return dict(_provider(request).configuration), digest

    def prepare(self, request: Request, seed: int) -> Prepared:
        """Random activations and weight."""
        from workbench.measure.router import inputs_of

        case = _case(request.workload)
        inputs = next(inputs_of(case, seed, "cuda"))
        return Prepared(_provider(request).prepare(inputs), case.input_bytes)


def _case(work: Workload) -> RouterCase:
    return RouterCase(m=work.m or 0, n=work.n or 0, k=work.k or 0)  # `describe` set all three


def _provider(request: Request) -> CudaRouter | PlainRouter:
    """What computes, as `workbench.measure` has it."""
    from workbench.gpu import driver
    from workbench.measure.router import CudaRouter, PlainRouter
    from workbench.ops.router_gemm import default_config

    given: dict[str, Any] = {name: value for name, value in request.configuration.items() if name != "terms"}
    if request.provider != "cuda":
        if given:
            raise InvalidArgument(f"provider {request.provider!r} of the router GEMM has no configuration to set.")
        return PlainRouter(request.provider)
    case = _case(request.workload)
    here = {"sms": driver.device().sms} if driver.probe().problem is None else {}
    default = default_config(case.m, case.n, case.k, **here)
    try:
        config = replace(default, **given)
    except TypeError:
        raise InvalidArgument(
            f"configuration {given} of the router GEMM: it can have {', '.join(vars(default))}."
        ) from None
    return CudaRouter(config.check(TERMS), is_default=config == default)
