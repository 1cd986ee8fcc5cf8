"""Providers of decode attention, as far as they can be known without a GPU."""

from __future__ import annotations

import sys
from itertools import pairwise
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from tests.measure.fakes import FakeTimer
from workbench.errors import InvalidArgument
from workbench.gpu.driver import probe
from workbench.measure import attention, rivals
from workbench.measure.attention_case import AttentionCase
from workbench.measure.attention_inputs import make_inputs
from workbench.measure.attention_providers import CudaAttention, TorchAttention, TritonAttention
from workbench.measure.compare import compare
from workbench.measure.map_build import MapBuild
from workbench.measure.providers import label
from workbench.measure.rivals import FlashAttention3, FlashInferAttention, HpcOpsAttention
from workbench.ops.attention_decode import attention_reference
from workbench.schedule import resolve
from workbench.workloads import MIXES, workload

LENGTHS = np.array([130, 64, 1, 257])


def case_of(cache: str, lengths: Any = LENGTHS, **shape: int) -> AttentionCase:
    return AttentionCase("small", np.asarray(lengths), cache, **shape)


def inputs_of(case: AttentionCase, seed: int = 0):
    return make_inputs(
        case.lengths, kv_heads=case.kv_heads, group=case.group, cache=case.cache, query=case.cache, seed=seed,
        poison=False, device="cpu",
    )  # fmt: skip


def outcome_of(provider, case):
    sets = [inputs_of(case, seed) for seed in (0, 1)]
    expected = [attention_reference(*s.arguments(), **s.keywords())[0] for s in sets]
    return compare([provider], sets, expected, timer=FakeTimer(), rounds=3)[0]


@pytest.mark.parametrize("cache", ["fp8", "bf16"])
@pytest.mark.parametrize("shape", [{}, {"kv_heads": 2, "group": 4}])
@pytest.mark.parametrize("lengths", [LENGTHS, [128, 128]])
def test_torch_computes_the_same(cache, shape, lengths):
    case = case_of(cache, lengths, **shape)
    outcome = outcome_of(TorchAttention(case), case)
    assert (outcome.state, outcome.reason) == ("timed", "")
    assert "gathered" in outcome.provider.notes


def test_torch_refuses_several_query_tokens():
    case = case_of("bf16", q_len=2)
    with pytest.raises(InvalidArgument, match="q_len is 2"):
        TorchAttention(case).prepare(inputs_of(case))


def test_what_is_measured_by_default():
    case = AttentionCase("64x4K", workload("64x4K"), "bf16")
    found = attention.providers_of(case, attention.Settings(), "NVIDIA H200", 132)
    names = [label(p) for p in found]
    assert names[:4] == ["read", "cuda balanced early", "cuda balanced default", "cuda balanced alone"]
    assert len(set(names)) == len(names)
    assert {p.name for p in found} == {"read", *attention.PROVIDERS, "hpc-dynamic", "hpc-static"} - {"hpc"}
    static = [p.policy for p in found if str(p.policy).startswith("fixed")]
    assert [policy.partition("(")[0] for policy in static] == ["fixed_splits", "fixed_chunk"]
    ours = next(p for p in found if p.policy == "balanced")
    assert "bf16 cache" in ours.notes
    assert ours.scheme.costs.cache == "bf16"
    assert ours.configuration["early_map"] is True


def test_every_split_can_be_asked_for():
    case = AttentionCase("64x4K", workload("64x4K"))
    settings = attention.Settings(providers=("cuda",), policies=("lpt",), variants=("alone",), splits=True)
    found = attention.providers_of(case, settings, "Some other GPU", 100)
    assert [p.policy for p in found if p.name == "cuda"] == [
        "lpt",
        *(f"fixed_splits({n})" for n in attention.SPLITS),
        *(f"fixed_chunk({n})" for n in attention.CHUNKS),
    ]
    assert all(p.configuration["pdl"] is False for p in found if p.name == "cuda")


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ({"providers": ("cuda", "cutlass")}, "provider 'cutlass' is not known"),
        ({"variants": ("late",)}, "variant 'late' is not known"),
        ({"variants": ()}, "no variant is given"),
        ({"policies": ("best",)}, "policy 'best' is not known"),
    ],
)
def test_unknown_names_are_refused(what, says):
    with pytest.raises(InvalidArgument, match=says):
        attention.Settings(**what)


def test_inputs_exceed_the_caches_and_differ(monkeypatch):
    made = []
    monkeypatch.setattr(attention, "make_inputs", lambda *_, seed, **__: made.append(seed) or seed)
    for mix in MIXES:
        for cache in ("fp8", "bf16"):
            case = AttentionCase(mix, workload(mix), cache)
            made.clear()
            seeds = list(attention.inputs_of(case, 40, "cpu"))
            assert seeds == list(range(40, 40 + len(seeds)))
            enough = len(seeds) * case.kv_bytes >= 3 * 60 * 2**20
            assert enough or len(seeds) == attention.MAX_SETS, (mix, cache)


def test_what_is_compiled_ahead():
    cases = [AttentionCase("64x4K", workload("64x4K"), cache) for cache in ("fp8", "bf16", "fp8")]
    assert [job.entry for job in attention.jobs(cases)] == [
        "read_bytes", "build_task_map", "attention_decode", "attention_decode",
    ]  # fmt: skip


def test_each_rival_says_what_brings_it(monkeypatch):
    monkeypatch.setattr("workbench.measure.providers.find_spec", lambda module: None)
    case = case_of("fp8")
    assert FlashInferAttention(case).missing() == "pip install flashinfer-python"
    assert FlashAttention3(case).missing() == "pip install fa3-fwd"
    assert "from its sources" in HpcOpsAttention(case).missing()


class Stand(ModuleType):
    """A rival's module that computes by our reference from the arguments that the rival documents."""


@pytest.fixture
def stand_in(monkeypatch):
    """Installs a module under a rival's name."""

    def install(name: str, **contents: Any) -> None:
        module = Stand(name)
        vars(module).update(contents)
        monkeypatch.setitem(sys.modules, name, module)
        monkeypatch.setattr("workbench.measure.providers.find_spec", lambda _: object())
        monkeypatch.setattr(rivals.metadata, "version", lambda _: "1.0")

    return install


@pytest.mark.parametrize("cache", ["fp8", "bf16"])
def test_flashinfer_is_given_pages_scales_and_types(stand_in, monkeypatch, cache):
    monkeypatch.setattr(FlashInferAttention, "_workspace", torch.zeros(8, dtype=torch.uint8))

    class Wrapper:
        def __init__(self, workspace, layout, *, use_cuda_graph, use_tensor_cores, **buffers):
            assert (layout, use_cuda_graph) == ("NHD", True)
            assert set(buffers) == {f"paged_kv_{n}_buffer" for n in ("indptr", "indices", "last_page_len")}

        def plan(self, indptr, indices, last, q_heads, kv_heads, dim, page_size, *, q_data_type, kv_data_type):
            assert (q_heads, kv_heads, dim, page_size, q_data_type) == (8, 1, 128, 64, torch.bfloat16)
            self.pages = [indices[a:b] for a, b in pairwise(indptr)]
            self.lengths = torch.tensor(
                [64 * (len(p) - 1) + int(n) for p, n in zip(self.pages, last, strict=True)]
            ).int()
            self.kv_data_type = kv_data_type

        def run(self, q, caches, *, k_scale, v_scale, out):
            assert q.dtype == torch.bfloat16
            assert caches[0].dtype == self.kv_data_type
            table = torch.nn.utils.rnn.pad_sequence(self.pages, batch_first=True)
            scales = [None if s is None else torch.tensor([s]) for s in (k_scale, v_scale)]
            right, _ = attention_reference(q, *caches, table, self.lengths, k_scale=scales[0], v_scale=scales[1])
            return out.copy_(right)

    stand_in("flashinfer", BatchDecodeWithPagedKVCacheWrapper=Wrapper)
    case = case_of(cache)
    outcome = outcome_of(FlashInferAttention(case), case)
    assert (outcome.state, outcome.reason) == ("timed", "")


def test_flashinfer_is_not_asked_for_an_empty_request(stand_in):
    stand_in("flashinfer")
    case = case_of("fp8", [64, 0])
    assert "length 0" in outcome_of(FlashInferAttention(case), case).reason


@pytest.mark.parametrize("cache", ["fp8", "bf16"])
def test_fa3_is_given_a_page_table_and_one_query_scale_a_head(stand_in, cache):
    def flash_attn_with_kvcache(
        q, k_cache, v_cache, *, cache_seqlens, page_table, softmax_scale, causal, q_descale=None, k_descale=None,
        v_descale=None,
    ):  # fmt: skip
        batch, q_len, heads, dim = q.shape
        assert causal
        q_scale = None
        if cache == "fp8":
            assert q_descale.shape == k_descale.shape == v_descale.shape == (batch, k_cache.shape[2])
            q_scale = q_descale.repeat_interleave(heads // k_cache.shape[2], 1)
        right, _ = attention_reference(
            q.view(batch * q_len, heads, dim), k_cache, v_cache, page_table, cache_seqlens, q_scale=q_scale,
            k_scale=None if k_descale is None else k_descale[0, :1],
            v_scale=None if v_descale is None else v_descale[0, :1], scale=softmax_scale,
        )  # fmt: skip
        return right.to(torch.bfloat16).view(batch, q_len, heads, dim)

    stand_in("fa3_fwd_interface", flash_attn_with_kvcache=flash_attn_with_kvcache)
    case = case_of(cache)
    outcome = outcome_of(FlashAttention3(case), case)
    assert (outcome.state, outcome.reason) == ("timed", "")
    if cache == "fp8":  # the requantised query costs accuracy: it is there, and told
        assert outcome.errors.relative > 0.004
        assert "requantised" in outcome.provider.notes


@pytest.mark.parametrize("cache", ["fp8", "bf16"])
@pytest.mark.parametrize("dynamic", [True, False])
def test_hpc_ops_is_given_its_task_map(stand_in, cache, dynamic):
    calls = []

    def decode(q, k, v, table, lengths, *scales, mtp, new_kv_included, splitk, output, task_map=None):
        assert (mtp, new_kv_included, splitk, task_map is not None) == (0, True, True, dynamic)
        names = ("q_scale", "k_scale", "v_scale")[: len(scales)]
        return output.copy_(attention_reference(q, k, v, table, lengths, **dict(zip(names, scales, strict=True)))[0])

    stand_in(
        "hpc",
        get_attention_decode_task_workspace=lambda batch, longest, kv_heads, floor: torch.zeros(4),
        assign_attention_decode_task=lambda *arguments: calls.append(arguments[2:]),
        **{f"attention_decode_{cache}": decode},
    )
    case = case_of(cache)
    outcome = outcome_of(HpcOpsAttention(case, dynamic=dynamic), case)
    assert (outcome.state, outcome.reason) == ("timed", "")
    assert calls == ([(1, 0, True, 512)] * 2 if dynamic else [])


@pytest.fixture
def on_the_cpu(monkeypatch):
    """Our kernels' calls, run by the portable variant in Triton's interpreter on maps that the CPU planned."""
    from types import SimpleNamespace

    from workbench.measure import attention_providers, map_build
    from workbench.ops.attention_decode import upload_plan
    from workbench.ops.attention_decode.triton import attention_decode_triton
    from workbench.schedule import plan_decode

    def build(lengths, *, num_kv_heads, max_seq_len, policy, q_len=1, num_ctas=4, config=None, out=None):
        assert max_seq_len == int(lengths.max())
        plan = plan_decode(
            lengths.numpy(), num_kv_heads=num_kv_heads, num_ctas=num_ctas, policy=policy, q_len=q_len, tile=64
        )
        made = upload_plan(plan, "cpu")
        if out is not None:
            out.map.copy_(made.map)
        return out or made

    def decode(*arguments, config, **more):
        assert (config.tile, config.warps) == (64, 8)
        return attention_decode_triton(*arguments, **more)

    properties = SimpleNamespace(multi_processor_count=4)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda *_: properties)
    monkeypatch.setattr(attention_providers, "build_task_map", build)
    monkeypatch.setattr(attention_providers, "attention_decode", decode)
    monkeypatch.setattr(map_build, "build_task_map", build)
    return build


@pytest.mark.skipif(not probe().problem, reason="Triton does not interpret where a GPU is")
@pytest.mark.parametrize("policy", ["balanced", "hpc-ops", "lpt", "fixed_splits(2)", "fixed_chunk(128)"])
@pytest.mark.parametrize("kind", [CudaAttention, TritonAttention])
def test_ours_compute_the_same_under_each_policy(on_the_cpu, kind, policy):
    case = case_of("fp8", [130, 64, 1])
    outcome = outcome_of(kind(case, resolve(policy)), case)
    assert (outcome.state, outcome.reason) == ("timed", "")
    assert outcome.provider.policy == policy


def builds(case):
    return [MapBuild(case, resolve(policy), ctas) for policy in ("balanced", "hpc-ops") for ctas in (4, 16)]


def run_builds(case):
    sets = [torch.as_tensor(case.lengths, dtype=torch.int32)] * 2
    return compare(builds(case), sets, [], timer=FakeTimer(), rounds=2)


def test_a_map_is_timed_when_it_is_the_cpus_plan(on_the_cpu):
    outcomes = run_builds(case_of("fp8"))
    assert [(o.state, o.provider.variant) for o in outcomes] == [
        ("timed", f"{ctas} CTAs") for ctas in (4, 16, 4, 16)
    ]  # fmt: skip


def test_a_map_that_is_another_one_is_told(on_the_cpu, monkeypatch):
    def other(lengths, **more):
        return on_the_cpu(lengths, **{**more, "policy": "lpt"})

    monkeypatch.setattr("workbench.measure.map_build.build_task_map", other)
    assert {o.state for o in run_builds(case_of("fp8"))} == {"failed"}
    assert all("not the plan that the CPU makes" in o.reason for o in run_builds(case_of("fp8")))


def test_a_map_that_is_not_written_is_told(on_the_cpu, monkeypatch):
    def idle(lengths, out=None, **more):
        return out or on_the_cpu(lengths, **more)

    monkeypatch.setattr("workbench.measure.map_build.build_task_map", idle)
    assert {o.state for o in run_builds(case_of("fp8"))} == {"failed"}
