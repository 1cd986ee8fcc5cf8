"""The task map built on the GPU from lengths that the host never sees."""

from __future__ import annotations

import ctypes
from functools import cache, lru_cache
from typing import Any

import torch

from workbench.errors import InvalidArgument
from workbench.gpu.compile import compile_kernel
from workbench.gpu.launch import Kernel
from workbench.ops.attention_decode.buffers import TaskMap
from workbench.ops.attention_decode.config import SHARED_LIMIT, AttentionConfig
from workbench.ops.library import define
from workbench.schedule import cost_model, hpc_ops, resolve
from workbench.schedule.policies import balanced
from workbench.schedule.problem import MAX_CTAS, MAX_LENGTH, MAX_QUERY_LEN, TILES, check_count

MAX_BATCH = 16_384
"""Requests that the map kernel holds prefix sums for."""

_THREADS = 1024
_SOURCE = "attention_decode/task_map.cu"


class _MapParameters(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("lengths", "map", "header", "empties")),
        *(
            (name, ctypes.c_int)
            for name in ("batch", "max_batch", "kv_heads", "num_ctas", "tile", "floor_tiles", "max_length", "balanced")
        ),
        *((name, ctypes.c_int) for name in ("tile_bytes", "bytes_per_us", "cta_tile_ns", "shared_tile_ns")),
        *((name, ctypes.c_int) for name in ("descriptor_ns", "partial_ns", "merge_ns", "merge_chunk_ns")),
    )


@cache
def map_kernel(entry: str) -> Kernel:
    """A kernel of ``task_map.cu``, ready to launch."""
    return Kernel(compile_kernel(_SOURCE, entry))


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
    parameters = _MapParameters(
        seq_lens.data_ptr(), map_.data_ptr(), header.data_ptr(), empties.data_ptr(),
        batch, max_batch, num_kv_heads, num_ctas, tile, floor_tiles, max_length,
        bool(costs), *costs,
    )  # fmt: skip
    grid = min(16, -(-(num_ctas + num_kv_heads * batch) // _THREADS))
    with torch.cuda.device(seq_lens.device):
        map_kernel("build_task_map").launch(
            grid, _THREADS, [parameters], shared_bytes=_shared_bytes(batch, num_ctas), pdl=pdl
        )


_build_task_map = define(
    "build_task_map",
    "Tensor seq_lens, Tensor(a!) map, Tensor(b!) header, Tensor(c!) empties, int max_batch, int num_kv_heads, "
    "int num_ctas, int tile, int floor_tiles, int max_length, int[] costs, bool pdl",
    _launch,
)


def _shared_bytes(batch: int, num_ctas: int) -> int:
    """Shared memory of a CTA of the map kernel; see its file."""
    return 4 * (3 * (batch + 1) + 3 * (num_ctas + 1))


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _decides(policy: Any, num_ctas: int, tile: int) -> tuple[str, list[int]]:
    """Name of a policy and the integers that the kernel decides by; none of them means upstream's rule."""
    chosen = _named(policy) if isinstance(policy, str) else resolve(policy)
    if isinstance(chosen, hpc_ops):
        return chosen.name, []
    if isinstance(chosen, balanced):
        return chosen.name, list(_costs(chosen, num_ctas, tile))
    raise InvalidArgument(
        f"policy {chosen.name} is not built on the GPU (hpc-ops and balanced are). "
        "Plan it with plan_decode(...) and pass the plan to upload_plan."
    )


_named = lru_cache(maxsize=64)(resolve)


@lru_cache(maxsize=256)
def _costs(policy: balanced, num_ctas: int, tile: int) -> tuple[int, ...]:
    cost = policy.costs or cost_model()
    constants = cost.constants
    cta_tile_ns = cost.cta_tile_ns(tile, num_ctas)
    shared_tile_ns = max(cta_tile_ns, cost.stream_ns(num_ctas, tile))
    return (
        cost.tile_bytes(tile), constants.bytes_per_us, cta_tile_ns, shared_tile_ns,
        constants.descriptor_ns, constants.partial_ns, constants.merge_ns, constants.merge_chunk_ns,
    )  # fmt: skip


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
    if _shared_bytes(batch, num_ctas) > SHARED_LIMIT:
        raise InvalidArgument(
            f"{batch:,} requests on {num_ctas:,} CTAs need {_shared_bytes(batch, num_ctas):,} bytes of shared memory "
            f"in the map kernel, and a CTA has {SHARED_LIMIT:,}. Give fewer CTAs or split the batch."
        )
    if batch * num_kv_heads * -(-max_seq_len // tile) > MAX_LENGTH:
        raise InvalidArgument(
            f"{batch:,} requests of up to {max_seq_len:,} tokens on {num_kv_heads} KV heads may have more tiles than "
            f"the {MAX_LENGTH:,} that a map counts. Give a smaller max_seq_len."
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
    name, costs = _decides(policy, num_ctas, config.tile)
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
