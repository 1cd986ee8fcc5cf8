"""The public function of decode attention and its torch op."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch

from workbench.errors import InvalidArgument
from workbench.ops.attention_decode import cuda
from workbench.ops.attention_decode.buffers import TaskMap
from workbench.ops.attention_decode.checks import (
    check_arguments,
    check_steps,
    check_task_map,
    infer_shape,
    of_type,
    shape_of,
)
from workbench.ops.attention_decode.config import PARAMETERS, AttentionConfig, AttentionShape
from workbench.ops.attention_decode.map_costs import costs_of
from workbench.ops.attention_decode.task_map import build_task_map
from workbench.ops.attention_decode.tuned import chosen_config
from workbench.ops.library import define


def _launch(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    block_table: torch.Tensor,
    task_map: torch.Tensor,
    header: torch.Tensor,
    empties: torch.Tensor,
    partial_out: torch.Tensor,
    partial_sum: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor | None,
    q_scale: torch.Tensor | None,
    k_scale: torch.Tensor | None,
    v_scale: torch.Tensor | None,
    q_len: int,
    scale: float,
    num_bins: int,
    early_map: bool,
    early_cache: bool,
    warps: int,
    stages: int,
    ctas_per_sm: int,
    prefetch: int,
    tile: int,
    pdl: bool,
) -> None:
    cuda.launch(
        infer_shape(q, k_cache, q_len, k_scale),
        _config(warps, stages, ctas_per_sm, prefetch, tile, pdl),
        q=q,
        k_cache=k_cache,
        v_cache=v_cache,
        block_table=block_table,
        map_=task_map,
        header=header,
        empties=empties,
        num_bins=num_bins,
        partial_out=partial_out,
        partial_sum=partial_sum,
        out=out,
        lse=lse,
        q_scale=q_scale,
        k_scale=k_scale,
        v_scale=v_scale,
        scale=scale,
        early_map=early_map,
        early_cache=early_cache,
    )


_attention_decode = define(
    "attention_decode",
    "Tensor q, Tensor k_cache, Tensor v_cache, Tensor block_table, Tensor task_map, Tensor header, Tensor empties, "
    "Tensor(a!) partial_out, Tensor(b!) partial_sum, Tensor(c!) out, Tensor(d!)? lse, "
    "Tensor? q_scale, Tensor? k_scale, Tensor? v_scale, int q_len, float scale, int num_bins, bool early_map, "
    "bool early_cache, int warps, int stages, int ctas_per_sm, int prefetch, int tile, bool pdl",
    _launch,
)


@lru_cache(maxsize=1024)
def _config(warps: int, stages: int, ctas_per_sm: int, prefetch: int, tile: int, pdl: bool) -> AttentionConfig:
    return AttentionConfig(warps=warps, stages=stages, ctas_per_sm=ctas_per_sm, prefetch=prefetch, tile=tile, pdl=pdl)


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _choose(
    head_dim: int,
    group: int,
    q_len: int,
    cache: torch.dtype,
    query: torch.dtype,
    k_scale_per_token: bool,
    given: tuple[Any, ...] | None,
) -> AttentionConfig:
    """The configuration that runs a shape: the one with the given values, checked, or the default."""
    return _checked(shape_of(head_dim, group, q_len, cache, query, k_scale_per_token), given)


def _values(config: AttentionConfig) -> tuple[Any, ...]:
    """The values of a configuration in the order of ``PARAMETERS``, each of the type that it must have."""
    of_type("config", config, AttentionConfig, "give an AttentionConfig, or None for the default of the shape")
    values = tuple(getattr(config, name) for name in PARAMETERS)
    for name, value in zip(PARAMETERS, values, strict=True):
        if type(value) not in {type(allowed) for allowed in PARAMETERS[name]}:
            raise InvalidArgument(f"{name} of config is {value!r}; give one of {PARAMETERS[name]}.")
    return values


@lru_cache(maxsize=1024)
def _checked(shape: AttentionShape, given: tuple[Any, ...] | None) -> AttentionConfig:
    if given is None:
        return chosen_config(shape)
    return AttentionConfig(**dict(zip(PARAMETERS, given, strict=True))).check(shape)


def attention_decode(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    block_table: torch.Tensor,
    seq_lens: torch.Tensor,
    *,
    task_map: TaskMap | None = None,
    q_scale: torch.Tensor | None = None,
    k_scale: torch.Tensor | None = None,
    v_scale: torch.Tensor | None = None,
    q_len: int = 1,
    scale: float | None = None,
    return_lse: bool = False,
    config: AttentionConfig | None = None,
    out: torch.Tensor | None = None,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Attention of the newest ``q_len`` tokens of each request over its paged KV cache.

    ``softmax(q k^T * q_scale * k_scale * scale + causal) v * v_scale``; query row ``s`` of a request of length ``L``
    sees keys ``j <= L - q_len + s``. A row that sees none gives zeros and LSE -inf. The launch is
    ``torch.ops.workbench.attention_decode``; it can be captured in a graph and compiled with ``fullgraph=True``.

    Parameters
    ----------
    q : bf16 or E4M3 tensor [batch * q_len, q_heads, head_dim], CUDA
        Head dim 64, 128 or 256, contiguous in the last dimension.
    k_cache, v_cache : bf16 or E4M3 tensors [pages, page_size, kv_heads, head_dim], CUDA
        Any strides that are multiples of 16 bytes, the last dimension contiguous: HND and combined caches are views.
        ``q_heads / kv_heads`` is 1, 2, 4, 8 or 16; page size 16, 32, 64 or 128.
    block_table : int32 tensor [batch, max_pages], CUDA
        Pages of each request; entries past its length are never read. It must hold the ``max_seq_len`` of the map.
    seq_lens : int32 tensor [batch], CUDA
        Live KV lengths, the new tokens included.
    task_map : TaskMap, optional
        Made for these lengths by :func:`build_task_map` or :func:`upload_plan`; the kernel goes by the lengths in the
        map. Default: built here (one more launch), policy ``balanced`` by the cost model of this GPU, cache type, group
        and head dim: the plan of ``plan_decode(..., cost=cost_model(gpu, cache=..., group=..., head_dim=...))``.
    q_scale : float32 tensor [batch * q_len, q_heads], optional
    k_scale : float32 tensor [1] or [pages, page_size, kv_heads], optional
    v_scale : float32 tensor [1] or [kv_heads], optional
    q_len : int
        Query tokens a request, 1 to 4.
    scale : float, optional
        Softmax scale; default ``head_dim ** -0.5``.
    return_lse : bool
        Also return the natural-log LSE.
    config : AttentionConfig, optional
    out : bf16 tensor [batch * q_len, q_heads, head_dim], optional
        Contiguous; written and returned.

    Returns
    -------
    out : bf16 tensor [batch * q_len, q_heads, head_dim]
    lse : float32 tensor [batch * q_len, q_heads], with ``return_lse``

    Raises
    ------
    InvalidArgument
        For tensors or numbers outside what is listed here.
    NoGpu
        Without a GPU.
    """
    head_dim, group, q_len = check_arguments(
        q, k_cache, v_cache, block_table, seq_lens, q_scale, k_scale, v_scale, q_len, scale, out
    )
    check_steps(q=q, k_cache=k_cache, v_cache=v_cache)
    per_token = k_scale is not None and k_scale.ndim == 3
    given = None if config is None else _values(config)
    config = _choose(head_dim, group, q_len, k_cache.dtype, q.dtype, per_token, given)
    if not q.is_cuda:
        raise InvalidArgument(
            f"q is on {q.device}; move the tensors to a CUDA device. On a CPU, attention_decode_triton runs in "
            "Triton's interpreter and attention_reference in float64."
        )
    if task_map is None:
        task_map = build_task_map(
            seq_lens,
            num_kv_heads=k_cache.shape[2],
            max_seq_len=block_table.shape[1] * k_cache.shape[1],
            q_len=q_len,
            config=config,
            cost=costs_of(head_dim, group, k_cache.dtype, q.device),
        )
    check_task_map(task_map, q, k_cache, block_table, q_len)
    if out is None:
        out = torch.empty(q.shape, dtype=torch.bfloat16, device=q.device)
    lse = torch.empty(q.shape[:2], dtype=torch.float32, device=q.device) if return_lse else None
    partial_out, partial_sum = task_map.partials(group * q_len, head_dim)
    early = not config.pdl or (config.early_map and not task_map.fresh)  # nothing runs ahead without dependence
    _attention_decode(
        q,
        k_cache,
        v_cache,
        block_table,
        task_map.map,
        task_map.header,
        task_map.empties,
        partial_out,
        partial_sum,
        out,
        lse,
        q_scale,
        k_scale,
        v_scale,
        q_len,
        head_dim**-0.5 if scale is None else scale,
        task_map.num_bins,
        early,
        early and (not config.pdl or config.early_cache),
        config.warps,
        config.stages,
        config.ctas_per_sm,
        config.prefetch,
        task_map.tile,
        config.pdl,
    )
    task_map.fresh = False
    return out if lse is None else (out, lse)
