"""Argument checks of decode attention: what was given, what is allowed, what to do.

They read shapes, types and strides only, so they take tensors on any device, fake ones too, and cost a few
microseconds: messages are made when needed.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TypeVar

import torch

from workbench.errors import InvalidArgument
from workbench.ops.alignment import ALIGNMENT
from workbench.ops.attention_decode.buffers import TaskMap
from workbench.ops.attention_decode.config import GROUPS, HEAD_DIMS, PAGE_SIZES, Q_LENS, AttentionShape

Kind = TypeVar("Kind")

_TYPES = {torch.bfloat16: "bf16", torch.float8_e4m3fn: "fp8"}
_OPTIONAL = ("q_scale", "k_scale", "v_scale", "out")
_MOST_SCALE = 2.0**127
"""Softmax scales below it stay finite in FP32 also times log2(e)."""


def infer_shape(q: torch.Tensor, k_cache: torch.Tensor, q_len: int, k_scale: torch.Tensor | None) -> AttentionShape:
    """The shape that a call's kernel is compiled for; the arguments are those of :func:`check_arguments`, checked."""
    per_token = k_scale is not None and k_scale.ndim == 3
    group = q.shape[1] // k_cache.shape[2]
    shape: AttentionShape = shape_of(q.shape[2], group, q_len, k_cache.dtype, q.dtype, per_token)
    return shape


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def shape_of(
    head_dim: int, group: int, q_len: int, cache: torch.dtype, query: torch.dtype, k_scale_per_token: bool
) -> AttentionShape:
    """The shape of these numbers and types, made once.

    Raises
    ------
    InvalidArgument
        When there is no kernel for it.
    """
    return _shape_of(head_dim, group, q_len, _TYPES[cache], _TYPES[query], k_scale_per_token)


@lru_cache(maxsize=1024)
def _shape_of(head_dim: int, group: int, q_len: int, cache: str, query: str, k_scale_per_token: bool) -> AttentionShape:
    return AttentionShape(
        head_dim=head_dim, group=group, q_len=q_len, cache=cache, query=query, k_scale_per_token=k_scale_per_token
    )


def one_of(name: str, value: int, allowed: tuple[int, ...]) -> int:
    """Return the allowed value that ``value`` equals, a number also where ``value`` is a symbol.

    Raises
    ------
    InvalidArgument
        When there is none.
    """
    for candidate in allowed:
        if value == candidate:
            return candidate
    raise InvalidArgument(f"{name} is {value!r}; decode attention takes {', '.join(map(str, allowed))}.")


def check_arguments(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    block_table: torch.Tensor,
    seq_lens: torch.Tensor,
    q_scale: torch.Tensor | None,
    k_scale: torch.Tensor | None,
    v_scale: torch.Tensor | None,
    q_len: int,
    scale: float | None,
    out: torch.Tensor | None,
) -> tuple[int, int, int]:
    """Check a call of :func:`attention_decode`, all but which device it is on.

    Returns
    -------
    head_dim, group, q_len : int
        What a kernel is compiled for; numbers even where a compiler traces with symbols.

    Raises
    ------
    InvalidArgument
        With what was given and what is allowed.
    """
    _check_one_device(q, k_cache, v_cache, block_table, seq_lens, q_scale, k_scale, v_scale, out)
    _check_caches(q, k_cache, v_cache)
    _check_batch(q, block_table, seq_lens, q_len)
    heads, kv_heads = q.shape[1], k_cache.shape[2]
    if kv_heads == 0 or heads == 0 or heads % kv_heads:
        raise InvalidArgument(
            f"q has {heads} heads and the caches {kv_heads}; the KV heads must divide the query heads."
        )
    _check_scales(q, k_cache, q_scale, k_scale, v_scale)
    if scale is not None and not (_is_number(scale, (int, float)) and -_MOST_SCALE < scale < _MOST_SCALE):
        raise InvalidArgument(
            f"scale is {scale!r}; give a Python number that is finite in FP32, or None for head_dim ** -0.5."
        )
    if torch.is_grad_enabled() and any(x.requires_grad for x in (q, k_cache, v_cache)):
        raise InvalidArgument(
            "q or a cache requires a gradient and decode attention has none; call it under torch.no_grad(), or give "
            "tensors that are detached."
        )
    if out is not None and (out.dtype != torch.bfloat16 or out.shape != q.shape or not out.is_contiguous()):
        raise InvalidArgument(
            f"out is {out.dtype} {tuple(out.shape)} with strides {out.stride()}; give contiguous torch.bfloat16 "
            f"{tuple(q.shape)}."
        )
    return (
        one_of("head_dim", q.shape[2], HEAD_DIMS),
        one_of("the number of query heads a KV head", heads // kv_heads, GROUPS),
        one_of("q_len", q_len, Q_LENS),
    )


def of_type(name: str, value: object, kind: type[Kind], remedy: str) -> Kind:
    """Return ``value``, which must be a ``kind``.

    Raises
    ------
    InvalidArgument
        When it is something else; the message ends with ``remedy``.
    """
    if not isinstance(value, kind):
        raise InvalidArgument(f"{name} is a {type(value).__name__}; {remedy}.")
    return value


def _is_number(value: object, kinds: type | tuple[type, ...]) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)


def _check_one_device(q: torch.Tensor, *others: torch.Tensor | None) -> None:
    names = ("q", "k_cache", "v_cache", "block_table", "seq_lens", *_OPTIONAL)
    for name, tensor in zip(names, (q, *others), strict=True):
        if tensor is None and name in _OPTIONAL:
            continue
        if not isinstance(tensor, torch.Tensor):
            raise InvalidArgument(f"{name} is a {type(tensor).__name__}; give a torch tensor.")
        if tensor.layout is not torch.strided:
            raise InvalidArgument(f"{name} has layout {tensor.layout}; give a dense tensor (torch.strided).")
        if tensor.device != q.device:
            raise InvalidArgument(f"{name} is on {tensor.device} and q on {q.device}; move them to one GPU.")


def _check_caches(q: torch.Tensor, k_cache: torch.Tensor, v_cache: torch.Tensor) -> None:
    for name, tensor in (("q", q), ("k_cache", k_cache), ("v_cache", v_cache)):
        if tensor.dtype not in _TYPES:
            raise InvalidArgument(f"{name} is {tensor.dtype}; give torch.bfloat16 or torch.float8_e4m3fn.")
    if q.ndim != 3:
        raise InvalidArgument(f"q has shape {tuple(q.shape)}; give [batch * q_len, q_heads, head_dim].")
    if k_cache.ndim != 4 or k_cache.shape != v_cache.shape or k_cache.dtype != v_cache.dtype:
        raise InvalidArgument(
            f"k_cache is {k_cache.dtype} {tuple(k_cache.shape)} and v_cache {v_cache.dtype} {tuple(v_cache.shape)}; "
            "give two caches of one type and shape [pages, page_size, kv_heads, head_dim]."
        )
    if k_cache.shape[0] == 0:
        raise InvalidArgument("the caches hold no page; give at least one.")
    if k_cache.shape[3] != q.shape[2]:
        raise InvalidArgument(f"head_dim is {q.shape[2]} in q and {k_cache.shape[3]} in the caches; they must agree.")
    if k_cache.shape[1] not in PAGE_SIZES:
        raise InvalidArgument(f"page size is {k_cache.shape[1]}; the kernel takes {', '.join(map(str, PAGE_SIZES))}.")
    for name, tensor in (("q", q), ("k_cache", k_cache), ("v_cache", v_cache)):
        if tensor.stride(-1) != 1:
            raise InvalidArgument(f"{name} has strides {tensor.stride()}; make its last dimension contiguous.")


def _check_batch(q: torch.Tensor, block_table: torch.Tensor, seq_lens: torch.Tensor, q_len: int) -> None:
    if seq_lens.ndim != 1 or seq_lens.dtype != torch.int32 or not seq_lens.is_contiguous():
        raise InvalidArgument(
            f"seq_lens is {seq_lens.dtype} {tuple(seq_lens.shape)} with strides {seq_lens.stride()}; give contiguous "
            "torch.int32 [batch]."
        )
    batch = seq_lens.shape[0]
    if not _is_number(q_len, int):
        raise InvalidArgument(
            f"q_len is {q_len!r}, a {type(q_len).__name__}; give an int, {Q_LENS[0]} to {Q_LENS[-1]}."
        )
    if q_len < 1 or q.shape[0] != batch * q_len:
        raise InvalidArgument(
            f"q has {q.shape[0]} rows for {batch} requests of q_len {q_len!r}; give batch * q_len rows."
        )
    if block_table.ndim != 2 or block_table.dtype != torch.int32 or block_table.shape[0] != batch:
        raise InvalidArgument(
            f"block_table is {block_table.dtype} {tuple(block_table.shape)}; give torch.int32 [{batch}, max_pages]."
        )
    if block_table.shape[1] > 1 and block_table.stride(1) != 1:
        raise InvalidArgument(f"block_table has strides {block_table.stride()}; make its last dimension contiguous.")


def _check_scales(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    q_scale: torch.Tensor | None,
    k_scale: torch.Tensor | None,
    v_scale: torch.Tensor | None,
) -> None:
    for name, tensor in (("q_scale", q_scale), ("k_scale", k_scale), ("v_scale", v_scale)):
        if tensor is not None and tensor.dtype != torch.float32:
            raise InvalidArgument(f"{name} is {tensor.dtype}; give torch.float32.")
    if q_scale is not None and (q_scale.shape != q.shape[:2] or not q_scale.is_contiguous()):
        raise InvalidArgument(
            f"q_scale has shape {tuple(q_scale.shape)} and strides {q_scale.stride()}; give contiguous "
            f"{tuple(q.shape[:2])}: one scale a query row and head."
        )
    if k_scale is not None and k_scale.shape != (1,) and k_scale.shape != k_cache.shape[:3]:
        raise InvalidArgument(
            f"k_scale has shape {tuple(k_scale.shape)}; give [1], or {tuple(k_cache.shape[:3])} for a scale a token."
        )
    kv_heads = k_cache.shape[2]
    if v_scale is not None and (v_scale.shape not in ((1,), (kv_heads,)) or not v_scale.is_contiguous()):
        raise InvalidArgument(
            f"v_scale has shape {tuple(v_scale.shape)} and strides {v_scale.stride()}; give contiguous [1] or "
            f"[{kv_heads}]."
        )


def check_steps(**tensors: torch.Tensor) -> None:
    """Check that the rows of each tensor lie whole copies apart.

    Raises
    ------
    InvalidArgument
        For a stride that is not a multiple of 16 bytes.
    """
    for name, tensor in tensors.items():
        for dim, (extent, stride) in enumerate(zip(tensor.shape[:-1], tensor.stride(), strict=False)):
            if extent > 1 and stride * tensor.element_size() % ALIGNMENT:
                raise InvalidArgument(
                    f"{name} has strides {tensor.stride()}; dimension {dim} steps {stride * tensor.element_size()} "
                    f"bytes. Give steps that are multiples of {ALIGNMENT} bytes, or a contiguous copy."
                )


def check_task_map(
    task_map: TaskMap, q: torch.Tensor, k_cache: torch.Tensor, block_table: torch.Tensor, q_len: int
) -> None:
    """Check that a map was made for a call, as far as the host can tell; the lengths themselves it cannot see.

    Raises
    ------
    InvalidArgument
        For a map of another device, batch, head count or ``q_len``, or one whose requests may need more pages than the
        block table has.
    """
    of_type("task_map", task_map, TaskMap, "give what build_task_map(...) or upload_plan(plan) returns")
    kv_heads, batch = k_cache.shape[2], block_table.shape[0]
    if task_map.device != q.device:
        raise InvalidArgument(f"task_map is on {task_map.device} and q on {q.device}; build it there.")
    if (task_map.num_kv_heads, task_map.q_len, task_map.batch) != (kv_heads, q_len, batch):
        raise InvalidArgument(
            f"task_map was made for {task_map.batch} requests, {task_map.num_kv_heads} KV heads and q_len "
            f"{task_map.q_len}; this call has {batch}, {kv_heads} and {q_len}. Build one for this call."
        )
    capacity = block_table.shape[1] * k_cache.shape[1]
    if task_map.max_seq_len > capacity:
        raise InvalidArgument(
            f"task_map allows {task_map.max_seq_len:,} tokens a request, but a row of block_table holds "
            f"{block_table.shape[1]} pages of {k_cache.shape[1]}: {capacity:,} tokens. Give a wider table, or build "
            f"the map with max_seq_len={capacity}."
        )
