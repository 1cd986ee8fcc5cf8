"""Launch of the compiled decode attention kernel."""

from __future__ import annotations

import ctypes
import math
from functools import lru_cache

import torch

from workbench.gpu.compile import CompiledKernel, compile_kernel
from workbench.gpu.launch import Kernel
from workbench.ops.attention_decode.config import AttentionConfig, AttentionShape

SOURCE = "attention_decode/attention.cu"
LOG2_E = math.log2(math.e)

_POINTERS = (
    "q", "q_scale", "k", "v", "k_scale", "v_scale", "block_table", "map", "header", "empties",
    "out", "lse", "partial_out", "partial_sum", "counters", "timeline",
)  # fmt: skip
_STRIDES = (
    "q_token_stride", "q_head_stride",
    "k_page_stride", "k_token_stride", "k_head_stride",
    "v_page_stride", "v_token_stride", "v_head_stride",
    "scale_page_stride", "scale_token_stride", "scale_head_stride",
    "table_stride",
)  # fmt: skip
_COUNTS = ("kv_heads", "max_batch", "page_shift", "v_scale_per_head")


class Parameters(ctypes.Structure):
    """The kernel's ``Params``."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in _POINTERS),
        *((name, ctypes.c_int64) for name in _STRIDES),
        *((name, ctypes.c_int) for name in _COUNTS),
        ("scale", ctypes.c_float),
    )


def compiled(shape: AttentionShape, config: AttentionConfig, *, timeline: bool = False) -> CompiledKernel:
    """The kernel for one shape and configuration; needs no GPU.

    Raises
    ------
    InvalidArgument
        When the configuration cannot run the shape.
    """
    defines = {**shape.defines(), **config.check(shape).defines(), "TIMELINE": int(timeline)}
    return compile_kernel(SOURCE, "attention_decode", defines=defines)


@lru_cache(maxsize=1024)
def kernel(shape: AttentionShape, config: AttentionConfig, timeline: bool = False) -> Kernel:
    """The same, ready to launch."""
    return Kernel(compiled(shape, config, timeline=timeline))


def launch(
    shape: AttentionShape,
    config: AttentionConfig,
    *,
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    block_table: torch.Tensor,
    map_: torch.Tensor,
    header: torch.Tensor,
    empties: torch.Tensor,
    num_bins: int,
    max_batch: int,
    counters: torch.Tensor,
    partial_out: torch.Tensor,
    partial_sum: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor | None,
    q_scale: torch.Tensor | None,
    k_scale: torch.Tensor | None,
    v_scale: torch.Tensor | None,
    scale: float,
    timeline: torch.Tensor | None = None,
) -> None:
    """Launch on torch's current stream. Arguments were checked by the caller; see ``api``."""

    def pointer(tensor: torch.Tensor | None) -> int:
        return 0 if tensor is None else tensor.data_ptr()

    def bytes_(tensor: torch.Tensor, *dims: int) -> tuple[int, ...]:
        return tuple(tensor.stride(d) * tensor.element_size() for d in dims)

    per_token = k_scale is not None and shape.k_scale_per_token
    parameters = Parameters(
        *map(pointer, (q, q_scale, k_cache, v_cache, k_scale, v_scale, block_table, map_, header, empties)),
        *map(pointer, (out, lse, partial_out, partial_sum, counters, timeline)),
        *bytes_(q, 0, 1),
        *bytes_(k_cache, 0, 1, 2),
        *bytes_(v_cache, 0, 1, 2),
        *(bytes_(k_scale, 0, 1, 2) if per_token and k_scale is not None else (0, 0, 0)),
        block_table.stride(0),
        k_cache.shape[2],
        max_batch,
        k_cache.shape[1].bit_length() - 1,
        v_scale is not None and v_scale.numel() > 1,
        scale * LOG2_E,
    )
    with torch.cuda.device(q.device):
        kernel(shape, config, timeline is not None).launch(
            num_bins, config.threads, [parameters], shared_bytes=config.shared_bytes(shape), pdl=config.pdl
        )
