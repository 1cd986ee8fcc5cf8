"""The router GEMM by the portable Triton kernel: on any GPU that Triton supports, or in its interpreter on a CPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from workbench.errors import InvalidArgument, MissingDependency
from workbench.ops.portable import is_interpreted
from workbench.ops.router_gemm.checks import check_apart, check_arguments
from workbench.ops.router_gemm.weight import RouterWeight

_POWERS = {"tile_m": (16, 256), "tile_n": (16, 256), "block": (16, 256), "warps": (1, 32)}
"""Smallest and largest of what has to be a power of two."""


@dataclass(frozen=True, kw_only=True)
class TritonConfig:
    """How the Triton kernel is built.

    Attributes
    ----------
    tile_m, tile_n : int
        Tokens and experts of a tile; powers of two from 16 to 256.
    block : int
        Elements of K read at a time; a power of two from 16 to 256.
    promote : int
        After so much of K, accumulators go to FP32 sums; a multiple of ``block``.
    warps, stages : int
        Warps a program, a power of two up to 32; stages of Triton's software pipeline, 1 or more.
    """

    tile_m: int = 32
    tile_n: int = 32
    block: int = 64
    promote: int = 1024
    warps: int = 4
    stages: int = 3

    def check(self) -> TritonConfig:
        """Return the configuration itself.

        Raises
        ------
        InvalidArgument
            For a size that Triton does not take.
        """
        if wrong := [name for name, size in vars(self).items() if type(size) is not int]:
            raise InvalidArgument(f"{wrong[0]} is {getattr(self, wrong[0])!r}; give a whole number.")
        for name, (low, high) in _POWERS.items():
            size = getattr(self, name)
            if not low <= size <= high or size & (size - 1):
                raise InvalidArgument(f"{name} is {size}; give a power of two, {low} or more, at most {high}.")
        if self.stages < 1:
            raise InvalidArgument(f"stages is {self.stages}; give 1 or more.")
        if self.promote < self.block or self.promote % self.block:
            raise InvalidArgument(f"promote is {self.promote}; give a multiple of block, which is {self.block}.")
        return self


def default_triton_config(m: int, terms: int = 2) -> TritonConfig:
    """The configuration for m tokens when none is given."""
    tile_m = 16 if m <= 16 else 32 if m <= 256 else 64
    return TritonConfig(tile_m=tile_m, tile_n=32 if m <= 256 else 64, promote=1024 if terms == 2 else 128)


def router_gemm_triton(
    x: torch.Tensor,
    weight: RouterWeight,
    *,
    config: TritonConfig | None = None,
    out: torch.Tensor | None = None,
    out_dtype: torch.dtype = torch.float32,
) -> torch.Tensor:
    """:func:`workbench.ops.router_gemm` by Triton: the same arguments and arithmetic.

    Rows of x may lie any distance apart. With ``TRITON_INTERPRET=1`` in the environment before Triton is imported, CPU
    tensors run in Triton's interpreter.

    Raises
    ------
    InvalidArgument
        For what :func:`workbench.ops.router_gemm` refuses, alignment aside, and for CPU tensors without the interpreter
        or the reverse.
    StaleWeight
        The weight changed since it was split.
    MissingDependency
        Without Triton.
    """
    check_arguments(x, weight, out, out_dtype)
    if not torch.compiler.is_compiling():
        weight.check_fresh()
        if out is not None:
            check_apart(x, out)
    if config is not None and not isinstance(config, TritonConfig):
        raise InvalidArgument(f"config is a {type(config).__name__}; give a TritonConfig, or leave it out.")
    (m, k), n, terms = x.shape, weight.shape[0], weight.num_terms
    config = (config or default_triton_config(m, terms)).check()
    kernels, interpreted = _kernels(x.device)
    if out is None:
        out = torch.empty((m, n), dtype=out_dtype, device=x.device)
    if m == 0:
        return out
    rounded = out_dtype == torch.bfloat16
    programs = -(-m // config.tile_m) * -(-n // config.tile_n)
    kernels.router_gemm[(programs,)](
        x, weight.terms, out.view(torch.int16) if rounded and interpreted else out, m, n, k, x.stride(0),
        TERMS=terms, TILE_M=config.tile_m, TILE_N=config.tile_n, BLOCK=config.block, PROMOTE=config.promote,
        OUT_BF16=rounded, INTERPRETED=interpreted, num_warps=config.warps, num_stages=config.stages,
    )  # fmt: skip
    return out


def _kernels(device: torch.device) -> tuple[Any, bool]:
    """The kernel's module, and whether it runs in the interpreter; checks that it can run on a device."""
    try:
        from workbench.ops.router_gemm import triton_kernels
    except ImportError as error:
        raise MissingDependency("triton", needed_for="the portable kernel", install="pip install triton") from error
    return triton_kernels, is_interpreted(
        triton_kernels.router_gemm, device, "x", otherwise="provider='torch' runs on any device."
    )
