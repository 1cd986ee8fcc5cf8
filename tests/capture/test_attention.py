"""Decode attention as something to capture: workloads, configurations, and a call in Triton's interpreter."""

from __future__ import annotations

import ast
import re
from types import SimpleNamespace

import numpy as np
import pytest

from tests.installs import ROOT
from workbench.capture import request
from workbench.capture.attention import AttentionDecode, _recorded_case
from workbench.errors import InvalidArgument
from workbench.records import Store
from workbench.widgets.profiles.words import EMPTY
from workbench.workloads import MIXES, workload

attention = AttentionDecode()


@pytest.mark.parametrize("mix", MIXES)
def test_workload_is_that_of_the_shipped_records(mix):
    described = attention.describe(mix)
    shipped = next(Store().records(operator="attention_decode", kind="timing", case=mix, dtype="fp8"))[1]
    assert described == shipped.workload


def configurations_in_examples():
    """As the documentation and the empty profile browser give them."""
    texts = [(ROOT / "docs" / "nsight.md").read_text(), *(code for _, code in EMPTY)]
    for text in texts:
        for found in re.findall(r'"attention_decode", (\{[^}]*\})', text):
            yield ast.literal_eval(re.sub(r"\bn\b", "4", found))  # the loop over n
        for found in re.findall(r"capture attention_decode .*-c (\w+)=(\d+)", text):
            yield {found[0]: int(found[1])}


def test_examples_have_configurations_that_can_run():
    examples = list(configurations_in_examples())
    assert len(examples) >= 4
    for example in examples:
        attention.identity(request("attention_decode", example, "2x32K+30x4K"))


@pytest.mark.parametrize(
    "given",
    [
        "2x32K + 30x4K",
        {"lengths": [5, 70, 900], "dtype": "bf16", "group": 4, "kv_heads": 2, "head_dim": 64, "q_len": 2},
        {"lengths": list(range(1, 80))},
    ],
)
def test_a_record_gives_the_case_back(given):
    case = _recorded_case(attention.describe(given))
    lengths = given if isinstance(given, str) else given["lengths"]
    assert np.array_equal(case.lengths, workload(lengths))
    if isinstance(given, dict):
        assert all(getattr(case, name) == value for name, value in given.items() if name not in ("lengths", "dtype"))
        assert case.cache == given.get("dtype", "fp8")


@pytest.mark.parametrize("given", [{}, {"lengths": "4K", "dtype": "fp4"}, {"lengths": "4K", "heads": 8}])
def test_what_is_no_workload(given):
    with pytest.raises(InvalidArgument, match="page_size"):
        attention.describe(given)


def test_a_request_has_the_defaults_filled_in():
    asked = request("attention_decode", {"stages": 2}, "4x1K")
    configuration, digest = attention.identity(asked)
    assert asked.configuration == {"stages": 2}
    assert (asked.provider, asked.policy) == ("cuda", "balanced")
    assert configuration["stages"] == 2
    assert configuration.keys() > {"warps", "ctas_per_sm", "tile", "pdl"}
    assert len(digest) == 64
    triton, other = attention.identity(request("attention_decode", None, "4x1K", "triton"))
    assert triton.keys() > {"block", "warps"}
    assert other != digest


@pytest.mark.parametrize("provider", ["cuda", "triton"])
def test_a_configuration_that_there_is_not(provider):
    with pytest.raises(InvalidArgument, match=r"it can have .*warps"):
        attention.identity(request("attention_decode", {"colour": 1}, "4x1K", provider))


def test_a_configuration_that_cannot_run():
    with pytest.raises(InvalidArgument, match="cannot run"):
        attention.identity(request("attention_decode", {"stages": 16, "warps": 8}, "4x1K"))


@pytest.mark.parametrize("policy", ["balanced", "fixed_splits(2)"])
def test_a_call_computes_attention(monkeypatch, policy):
    """On a CPU, by Triton's interpreter; only where the tensors lie and how many SMs there are is put in."""
    import torch

    from workbench.measure import attention_inputs
    from workbench.ops.attention_decode import attention_reference

    if torch.cuda.is_available():
        pytest.skip("there is a GPU: test_gpu.py captures on it")
    made, inputs = attention_inputs.make_inputs, []

    def on_cpu(*arguments, **keywords):
        inputs.append(made(*arguments, **keywords, device="cpu"))
        return inputs[-1]

    monkeypatch.setattr(attention_inputs, "make_inputs", on_cpu)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda device: SimpleNamespace(name="Toy", multi_processor_count=4)
    )
    asked = request("attention_decode", None, {"lengths": [70, 200], "group": 2}, "triton", policy=policy)
    prepared = attention.prepare(asked, seed=3)
    expected, _ = attention_reference(*inputs[0].arguments(), **inputs[0].keywords())
    assert prepared.bytes_read == 270 * 2 * 128
    assert float((prepared.call().double() - expected).norm() / expected.norm()) < 0.01
