"""Graph replays with changing lengths, and caches larger than 32-bit offsets reach."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.ops.attention_decode import judge
from tests.ops.attention_decode.cases import LIMITS, Case, ragged
from tests.ops.attention_decode.mutants import LOW_PAGES
from workbench.gpu.launch import Kernel
from workbench.measure.attention_inputs import AttentionInputs
from workbench.ops.attention_decode import attention_decode, build_task_map, cuda

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("compiled")]

REPLAYS = 10_000
BATCHES = 40
LONGEST = 6000


@pytest.mark.parametrize("precision", ["fp8", "bf16"])
@pytest.mark.parametrize("policy", ["balanced", "hpc-ops"])
def test_replays_with_changing_lengths(precision: str, policy: str) -> None:
    rng = np.random.default_rng(8)
    batches = np.array([ragged(rng, LONGEST) for _ in range(BATCHES)])
    requests = batches.shape[1]
    case = Case(precision=precision, q_len=2, kv_heads=2, lengths=(LONGEST,) * requests, policy=policy)
    inputs = case.inputs(poison=False)
    lengths = torch.as_tensor(batches, dtype=torch.int32).cuda()
    task_map = case.task_map(inputs)
    out = torch.empty(inputs.q.shape, dtype=torch.bfloat16, device="cuda")

    def step() -> torch.Tensor:
        build_task_map(
            inputs.seq_lens, num_kv_heads=2, max_seq_len=LONGEST, q_len=2, policy=policy, out=task_map,
            num_ctas=task_map.num_ctas, config=case.used_config,
        )  # fmt: skip
        _, lse = attention_decode(
            *inputs.arguments(), **inputs.keywords(), task_map=task_map, out=out, return_lse=True,
            config=case.used_config,
        )  # fmt: skip
        return lse

    step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        lse = step()

    first = []
    for batch in lengths:
        inputs.seq_lens.copy_(batch)
        out.fill_(torch.nan)
        graph.replay()
        assert judge.judge(out, lse, judge.Reference.of(inputs), case.q_len, LIMITS[precision])
        first.append((out.clone(), lse.clone()))
    expected_out, expected_lse = (torch.stack(column) for column in zip(*first, strict=True))

    wrong = torch.zeros((), dtype=torch.int64, device="cuda")
    order = rng.integers(0, BATCHES, REPLAYS).tolist()
    for at in order:
        inputs.seq_lens.copy_(lengths[at])
        out.fill_(torch.nan)
        graph.replay()
        wrong += (out.view(torch.int16) != expected_out[at].view(torch.int16)).sum()
        wrong += (lse.view(torch.int32) != expected_lse[at].view(torch.int32)).sum()
    assert int(wrong) == 0
    assert judge.room_is_empty(task_map)


LARGE = Case(precision="fp8", kv_heads=2, page_size=64, lengths=(9000, 1, 0, 64, 700, 4097), num_ctas=60, seed=9)


@pytest.fixture(scope="module")
def large() -> AttentionInputs:
    """Inputs whose pages lie all over caches of 6 GB each, most of them NaN, up to the very last page."""
    small = LARGE.inputs(poison=False)
    page_bytes = small.k_cache[0].numel()
    pages = 6 * 10**9 // page_bytes
    caches = [
        torch.full((pages, *c.shape[1:]), 0x7F, dtype=torch.uint8, device="cuda")
        for c in (small.k_cache, small.v_cache)
    ]
    used = small.k_cache.shape[0]
    # From the first page to the last, nearly all beyond 4 GiB.
    places = torch.linspace(pages * 0.72, pages - 1, used, dtype=torch.float64, device="cuda").long()
    places[0] = 0
    for cache, part in zip(caches, (small.k_cache, small.v_cache), strict=True):
        cache[places] = part.view(torch.uint8)
    table = places[small.block_table.long().clamp(0, used - 1)].to(torch.int32)
    k_cache, v_cache = (cache.view(torch.float8_e4m3fn) for cache in caches)
    assert k_cache.numel() > 2**32
    return replace(small, k_cache=k_cache, v_cache=v_cache, block_table=table)


def test_offsets_beyond_32_bits(large: AttentionInputs) -> None:
    verdict = judge.try_case(LARGE, large)
    assert not verdict.complaints


def test_offsets_of_32_bits_are_noticed(large: AttentionInputs, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = Kernel(LOW_PAGES.job(LARGE).compile())
    monkeypatch.setattr(cuda, "kernel", lambda *_: wrong)
    assert judge.try_case(LARGE, large).complaints
