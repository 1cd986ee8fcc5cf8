"""Decode attention as this package computes it, and as torch does, ready to be measured."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch

from workbench.errors import InvalidArgument
from workbench.measure.attention_case import VARIANTS, AttentionCase
from workbench.measure.attention_inputs import AttentionInputs
from workbench.measure.floors import read_bytes
from workbench.measure.providers import Call, Precision, missing_module
from workbench.ops.attention_decode import (
    AttentionConfig,
    AttentionShape,
    TaskMap,
    attention_decode,
    build_task_map,
    default_config,
    upload_plan,
)
from workbench.ops.attention_decode.triton import TritonConfig, attention_decode_triton
from workbench.schedule import DecodePlan, Policy, balanced, hpc_ops, plan_decode

# Ours round the result to bf16 and little else; torch rounds the widened operands and the probabilities, too.
OURS = {
    "fp8": Precision("FP16 products of widened E4M3, FP32 sums", 0.004),
    "bf16": Precision("bf16 products, FP32 sums", 0.0025),
}
BF16_MATH = Precision("bf16 products", 0.01)


def shape_of(case: AttentionCase) -> AttentionShape:
    """What our kernel is compiled for to run a case."""
    return AttentionShape(
        head_dim=case.head_dim, group=case.group, q_len=case.q_len, cache=case.cache, query=case.cache
    )


@dataclass(frozen=True, eq=False)
class Mapped:
    """A policy that maps one case, on the GPU where the policy allows, else planned once here.

    Attributes
    ----------
    case : AttentionCase
    scheme : Policy
    ctas_per_sm, tile : int
    """

    case: AttentionCase
    scheme: Policy
    ctas_per_sm: int
    tile: int

    @cached_property
    def plan(self) -> DecodePlan:
        """The plan by the CPU."""
        sms = torch.cuda.get_device_properties(0).multi_processor_count
        return plan_decode(
            self.case.lengths,
            num_kv_heads=self.case.kv_heads,
            num_ctas=sms * self.ctas_per_sm,
            policy=self.scheme,
            tile=self.tile,
            q_len=self.case.q_len,
        )

    def map(self, inputs: AttentionInputs) -> TaskMap:
        """A map of its own for one input set."""
        if not isinstance(self.scheme, balanced | hpc_ops):
            return upload_plan(self.plan, inputs.q.device)
        return build_task_map(
            inputs.seq_lens,
            num_kv_heads=self.case.kv_heads,
            max_seq_len=int(self.case.lengths.max(initial=0)),
            q_len=self.case.q_len,
            policy=self.scheme,
            config=AttentionConfig(ctas_per_sm=self.ctas_per_sm, tile=self.tile),
        )


@dataclass(frozen=True, eq=False)
class CudaAttention:
    """Our kernel under one policy and launch; see :class:`workbench.measure.providers.Provider`.

    Attributes
    ----------
    case : AttentionCase
    scheme : Policy
    variant : str
        One of :data:`workbench.measure.attention_case.VARIANTS`.
    notes : str
    """

    case: AttentionCase
    scheme: Policy
    variant: str = "early"
    notes: str = ""
    name: str = field(default="cuda", init=False)

    @property
    def policy(self) -> str:
        """Name of the policy."""
        return self.scheme.name

    @property
    def config(self) -> AttentionConfig:
        """The default configuration of the shape, launched as the variant says."""
        launch = VARIANTS[self.variant]
        return replace(default_config(shape_of(self.case), early=launch["early_cache"]), **launch)

    @property
    def configuration(self) -> dict[str, Any]:
        """The configuration as plain data."""
        return self.config.to_dict()

    @property
    def precision(self) -> Precision:
        """By cache type."""
        return OURS[self.case.cache]

    def missing(self) -> None:
        """Nothing: it comes with this package."""

    @cached_property
    def _mapped(self) -> Mapped:
        return Mapped(self.case, self.scheme, self.config.ctas_per_sm, self.config.tile)

    def prepare(self, inputs: AttentionInputs) -> Call:
        """Build the map and the output; the map's time is not part of the call."""
        built, config = self._mapped.map(inputs), self.config
        out = torch.empty(inputs.q.shape, dtype=torch.bfloat16, device=inputs.q.device)

        def call() -> torch.Tensor:
            attention_decode(*inputs.arguments(), **inputs.keywords(), task_map=built, out=out, config=config)
            return out

        return call


@dataclass(frozen=True, eq=False)
class TritonAttention:
    """Our portable kernels under one policy."""

    case: AttentionCase
    scheme: Policy
    config: TritonConfig = field(default_factory=TritonConfig)
    notes: str = "merge in a second launch"
    name: str = field(default="triton", init=False)
    variant: str = field(default="", init=False)

    @property
    def policy(self) -> str:
        """Name of the policy."""
        return self.scheme.name

    @property
    def configuration(self) -> dict[str, Any]:
        """The configuration as plain data."""
        return {**vars(self.config), "tile": AttentionConfig().tile}

    @property
    def precision(self) -> Precision:
        """By cache type."""
        return OURS[self.case.cache]

    def missing(self) -> str | None:
        """Whether Triton is here."""
        return missing_module("triton", "pip install triton")

    @cached_property
    def _mapped(self) -> Mapped:
        return Mapped(self.case, self.scheme, self.config.ctas_per_sm, AttentionConfig().tile)

    def prepare(self, inputs: AttentionInputs) -> Call:
        """Build the map and the output."""
        built = self._mapped.map(inputs)
        out = torch.empty(inputs.q.shape, dtype=torch.bfloat16, device=inputs.q.device)

        def call() -> torch.Tensor:
            attention_decode_triton(
                *inputs.arguments(), **inputs.keywords(), task_map=built, out=out, config=self.config
            )
            return out

        return call


@dataclass(frozen=True, eq=False)
class TorchAttention:
    """torch's ``scaled_dot_product_attention`` on a dense bf16 copy of the cache, padded to the longest request.

    The rows of a KV head's group are query rows of one head, so that K and V are read once for all of them.
    """

    case: AttentionCase
    notes: str = "cache gathered before timing to a dense bf16 one, padded to the longest request"
    name: str = field(default="torch", init=False)
    policy: None = field(default=None, init=False)
    variant: str = field(default="", init=False)
    precision: Precision = field(default=BF16_MATH, init=False)

    @property
    def configuration(self) -> dict[str, Any]:
        """What is called."""
        return {"function": "scaled_dot_product_attention"}

    def missing(self) -> None:
        """Nothing: torch is here."""

    def prepare(self, inputs: AttentionInputs) -> Call:
        """Gather the cache, widen it, and make the mask."""
        if self.case.q_len != 1:
            raise InvalidArgument(f"q_len is {self.case.q_len}; the torch comparison takes 1, for it has one mask.")
        batch, heads, dim = inputs.q.shape
        kv_heads, longest = self.case.kv_heads, int(self.case.lengths.max(initial=0))
        position = torch.arange(longest, device=inputs.q.device)
        live = position[None, :] < inputs.seq_lens[:, None]
        keys = _dense(inputs.k_cache, inputs.block_table, live, inputs.k_scale)
        values = _dense(inputs.v_cache, inputs.block_table, live, inputs.v_scale)
        q = inputs.q.float() if inputs.q_scale is None else inputs.q.float() * inputs.q_scale[..., None]
        queries = q.to(torch.bfloat16).view(batch, kv_heads, heads // kv_heads, dim)
        mask = None if bool(live.all()) else live[:, None, None, :].expand(-1, kv_heads, heads // kv_heads, -1)

        def call() -> torch.Tensor:
            found = torch.nn.functional.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)
            return found.view(batch, heads, dim)

        return call


def _dense(cache: torch.Tensor, table: torch.Tensor, live: torch.Tensor, scale: torch.Tensor | None) -> torch.Tensor:
    """The cache as bf16 [batch, kv_heads, longest, head_dim], zeros behind each request's length."""
    page_size, kv_heads, dim = cache.shape[1:]
    batch, longest = live.shape
    dense = torch.zeros((batch, kv_heads, longest, dim), dtype=torch.bfloat16, device=cache.device)
    pages = table[:, : -(-longest // page_size)].long()
    for b in range(batch):  # one request at a time: the widened cache of all would not fit
        length = int(live[b].sum())
        used = cache[pages[b, : -(-length // page_size)]].float()
        if scale is not None:
            used = used * scale
        dense[b, :, :length] = used.flatten(0, 1)[:length].transpose(0, 1)
    return dense


@dataclass(frozen=True, eq=False)
class BareRead:
    """A kernel that only reads as many bytes as K and V have: what no kernel of the case can beat by much."""

    case: AttentionCase
    notes: str = "reads as many bytes, computes nothing"
    name: str = field(default="read", init=False)
    policy: None = field(default=None, init=False)
    variant: str = field(default="", init=False)
    precision: None = field(default=None, init=False)

    @property
    def configuration(self) -> dict[str, Any]:
        """Nothing can be set."""
        return {}

    def missing(self) -> None:
        """Nothing: it comes with this package."""

    def prepare(self, inputs: AttentionInputs) -> Call:
        """Bytes of its own for each input set."""
        data = torch.randint(0, 255, (self.case.kv_bytes,), dtype=torch.uint8, device=inputs.q.device)

        def call() -> torch.Tensor:
            read_bytes(data)
            return data

        return call
