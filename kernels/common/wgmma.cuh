// Tensor core products of a warpgroup, D[64 x N] += A[64 x 16] B[N x 16]^T: bf16 operands in shared memory, FP32 accumulators.
//
// Both operands are K-major tiles of rows of 64 elements (128 bytes), as the copy engine writes them with its 128-byte
// swizzle: eight rows form an atom of 1,024 bytes, atoms follow one another, and every tile begins at a multiple of 1,024.
// Accumulators are those of mma.m16n8 side by side: warp w of the warpgroup has rows 16 w + g and + 8 (g = lane / 4), and
// d[4 j + i] is column 8 j + 2 (lane % 4) + i % 2 of row g + 8 (i / 2).
#pragma once
#include "common/ptx.cuh"

namespace ptx {

// Describes a tile to the tensor cores (PTX ISA, "Matrix Descriptor Format"): address and the 1,024 bytes from atom to
// atom, both in units of 16 bytes, and the swizzle. The leading offset is not used by this layout; 1 stands for it.
// Sixteen elements further along K are 2 units.
__device__ __forceinline__ uint64_t describe_tile(uint32_t address) {
  constexpr uint64_t leading = 1, atom = 1024 >> 4, swizzle_128 = 1;
  return uint64_t((address & 0x3ffff) >> 4) | leading << 16 | atom << 32 | swizzle_128 << 62;
}

// Orders this warpgroup's accesses to registers and its wgmmas; before the first wgmma of a group.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until at most `pending` of the newest groups are under way.
template <int pending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

// Keeps the compiler from reading accumulators ahead of the wait that stands before this.
template <int count>
__device__ __forceinline__ void hold(float (&d)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// Sets the registers of each thread of this warpgroup; all four warps of it execute this.
template <int count>
__device__ __forceinline__ void claim_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count));
}
template <int count>
__device__ __forceinline__ void release_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
}

// D = A B^T + (accumulate ? D : 0).
template <int N>
__device__ __forceinline__ void wgmma(float (&d)[N / 2], uint64_t a, uint64_t b, int accumulate);

// Lists of registers, each by the one before it.
#define WGMMA_LIST_16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define WGMMA_LIST_24 WGMMA_LIST_16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define WGMMA_LIST_32 WGMMA_LIST_24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define WGMMA_LIST_36 WGMMA_LIST_32 ", %32, %33, %34, %35"
#define WGMMA_LIST_48 WGMMA_LIST_36 ", %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define WGMMA_LIST_64 WGMMA_LIST_48 ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define WGMMA_LIST_72 WGMMA_LIST_64 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define WGMMA_LIST_96 WGMMA_LIST_72 ", %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, " \
  "%86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define WGMMA_LIST_128 WGMMA_LIST_96 ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, " \
  "%108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, " \
  "%120, %121, %122, %123, %124, %125, %126, %127"
#define WGMMA_4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define WGMMA_8(i) WGMMA_4(i), WGMMA_4(i + 4)
#define WGMMA_16(i) WGMMA_8(i), WGMMA_8(i + 8)
#define WGMMA_32(i) WGMMA_16(i), WGMMA_16(i + 16)

// `a`, `b` and `c` are the numbers of the operands that follow the accumulators.
#define WGMMA(n, list, a, b, c, ...)                                                                                  \
  template <>                                                                                                          \
  __device__ __forceinline__ void wgmma<n>(float (&d)[n / 2], uint64_t x, uint64_t y, int accumulate) {                \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #c ", 0;\nwgmma.mma_async.sync.aligned.m64n" #n                    \
                 "k16.f32.bf16.bf16 {" list "}, %" #a ", %" #b ", p, 1, 1, 0, 0;\n}"                                     \
                 : __VA_ARGS__                                                                                         \
                 : "l"(x), "l"(y), "r"(accumulate));                                                                   \
  }

WGMMA(32, WGMMA_LIST_16, 16, 17, 18, WGMMA_16(0))
WGMMA(48, WGMMA_LIST_24, 24, 25, 26, WGMMA_16(0), WGMMA_8(16))
WGMMA(64, WGMMA_LIST_32, 32, 33, 34, WGMMA_32(0))
WGMMA(72, WGMMA_LIST_36, 36, 37, 38, WGMMA_32(0), WGMMA_4(32))
WGMMA(96, WGMMA_LIST_48, 48, 49, 50, WGMMA_32(0), WGMMA_16(32))
WGMMA(128, WGMMA_LIST_64, 64, 65, 66, WGMMA_32(0), WGMMA_32(32))
WGMMA(144, WGMMA_LIST_72, 72, 73, 74, WGMMA_32(0), WGMMA_32(32), WGMMA_8(64))
WGMMA(192, WGMMA_LIST_96, 96, 97, 98, WGMMA_32(0), WGMMA_32(32), WGMMA_32(64))
WGMMA(256, WGMMA_LIST_128, 128, 129, 130, WGMMA_32(0), WGMMA_32(32), WGMMA_32(64), WGMMA_32(96))

#undef WGMMA
#undef WGMMA_4
#undef WGMMA_8
#undef WGMMA_16
#undef WGMMA_32
#undef WGMMA_LIST_16
#undef WGMMA_LIST_24
#undef WGMMA_LIST_32
#undef WGMMA_LIST_36
#undef WGMMA_LIST_48
#undef WGMMA_LIST_64
#undef WGMMA_LIST_72
#undef WGMMA_LIST_96
#undef WGMMA_LIST_128

}  // namespace ptx
