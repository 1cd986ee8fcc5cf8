"""The task map built on the GPU from lengths that the host never sees."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import torch

from workbench.errors import InvalidArgument
from workbench.gpu.compile import compile_kernel
from workbench.gpu.launch import Kernel
from workbench.ops.attention_decode.buffers import TaskMap
from workbench.ops.attention_decode.config import SHARED_LIMIT, AttentionConfig
from workbench.ops.attention_decode.map_costs import decides
from workbench.ops.library import define
from workbench.schedule import CostModel
from workbench.schedule.problem import MAX_CTAS, MAX_LENGTH, MAX_QUERY_LEN, TILES, check_count

MAX_BATCH = 16_384
"""Requests that the map kernel holds prefix sums for."""

_MOST_THREADS = 1024
_ROWS_A_CTA = 256
_REQUESTS_A_THREAD = 4  # kHeld of the kernel
_CANDIDATES = 6
_STATIC_SHARED = 1024
_TILE_BYTES, _BYTES_PER_US, _LOADED_TILE_NS = 2, 3, 5  # places among the costs
SOURCE = "attention_decode/task_map.cu"


class _MapParameters(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("lengths", "map", "header", "empties")),
        *((name, ctypes.c_int) for name in ("batch", "max_batch", "kv_heads", "num_ctas")),
        ("ctas_inverse", ctypes.c_uint),
        *((name, ctypes.c_int) for name in ("scan_warps", "run", "tile_shift", "floor_tiles")),
        *((name, ctypes.c_int) for name in ("max_length", "balanced")),
        ("tile_work", ctypes.c_ulonglong),
        ("stream_rate", ctypes.c_ulonglong),
        ("loaded_inverse", ctypes.c_uint),
        *((name, ctypes.c_int) for name in ("descriptor_weight", "piece_tiles", "tile_bytes", "bytes_per_us")),
        *((name, ctypes.c_int) for name in ("cta_tile_ns", "loaded_tile_ns", "descriptor_ns", "partial_ns")),
        *((name, ctypes.c_int) for name in ("merge_ns", "merge_chunk_ns")),
    )


def map_parameters(
    pointers: tuple[int, int, int, int],
    batch: int,
    max_batch: int,
    num_kv_heads: int,
    num_ctas: int,
    tile: int,
    floor_tiles: int,
    max_length: int,
    costs: list[int],
    threads: int,
) -> ctypes.Structure:
    """The kernel's ``MapParams``; ``pointers`` are its first four, ``costs`` what ``balanced`` decides by."""
    inverse = min((1 << 32) // num_ctas, (1 << 32) - 1)
    warps = _scan_warps(batch, threads)
    work, rate, loaded = 0, 0, 0
    if costs:
        work = 1000 * costs[_TILE_BYTES]
        rate = min((work << 32) // costs[_BYTES_PER_US], (1 << 64) - 1)
        loaded = ((1 << 32) - 1) // max(costs[_LOADED_TILE_NS], 1)
    return _MapParameters(
        *pointers, batch, max_batch, num_kv_heads, num_ctas, inverse, warps, -(-batch // (32 * warps)),
        tile.bit_length() - 1, floor_tiles, max_length, bool(costs), work, rate, loaded, *costs,
    )  # fmt: skip


def _scan_warps(batch: int, threads: int) -> int:
    """Warps that make the prefix sums; one alone meets no other."""
    return max(min(-(-batch // (32 * _REQUESTS_A_THREAD)), threads // 32), 1)


@cache
def map_kernel(entry: str) -> Kernel:
    """A kernel of ``task_map.cu``, ready to launch."""
    return Kernel(compile_kernel(SOURCE, entry))


def _launch(
    seq_lens: torch.Tensor,
    map_: torch.Tensor,
    header: torch.Tensor,
    empties: torch.Tensor,
    max_batch: int,
    num_kv_heads: int,
    num_ctas: int,
    tile: int,
    floor_tiles: int,
    max_length: int,
    costs: list[int],
    pdl: bool,
) -> None:
    batch = seq_lens.shape[0]
    grid, threads = grid_of(batch, num_kv_heads, num_ctas, bool(costs))
    parameters = map_parameters(
        (seq_lens.data_ptr(), map_.data_ptr(), header.data_ptr(), empties.data_ptr()),
        batch, max_batch, num_kv_heads, num_ctas, tile, floor_tiles, max_length, costs, threads,
    )  # fmt: skip
    with torch.cuda.device(seq_lens.device):
        map_kernel("build_task_map").launch(
            grid, threads, [parameters], shared_bytes=shared_bytes(batch, num_ctas, bool(costs)), pdl=pdl
        )


_build_task_map = define(
    "build_task_map",
    "Tensor seq_lens, Tensor(a!) map, Tensor(b!) header, Tensor(c!) empties, int max_batch, int num_kv_heads, "
    "int num_ctas, int tile, int floor_tiles, int max_length, int[] costs, bool pdl",
    _launch,
)


def grid_of(batch: int, num_kv_heads: int, num_ctas: int, balanced: bool) -> tuple[int, int]:
    """CTAs of the map kernel and their threads.

    Each CTA repeats all that comes before the writing. More CTAs share the writing, and a CTA has a thread for each of
    its rows. ``balanced`` has a cut and a bin of each candidate for each CTA of the plan to compute.
    """
    rows = num_ctas + 32 + num_kv_heads * batch
    grid = min(16, -(-rows // _ROWS_A_CTA))
    scan = 32 * _scan_warps(batch, _MOST_THREADS)
    wanted = max(scan, 32 * -(-rows // (32 * grid)))
    if balanced:  # a warp for 31 bins of each of four cuts of the stream, and one to decide beside the prefix sums
        wanted = max(wanted, 32 * 4 * -(-num_ctas // 31), scan + 32)
    return grid, min(wanted, _MOST_THREADS)


def shared_bytes(batch: int, num_ctas: int, balanced: bool) -> int:
    """Shared memory of a CTA of the map kernel; see its file."""
    if not balanced:
        return 4 * (batch + 1) + 3 * batch
    return 8 * (batch + 1) + 8 * _CANDIDATES * (num_ctas + 1) + 3 * batch


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _multiprocessors(device: torch.device) -> int:
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


def _check_sizes(
    batch: int, num_kv_heads: int, max_seq_len: int, q_len: int, num_ctas: int, min_process_len: int, tile: int
) -> None:
    """Check that the kernel's numbers stay in range; the bounds are those of the CPU planner."""
    check_count("num_kv_heads", num_kv_heads, 1, 1024)
    check_count("max_seq_len", max_seq_len, 0, MAX_LENGTH)
    check_count("q_len", q_len, 1, MAX_QUERY_LEN)
    check_count("num_ctas", num_ctas, 1, MAX_CTAS)
    check_count("min_process_len", min_process_len, 0, MAX_LENGTH)
    if tile not in TILES:
        raise InvalidArgument(f"tile is {tile}. Tiles of {', '.join(map(str, TILES))} tokens exist.")
    if batch > MAX_BATCH:
        raise InvalidArgument(f"seq_lens has {batch:,} requests; a map holds up to {MAX_BATCH:,}. Split the batch.")
    if batch * num_kv_heads * -(-max_seq_len // tile) > MAX_LENGTH:
        raise InvalidArgument(
            f"{batch:,} requests of up to {max_seq_len:,} tokens on {num_kv_heads} KV heads may have more tiles than "
            f"the {MAX_LENGTH:,} that a map counts. Give a smaller max_seq_len."
        )


def _check_shared(batch: int, num_ctas: int, balanced: bool) -> None:
    needed = shared_bytes(batch, num_ctas, balanced)
    if needed + _STATIC_SHARED > SHARED_LIMIT:
        raise InvalidArgument(
            f"{batch:,} requests on {num_ctas:,} CTAs need {needed:,} bytes of shared memory in the map kernel, and a "
            f"CTA has {SHARED_LIMIT - _STATIC_SHARED:,}. Give fewer CTAs or split the batch."
        )


def build_task_map(
    seq_lens: torch.Tensor,
    *,
    num_kv_heads: int,
    max_seq_len: int,
    q_len: int = 1,
    num_ctas: int | None = None,
    min_process_len: int = 512,
    policy: str | Any = "balanced",
    config: AttentionConfig | None = None,
    out: TaskMap | None = None,
    cost: CostModel | None = None,
) -> TaskMap:
    """Build a task map on the GPU from lengths that lie there. One launch, no synchronisation, capturable.

    The launch is ``torch.ops.workbench.build_task_map``.

    Parameters
    ----------
    seq_lens : int32 tensor [batch], CUDA, contiguous
        Live KV length of each request in tokens, new tokens included; 0 is allowed. At most 16,384 requests.
    num_kv_heads : int
    max_seq_len : int
        No length exceeds it, and none is negative; the host cannot look. :func:`attention_decode` checks that the block
        table holds this many tokens a request.
    q_len : int
        Query tokens a request.
    num_ctas : int, optional
        Bins; default: SMs times ``config.ctas_per_sm``.
    min_process_len : int
        Work floor in tokens.
    policy : str or policy object
        ``"balanced"``, ``balanced(costs=...)`` or ``"hpc-ops"``. Other policies run on the CPU: plan with
        :func:`workbench.schedule.plan_decode` and use :func:`upload_plan`.
    config : AttentionConfig, optional
        Gives the tile and the CTAs an SM.
    out : TaskMap, optional
        A map to write into, so that a captured graph keeps its addresses: made by this function for the same heads,
        ``q_len``, CTAs and tile, and for as many requests and tokens or more.
    cost : CostModel, optional
        What the name ``"balanced"`` decides by, such as ``cost_model(cache="bf16")``; default: decode attention with an
        FP8 cache on an H200. :func:`workbench.schedule.plan_decode` makes the same map of the same lengths, policy,
        cost model, KV heads, CTAs, tile and ``min_process_len``.

    Raises
    ------
    InvalidArgument
        For arguments outside what is allowed.
    NoGpu
        Without a GPU.
    """
    if seq_lens.ndim != 1 or seq_lens.dtype != torch.int32 or not seq_lens.is_cuda or not seq_lens.is_contiguous():
        raise InvalidArgument(
            f"seq_lens is a {seq_lens.dtype} tensor of shape {tuple(seq_lens.shape)} on {seq_lens.device}; "
            "give a contiguous int32 CUDA tensor [batch]."
        )
    config = config or AttentionConfig()
    batch = seq_lens.shape[0]
    if num_ctas is None:
        num_ctas = _multiprocessors(seq_lens.device) * config.ctas_per_sm
    _check_sizes(batch, num_kv_heads, max_seq_len, q_len, num_ctas, min_process_len, config.tile)
    name, costs = decides(policy, num_ctas, config.tile, cost)
    _check_shared(batch, num_ctas, bool(costs))
    if out is None:
        out = TaskMap.allocate(
            num_kv_heads=num_kv_heads,
            q_len=q_len,
            tile=config.tile,
            num_ctas=num_ctas,
            num_bins=num_ctas,
            batch=batch,
            max_seq_len=max_seq_len,
            rows=num_ctas + num_kv_heads * batch,
            num_slots=2 * num_ctas + 1,
            policy=name,
            min_process_len=min_process_len,
            device=seq_lens.device,
        )
    elif (
        (out.num_kv_heads, out.num_bins, out.tile, out.q_len) != (num_kv_heads, num_ctas, config.tile, q_len)
        or out.max_batch < batch
        or out.max_seq_len < max_seq_len
        or out.device != seq_lens.device
        # An uploaded plan has room for itself only.
        or out.map.shape[0] < num_ctas + num_kv_heads * out.max_batch
        or out.num_slots < 2 * num_ctas + 1
    ):
        raise InvalidArgument(
            f"out is {out}; this call has {batch} requests of up to {max_seq_len} tokens, {num_kv_heads} KV heads, "
            f"q_len {q_len}, {num_ctas} CTAs and tiles of {config.tile} on {seq_lens.device}. Give a map that "
            "build_task_map made for the same, with as many requests and tokens or more."
        )
    _build_task_map(
        seq_lens, out.map, out.header, out.empties, out.max_batch, num_kv_heads, num_ctas, config.tile,
        min_process_len // config.tile, max_seq_len, costs, config.pdl,
    )  # fmt: skip
    out.batch, out.policy, out.min_process_len, out.fresh = batch, name, min_process_len, True
    return out
