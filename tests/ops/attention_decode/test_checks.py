"""Wrong arguments are refused by name, with what was given, what is allowed and what to do. That needs no GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from workbench.errors import InvalidArgument
from workbench.ops import AttentionConfig, attention_decode, build_task_map
from workbench.ops.attention_decode import attention_reference
from workbench.ops.attention_decode.checks import check_task_map
from workbench.ops.attention_decode.triton import TritonConfig, attention_decode_triton
from workbench.schedule import plan_decode

FP8, BF16 = torch.float8_e4m3fn, torch.bfloat16
BATCH, HEADS, KV_HEADS, DIM, PAGES, PAGE = 3, 16, 2, 128, 10, 64


def empty(*shape: int, dtype: torch.dtype = FP8, device: str = "meta") -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device=device)


def call() -> dict[str, Any]:
    """Arguments in which nothing is wrong but the device."""
    return {
        "q": empty(BATCH, HEADS, DIM),
        "k_cache": empty(PAGES, PAGE, KV_HEADS, DIM),
        "v_cache": empty(PAGES, PAGE, KV_HEADS, DIM),
        "block_table": empty(BATCH, 4, dtype=torch.int32),
        "seq_lens": empty(BATCH, dtype=torch.int32),
    }


def strided(*shape: int, dtype: torch.dtype, step: int) -> torch.Tensor:
    """A tensor whose last dimension but one steps ``step`` elements."""
    return empty(*shape[:-1], step, dtype=dtype)[..., : shape[-1]]


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "q is no tensor": ({"q": [[1.0]]}, r"q is a list; give a torch tensor"),
    "block_table is no tensor": ({"block_table": [[0]]}, r"block_table is a list; give a torch tensor"),
    "q missing": ({"q": None}, r"q is a NoneType; give a torch tensor"),
    "k_cache missing": ({"k_cache": None}, r"k_cache is a NoneType; give a torch tensor"),
    "v_cache missing": ({"v_cache": None}, r"v_cache is a NoneType; give a torch tensor"),
    "block_table missing": ({"block_table": None}, r"block_table is a NoneType; give a torch tensor"),
    "seq_lens missing": ({"seq_lens": None}, r"seq_lens is a NoneType; give a torch tensor"),
    "q_scale a number": ({"q_scale": 1.0}, r"q_scale is a float; give a torch tensor"),
    "q sparse": ({"q": torch.zeros(BATCH, HEADS, DIM).to_sparse()}, r"q has layout torch.sparse_coo; give a dense"),
    "two devices": ({"seq_lens": empty(BATCH, dtype=torch.int32, device="cpu")}, r"seq_lens is on cpu and q on meta"),
    "q in fp16": ({"q": empty(BATCH, HEADS, DIM, dtype=torch.float16)}, r"q is torch.float16; give torch.bfloat16 or"),
    "cache in e5m2": (
        {"k_cache": empty(PAGES, PAGE, KV_HEADS, DIM, dtype=torch.float8_e5m2)},
        r"k_cache is torch.float8_e5m2; give",
    ),
    "q without heads": ({"q": empty(BATCH, HEADS * DIM)}, r"q has shape \(3, 2048\); give \[batch \* q_len, q_heads"),
    "caches of two types": (
        {"v_cache": empty(PAGES, PAGE, KV_HEADS, DIM, dtype=BF16)},
        r"give two caches of one type and shape",
    ),
    "caches of two shapes": ({"v_cache": empty(PAGES + 1, PAGE, KV_HEADS, DIM)}, r"give two caches of one type"),
    "cache without pages": (
        dict.fromkeys(("k_cache", "v_cache"), empty(PAGE, KV_HEADS, DIM)),
        r"give two caches of one type and shape",
    ),
    "no page at all": (
        {"k_cache": empty(0, PAGE, KV_HEADS, DIM), "v_cache": empty(0, PAGE, KV_HEADS, DIM)},
        r"caches hold no page; give at least one",
    ),
    "head dims differ": ({"q": empty(BATCH, HEADS, 64)}, r"head_dim is 64 in q and 128 in the caches"),
    "page size 48": (
        {"k_cache": empty(PAGES, 48, KV_HEADS, DIM), "v_cache": empty(PAGES, 48, KV_HEADS, DIM)},
        r"page size is 48; the kernel takes 16, 32, 64, 128",
    ),
    "q transposed": ({"q": empty(BATCH, DIM, HEADS).transpose(1, 2)}, r"q has strides .*; make its last dimension"),
    "cache with head dim outside": (
        {"k_cache": empty(PAGES, PAGE, DIM, KV_HEADS).transpose(2, 3)},
        r"k_cache has strides .*; make its last dimension contiguous",
    ),
    "cache rows of 8 bytes more": (
        {"v_cache": strided(PAGES, PAGE, KV_HEADS, DIM, dtype=FP8, step=DIM + 8)},
        r"v_cache has strides .*dimension 0 steps 17408 bytes|v_cache has strides .* steps 136 bytes. Give steps",
    ),
    "q rows of 2 bytes more": (
        {"q": strided(BATCH, HEADS, DIM, dtype=BF16, step=DIM + 1)},
        r"q has strides .* steps 258 bytes. Give steps that are multiples of 16",
    ),
    "seq_lens in int64": ({"seq_lens": empty(BATCH, dtype=torch.int64)}, r"seq_lens is torch.int64 \(3,\)"),
    "seq_lens with a stride": ({"seq_lens": empty(2 * BATCH, dtype=torch.int32)[::2]}, r"give contiguous torch.int32"),
    "seq_lens of two dimensions": ({"seq_lens": empty(BATCH, 1, dtype=torch.int32)}, r"give contiguous torch.int32"),
    "rows of another batch": ({"q": empty(BATCH + 1, HEADS, DIM)}, r"q has 4 rows for 3 requests of q_len 1"),
    "rows of another q_len": ({"q_len": 2}, r"q has 3 rows for 3 requests of q_len 2; give batch \* q_len"),
    "q_len 0": ({"q_len": 0}, r"q_len 0"),
    "q_len no whole number": ({"q_len": 1.0}, r"q_len is 1.0, a float; give an int, 1 to 4"),
    "q_len of NumPy": ({"q_len": np.int64(1)}, r"q_len is np.int64\(1\), a int64; give an int"),
    "q_len a truth value": ({"q_len": True}, r"q_len is True, a bool; give an int"),
    "q_len missing": ({"q_len": None}, r"q_len is None, a NoneType; give an int"),
    "q_len 5": ({"q_len": 5, "q": empty(5 * BATCH, HEADS, DIM)}, r"q_len is 5; decode attention takes 1, 2, 3, 4"),
    "table in int64": ({"block_table": empty(BATCH, 4, dtype=torch.int64)}, r"block_table is torch.int64 .*int32 \[3,"),
    "table of another batch": ({"block_table": empty(BATCH + 1, 4, dtype=torch.int32)}, r"block_table is .* \(4, 4\)"),
    "table transposed": ({"block_table": empty(4, BATCH, dtype=torch.int32).t()}, r"block_table has strides \(1, 3\)"),
    "7 query heads": ({"q": empty(BATCH, 7, DIM)}, r"q has 7 heads and the caches 2; the KV heads must divide"),
    "no query head": ({"q": empty(BATCH, 0, DIM)}, r"q has 0 heads"),
    "3 query heads a KV head": (
        {"q": empty(BATCH, 6, DIM)},
        r"query heads a KV head is 3; decode attention takes 1, 2, 4, 8, 16",
    ),
    "32 query heads a KV head": ({"q": empty(BATCH, 64, DIM)}, r"query heads a KV head is 32"),
    "head dim 96": (
        {"q": empty(BATCH, HEADS, 96), **dict.fromkeys(("k_cache", "v_cache"), empty(PAGES, PAGE, KV_HEADS, 96))},
        r"head_dim is 96; decode attention takes 64, 128, 256",
    ),
    "FP8 q on a bf16 cache": (
        dict.fromkeys(("k_cache", "v_cache"), empty(PAGES, PAGE, KV_HEADS, DIM, dtype=BF16)),
        r"an FP8 query needs an FP8 cache",
    ),
    "K scales a token for bf16": (
        {
            "q": empty(BATCH, HEADS, DIM, dtype=BF16),
            **dict.fromkeys(("k_cache", "v_cache"), empty(PAGES, PAGE, KV_HEADS, DIM, dtype=BF16)),
            "k_scale": empty(PAGES, PAGE, KV_HEADS, dtype=torch.float32),
        },
        r"K scales a token exist for an FP8 cache only",
    ),
    "q_scale in bf16": ({"q_scale": empty(BATCH, HEADS, dtype=BF16)}, r"q_scale is torch.bfloat16; give torch.float32"),
    "q_scale a token only": ({"q_scale": empty(BATCH, dtype=torch.float32)}, r"q_scale has shape \(3,\).*\(3, 16\)"),
    "q_scale transposed": ({"q_scale": empty(HEADS, BATCH, dtype=torch.float32).t()}, r"q_scale has .*contiguous"),
    "k_scale a head": ({"k_scale": empty(KV_HEADS, dtype=torch.float32)}, r"k_scale has shape \(2,\); give \[1\], or"),
    "k_scale of one in three dimensions": ({"k_scale": empty(1, 1, 1, dtype=torch.float32)}, r"k_scale has shape"),
    "k_scale of other pages": (
        {"k_scale": empty(PAGES + 1, PAGE, KV_HEADS, dtype=torch.float32)},
        r"k_scale has shape \(11, 64, 2\); give \[1\], or \(10, 64, 2\)",
    ),
    "v_scale a token": ({"v_scale": empty(PAGES, PAGE, dtype=torch.float32)}, r"v_scale has .*give contiguous \[1\]"),
    "v_scale with a stride": ({"v_scale": empty(2 * KV_HEADS, dtype=torch.float32)[::2]}, r"v_scale has .*\(2,\)"),
    "scale infinite": ({"scale": float("inf")}, r"scale is inf; give a Python number that is finite"),
    "scale no number": ({"scale": "0.1"}, r"scale is '0.1'"),
    "scale not a number": ({"scale": float("nan")}, r"scale is nan; give a Python number that is finite in FP32"),
    "scale beyond FP32": ({"scale": 1e300}, r"scale is 1e\+300; give a Python number that is finite in FP32"),
    "scale beyond any float": ({"scale": 10**400}, r"finite in FP32"),
    "scale a truth value": ({"scale": True}, r"scale is True"),
    "scale a tensor": ({"scale": torch.tensor(0.1)}, r"scale is tensor\(0.1000\); give a Python number"),
    "out in float32": ({"out": empty(BATCH, HEADS, DIM, dtype=torch.float32)}, r"out is torch.float32 .*bfloat16"),
    "out of another shape": ({"out": empty(BATCH, HEADS * DIM, dtype=BF16)}, r"out is .*give contiguous"),
    "out with strides": ({"out": empty(BATCH, HEADS, 2 * DIM, dtype=BF16)[..., :DIM]}, r"out is .*with strides"),
    "warps 3": ({"config": AttentionConfig(warps=3)}, r"warps is 3; the kernel takes 4 or 8"),
    "ring too large": ({"config": AttentionConfig(warps=8, stages=16)}, r"shared memory .* > 232,448 bytes"),
    "CTAs that do not fit": ({"config": AttentionConfig(ctas_per_sm=4)}, r"4 CTAs of .* do not fit an SM"),
    "config a dict": ({"config": {}}, r"config is a dict; give an AttentionConfig, or None"),
    "config of Triton": ({"config": TritonConfig()}, r"config is a TritonConfig; give an AttentionConfig"),
    "stages no number": ({"config": AttentionConfig(stages="6")}, r"stages of config is '6'; give one of \(2, 3"),
    "stages 2.5": ({"config": AttentionConfig(stages=2.5)}, r"stages of config is 2.5; give one of"),
    "warps a list": ({"config": AttentionConfig(warps=[8])}, r"warps of config is \[8\]; give one of \(4, 8\)"),
    "pdl no truth value": ({"config": AttentionConfig(pdl="no")}, r"pdl of config is 'no'; give one of"),
    "nothing but the device": ({}, r"q is on meta; move the tensors to a CUDA device"),
}  # fmt: skip

ALIGNMENT_ONLY = {"cache rows of 8 bytes more", "q rows of 2 bytes more"}
OF_ITS_OWN = {name for name, (changes, _) in WRONG.items() if "config" in changes} | {"nothing but the device"}


def refused(function: Callable[..., Any], changes: dict[str, Any]) -> str:
    with pytest.raises(InvalidArgument) as caught:
        function(**{**call(), **changes})
    return str(caught.value)


@pytest.mark.parametrize("name", WRONG)
def test_attention_refuses(name: str) -> None:
    changes, message = WRONG[name]
    with pytest.raises(InvalidArgument, match=message):
        attention_decode(**{**call(), **changes})


@pytest.mark.parametrize("name", ["q", "k_cache", "v_cache"])
def test_a_tensor_that_wants_a_gradient_is_refused(name: str) -> None:
    arguments = call()
    wanting = arguments[name].detach().requires_grad_()
    with pytest.raises(InvalidArgument, match="gradient"):
        attention_decode(**{**arguments, name: wanting})
    with torch.no_grad(), pytest.raises(InvalidArgument, match="CUDA"):  # then only the device is wrong
        attention_decode(**{**arguments, name: wanting})


@pytest.mark.parametrize("name", [name for name in WRONG if name not in ALIGNMENT_ONLY | OF_ITS_OWN])
def test_the_triton_variant_refuses_the_same(name: str) -> None:
    changes, message = WRONG[name]
    with pytest.raises(InvalidArgument, match=message):
        attention_decode_triton(**{**call(), **changes})


@pytest.mark.parametrize(
    "name", [n for n, (changes, _) in WRONG.items() if n not in ALIGNMENT_ONLY | OF_ITS_OWN and "out" not in changes]
)
def test_the_reference_refuses_the_same(name: str) -> None:
    changes, message = WRONG[name]
    with pytest.raises(InvalidArgument, match=message):
        attention_reference(**{**call(), **changes})


@pytest.mark.parametrize("given", ["a map", plan_decode([1] * BATCH, num_kv_heads=KV_HEADS, num_ctas=4), {}], ids=repr)
def test_what_is_no_task_map_is_refused(given: Any) -> None:
    a = call()
    with pytest.raises(InvalidArgument, match=r"task_map is a \w+; give what build_task_map\(...\) or upload_plan"):
        check_task_map(given, a["q"], a["k_cache"], a["block_table"], 1)


@pytest.mark.parametrize(
    "changes",
    [
        {"block": 48}, {"block": 8}, {"block": "64"}, {"block": 512}, {"warps": 3}, {"stages": 0}, {"stages": 1.0},
        {"ctas_per_sm": 0}, {"ctas_per_sm": True}, {"fp8_bits": "no"}, {"fp8_bits": 2},
    ],
    ids=str,
)  # fmt: skip
def test_a_wrong_triton_configuration_is_refused(changes: dict[str, Any]) -> None:
    ((name, value),) = changes.items()
    with pytest.raises(InvalidArgument, match=rf"{name} is {value!r}; "):
        TritonConfig(**changes)


@pytest.mark.parametrize("config", [{}, "fast", AttentionConfig()], ids=repr)
def test_triton_takes_its_own_configuration(config: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"config is a \w+; give a TritonConfig, or None"):
        attention_decode_triton(**call(), config=config)


def test_a_message_says_what_to_do() -> None:
    """Each message has a second half: what is allowed, or what to do."""
    for changes, _ in WRONG.values():
        message = refused(attention_decode, changes)
        assert ";" in message or ". " in message or ":" in message, message


MAP = {"num_kv_heads": 2, "max_seq_len": 100, "num_ctas": 132}

WRONG_MAPS: dict[str, tuple[dict[str, Any], str]] = {
    "lengths on the CPU": ({"seq_lens": empty(3, dtype=torch.int32, device="cpu")}, r"tensor of shape .* on cpu; give"),
    "policy of the CPU": ({"policy": "lpt"}, r"policy lpt is not built on the GPU .*upload_plan"),
    "policy unknown": ({"policy": "best"}, r"best"),
    "no KV head": ({"num_kv_heads": 0}, r"num_kv_heads is 0. It must be from 1 to"),
    "no CTA": ({"num_ctas": 0}, r"num_ctas is 0"),
    "more CTAs than shared memory holds": ({"num_ctas": 60_000}, r"need [\d,]+ bytes of shared memory"),
    "negative floor": ({"min_process_len": -1}, r"min_process_len is -1"),
    "length no number": ({"max_seq_len": 1e6}, r"max_seq_len is 1000000.0. Give a whole number"),
    "too many tiles": ({"max_seq_len": 2**31 - 1, "num_kv_heads": 1024}, r"may have more tiles than"),
    "q_len 0": ({"q_len": 0}, r"q_len is 0"),
    "tile 48": ({"config": AttentionConfig(tile=48)}, r"tile is 48. Tiles of 32, 64, 128"),
}


@pytest.mark.parametrize("name", WRONG_MAPS)
def test_the_map_refuses(name: str) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    changes, message = WRONG_MAPS[name]
    with FakeTensorMode(), pytest.raises(InvalidArgument, match=message):
        build_task_map(**{"seq_lens": empty(3, dtype=torch.int32, device="cuda"), **MAP, **changes})


@pytest.mark.parametrize("lengths", [empty(3, dtype=torch.int64), empty(3, 1, dtype=torch.int32)], ids=["int64", "2-D"])
def test_the_map_refuses_lengths(lengths: torch.Tensor) -> None:
    with pytest.raises(InvalidArgument, match="give a contiguous int32 CUDA tensor"):
        build_task_map(lengths, **MAP)


def test_the_map_holds_16384_requests() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        assert build_task_map(empty(16_384, dtype=torch.int32, device="cuda"), **MAP).batch == 16_384
        with pytest.raises(InvalidArgument, match=r"16,385 requests; a map holds up to 16,384"):
            build_task_map(empty(16_385, dtype=torch.int32, device="cuda"), **MAP)
