"""Decode attention by packages that are not part of this one; each is measured where it is installed."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from functools import cached_property
from importlib import metadata
from typing import Any

import torch

from workbench.errors import InvalidArgument
from workbench.measure.attention_case import AttentionCase
from workbench.measure.attention_inputs import E4M3_MAX, AttentionInputs
from workbench.measure.attention_providers import BF16_MATH
from workbench.measure.providers import Call, Precision, missing_module

FP8_MATH = Precision("FP8 products, probabilities rounded to FP8", 0.05)

_WORKSPACE_BYTES = 128 << 20
MIN_PROCESS_LEN = 512
"""HPC-Ops' least work of a bin, tokens: what the recorded figures were made with."""


def _version(distribution: str) -> dict[str, Any]:
    return {"version": metadata.version(distribution)}


@dataclass(frozen=True, eq=False)
class FlashInferAttention:
    """FlashInfer's paged decode wrapper in its CUDA-graph mode; planning is not timed."""

    case: AttentionCase
    notes: str = "bf16 query and math; planning not timed"
    name: str = field(default="flashinfer", init=False)
    policy: None = field(default=None, init=False)
    variant: str = field(default="", init=False)
    precision: Precision = field(default=BF16_MATH, init=False)

    @property
    def configuration(self) -> dict[str, Any]:
        """Version and mode."""
        return {**_version("flashinfer-python"), "use_tensor_cores": True}

    def missing(self) -> str | None:
        """Whether FlashInfer is here."""
        return missing_module("flashinfer", "pip install flashinfer-python")

    @cached_property
    def _workspace(self) -> torch.Tensor:
        return torch.zeros(_WORKSPACE_BYTES, dtype=torch.uint8, device="cuda")

    def prepare(self, inputs: AttentionInputs) -> Call:
        """Plan the batch and convert the query to bf16."""
        flashinfer = importlib.import_module("flashinfer")
        if bool((inputs.seq_lens == 0).any()):
            raise InvalidArgument("a request of length 0: FlashInfer's decode wants at least one token each.")
        page_size, kv_heads, dim = inputs.k_cache.shape[1:]
        pages = -(-inputs.seq_lens // page_size)
        indptr = torch.zeros(len(pages) + 1, dtype=torch.int32, device=pages.device)
        indptr[1:] = pages.cumsum(0)
        indices = torch.cat([row[:count] for row, count in zip(inputs.block_table, pages.tolist(), strict=True)])
        last = ((inputs.seq_lens - 1) % page_size + 1).to(torch.int32)
        wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(
            self._workspace,
            "NHD",
            use_cuda_graph=True,
            use_tensor_cores=True,
            paged_kv_indptr_buffer=indptr.clone(),
            paged_kv_indices_buffer=indices.clone(),
            paged_kv_last_page_len_buffer=last.clone(),
        )
        wrapper.plan(
            indptr,
            indices,
            last,
            inputs.q.shape[1],
            kv_heads,
            dim,
            page_size,
            q_data_type=torch.bfloat16,
            kv_data_type=inputs.k_cache.dtype,
        )
        q, caches = _bf16_query(inputs), (inputs.k_cache, inputs.v_cache)
        out = torch.empty(q.shape, dtype=torch.bfloat16, device=q.device)
        k_scale, v_scale = (None if s is None else float(s) for s in (inputs.k_scale, inputs.v_scale))

        def call() -> torch.Tensor:
            wrapper.run(q, caches, k_scale=k_scale, v_scale=v_scale, out=out)
            return out

        return call


@dataclass(frozen=True, eq=False)
class FlashAttention3:
    """FlashAttention-3's decode with a page table, from the ``fa3-fwd`` wheel."""

    case: AttentionCase
    name: str = field(default="fa3", init=False)
    policy: None = field(default=None, init=False)
    variant: str = field(default="", init=False)

    @property
    def notes(self) -> str:
        """It takes one query scale a request and KV head."""
        requantised = "; query requantised with one scale a request and KV head" if self.case.cache == "fp8" else ""
        return f"page table{requantised}"

    @property
    def precision(self) -> Precision:
        """FP8 caches are multiplied in FP8."""
        return FP8_MATH if self.case.cache == "fp8" else BF16_MATH

    @property
    def configuration(self) -> dict[str, Any]:
        """Version."""
        return _version("fa3-fwd")

    def missing(self) -> str | None:
        """Whether the wheel is here."""
        return missing_module("fa3_fwd_interface", "pip install fa3-fwd")

    def prepare(self, inputs: AttentionInputs) -> Call:
        """Requantise the query and give the scales the shape that it wants."""
        interface = importlib.import_module("fa3_fwd_interface")
        batch, kv_heads, q_len = len(inputs.seq_lens), inputs.k_cache.shape[2], inputs.q_len
        heads, dim = inputs.q.shape[1:]
        longest = int(self.case.lengths.max(initial=0))
        table = inputs.block_table[:, : -(-longest // inputs.k_cache.shape[1])].contiguous()
        scales: dict[str, torch.Tensor] = {}
        if inputs.k_scale is not None and inputs.v_scale is not None and inputs.q_scale is not None:
            wide = (inputs.q.float() * inputs.q_scale[..., None]).view(batch, q_len, kv_heads, -1, dim)
            q_descale = wide.abs().amax(dim=(1, 3, 4)).clamp_min(1e-6) / E4M3_MAX
            q = (wide / q_descale[:, None, :, None, None]).to(torch.float8_e4m3fn).view(batch, q_len, heads, dim)
            scales = {
                "q_descale": q_descale,
                "k_descale": inputs.k_scale.expand(batch, kv_heads),
                "v_descale": inputs.v_scale.expand(batch, kv_heads),
            }
        else:
            q = inputs.q.view(batch, q_len, heads, dim)

        def call() -> torch.Tensor:
            found = interface.flash_attn_with_kvcache(
                q,
                inputs.k_cache,
                inputs.v_cache,
                cache_seqlens=inputs.seq_lens,
                page_table=table,
                softmax_scale=dim**-0.5,
                causal=True,
                **scales,
            )
            out: torch.Tensor = found[0] if isinstance(found, tuple) else found
            return out.view(batch * q_len, heads, dim)

        return call


@dataclass(frozen=True, eq=False)
class HpcOpsAttention:
    """Upstream HPC-Ops' decode attention, by its own task map or by its static split."""

    case: AttentionCase
    dynamic: bool = True
    policy: None = field(default=None, init=False)
    variant: str = field(default="", init=False)

    @property
    def name(self) -> str:
        """As the reference figures are called."""
        return "hpc-dynamic" if self.dynamic else "hpc-static"

    @property
    def notes(self) -> str:
        """What drives it."""
        return "its own task map, not timed" if self.dynamic else "static split"

    @property
    def precision(self) -> Precision:
        """FP8 caches are multiplied in FP8."""
        return FP8_MATH if self.case.cache == "fp8" else BF16_MATH

    @property
    def configuration(self) -> dict[str, Any]:
        """Version and work floor."""
        return {**_version("hpc-ops"), **({"min_process_len": MIN_PROCESS_LEN} if self.dynamic else {})}

    def missing(self) -> str | None:
        """Whether it is here."""
        return missing_module("hpc", "build HPC-Ops from its sources (github.com/Tencent/hpc-ops); no index has it")

    def prepare(self, inputs: AttentionInputs) -> Call:
        """Let it assign its tasks."""
        hpc = importlib.import_module("hpc")
        kv_heads = inputs.k_cache.shape[2]
        more: dict[str, Any] = {}
        if self.dynamic:
            more["task_map"] = hpc.get_attention_decode_task_workspace(
                len(inputs.seq_lens), int(self.case.lengths.max(initial=0)), kv_heads, MIN_PROCESS_LEN
            )
            hpc.assign_attention_decode_task(
                inputs.seq_lens, more["task_map"], kv_heads, inputs.q_len - 1, True, MIN_PROCESS_LEN
            )
        out = torch.empty(inputs.q.shape, dtype=torch.bfloat16, device=inputs.q.device)
        fp8 = self.case.cache == "fp8"
        function = hpc.attention_decode_fp8 if fp8 else hpc.attention_decode_bf16
        scales = (inputs.q_scale, inputs.k_scale, inputs.v_scale) if fp8 else ()

        def call() -> torch.Tensor:
            function(
                *inputs.arguments(),
                *scales,
                mtp=inputs.q_len - 1,
                new_kv_included=True,
                splitk=True,
                output=out,
                **more,
            )
            return out

        return call


def _bf16_query(inputs: AttentionInputs) -> torch.Tensor:
    if inputs.q_scale is None:
        return inputs.q.to(torch.bfloat16)
    return (inputs.q.float() * inputs.q_scale[..., None]).to(torch.bfloat16)
