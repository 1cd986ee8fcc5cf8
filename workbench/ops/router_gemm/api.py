"""The public function of the router GEMM and its torch ops."""

from __future__ import annotations

from functools import lru_cache

import torch

from workbench.errors import InvalidArgument
from workbench.ops.library import define
from workbench.ops.router_gemm import cuda
from workbench.ops.router_gemm.checks import check_apart, check_arguments, check_step
from workbench.ops.router_gemm.config import RouterConfig
from workbench.ops.router_gemm.default import default_config
from workbench.ops.router_gemm.providers import resolve
from workbench.ops.router_gemm.torch_products import product
from workbench.ops.router_gemm.weight import RouterWeight

_HOPPER = (9, 0)


def _launch(
    x: torch.Tensor,
    blocks: torch.Tensor,
    out: torch.Tensor,
    early: bool,
    tile_m: int,
    tile_n: int,
    stages: int,
    split_k: int,
    multicast: int,
    promote: int,
    pdl: bool,
) -> None:
    if tile_m == 0:  # decided here, for only here M is a number when a compiled function takes any M
        (m, k), (_, count, n, _) = x.shape, blocks.shape
        config = default_config(m, n, k, count, cuda.sm_count(x.device))
    else:
        config = _config(tile_m, tile_n, stages, split_k, multicast, promote, pdl)
    cuda.launch(config, x=x, blocks=blocks, out=out, early=early)


_router_gemm = define(
    "router_gemm",
    "Tensor x, Tensor blocks, Tensor(a!) out, bool early, "
    "int tile_m, int tile_n, int stages, int split_k, int multicast, int promote, bool pdl",
    _launch,
)
_router_gemm_torch = define("router_gemm_torch", "Tensor x, Tensor weight, Tensor(a!) out, str precision", product)


@lru_cache(maxsize=1024)
def _config(
    tile_m: int, tile_n: int, stages: int, split_k: int, multicast: int, promote: int, pdl: bool
) -> RouterConfig:
    return RouterConfig(
        tile_m=tile_m,
        tile_n=tile_n,
        stages=stages,
        split_k=split_k,
        multicast=multicast,
        promote=promote,
        pdl=pdl,
    )


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _own(device: torch.device) -> str:
    """The provider of ours that runs on a device."""
    return "cuda" if device.type == "cuda" and torch.cuda.get_device_capability(device) == _HOPPER else "triton"


@lru_cache(maxsize=64)
def _known(device: torch.device) -> tuple[str, str | None]:
    """The provider of ours on a device, and the GPU's name by its driver, both asked once: torch takes microseconds."""
    return _own(device), torch.cuda.get_device_name(device) if device.type == "cuda" else None


def router_gemm(
    x: torch.Tensor,
    weight: RouterWeight,
    *,
    provider: str = "auto",
    precision: str | None = None,
    config: RouterConfig | None = None,
    out: torch.Tensor | None = None,
    out_dtype: torch.dtype = torch.float32,
) -> torch.Tensor:
    """Router scores ``x W^T`` of bf16 activations and an FP32 weight.

    The workbench's kernels multiply by the bf16 terms of the weight with FP32 accumulators: relative error at most 6e-6
    with two terms and 4e-7 with three. The launch is ``torch.ops.workbench.router_gemm``; it can be captured in a
    graph and compiled with ``fullgraph=True``.

    Parameters
    ----------
    x : bf16 tensor [M, K]
        Any M, 0 included. Rows contiguous, a multiple of 16 bytes apart.
    weight : RouterWeight
        From :func:`split_router_weight`.
    provider : str
        ``"cuda"``, ``"triton"`` (the terms of the weight), ``"torch"`` (FP32), ``"tf32"``, ``"bf16"`` (the first term
        alone), or ``"auto"``: what the dispatch table of this GPU and shape says, our kernel where there is none and
        in compiled code (see :func:`workbench.ops.router_gemm.providers.use_table`).
    precision : str, optional
        The least precise class of :data:`workbench.ops.router_gemm.providers.PRECISIONS` that ``"auto"`` may take;
        default: that of the terms of the weight. Not with ``config``. ``"split3"`` on two terms is FP32 by torch.
    config : RouterConfig, optional
        Of the CUDA kernel; default by M, N and K.
    out : tensor [M, N], optional
        Contiguous; written and returned.
    out_dtype : torch.float32 or torch.bfloat16

    Returns
    -------
    tensor [M, N]

    Raises
    ------
    InvalidArgument
        For tensors, providers or configurations outside what is listed here.
    StaleWeight
        The weight changed since it was split.
    TableError
        The dispatch table cannot be used.
    """
    check_arguments(x, weight, out, out_dtype)
    compiling = torch.compiler.is_compiling()
    if not compiling:
        weight.check_fresh()
        if out is not None:
            check_apart(x, out)
    experts, hidden = weight.shape
    if precision is not None and (provider != "auto" or config is not None):
        given = f"provider is {provider!r}" if provider != "auto" else "config chooses the CUDA kernel"
        raise InvalidArgument(f"precision is for provider 'auto'; {given}. Leave one of them out.")
    if provider == "auto":
        provider = "cuda" if config is not None else _choose(x, weight, precision, by_table=not compiling)
    else:
        resolve(provider, x.shape[0], experts, hidden)
    if config is not None and provider != "cuda":
        raise InvalidArgument(f"config is for provider 'cuda'; provider is {provider!r}. Leave one of them out.")
    if provider == "triton":
        from workbench.ops.router_gemm.triton import router_gemm_triton

        return router_gemm_triton(x, weight, out=out, out_dtype=out_dtype)
    if out is None:
        out = torch.empty((x.shape[0], experts), dtype=out_dtype, device=x.device)
    if provider == "cuda":
        _run_cuda(x, weight, config, out)
        return out
    name = "fp32" if provider == "torch" else provider
    run = _router_gemm_torch if x.is_cuda else product
    run(x, weight.terms[0] if name == "bf16" else weight.weight.detach(), out, name)
    return out


def _choose(x: torch.Tensor, weight: RouterWeight, precision: str | None, *, by_table: bool) -> str:
    """The provider of a product that names none."""
    terms = "split" if weight.num_terms == 2 else "split3"
    limit = precision or terms
    if limit == "split3" and terms == "split":
        limit = "fp32"  # our kernels would multiply by two terms, which is less precise
    own, gpu = _known(x.device) if by_table else (_own(x.device), None)
    (n, k), m = weight.shape, x.shape[0]
    return resolve("auto", m, n, k, limit, own=own, gpu=gpu, by_table=by_table)


def _run_cuda(x: torch.Tensor, weight: RouterWeight, config: RouterConfig | None, out: torch.Tensor) -> None:
    if not x.is_cuda:
        raise InvalidArgument(
            f"x is on {x.device}; move the tensors to a CUDA device. On a CPU, provider='torch' runs, and "
            "provider='triton' in Triton's interpreter."
        )
    check_step(x)
    given = (0, 0, 0, 0, 0, 0, True) if config is None else _checked(config, weight.num_terms)
    _router_gemm(x, weight.blocks, out, not weight.fresh, *given)
    weight.fresh = False


def _checked(config: RouterConfig, terms: int) -> tuple[int, int, int, int, int, int, bool]:
    c = config.check(terms)
    return c.tile_m, c.tile_n, c.stages, c.split_k, c.multicast, c.promote, c.pdl
