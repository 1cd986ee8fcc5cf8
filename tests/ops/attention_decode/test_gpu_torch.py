"""The operators in torch's own checks, in compiled functions and in captured graphs, on a GPU."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from tests.ops.attention_decode import judge
from tests.ops.attention_decode.cases import LIMITS, Case, ragged
from workbench.errors import InvalidArgument
from workbench.measure.attention_inputs import AttentionInputs
from workbench.ops import attention_decode, build_task_map
from workbench.ops.attention_decode import api
from workbench.ops.attention_decode import task_map as task_maps

# torch's compiler warns about its own parts.
pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("compiled"), pytest.mark.filterwarnings("default")]

LENGTHS = (3000, 0, 1, 64, 500)
CASES = {precision: Case(precision=precision, q_len=2, lengths=LENGTHS, seed=11) for precision in ("bf16", "fp8")}


def called(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, call: Any) -> tuple[Any, ...]:
    """The arguments that the public function gives its operator."""
    seen: list[tuple[Any, ...]] = []
    real = getattr(module, name)

    def record(*arguments: Any) -> None:
        seen.append(arguments)
        real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(module, name, record)
        call()
    return seen[0]


@pytest.mark.parametrize("precision", CASES)
def test_opcheck_of_attention(precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[precision]
    inputs = case.inputs(poison=False)
    task_map = case.task_map(inputs)
    arguments = called(
        monkeypatch, api, "_attention_decode",
        lambda: attention_decode(*inputs.arguments(), **inputs.keywords(), task_map=task_map, return_lse=True),
    )  # fmt: skip
    # The schema check compares every tensor before and after, which torch cannot for FP8.
    checks = ("test_schema", "test_autograd_registration") if precision == "bf16" else ()
    torch.library.opcheck(
        torch.ops.workbench.attention_decode.default,
        arguments,
        test_utils=(*checks, "test_faketensor", "test_aot_dispatch_dynamic"),
    )


def test_opcheck_of_the_map(monkeypatch: pytest.MonkeyPatch) -> None:
    seq_lens = torch.tensor(LENGTHS, dtype=torch.int32, device="cuda")
    for policy in ("balanced", "hpc-ops"):
        arguments = called(
            monkeypatch, task_maps, "_build_task_map",
            lambda policy=policy: build_task_map(seq_lens, num_kv_heads=1, max_seq_len=3000, policy=policy),
        )  # fmt: skip
        for tensor in arguments[1:4]:
            tensor.zero_()  # what a map leaves unwritten differs between two fresh ones
        torch.library.opcheck(torch.ops.workbench.build_task_map.default, arguments)


@pytest.mark.parametrize(("precision", "backend"), [("fp8", "inductor"), ("bf16", "aot_eager")])
def test_compiled_in_one_graph(precision: str, backend: str) -> None:
    """A map and two layers, for batches of two sizes."""
    case = CASES[precision]

    def step(inputs: AttentionInputs) -> Any:
        q, k, v, table, lens = inputs.arguments()
        task_map = build_task_map(lens, num_kv_heads=1, max_seq_len=3000, q_len=2)
        out, lse = attention_decode(q, k, v, table, lens, **inputs.keywords(), task_map=task_map, return_lse=True)
        again = attention_decode(q, k, v, table, lens, **inputs.keywords(), task_map=task_map)
        return out, lse, (out - again).abs().sum()

    torch._dynamo.reset()
    compiled = torch.compile(step, fullgraph=True, backend=backend)
    for lengths in (LENGTHS, (3000, 17, 0)):
        sized = Case(precision=precision, q_len=2, lengths=lengths, seed=12)
        inputs = sized.inputs()
        out, lse, difference = compiled(inputs)
        assert judge.judge(out, lse, judge.Reference.of(inputs), case.q_len, LIMITS[precision])
        assert float(difference) == 0.0


def test_a_graph_captured_before_anything_ran_on_its_map() -> None:
    """Room for partial results is allocated in the capture, and a later, larger call leaves it alone."""
    case = CASES["fp8"]
    inputs = case.inputs(poison=False)
    attention_decode(*inputs.arguments(), **inputs.keywords(), config=case.used_config)  # loads the kernels
    task_map = case.task_map(inputs)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = attention_decode(*inputs.arguments(), **inputs.keywords(), task_map=task_map, config=case.used_config)
    graph.replay()
    first = out.clone()
    larger = Case(precision="fp8", q_len=2, group=16, lengths=LENGTHS, seed=13).inputs()
    attention_decode(*larger.arguments(), **larger.keywords(), task_map=task_map)
    torch.empty(1 << 28, dtype=torch.uint8, device="cuda").fill_(0xFF)  # where freed room would be
    for _ in range(10):
        out.fill_(torch.nan)
        graph.replay()
        assert torch.equal(out.view(torch.int16), first.view(torch.int16))
    assert judge.judge(first, None, judge.Reference.of(inputs), case.q_len, LIMITS["fp8"])


def test_a_captured_layer_stack_follows_lengths_and_table() -> None:
    case = Case(precision="bf16", lengths=(2000,) * 14, page_size=16, seed=14)
    inputs = case.inputs(poison=False)
    rng = torch.Generator().manual_seed(3)
    task_map = case.task_map(inputs)

    def step() -> list[torch.Tensor]:
        build_task_map(inputs.seq_lens, num_kv_heads=1, max_seq_len=2000, num_ctas=task_map.num_ctas, out=task_map)
        return [attention_decode(*inputs.arguments(), task_map=task_map) for _ in range(3)]

    step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        layers = step()
    for turn in range(20):
        lengths = np.minimum(ragged(np.random.default_rng(turn), 2000), 2000)
        inputs.seq_lens.copy_(torch.tensor(lengths, dtype=torch.int32))
        inputs.block_table.copy_(inputs.block_table[torch.randperm(14, generator=rng)])
        for layer in layers:
            layer.fill_(torch.nan)
        graph.replay()
        expected = judge.Reference.of(inputs)
        assert all(judge.judge(layer, None, expected, 1, LIMITS["bf16"]) for layer in layers)


@pytest.mark.parametrize("name", ["q", "k_cache", "v_cache"])
def test_an_address_that_is_not_aligned_is_refused(name: str) -> None:
    case = CASES["bf16"]
    inputs = case.inputs()
    tensor = getattr(inputs, name)
    moved = torch.empty(tensor.numel() + 8, dtype=tensor.dtype, device="cuda")[1 : 1 + tensor.numel()].view(
        tensor.shape
    )
    moved.copy_(tensor)
    wrong = replace(inputs, **{name: moved})
    with pytest.raises(InvalidArgument, match=f"{name} begins at address .* not a multiple of 16"):
        attention_decode(*wrong.arguments(), **wrong.keywords())
    torch.cuda.synchronize()  # no fault is on its way
