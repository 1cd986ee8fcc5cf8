"""Launch of the compiled router GEMM kernel."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

import torch

from workbench.gpu import driver
from workbench.gpu.ahead import Job
from workbench.gpu.compile import CompiledKernel
from workbench.gpu.launch import Kernel
from workbench.ops.alignment import check_addresses
from workbench.ops.router_gemm.config import BLOCK, ROW_BYTES, RouterConfig

SOURCE = "router_gemm/router_gemm.cu"

_TENSOR_MAP = ctypes.c_uint64 * 16
_ALIGNMENT = 64
"""What the copy engine asks of a tensor map among the kernel's parameters, bytes."""

_COUNTS = ("m", "n", "blocks", "tiles_n", "tiles", "early")
_fields: tuple[tuple[str, Any], ...] = (
    ("x", _TENSOR_MAP),
    ("w", _TENSOR_MAP),
    ("out", ctypes.c_void_p),
    *((name, ctypes.c_int) for name in _COUNTS),
)


class Parameters(ctypes.Structure):
    """The kernel's ``Params``."""

    _fields_ = (*_fields, ("_", ctypes.c_char * (-sum(ctypes.sizeof(kind) for _, kind in _fields) % _ALIGNMENT)))


@lru_cache(maxsize=4096)
def _tensor_map(
    address: int, shape: tuple[int, ...], strides: tuple[int, ...], box: tuple[int, ...]
) -> ctypes.Array[ctypes.c_uint64]:
    """Describe a bf16 tensor to the copy engine, innermost dimension first; ``strides``: bytes, all but the first."""
    from cuda.bindings import driver as cuda

    status = cuda.cuTensorMapEncodeTiled(
        cuda.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        len(shape),
        address,
        [cuda.cuuint64_t(size) for size in shape],
        [cuda.cuuint64_t(step) for step in strides],
        [cuda.cuuint32_t(size) for size in box],
        [cuda.cuuint32_t(1)] * len(shape),
        cuda.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        cuda.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
        cuda.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
        cuda.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )
    described = driver.check(status, f"describing shape {shape}, strides {strides} bytes, to the copy engine")
    return _TENSOR_MAP.from_buffer_copy(ctypes.string_at(described.getPtr(), ctypes.sizeof(_TENSOR_MAP)))


def _weight_map(config: RouterConfig, address: int, n: int, terms: int, blocks: int) -> ctypes.Array[ctypes.c_uint64]:
    """Describe the blocks of a weight; a box holds a tile's rows of every term, or one CTA's share of one term's."""
    strides = (ROW_BYTES, n * ROW_BYTES, terms * n * ROW_BYTES)
    box = (BLOCK, config.tile_n // config.multicast, terms if config.multicast == 1 else 1, 1)
    return _tensor_map(address, (BLOCK, n, terms, blocks), strides, box)


def job(config: RouterConfig, terms: int = 2, out_dtype: torch.dtype = torch.float32) -> Job:
    """What to compile for one configuration, to be done now or ahead.

    Raises
    ------
    InvalidArgument
        When the configuration cannot run a weight of so many terms.
    """
    defines = {**config.check(terms).defines(terms), "OUT_BF16": int(out_dtype == torch.bfloat16)}
    return Job(source=SOURCE, entry="router_gemm", defines=defines)


def compiled(config: RouterConfig, terms: int = 2, out_dtype: torch.dtype = torch.float32) -> CompiledKernel:
    """The kernel of one configuration; needs no GPU.

    Raises
    ------
    InvalidArgument
        When the configuration cannot run a weight of so many terms.
    """
    return job(config, terms, out_dtype).compile()


@lru_cache(maxsize=1024)
def kernel(config: RouterConfig, terms: int, out_dtype: torch.dtype) -> Kernel:
    """The same, ready to launch."""
    return Kernel(compiled(config, terms, out_dtype))


def grid(config: RouterConfig, m: int, n: int, sms: int) -> int:
    """CTAs of a launch: a cluster a tile, or, without split K, as many as there are SMs to go round the tiles."""
    clusters = config.tiles(m, n)
    if config.split_k == 1:
        clusters = min(clusters, max(1, sms // config.multicast))
    return clusters * config.cluster


@lru_cache(maxsize=64)
def sm_count(device: torch.device) -> int:
    """SMs of a GPU."""
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


def launch(config: RouterConfig, *, x: torch.Tensor, blocks: torch.Tensor, out: torch.Tensor, early: bool) -> None:
    """Launch on torch's current stream. The caller checked the arguments (see ``api``), all but their addresses.

    Parameters
    ----------
    config : RouterConfig
    x, blocks, out : tensor
        Activations [M, K]; ``RouterWeight.blocks``; scores [M, N].
    early : bool
        Whether the weight is older than the kernel ahead in the stream.

    Raises
    ------
    InvalidArgument
        For a tensor that does not begin at a multiple of 16 bytes.
    """
    (m, k), (_, count, n, _) = x.shape, blocks.shape
    if m == 0:
        return
    check_addresses(x=x.data_ptr(), out=out.data_ptr())
    # One row may have any stride; the copy engine wants a multiple of 16 bytes all the same.
    row = x.stride(0) * 2 if m > 1 else k * 2
    parameters = Parameters(
        _tensor_map(x.data_ptr(), (k, m), (row,), (BLOCK, config.tile_m)),
        _weight_map(config, blocks.data_ptr(), n, count, blocks.shape[0]),
        out.data_ptr(),
        m,
        n,
        blocks.shape[0],
        -(-n // config.tile_n),
        config.tiles(m, n),
        early and config.pdl,
    )
    with torch.cuda.device(x.device):
        kernel(config, count, out.dtype).launch(
            grid(config, m, n, sm_count(x.device)),
            config.threads,
            [parameters],
            shared_bytes=config.shared_bytes(count),
            cluster=config.cluster if config.cluster > 1 else None,
            pdl=config.pdl,
        )
