// The words of CUDA C++ that the map kernel uses beyond those of the attention kernel. Included ahead of the kernel.
//
// CTAs run one after another, so a shared variable is a static one; a CTA finds there what the one before it left.
#pragma once
#include "common/ptx.cuh"

#define __shared__ static
#define blockDim (Dim{unsigned(emulation::cta->fibers.size()), 1, 1})

namespace emulation {
static Meeting some[16];  // named barriers
}

struct alignas(8) int2 { int x, y; };
struct int3 { int x, y, z; };
struct alignas(16) int4 { int x, y, z, w; };
inline int2 make_int2(int x, int y) { return {x, y}; }
inline int3 make_int3(int x, int y, int z) { return {x, y, z}; }
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }

inline void atomicMax(int* to, int x) { *to = max(*to, x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned(uint64_t(a) * b >> 32); }

template <typename T>
inline T __shfl_up_sync(unsigned all, T x, int by) {
  int lane = threadIdx.x % 32;
  return __shfl_sync(all, x, lane < by ? lane : lane - by);
}
template <typename T>
inline T __shfl_down_sync(unsigned all, T x, int by) {
  int lane = threadIdx.x % 32;
  return __shfl_sync(all, x, lane + by > 31 ? lane : lane + by);
}
inline unsigned __ballot_sync(unsigned, bool x) {
  auto lanes = emulation::exchange("ballot", {uint64_t(x)});
  unsigned all = 0;
  for (int i = 0; i < 32; ++i) all |= unsigned(lanes[i][0]) << i;
  return all;
}
template <typename T, typename Join>
inline T reduced(const char* at, T x, Join join) {
  auto lanes = emulation::exchange(at, {uint64_t(x)});
  T all = T(lanes[0][0]);
  for (int i = 1; i < 32; ++i) all = join(all, T(lanes[i][0]));
  return all;
}
template <typename T>
inline T __reduce_add_sync(unsigned, T x) { return reduced("add", x, [](T a, T b) { return T(a + b); }); }
template <typename T>
inline T __reduce_max_sync(unsigned, T x) { return reduced("max", x, [](T a, T b) { return max(a, b); }); }
template <typename T>
inline T __reduce_min_sync(unsigned, T x) { return reduced("min", x, [](T a, T b) { return min(a, b); }); }
