"""Ways to compute router scores that differ in arithmetic only, for the precision view.

On a GPU each arm is the product itself. On a CPU it is emulated: operands are rounded exactly as the arm rounds them,
products of two bf16 or TF32 numbers are exact in FP32, and sums are IEEE FP32 in the CPU's order. Two things differ
from a GPU, and are not emulated:

- Tensor cores add with fewer bits than FP32, so the error of the split arms on a GPU grows with the length of the chain
  that is added in one accumulator (upstream's kernel on an H200: 2.4e-6 to 7.2e-6).
- TF32 is emulated by rounding to 10 bits, nearest, ties to even. PTX documents ``cvt.rna.tf32`` (ties away from zero),
  and a tensor core ignores the low 13 bits of what was not converted, which truncates; which of them cuBLAS does is not
  documented. The error measured on an H200, 2.1e-4, is that of rounding; truncating would give twice as much.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch

from workbench.errors import InvalidArgument
from workbench.ops.router_gemm import router_gemm, split_router_weight

_TF32_DROPPED = 13
"""Low bits of an FP32 mantissa that TF32 does not have."""


ROWS_AT_ONCE = 4096
"""Tokens that are widened at once, so that activations need no second memory in float64."""


@dataclass(frozen=True)
class Arm:
    """One arithmetic.

    Attributes
    ----------
    title : str
        For a legend.
    provider : str
        Argument of `router_gemm` on a GPU; "split" stands for the kernel that the GPU runs.
    rounding, terms : str, int
        Of the split weight, where there is one.
    out : torch.dtype
        Type of the scores.
    """

    title: str
    provider: str
    rounding: str = "nearest"
    terms: int = 2
    out: torch.dtype = torch.float32


ARMS: Mapping[str, Arm] = MappingProxyType(
    {
        "fp32": Arm("FP32", "torch"),
        "split3": Arm("three bf16 terms", "split", terms=3),
        "split": Arm("two bf16 terms, rounded to nearest", "split"),
        "split-truncated": Arm("two bf16 terms, truncated", "split", rounding="truncate"),
        "tf32": Arm("TF32", "tf32"),
        "bf16": Arm("bf16 weights, FP32 scores", "bf16"),
        "fp32-bf16": Arm("FP32 weights, bf16 scores", "torch", out=torch.bfloat16),
        "bf16-bf16": Arm("bf16 weights, bf16 scores", "bf16", out=torch.bfloat16),
    }
)


def round_to_tf32(values: torch.Tensor) -> torch.Tensor:
    """Round FP32 to the 10 mantissa bits of TF32, nearest, ties to even; infinities and NaN stay."""
    bits = values.view(torch.int32)
    odd = (bits >> _TF32_DROPPED) & 1
    rounded = (bits + ((1 << (_TF32_DROPPED - 1)) - 1) + odd) >> _TF32_DROPPED << _TF32_DROPPED
    return torch.where(values.isfinite(), rounded.view(torch.float32), values)


def some_rows(x: torch.Tensor) -> Iterator[torch.Tensor]:
    """Pieces of at most `ROWS_AT_ONCE` rows."""
    return (x[first : first + ROWS_AT_ONCE] for first in range(0, len(x), ROWS_AT_ONCE))


def where_run(device: torch.device) -> str:
    """How the arms are computed on a device, in words for a label."""
    if device.type == "cuda":
        return f"run on {torch.cuda.get_device_name(device)}"
    return "emulated on a CPU"


def scores(arm: str, x: torch.Tensor, weight: torch.Tensor, *, kernel: str | None = None) -> torch.Tensor:
    """Router scores of one arm.

    Parameters
    ----------
    arm
        A name of `ARMS`.
    x
        bf16 [T, K].
    weight
        float32 [N, K], contiguous, on the same device; N and K multiples of 8.
    kernel
        Provider of the split arms: "cuda" or "triton"; None: emulated on a CPU, the one for the GPU elsewhere.

    Returns
    -------
    torch.Tensor
        [T, N] in the arm's type.

    Raises
    ------
    InvalidArgument
        The arm is not known, or a tensor is of another type or shape.
    """
    if arm not in ARMS:
        raise InvalidArgument(f"arm {arm!r} is not known; give some of {', '.join(ARMS)}.")
    kind = ARMS[arm]
    split = split_router_weight(weight, kind.rounding, kind.terms)
    if not x.is_cuda and kernel is None:
        parts = (_emulated(kind, part, weight, split.terms).to(kind.out) for part in some_rows(x))
        return torch.cat(list(parts))
    provider = (kernel or "auto") if kind.provider == "split" else kind.provider
    return router_gemm(x, split, provider=provider, out_dtype=kind.out)


def _emulated(kind: Arm, x: torch.Tensor, weight: torch.Tensor, terms: torch.Tensor) -> torch.Tensor:
    wide = x.float()
    if kind.provider == "split":
        total = wide @ terms[0].float().t()
        for i, term in enumerate(terms[1:], 1):
            total += wide @ term.float().t() / 256.0**i
        return total
    rounded = weight
    if kind.provider == "tf32":
        rounded = round_to_tf32(weight)
    elif kind.provider == "bf16":
        rounded = weight.bfloat16().float()
    return wide @ rounded.t()
