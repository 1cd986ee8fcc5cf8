"""Both kernels as torch operators: schemas, and tracing with tensors that hold no data, on a GPU that is not there."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from workbench.errors import InvalidArgument
from workbench.ops import AttentionConfig, attention_decode, build_task_map

NAMES = {"workbench.build_task_map", "workbench.attention_decode"}


def inputs(batch: int = 5, kv_heads: int = 1) -> tuple[torch.Tensor, ...]:
    def empty(*shape: int, dtype: torch.dtype) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype, device="cuda")

    return (
        empty(batch, 8 * kv_heads, 128, dtype=torch.bfloat16),
        empty(40, 64, kv_heads, 128, dtype=torch.bfloat16),
        empty(40, 64, kv_heads, 128, dtype=torch.bfloat16),
        empty(batch, 8, dtype=torch.int32),
        empty(batch, dtype=torch.int32),
    )


def step(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, table: torch.Tensor, lens: torch.Tensor) -> Any:
    """Two layers on one map."""
    task_map = build_task_map(lens, num_kv_heads=k.shape[2], max_seq_len=512, num_ctas=132)
    first, lse = attention_decode(q, k, v, table, lens, task_map=task_map, return_lse=True)
    return attention_decode(first, k, v, table, lens, task_map=task_map, config=AttentionConfig(stages=3)), lse


def stages(graph: torch.fx.GraphModule) -> list[int]:
    names = [argument.name for argument in torch.ops.workbench.attention_decode.default._schema.arguments]
    at = names.index("stages")
    return [node.args[at] for node in graph.graph.nodes if "attention_decode" in str(node.target)]


def operators(graph: torch.fx.GraphModule) -> list[str]:
    return [str(node.target).removesuffix(".default") for node in graph.graph.nodes if "workbench" in str(node.target)]


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("build_task_map", ["map", "header", "empties"]),
        ("attention_decode", ["partial_out", "partial_sum", "out", "lse"]),
    ],
)
def test_the_schema_says_what_is_written(name: str, written: list[str]) -> None:
    schema = getattr(torch.ops.workbench, name).default._schema
    assert [a.name for a in schema.arguments if a.alias_info and a.alias_info.is_write] == written
    assert not schema.returns


def test_no_data_is_looked_at() -> None:
    with FakeTensorMode():
        out, lse = step(*inputs())
    assert (out.shape, out.dtype, out.device.type) == ((5, 8, 128), torch.bfloat16, "cuda")
    assert (lse.shape, lse.dtype) == ((5, 8), torch.float32)


def test_a_trace_holds_three_launches() -> None:
    with FakeTensorMode():
        graph = make_fx(step)(*inputs())
    assert operators(graph) == ["workbench.build_task_map", "workbench.attention_decode", "workbench.attention_decode"]
    assert stages(graph)[1] == 3


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiles_without_a_graph_break(dynamic: bool) -> None:
    graphs = []

    def backend(graph: torch.fx.GraphModule, _examples: object) -> Any:
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    with FakeTensorMode():
        compiled = torch.compile(step, backend=backend, fullgraph=True, dynamic=dynamic)
        out, lse = compiled(*inputs())
        assert (out.shape, lse.shape) == ((5, 8, 128), (5, 8))
    assert len(graphs) == 1
    assert operators(graphs[0]) == [
        "workbench.build_task_map", "workbench.attention_decode", "workbench.attention_decode",
    ]  # fmt: skip
    assert stages(graphs[0])[1] == 3


def test_a_map_for_another_call_is_refused() -> None:
    with FakeTensorMode():
        q, k, v, table, lens = inputs()
        good = {"num_kv_heads": 1, "max_seq_len": 512, "num_ctas": 132}
        for change in ({"num_kv_heads": 2}, {"q_len": 2}):
            with pytest.raises(InvalidArgument, match="task_map was made for 5 requests"):
                attention_decode(q, k, v, table, lens, task_map=build_task_map(lens, **{**good, **change}))
        with pytest.raises(
            InvalidArgument, match="task_map was made for 4 requests, 1 KV heads and q_len 1; this call"
        ):
            attention_decode(q, k, v, table, lens, task_map=build_task_map(inputs(4)[4], **good))
        with pytest.raises(InvalidArgument, match=r"task_map allows 513 tokens .*8 pages of 64: 512 tokens"):
            attention_decode(q, k, v, table, lens, task_map=build_task_map(lens, **{**good, "max_seq_len": 513}))
        with pytest.raises(InvalidArgument, match="out is TaskMap"):
            build_task_map(lens, **{**good, "num_ctas": 64}, out=build_task_map(lens, **good))


def test_room_for_partial_results_is_never_replaced() -> None:
    """A captured graph holds its address."""
    with FakeTensorMode():
        q, k, v, table, lens = inputs()
        task_map = build_task_map(lens, num_kv_heads=1, max_seq_len=512, num_ctas=132)
        attention_decode(q, k, v, table, lens, task_map=task_map)
        first = task_map.partials(8, 128)
        assert task_map.partials(16, 256)[0].numel() > first[0].numel()
        assert all(a is b for a, b in zip(task_map.partials(8, 128), first, strict=True))
