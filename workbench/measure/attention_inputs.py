"""Inputs for decode attention: random, ragged, with garbage wherever the kernel must not look."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

E4M3_MAX = 448.0


@dataclass(frozen=True)
class AttentionInputs:
    """One call's tensors; see :func:`workbench.ops.attention_decode`."""

    q: torch.Tensor
    k_cache: torch.Tensor
    v_cache: torch.Tensor
    block_table: torch.Tensor
    seq_lens: torch.Tensor
    q_scale: torch.Tensor | None
    k_scale: torch.Tensor | None
    v_scale: torch.Tensor | None
    q_len: int

    def arguments(self) -> tuple[torch.Tensor, ...]:
        """The positional arguments of the operator."""
        return self.q, self.k_cache, self.v_cache, self.block_table, self.seq_lens

    def keywords(self) -> dict[str, Any]:
        """The keyword arguments that belong to the inputs."""
        return {"q_scale": self.q_scale, "k_scale": self.k_scale, "v_scale": self.v_scale, "q_len": self.q_len}


def make_inputs(
    lengths: Any,
    *,
    group: int = 8,
    kv_heads: int = 1,
    head_dim: int = 128,
    page_size: int = 64,
    q_len: int = 1,
    cache: str = "fp8",
    query: str = "fp8",
    layout: str = "nhd",
    k_scale_per_token: bool = False,
    score_deviation: float = 1.0,
    ruling_key: str | None = None,
    poison: bool = True,
    seed: int = 0,
    device: str = "cuda",
) -> AttentionInputs:
    """Random inputs whose scores have a given standard deviation.

    Parameters
    ----------
    lengths : integers [batch]
    layout : str
        ``"nhd"``, ``"hnd"`` (strided view), or ``"combined"`` (K and V interleaved in one allocation).
    score_deviation : float
        Standard deviation of ``q k^T * scales / sqrt(head_dim)`` over keys.
    ruling_key : str, optional
        ``"first"``, ``"middle"`` or ``"last"``: one key of each request that holds most of the softmax.
    poison : bool
        NaN in unused slots and pages, and out-of-range entries behind each request's pages in the table.
    """
    gen = torch.Generator(device=device).manual_seed(seed)
    lengths = np.asarray(lengths, np.int64)
    batch, heads = len(lengths), kv_heads * group
    pages_of = -(-lengths // page_size)
    used = int(pages_of.sum())
    spare = 3
    pages = used + spare

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=gen, device=device)

    k, v = normal(pages, page_size, kv_heads, head_dim), normal(pages, page_size, kv_heads, head_dim)
    q = normal(batch * q_len, heads, head_dim) * score_deviation
    order = torch.randperm(pages, generator=gen, device=device).to(torch.int32)
    table = torch.full((batch, max(int(pages_of.max(initial=0)), 1) + 1), 2**30, dtype=torch.int32, device=device)
    if not poison:
        table.zero_()
    ends = np.cumsum(pages_of)
    for b in range(batch):
        own = order[int(ends[b] - pages_of[b]) : int(ends[b])]
        table[b, : len(own)] = own
        if ruling_key is not None and lengths[b] > 0:
            at = {"first": 0, "middle": int(lengths[b]) // 2, "last": max(int(lengths[b]) - q_len, 0)}[ruling_key]
            page, slot = int(own[at // page_size]), at % page_size
            for h in range(kv_heads):
                # Along the mean direction of the group's queries: far above every other score.
                mean = q[b * q_len : (b + 1) * q_len, h * group : (h + 1) * group].mean(dim=(0, 1))
                k[page, slot, h] = mean / mean.norm().clamp_min(1e-6) * 3.0 * head_dim**0.5

    fp8 = torch.float8_e4m3fn
    q_scale = k_scale = v_scale = None
    if cache == "fp8":
        if k_scale_per_token:
            k_scale = k.abs().amax(dim=-1).clamp_min(1e-6) / E4M3_MAX
            k = k / k_scale[..., None]
        else:
            k_scale = (k.abs().amax() / E4M3_MAX).reshape(1)
            k = k / k_scale
        v_head = v.abs().amax(dim=(0, 1, 3)) / E4M3_MAX
        v_scale = v_head.contiguous() if k_scale_per_token else v_head.amax().reshape(1)
        v = v / v_scale[:, None]
    if query == "fp8":
        q_scale = (q.abs().amax(dim=-1).clamp_min(1e-6) / E4M3_MAX).contiguous()
        q = q / q_scale[..., None]
    cache_type = fp8 if cache == "fp8" else torch.bfloat16
    q = q.to(fp8 if query == "fp8" else torch.bfloat16)
    k_cache, v_cache = _lay_out(k.to(cache_type), v.to(cache_type), layout)
    if poison:
        _poison(k_cache, v_cache, k_scale if k_scale_per_token else None, order, lengths, pages_of, page_size)
    seq_lens = torch.as_tensor(lengths, device=device).to(torch.int32)
    return AttentionInputs(q, k_cache, v_cache, table, seq_lens, q_scale, k_scale, v_scale, q_len)


def _lay_out(k: torch.Tensor, v: torch.Tensor, layout: str) -> tuple[torch.Tensor, torch.Tensor]:
    if layout == "hnd":
        return k.transpose(1, 2).contiguous().transpose(1, 2), v.transpose(1, 2).contiguous().transpose(1, 2)
    if layout == "combined":
        both = torch.empty((k.shape[0], 2, *k.shape[1:]), dtype=k.dtype, device=k.device)
        both.view(torch.uint8 if k.dtype.itemsize == 1 else k.dtype)[:, 0] = k.view(
            torch.uint8 if k.dtype.itemsize == 1 else k.dtype
        )
        both.view(torch.uint8 if k.dtype.itemsize == 1 else k.dtype)[:, 1] = v.view(
            torch.uint8 if k.dtype.itemsize == 1 else k.dtype
        )
        return both[:, 0], both[:, 1]
    return k, v


def _poison(
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    k_scale: torch.Tensor | None,
    order: torch.Tensor,
    lengths: np.ndarray[Any, Any],
    pages_of: np.ndarray[Any, Any],
    page_size: int,
) -> None:
    fp8 = k_cache.dtype.itemsize == 1
    nan = 0x7F if fp8 else torch.nan
    targets = [c.view(torch.uint8) if fp8 else c for c in (k_cache, v_cache)]
    used = int(pages_of.sum())
    ends = np.cumsum(pages_of)
    for target in targets:
        target[order[used:].long()] = nan
    if k_scale is not None:
        k_scale[order[used:].long()] = torch.nan
    for b, length in enumerate(lengths.tolist()):
        tail = length % page_size
        if tail:
            page = int(order[int(ends[b]) - 1])
            for target in targets:
                target[page, tail:] = nan
            if k_scale is not None:
                k_scale[page, tail:] = torch.nan
