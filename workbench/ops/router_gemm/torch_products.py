"""Router scores by torch, which is cuBLAS on a GPU: what serving engines use, in three classes of precision."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def _tf32(allowed: bool) -> Iterator[None]:
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = allowed
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def product(x: torch.Tensor, weight: torch.Tensor, out: torch.Tensor, precision: str) -> None:
    """Write ``x W^T`` into ``out``.

    Parameters
    ----------
    x : bf16 tensor [M, K]
    weight : tensor [N, K]
        FP32; for ``"bf16"`` the weight in bf16.
    out : float32 or bf16 tensor [M, N]
    precision : {"fp32", "tf32", "bf16"}
        Whatever torch's own switch for TF32 says.
    """
    if precision == "bf16":
        if x.is_cuda and out.dtype == torch.float32:
            torch.mm(x, weight.t(), out_dtype=out.dtype, out=out)
        else:
            out.copy_(x @ weight.t())
        return
    with _tf32(precision == "tf32"):
        if out.dtype == torch.float32:
            torch.mm(x.float(), weight.t(), out=out)
        else:
            out.copy_(x.float() @ weight.t())
