"""Decode attention by the portable Triton kernels: on any GPU that Triton supports, or in its interpreter on a CPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from workbench.errors import InvalidArgument, MissingDependency
from workbench.ops.attention_decode.buffers import TaskMap
from workbench.ops.attention_decode.checks import (
    check_arguments,
    check_task_map,
    infer_shape,
    of_type,
)
from workbench.ops.attention_decode.config import AttentionConfig, AttentionShape
from workbench.ops.attention_decode.contents import check_contents
from workbench.ops.attention_decode.cuda import LOG2_E
from workbench.ops.attention_decode.map_costs import costs_of
from workbench.ops.attention_decode.task_map import build_task_map
from workbench.ops.attention_decode.upload import upload_plan
from workbench.ops.portable import is_interpreted
from workbench.schedule import CostModel, plan_decode

INTERPRETED_CTAS = 8
"""Bins of a map made here for the interpreter, which runs them one after another."""

BLOCKS = (16, 32, 64, 128, 256)
WARPS = (1, 2, 4, 8, 16, 32)
STAGES = tuple(range(1, 9))
"""What a :class:`TritonConfig` may hold."""

_E4M3_CAPABILITY = (8, 9)
"""First compute capability whose Triton back end has E4M3."""


@dataclass(frozen=True, kw_only=True)
class TritonConfig:
    """How the Triton kernels are built and launched.

    Attributes
    ----------
    block : int
        Tokens read at a time; a power of two from 16 to 256.
    warps, stages : int
        Warps a program, a power of two up to 32; stages of Triton's software pipeline, 1 to 8.
    ctas_per_sm : int
        Sets the bins of a map made here; 1 to 32.
    fp8_bits : bool, optional
        Decode E4M3 by hand; default: where the GPU's Triton back end lacks the type.

    Raises
    ------
    InvalidArgument
        For a value outside these.
    """

    block: int = 64
    warps: int = 4
    stages: int = 2
    ctas_per_sm: int = 2
    fp8_bits: bool | None = None

    def __post_init__(self) -> None:
        for name, allowed in (
            ("block", BLOCKS), ("warps", WARPS), ("stages", STAGES), ("ctas_per_sm", tuple(range(1, 33))),
        ):  # fmt: skip
            value = getattr(self, name)
            if type(value) is not int or value not in allowed:
                raise InvalidArgument(f"{name} is {value!r}; a TritonConfig takes {', '.join(map(str, allowed))}.")
        if self.fp8_bits not in (None, True, False):
            raise InvalidArgument(f"fp8_bits is {self.fp8_bits!r}; give True, False, or None to decide by the GPU.")


def attention_decode_triton(
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
    config: TritonConfig | None = None,
    out: torch.Tensor | None = None,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """:func:`workbench.ops.attention_decode` by Triton: the same arguments, results and task map.

    Differences: the configuration is a :class:`TritonConfig`; strides and addresses need no alignment; the merge is a
    second launch. With ``TRITON_INTERPRET=1`` in the environment before Triton is imported, CPU tensors run in Triton's
    interpreter; a map for them comes from ``upload_plan(plan, "cpu")``, or is planned here from the lengths.

    Raises
    ------
    InvalidArgument
        For what :func:`workbench.ops.attention_decode` refuses, alignment aside, and for CPU tensors without the
        interpreter or the reverse.
    MissingDependency
        Without Triton.
    """
    if config is None:
        config = TritonConfig()
    of_type("config", config, TritonConfig, "give a TritonConfig, or None for its defaults")
    check_arguments(q, k_cache, v_cache, block_table, seq_lens, q_scale, k_scale, v_scale, q_len, scale, out)
    shape = infer_shape(q, k_cache, q_len, k_scale)
    kernels, interpreted = _kernels(q.device)
    if interpreted:  # on a CPU nothing has to be waited for, and a page that is not there would end the process
        check_contents(seq_lens, block_table, k_cache)
    if task_map is None:
        task_map = _plan(shape, block_table, k_cache, seq_lens, q_len, config)
    check_task_map(task_map, q, k_cache, block_table, q_len)
    if interpreted:
        check_contents(seq_lens, block_table, k_cache, task_map)
    if out is None:
        out = torch.empty(q.shape, dtype=torch.bfloat16, device=q.device)
    lse = torch.empty(q.shape[:2], dtype=torch.float32, device=q.device) if return_lse else None

    rows = max(16, 1 << (shape.rows - 1).bit_length())  # of a matrix product; at least 16
    slots = task_map.num_slots
    partial_out = torch.empty((slots, rows, shape.head_dim), dtype=torch.float32, device=q.device)
    partial_sum = torch.empty((slots, rows, 2), dtype=torch.float32, device=q.device)
    bits = config.fp8_bits
    if bits is None:
        bits = interpreted or torch.cuda.get_device_capability(q.device) < _E4M3_CAPABILITY
    tl = kernels.tl
    k_type = tl.float32 if interpreted else (tl.bfloat16 if shape.query == "bf16" else tl.float16)
    v_type = tl.float32 if interpreted else (tl.bfloat16 if shape.cache == "bf16" else tl.float16)
    per_head = v_scale is not None and v_scale.numel() > 1
    stored = out.view(torch.int16) if interpreted else out
    common = {
        "HEAD_DIM": shape.head_dim,
        "GROUP": shape.group,
        "Q_LEN": q_len,
        "ROWS": rows,
        "V_SCALE_PER_HEAD": per_head,
        "INTERPRETED": interpreted,
        "num_warps": config.warps,
    }
    attend, merge = (
        # torch.compile would follow the interpreter into its own Python.
        _untraced(kernel[(task_map.num_bins,)]) if interpreted else kernel[(task_map.num_bins,)]
        for kernel in (kernels.attend, kernels.merge)
    )
    attend(
        _raw(q, bits), _raw(k_cache, bits), _raw(v_cache, bits), block_table,
        task_map.map, task_map.header, task_map.empties, stored, lse, partial_out, partial_sum,
        q_scale, k_scale, v_scale,
        *q.stride()[:2], *k_cache.stride()[:3], *v_cache.stride()[:3],
        *(k_scale.stride() if k_scale is not None and shape.k_scale_per_token else (0, 0, 0)), block_table.stride(0),
        k_cache.shape[2], (shape.head_dim**-0.5 if scale is None else scale) * LOG2_E,
        PAGE=k_cache.shape[1], BLOCK=config.block, K_TYPE=k_type, V_TYPE=v_type,
        Q_BITS=bits and shape.query == "fp8", CACHE_BITS=bits and shape.cache == "fp8",
        K_SCALE_PER_TOKEN=shape.k_scale_per_token, num_stages=config.stages, **common,
    )  # fmt: skip
    merge(task_map.map, stored, lse, partial_out, partial_sum, v_scale, k_cache.shape[2], **common)
    task_map.fresh = False
    return out if lse is None else (out, lse)


def _kernels(device: torch.device) -> tuple[Any, bool]:
    """The kernels' module, and whether they run in the interpreter; checks that they can run on a device."""
    try:
        from workbench.ops.attention_decode import triton_kernels
    except ImportError as error:
        raise MissingDependency("triton", needed_for="the portable kernels", install="pip install triton") from error
    return triton_kernels, is_interpreted(triton_kernels.attend, device, "q")


def _plan(
    shape: AttentionShape,
    block_table: torch.Tensor,
    k_cache: torch.Tensor,
    seq_lens: torch.Tensor,
    q_len: int,
    config: TritonConfig,
) -> TaskMap:
    """The map that ``balanced`` makes by the cost model of this device, cache type, group and head dim."""
    kv_heads = k_cache.shape[2]
    cost = costs_of(shape.head_dim, shape.group, k_cache.dtype, seq_lens.device)
    if not seq_lens.is_cuda:
        planned: TaskMap = _plan_on_cpu(seq_lens, kv_heads, q_len, cost)
        return planned
    return build_task_map(
        seq_lens,
        num_kv_heads=kv_heads,
        max_seq_len=block_table.shape[1] * k_cache.shape[1],
        q_len=q_len,
        config=AttentionConfig(ctas_per_sm=config.ctas_per_sm),
        cost=cost,
    )


_untraced: Any = torch.compiler.disable  # untyped in torch


@_untraced  # type: ignore[untyped-decorator]
def _plan_on_cpu(seq_lens: torch.Tensor, kv_heads: int, q_len: int, cost: CostModel) -> TaskMap:
    plan = plan_decode(seq_lens.tolist(), num_kv_heads=kv_heads, num_ctas=INTERPRETED_CTAS, q_len=q_len, cost=cost)
    return upload_plan(plan, seq_lens.device)


def _raw(tensor: torch.Tensor, bits: bool) -> torch.Tensor:
    """An E4M3 tensor as bytes, where the kernel decodes them."""
    return tensor.view(torch.uint8) if bits and tensor.dtype == torch.float8_e4m3fn else tensor
