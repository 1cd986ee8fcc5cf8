"""Resource facts: the assembler's log and the cubin, read and compared."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from workbench.gpu.compile import CompiledKernel, compile_kernel
from workbench.gpu.cubin import read_kernel
from workbench.gpu.facts import ResourceFacts, read_facts
from workbench.gpu.source import Source

pytest.importorskip("cuda.core", reason="the compiler's packages exist for Linux only")

MANY = """
template <int KEPT>
__global__ void __launch_bounds__(THREADS, CTAS) many(float* x, const int* at, long long n, int rounds) {
    float kept[KEPT];
    #pragma unroll
    for (int i = 0; i < KEPT; ++i) kept[i] = x[i * n + threadIdx.x];
    for (int round = 0; round < rounds; ++round) {
        #pragma unroll
        for (int i = 0; i < KEPT; ++i) kept[i] = kept[i] * kept[(i * 7 + 1) % KEPT] + x[round];
    }
    #pragma unroll
    for (int i = 0; i < KEPT; ++i) x[i * n + threadIdx.x] = kept[i];
}
"""

INDEXED = """
extern "C" __global__ void indexed(float* x, const int* at, int n) {
    float kept[64];
    for (int i = 0; i < 64; ++i) kept[i] = x[i];
    for (int i = 0; i < n; ++i) kept[at[i] & 63] += kept[at[i + 1] & 63];
    for (int i = 0; i < 64; ++i) x[i] = kept[i];
}
"""


def many(kept: int, *, threads: int = 128, ctas: int = 1) -> CompiledKernel:
    defines = {"THREADS": threads, "CTAS": ctas}
    return compile_kernel(Source.inline(MANY, "many.cu"), f"many<{kept}>", defines=defines)


def test_a_kernel_with_room_does_not_spill() -> None:
    facts = many(32).facts
    assert 32 < facts.registers < 255
    assert facts.spill_store_bytes == facts.spill_load_bytes == facts.stack_bytes == 0
    assert facts.parameter_sizes == (8, 8, 8, 4)
    assert facts.max_threads == 128


def test_spills_appear_when_registers_are_capped() -> None:
    # 8 CTAs of 256 threads leave 32 registers a thread; 96 floats cannot stay in them.
    facts = many(96, threads=256, ctas=8).facts
    assert facts.registers == 32
    assert facts.spill_store_bytes >= 4 * (96 - 32)
    assert facts.spill_load_bytes > 0
    assert facts.stack_bytes >= 4 * (96 - 32)


def test_an_indexed_array_is_stack_not_spill() -> None:
    facts = compile_kernel(Source.inline(INDEXED), "indexed").facts
    assert facts.stack_bytes == 4 * 64
    assert facts.spill_store_bytes == 0


@pytest.mark.parametrize("count", [1, 3, 64, 1024, 12288])
def test_static_shared_memory_is_the_kernels_own(reverse: Source, count: int) -> None:
    kernel = compile_kernel(reverse, f"reverse<{count}, float>")
    assert kernel.facts.shared_bytes == 4 * count
    assert read_kernel(kernel.cubin, kernel.symbol).shared_bytes == kernel.facts.shared_bytes + 1024
    assert kernel.facts.barriers == 1


def test_before_hopper_the_cubin_has_no_reserve(reverse: Source) -> None:
    kernel = compile_kernel(reverse, "reverse<64, float>", arch="sm_80")
    assert read_kernel(kernel.cubin, kernel.symbol).shared_bytes == kernel.facts.shared_bytes == 256


def test_two_kernels_of_one_cubin_are_told_apart() -> None:
    text = """
    extern "C" __global__ void small(int* x) { *x = 1; }
    extern "C" __global__ void large(double* x, int n) {
        __shared__ double tile[256];
        tile[n] = *x;
        __syncthreads();
        *x = tile[0];
    }
    """
    small, large = (compile_kernel(Source.inline(text), name) for name in ("small", "large"))
    assert (small.facts.parameter_sizes, small.facts.shared_bytes) == ((8,), 0)
    assert (large.facts.parameter_sizes, large.facts.shared_bytes) == ((8, 4), 2048)


def test_a_tensor_map_parameter_has_128_bytes() -> None:
    text = """
    struct alignas(64) Map { char bytes[128]; };
    extern "C" __global__ void f(const __grid_constant__ Map map, int n, char* out) { out[n] = map.bytes[n]; }
    """
    assert compile_kernel(Source.inline(text), "f").facts.parameter_sizes == (128, 4, 8)


def test_facts_survive_json_form() -> None:
    facts = many(32).facts
    assert ResourceFacts.from_dict(facts.to_dict()) == facts
    with pytest.raises(TypeError):
        ResourceFacts.from_dict({**facts.to_dict(), "surprise": 1})


def test_a_log_that_contradicts_the_cubin_is_noticed(saxpy: Source) -> None:
    kernel = compile_kernel(saxpy, "saxpy", defines={"BLOCK": 128})
    assert read_facts(kernel.log, kernel.cubin, "saxpy") == kernel.facts
    other = re.sub(r"Used \d+ registers", "Used 99 registers", kernel.log)
    with pytest.raises(ValueError, match="contradict"):
        read_facts(other, kernel.cubin, "saxpy")


def test_without_the_log_the_cubin_tells_all_but_spills_of_a_kernel_with_a_stack(saxpy: Source) -> None:
    kernel = compile_kernel(saxpy, "saxpy", defines={"BLOCK": 128})
    assert kernel.facts.stack_bytes == 0
    assert read_facts("ptxas info : nothing", kernel.cubin, "saxpy") == kernel.facts


def test_what_is_no_cubin_is_refused(saxpy: Source) -> None:
    kernel = compile_kernel(saxpy, "saxpy", defines={"BLOCK": 128})
    with pytest.raises(ValueError, match="no 64-bit ELF"):
        read_kernel(b"something else", "saxpy")
    with pytest.raises(ValueError, match="saxpy"):
        read_kernel(kernel.cubin, "daxpy")


def test_the_cubin_reader_agrees_with_nvidias_tool(reverse: Source, saxpy: Source, tmp_path: Path) -> None:
    triton = pytest.importorskip("triton", reason="cuobjdump comes with Triton")
    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    if not tool.is_file():
        pytest.skip(f"this Triton has no {tool.name}")
    kernels = [
        compile_kernel(reverse, "reverse<64, float>"),
        compile_kernel(saxpy, "saxpy", defines={"BLOCK": 128}),
        compile_kernel(Source.inline(INDEXED), "indexed"),
        many(96, threads=256, ctas=8),
        many(96),
    ]
    for kernel in kernels:
        file = tmp_path / "kernel.cubin"
        file.write_bytes(kernel.cubin)
        text = subprocess.run([tool, "-res-usage", file], capture_output=True, text=True, check=True).stdout
        words = dict(re.findall(r"(REG|STACK|SHARED|CONSTANT\[0\]):(\d+)", text))
        found = read_kernel(kernel.cubin, kernel.symbol)
        ours = (found.registers, found.stack_bytes, found.shared_bytes, found.constant_bytes)
        assert ours == tuple(int(words[name]) for name in ("REG", "STACK", "SHARED", "CONSTANT[0]")), str(kernel)
