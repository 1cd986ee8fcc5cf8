"""Machine code in words."""

from __future__ import annotations

import dataclasses

import pytest

from workbench.errors import MissingDependency, WorkbenchError
from workbench.gpu import disassemble as module
from workbench.gpu.compile import compile_kernel
from workbench.gpu.disassemble import disassemble, instruction_counts
from workbench.gpu.source import Source

pytest.importorskip("cuda.core", reason="the compiler's packages exist for Linux only")

TEXT = """
extern "C" __global__ void add(float* x) { x[threadIdx.x] = x[threadIdx.x] + 1.0f; }
extern "C" __global__ void wide(float4* x, float4* y) { y[threadIdx.x] = x[threadIdx.x]; }
"""


@pytest.fixture(autouse=True)
def needs_nvdisasm() -> None:
    try:
        module._nvdisasm()
    except MissingDependency as error:
        pytest.skip(str(error))


def test_instructions_are_counted_for_the_kernel_asked_for() -> None:
    add, wide = (instruction_counts(compile_kernel(Source.inline(TEXT), name)) for name in ("add", "wide"))
    assert (add["LDG.E"], add["STG.E"], add["FADD"]) == (1, 1, 1)
    assert (wide["LDG.E.128"], wide["STG.E.128"], wide["FADD"]) == (1, 1, 0)


def test_a_tensor_core_instruction_is_seen_under_a_predicate() -> None:
    text = """
    extern "C" __global__ void f(unsigned* a, float* c, int n) {
        float d[4] = {};
        if (threadIdx.x < n) asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(a[4]), "r"(a[5]));
        c[threadIdx.x] = d[0] + d[1] + d[2] + d[3];
    }
    """
    assert instruction_counts(compile_kernel(Source.inline(text), "f"))["HMMA.16816.F32"] == 1


def test_the_text_is_of_one_kernel() -> None:
    text = disassemble(compile_kernel(Source.inline(TEXT), "add"))
    assert "FADD" in text
    assert ".128" not in text


def test_without_the_tool_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda _: None)
    monkeypatch.setattr(module.shutil, "which", lambda _: None)
    module._nvdisasm.cache_clear()
    with pytest.raises(MissingDependency, match="pip install triton"):
        disassemble(compile_kernel(Source.inline(TEXT), "add"))
    module._nvdisasm.cache_clear()


def test_a_disassembler_that_cannot_read_a_kernel_says_so(saxpy: Source) -> None:
    kernel = compile_kernel(saxpy, "saxpy", defines={"BLOCK": 32})
    with pytest.raises(WorkbenchError, match=r"nvdisasm cannot read saxpy.cu: saxpy .*Install one that knows sm_90a"):
        disassemble(dataclasses.replace(kernel, cubin=b"no machine code"))
