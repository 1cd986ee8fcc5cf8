"""How long one kernel takes to compile cold, to find on disk, and to find in memory.

Run ``python benchmarks/compile.py``, or name a kernel: ``python benchmarks/compile.py SOURCE ENTRY NAME=VALUE ...``.
The targets are 3 s cold and 20 ms from the cache. The cache used is a temporary one.
"""

from __future__ import annotations

import os
import sys
import tempfile
from time import perf_counter

from workbench.gpu.compile import compile_kernel, forget
from workbench.gpu.source import Source

#: A main loop of tensor-core products with eight accumulators, unrolled: the size of a decode kernel's inner part.
SAMPLE = """
#include <cuda/std/cstdint>
using cuda::std::uint32_t;

__device__ void mma(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

template <int STEPS, int WIDTH>
__global__ void __launch_bounds__(128) product(const uint32_t* a, const uint32_t* b, float* out, int rounds) {
    extern __shared__ uint32_t tile[];
    float c[WIDTH][4] = {};
    for (int round = 0; round < rounds; ++round) {
        for (int i = threadIdx.x; i < STEPS * (4 + 2 * WIDTH) * 32; i += 128) tile[i] = a[i] ^ b[i];
        __syncthreads();
        #pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            uint32_t left[4], right[2];
            #pragma unroll
            for (int i = 0; i < 4; ++i) left[i] = tile[(step * 4 + i) * 32 + threadIdx.x % 32];
            #pragma unroll
            for (int column = 0; column < WIDTH; ++column) {
                right[0] = tile[(STEPS * 4 + step * 2 * WIDTH + column) * 32 + threadIdx.x % 32];
                right[1] = tile[(STEPS * 4 + step * 2 * WIDTH + WIDTH + column) * 32 + threadIdx.x % 32];
                mma(c[column], left, right);
            }
        }
        __syncthreads();
    }
    #pragma unroll
    for (int column = 0; column < WIDTH; ++column)
        #pragma unroll
        for (int i = 0; i < 4; ++i) out[(column * 4 + i) * 128 + threadIdx.x] = c[column][i];
}
"""


def main(arguments: list[str]) -> None:
    """Time the three layers for one kernel and print its resources."""
    if arguments:
        path, entry, *constants = arguments
        source = Source.file(path)
        defines = dict(constant.split("=", 1) for constant in constants)
    else:
        source, entry, defines = Source.inline(SAMPLE, "sample.cu"), "product<32, 16>", {}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["WORKBENCH_CACHE_DIR"] = folder
        times = {}
        for layer in ("cold", "disk", "memory"):
            start = perf_counter()
            kernel = compile_kernel(source, entry, defines=defines)
            times[layer] = perf_counter() - start
            if layer == "cold":
                forget()
    print(kernel)
    print(kernel.facts)
    print(f"cold {times['cold']:.2f} s, of it the compiler {kernel.compile_seconds:.2f} s")
    print(f"from disk {times['disk'] * 1e3:.2f} ms, from memory {times['memory'] * 1e3:.2f} ms")


if __name__ == "__main__":
    main(sys.argv[1:])
