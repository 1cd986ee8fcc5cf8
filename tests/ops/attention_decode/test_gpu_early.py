"""What may be read before the kernel ahead has ended, and what may not: that kernel appends the newest tokens, late."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.ops.attention_decode import judge
from tests.ops.attention_decode.cases import LIMITS, Case
from tests.ops.attention_decode.mutants import Mutant
from workbench.gpu.compile import compile_kernel
from workbench.gpu.launch import Kernel
from workbench.gpu.source import Source
from workbench.measure.attention_inputs import AttentionInputs
from workbench.ops.attention_decode import attention_decode, cuda

pytestmark = pytest.mark.gpu

_LENGTHS = (4000, 1, 0, 2, 5, 64, 65, 128, 700, 130) * 12
CASES = [
    Case(precision="fp8", q_len=2, kv_heads=2, lengths=_LENGTHS, seed=1),
    Case(precision="fp8, K scale a token, bf16 q", page_size=16, lengths=_LENGTHS, seed=2),
    Case(precision="fp8", lengths=(300, 7), seed=4),  # most bins have no work, and their CTAs end at once
    Case(precision="bf16", policy="hpc-ops", page_size=32, lengths=_LENGTHS, seed=3),
]
TRIES = 5
TOO_EARLY = Mutant(
    "newest tokens read early", (("struct Loader {", "if (p.early_cache && now.first", "if (false && now.first"),)
)

_APPEND = """
using Bytes = unsigned char;
extern "C" __global__ void append(Bytes* const* to, const Bytes* const* from, const int* bytes, int count) {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  long long begin, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  while (now - begin < 2000000);
  for (int i = blockIdx.x; i < count; i += gridDim.x)
    for (int at = threadIdx.x; at < bytes[i]; at += blockDim.x) to[i][at] = from[i][at];
}
"""


@pytest.fixture(scope="module")
def append() -> Kernel:
    """A kernel that lets the next one start, waits 2 ms, longer than a host needs to launch that, and then copies."""
    return Kernel(compile_kernel(Source.inline(_APPEND, "append.cu"), "append"))


def decode_step(append: Kernel, case: Case, inputs: AttentionInputs) -> Callable[[], judge.Verdict]:
    """A call whose queries and newest tokens are written by the kernel just ahead."""
    reference = judge.Reference.of(inputs)
    places = []
    for request, length in enumerate(case.lengths):
        for token in range(max(0, length - case.q_len), length):
            page, slot = int(inputs.block_table[request, token // case.page_size]), token % case.page_size
            caches = [inputs.k_cache, inputs.v_cache]
            if inputs.k_scale is not None and inputs.k_scale.dim() > 1:
                caches.append(inputs.k_scale)
            places += [cache[page, slot, head] for cache in caches for head in range(case.kv_heads)]
    places.append(inputs.q)
    raw = [place.view(torch.uint8) if place.dim() else place.reshape(1).view(torch.uint8) for place in places]
    kept = [each.clone() for each in raw]
    device = inputs.q.device
    to, from_ = (torch.tensor([t.data_ptr() for t in each], dtype=torch.int64, device=device) for each in (raw, kept))
    sizes = torch.tensor([each.numel() for each in raw], dtype=torch.int32, device=device)
    task_map = case.task_map(inputs)
    config = replace(case.used_config, early_map=True, early_cache=True)
    out = torch.empty(inputs.q.shape, dtype=torch.bfloat16, device=device)

    def call() -> torch.Tensor:
        _, lse = attention_decode(
            *inputs.arguments(), **inputs.keywords(), task_map=task_map, out=out, return_lse=True, config=config
        )
        return lse

    def step() -> judge.Verdict:
        for each, value in zip(raw, kept, strict=True):
            assert bool((each == value).all())
            each.fill_(0x7F)
        out.fill_(torch.nan)
        torch.cuda.synchronize()
        append.launch(4, 256, [to, from_, sizes, np.int32(len(raw))])
        return judge.judge(out, call(), reference, case.q_len, LIMITS[case.precision])

    call()  # the map is no longer fresh, so it may be read early
    return step


@pytest.mark.parametrize("case", CASES, ids=str)
def test_newest_tokens_and_queries_are_waited_for(case: Case, append: Kernel) -> None:
    step = decode_step(append, case, case.inputs())
    assert [step().complaints for _ in range(TRIES)] == [()] * TRIES


def test_the_fault_is_noticed(append: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[0]
    wrong = Kernel(TOO_EARLY.job(case).compile())
    monkeypatch.setattr(cuda, "kernel", lambda *_: wrong)
    step = decode_step(append, case, case.inputs())
    assert any(step().complaints for _ in range(TRIES))
