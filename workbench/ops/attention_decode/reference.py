"""Decode attention in float64, straight from the definition. Slow, for comparison."""

from __future__ import annotations

import torch

from workbench.ops.attention_decode.checks import check_arguments, infer_shape
from workbench.ops.attention_decode.contents import check_contents


def attention_reference(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    block_table: torch.Tensor,
    seq_lens: torch.Tensor,
    *,
    q_scale: torch.Tensor | None = None,
    k_scale: torch.Tensor | None = None,
    v_scale: torch.Tensor | None = None,
    q_len: int = 1,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """``softmax(q k^T * q_scale * k_scale * scale + causal) v * v_scale`` on the operands as they are, in float64.

    Parameters are those of :func:`workbench.ops.attention_decode`, on any device. It looks at lengths and pages, so it
    waits for the GPU and cannot be captured.

    Returns
    -------
    out : float64 tensor [batch * q_len, q_heads, head_dim]
    lse : float64 tensor [batch * q_len, q_heads]
        Natural logarithm of the sum of exponentials; -inf for a row that sees no key.

    Raises
    ------
    InvalidArgument
        For what :func:`workbench.ops.attention_decode` refuses, alignment aside, and for lengths and pages that do not
        exist.
    """
    check_arguments(q, k_cache, v_cache, block_table, seq_lens, q_scale, k_scale, v_scale, q_len, scale, None)
    infer_shape(q, k_cache, q_len, k_scale)  # refuses what has no kernel
    check_contents(seq_lens, block_table, k_cache)
    heads, dim = q.shape[1:]
    page_size, kv_heads = k_cache.shape[1:3]
    group = heads // kv_heads
    scale = dim**-0.5 if scale is None else scale
    out = torch.zeros(q.shape, dtype=torch.float64, device=q.device)
    lse = torch.full(q.shape[:2], -torch.inf, dtype=torch.float64, device=q.device)
    for b, length in enumerate(seq_lens.tolist()):
        if length == 0:
            continue
        pages = block_table[b, : -(-length // page_size)].long()

        def live(cache: torch.Tensor, pages: torch.Tensor = pages, length: int = length) -> torch.Tensor:
            return cache[pages].flatten(0, 1)[:length]

        k = live(k_cache).double()  # [length, kv_heads, dim]
        v = live(v_cache).double()
        if k_scale is not None:
            k = k * (live(k_scale).double()[..., None] if k_scale.ndim == 3 else k_scale.double())
        if v_scale is not None:
            v = v * (v_scale.double()[:, None] if v_scale.numel() > 1 else v_scale.double())
        rows = slice(b * q_len, (b + 1) * q_len)
        query = q[rows].double()
        if q_scale is not None:
            query = query * q_scale[rows].double()[..., None]
        grouped = query.reshape(q_len, kv_heads, group, dim)
        scores = torch.einsum("shgd,nhd->shgn", grouped, k) * scale
        last = length - q_len + torch.arange(q_len, device=q.device)  # the last key that each row sees
        hidden = torch.arange(length, device=q.device)[None, :] > last[:, None]
        scores = scores.masked_fill(hidden[:, None, None, :], -torch.inf)
        sums = torch.logsumexp(scores, dim=-1)
        weights = torch.exp(scores - sums[..., None]).nan_to_num(0.0)
        out[rows] = torch.einsum("shgn,nhd->shgd", weights, v).reshape(q_len, heads, dim)
        lse[rows] = sums.reshape(q_len, heads)
    return out, lse
