"""Argument checks of the router GEMM: what was given, what is allowed, what to do.

They read shapes, types and strides only, so they take fake tensors too.
"""

from __future__ import annotations

import torch

from workbench.errors import InvalidArgument
from workbench.ops.alignment import ALIGNMENT
from workbench.ops.router_gemm.weight import RouterWeight

OUT_TYPES = (torch.float32, torch.bfloat16)


def check_arguments(x: torch.Tensor, weight: RouterWeight, out: torch.Tensor | None, out_dtype: torch.dtype) -> None:
    """Check a call of :func:`router_gemm`.

    Raises
    ------
    InvalidArgument
        With what was given and what is allowed.
    """
    if not isinstance(weight, RouterWeight):
        raise InvalidArgument(
            f"weight is a {type(weight).__name__}; split it once with split_router_weight(weight) and give the result."
        )
    if isinstance(x, torch.Tensor) and (x.layout != torch.strided or x.is_nested):
        raise InvalidArgument(f"x is of layout {x.layout}, or nested; give a dense tensor [tokens, hidden].")
    if not isinstance(x, torch.Tensor) or x.ndim != 2 or x.dtype != torch.bfloat16:
        given = f"{x.dtype} {tuple(x.shape)}" if isinstance(x, torch.Tensor) else f"a {type(x).__name__}"
        raise InvalidArgument(f"x is {given}; give torch.bfloat16 [tokens, hidden].")
    experts, hidden = weight.shape
    if x.shape[1] != hidden:
        raise InvalidArgument(f"x has hidden size {x.shape[1]} and the weight {hidden}; they must agree.")
    if x.device != weight.terms.device:
        raise InvalidArgument(f"x is on {x.device} and the weight on {weight.terms.device}; move them to one device.")
    if x.stride(1) != 1:
        raise InvalidArgument(f"x has strides {x.stride()}; make its last dimension contiguous.")
    if x.requires_grad and torch.is_grad_enabled():
        raise InvalidArgument(
            "x requires a gradient and router_gemm has none; call it under torch.no_grad(), or give x.detach()."
        )
    if out_dtype not in OUT_TYPES:
        raise InvalidArgument(f"out_dtype is {out_dtype}; give torch.float32 or torch.bfloat16.")
    if out is None:
        return
    if not isinstance(out, torch.Tensor):
        raise InvalidArgument(f"out is a {type(out).__name__}; give a tensor [{x.shape[0]}, {experts}], or none.")
    if out.dtype != out_dtype or out.device != x.device:
        raise InvalidArgument(f"out is {out.dtype} on {out.device}; give {out_dtype} on {x.device}, or set out_dtype.")
    if tuple(out.shape) != (x.shape[0], experts) or not out.is_contiguous():
        raise InvalidArgument(
            f"out has shape {tuple(out.shape)} and strides {out.stride()}; give contiguous [{x.shape[0]}, {experts}]."
        )
    if out.requires_grad and torch.is_grad_enabled():
        raise InvalidArgument("out requires a gradient and router_gemm has none; give out.detach(), or leave it out.")


def check_apart(x: torch.Tensor, out: torch.Tensor) -> None:
    """Check that scores are not written over activations that are still to be read. Needs real tensors.

    Raises
    ------
    InvalidArgument
        The two share memory.
    """
    rows = x.shape[0]
    if rows == 0:
        return
    read, written = x.data_ptr(), out.data_ptr()
    if written < read:  # at every call: only the end of what begins first is asked for
        apart = written + out.nbytes <= read
    else:
        apart = read + ((rows - 1) * x.stride(0) + x.shape[1]) * x.itemsize <= written
    if not apart:
        raise InvalidArgument("out lies in the memory of x, which is read while out is written; give other memory.")


def check_step(x: torch.Tensor) -> None:
    """Check that the rows of x lie whole copies apart.

    Raises
    ------
    InvalidArgument
        For a row stride that is not a multiple of 16 bytes.
    """
    if x.shape[0] > 1 and x.stride(0) * 2 % ALIGNMENT:
        raise InvalidArgument(
            f"x has strides {x.stride()}: its rows lie {x.stride(0) * 2} bytes apart. Give a multiple of {ALIGNMENT} "
            "bytes, or a contiguous copy."
        )
