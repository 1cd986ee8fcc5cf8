"""Argument checks of decode attention: what was given, what is allowed, what to do."""

from __future__ import annotations

import torch

from workbench.errors import InvalidArgument
from workbench.ops.attention_decode.config import PAGE_SIZES, AttentionShape

_TYPES = {torch.bfloat16: "bf16", torch.float8_e4m3fn: "fp8"}


def infer_shape(q: torch.Tensor, k_cache: torch.Tensor, q_len: int, k_scale: torch.Tensor | None) -> AttentionShape:
    """The shape that a call's kernel is compiled for.

    Raises
    ------
    InvalidArgument
        When there is no kernel for it.
    """
    for name, tensor in (("q", q), ("k_cache", k_cache)):
        if tensor.dtype not in _TYPES:
            raise InvalidArgument(f"{name} is {tensor.dtype}; give torch.bfloat16 or torch.float8_e4m3fn.")
    heads, kv_heads = q.shape[1], k_cache.shape[2]
    if kv_heads == 0 or heads % kv_heads:
        raise InvalidArgument(f"{heads} query heads do not divide among {kv_heads} KV heads.")
    return AttentionShape(
        head_dim=q.shape[2],
        group=heads // kv_heads,
        q_len=q_len,
        cache=_TYPES[k_cache.dtype],
        query=_TYPES[q.dtype],
        k_scale_per_token=k_scale is not None and k_scale.ndim == 3,
    )


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise InvalidArgument(message)


def _rows(name: str, tensor: torch.Tensor, unit_last: bool = True) -> None:
    last = tensor.shape[-1] == 1 or tensor.stride(-1) == 1
    _require(last or not unit_last, f"{name} has strides {tensor.stride()}; its last dimension must be contiguous.")
    for d in range(tensor.ndim - 1):
        step = tensor.stride(d) * tensor.element_size()
        _require(
            step % 16 == 0 or tensor.shape[d] == 1,
            f"{name} has strides {tensor.stride()}; dimension {d} steps {step} bytes, and 16-byte steps are needed.",
        )
    _require(tensor.data_ptr() % 16 == 0, f"{name} starts at an address that is not a multiple of 16 bytes; copy it.")


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
    out: torch.Tensor | None,
) -> None:
    """Check a call of :func:`attention_decode`.

    Raises
    ------
    InvalidArgument
        With what was given and what is allowed.
    """
    named = {
        "q": q, "k_cache": k_cache, "v_cache": v_cache, "block_table": block_table, "seq_lens": seq_lens,
        "q_scale": q_scale, "k_scale": k_scale, "v_scale": v_scale, "out": out,
    }  # fmt: skip
    for name, tensor in named.items():
        if tensor is not None and tensor.device != q.device:
            raise InvalidArgument(f"{name} is on {tensor.device} and q on {q.device}; move them to one GPU.")
    _require(q.is_cuda, f"q is on {q.device}; move the tensors to a CUDA device.")
    _require(q.ndim == 3, f"q has shape {tuple(q.shape)}; give [batch * q_len, q_heads, head_dim].")
    _require(
        k_cache.ndim == 4 and k_cache.shape == v_cache.shape and k_cache.dtype == v_cache.dtype,
        f"k_cache is {k_cache.dtype} {tuple(k_cache.shape)} and v_cache {v_cache.dtype} {tuple(v_cache.shape)}; "
        "give two caches of one type and shape [pages, page_size, kv_heads, head_dim].",
    )
    _require(k_cache.shape[3] == q.shape[2], f"head_dim is {q.shape[2]} in q and {k_cache.shape[3]} in the caches.")
    _require(k_cache.shape[1] in PAGE_SIZES, f"page size is {k_cache.shape[1]}; the kernel takes {PAGE_SIZES}.")
    for name, tensor in (("q", q), ("k_cache", k_cache), ("v_cache", v_cache)):
        _rows(name, tensor)
    _require(
        seq_lens.ndim == 1 and seq_lens.dtype == torch.int32 and seq_lens.is_contiguous(),
        f"seq_lens is {seq_lens.dtype} {tuple(seq_lens.shape)}; give contiguous int32 [batch].",
    )
    batch = seq_lens.shape[0]
    _require(
        isinstance(q_len, int) and q_len >= 1 and q.shape[0] == batch * q_len,
        f"q has {q.shape[0]} rows for {batch} requests of q_len {q_len!r}; it needs batch * q_len.",
    )
    _require(
        block_table.ndim == 2 and block_table.dtype == torch.int32 and block_table.shape[0] == batch,
        f"block_table is {block_table.dtype} {tuple(block_table.shape)}; give int32 [{batch}, max_pages].",
    )
    _require(
        block_table.shape[1] <= 1 or block_table.stride(1) == 1, "block_table's last dimension must be contiguous."
    )
    for name, tensor in (("q_scale", q_scale), ("k_scale", k_scale), ("v_scale", v_scale)):
        _require(tensor is None or tensor.dtype == torch.float32, f"{name} must be float32.")
    _require(
        q_scale is None or (q_scale.shape == q.shape[:2] and q_scale.is_contiguous()),
        f"q_scale must be contiguous {tuple(q.shape[:2])}.",
    )
    kv_heads = k_cache.shape[2]
    if k_scale is not None and k_scale.numel() != 1:
        _require(
            k_scale.shape == k_cache.shape[:3],
            f"k_scale has shape {tuple(k_scale.shape)}; give [1] or {tuple(k_cache.shape[:3])}.",
        )
    if v_scale is not None:
        _require(
            v_scale.shape in ((1,), (kv_heads,)) and v_scale.is_contiguous(),
            f"v_scale has shape {tuple(v_scale.shape)}; give [1] or [{kv_heads}].",
        )
    if out is not None:
        _require(
            out.dtype == torch.bfloat16 and out.shape == q.shape and out.is_contiguous(),
            f"out is {out.dtype} {tuple(out.shape)}; give contiguous bfloat16 {tuple(q.shape)}.",
        )
