"""Launch of the compiled decode attention kernel."""

from __future__ import annotations

import ctypes
import math
from functools import lru_cache
from typing import Any

import torch

from workbench.gpu import driver
from workbench.gpu.ahead import Job
from workbench.gpu.compile import CompiledKernel
from workbench.gpu.launch import Kernel
from workbench.ops.alignment import check_addresses
from workbench.ops.attention_decode.config import SLAB, SLABS_A_STAGE, AttentionConfig, AttentionShape

SOURCE = "attention_decode/attention.cu"
LOG2_E = math.log2(math.e)

_POINTERS = (
    "q", "q_scale", "k_scale", "v_scale", "block_table", "map", "header", "empties",
    "out", "lse", "partial_out", "partial_sum", "timeline",
)  # fmt: skip
_STRIDES = (
    "q_token_stride", "q_head_stride",
    "scale_page_stride", "scale_token_stride", "scale_head_stride",
    "table_stride",
)  # fmt: skip
_COUNTS = (
    "batch", "table_columns", "map_rows", "kv_heads", "resident", "page_shift", "box_shift",
    "v_scale_per_head", "early_map", "early_cache",
)  # fmt: skip
_TENSOR_MAP = ctypes.c_uint64 * 16
_ALIGNMENT = 64
"""What the copy engine asks of a tensor map among the kernel's parameters, bytes."""

_fields: tuple[tuple[str, Any], ...] = (
    ("k_map", _TENSOR_MAP),
    ("v_map", _TENSOR_MAP),
    *((name, ctypes.c_void_p) for name in _POINTERS),
    *((name, ctypes.c_int64) for name in _STRIDES),
    *((name, ctypes.c_int) for name in _COUNTS),
    ("scale", ctypes.c_float),
)


class Parameters(ctypes.Structure):
    """The kernel's ``Params``."""

    _fields_ = (*_fields, ("_", ctypes.c_char * (-sum(ctypes.sizeof(kind) for _, kind in _fields) % _ALIGNMENT)))


@lru_cache(maxsize=4096)
def _tensor_map(
    address: int, shape: tuple[int, ...], strides: tuple[int, ...], element_bytes: int, box_tokens: int
) -> ctypes.Array[ctypes.c_uint64]:
    """Describe a cache to the copy engine: boxes of some tokens of one head, up to 128 bytes of a row wide."""
    from cuda.bindings import driver as cuda

    pages, page_size, kv_heads, head_dim = shape
    width = min(head_dim * element_bytes, 128)
    kind = cuda.CUtensorMapDataType
    swizzle = cuda.CUtensorMapSwizzle
    status = cuda.cuTensorMapEncodeTiled(
        kind.CU_TENSOR_MAP_DATA_TYPE_UINT8 if element_bytes == 1 else kind.CU_TENSOR_MAP_DATA_TYPE_UINT16,
        4,
        address,
        [cuda.cuuint64_t(size) for size in (head_dim, kv_heads, page_size, pages)],
        [cuda.cuuint64_t(strides[d]) for d in (2, 1, 0)],
        [cuda.cuuint32_t(size) for size in (width // element_bytes, 1, box_tokens, 1)],
        [cuda.cuuint32_t(1)] * 4,
        cuda.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        swizzle.CU_TENSOR_MAP_SWIZZLE_128B if width == 128 else swizzle.CU_TENSOR_MAP_SWIZZLE_64B,
        cuda.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        cuda.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )
    described = driver.check(
        status, f"describing a cache of shape {shape}, strides {strides} bytes, to the copy engine"
    )
    return _TENSOR_MAP.from_buffer_copy(ctypes.string_at(described.getPtr(), ctypes.sizeof(_TENSOR_MAP)))


def job(shape: AttentionShape, config: AttentionConfig, timeline: bool = False) -> Job:
    """What to compile for one shape and configuration, to be done now or ahead.

    Raises
    ------
    InvalidArgument
        When the configuration cannot run the shape.
    """
    defines = {**shape.defines(), **config.check(shape).defines(), "TIMELINE": int(timeline)}
    return Job(source=SOURCE, entry="attention_decode", defines=defines)


def compiled(shape: AttentionShape, config: AttentionConfig, *, timeline: bool = False) -> CompiledKernel:
    """The kernel for one shape and configuration; needs no GPU.

    Raises
    ------
    InvalidArgument
        When the configuration cannot run the shape.
    """
    return job(shape, config, timeline).compile()


@lru_cache(maxsize=16)
def _multiprocessors(device: torch.device) -> int:
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


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
    partial_out: torch.Tensor,
    partial_sum: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor | None,
    q_scale: torch.Tensor | None,
    k_scale: torch.Tensor | None,
    v_scale: torch.Tensor | None,
    scale: float,
    early_map: bool = False,
    early_cache: bool = False,
    timeline: torch.Tensor | None = None,
) -> None:
    """Launch on torch's current stream. The caller checked the arguments (see ``api``), all but their addresses.

    Raises
    ------
    InvalidArgument
        For a tensor that does not begin at a multiple of 16 bytes.
    """

    def pointer(tensor: torch.Tensor | None) -> int:
        return 0 if tensor is None else tensor.data_ptr()

    def bytes_(tensor: torch.Tensor, *dims: int) -> tuple[int, ...]:
        return tuple(tensor.stride(d) * tensor.element_size() for d in dims)

    def tensor_map(cache: torch.Tensor) -> ctypes.Array[ctypes.c_uint64]:
        strides = bytes_(cache, 0, 1, 2)
        # A dimension of one element may have any stride; the copy engine wants a multiple of 16 all the same.
        regular = tuple(16 if size == 1 else step for size, step in zip(cache.shape, strides, strict=False))
        return _tensor_map(cache.data_ptr(), tuple(cache.shape), regular, cache.element_size(), box_tokens)

    box_tokens = min(SLAB * SLABS_A_STAGE, k_cache.shape[1], config.tile)
    check_addresses(q=q.data_ptr(), k_cache=k_cache.data_ptr(), v_cache=v_cache.data_ptr(), out=out.data_ptr())
    per_token = k_scale is not None and shape.k_scale_per_token
    parameters = Parameters(
        tensor_map(k_cache),
        tensor_map(v_cache),
        *map(pointer, (q, q_scale, k_scale, v_scale, block_table, map_, header, empties)),
        *map(pointer, (out, lse, partial_out, partial_sum, timeline)),
        *bytes_(q, 0, 1),
        *(bytes_(k_scale, 0, 1, 2) if per_token and k_scale is not None else (0, 0, 0)),
        block_table.stride(0),
        *block_table.shape,
        map_.shape[0],
        k_cache.shape[2],
        num_bins <= config.ctas_per_sm * _multiprocessors(q.device),
        k_cache.shape[1].bit_length() - 1,
        box_tokens.bit_length() - 1,
        v_scale is not None and v_scale.numel() > 1,
        early_map,
        early_cache,
        scale * LOG2_E,
    )
    with torch.cuda.device(q.device):
        kernel(shape, config, timeline is not None).launch(
            num_bins, config.threads, [parameters], shared_bytes=config.shared_bytes(shape), pdl=config.pdl
        )
