// The words of CUDA C++ that the decode attention kernel uses.
#pragma once
#include <cmath>
#include <type_traits>

#include "fibers.h"

#define __device__
#define __global__
#define __forceinline__ inline
#define __grid_constant__
#define __align__(n) alignas(n)
#define __launch_bounds__(...)

struct alignas(8) uint2 { unsigned x, y; };
struct alignas(8) float2 { float x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(16) float4 { float x, y, z, w; };
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

struct Dim { unsigned x, y, z; };
static Dim threadIdx, blockIdx, gridDim;

template <typename T>
inline T min(T a, T b) { return b < a ? b : a; }
template <typename T>
inline T max(T a, T b) { return a < b ? b : a; }

template <typename To, typename From>
inline To bits(From x) {
  static_assert(sizeof(To) == sizeof(From));
  To y;
  std::memcpy(&y, &x, sizeof y);
  return y;
}
inline float __uint_as_float(uint32_t x) { return bits<float>(x); }
inline uint32_t __float_as_uint(float x) { return bits<uint32_t>(x); }
inline int __clz(int x) { return x ? __builtin_clz(unsigned(x)) : 32; }
inline float __fdividef(float a, float b) { return a / b; }
template <typename T>
inline T __ldcg(const T* p) { return *p; }
template <typename T>
inline void __stcg(T* p, T x) { *p = x; }

template <typename T>
inline T __shfl_sync(unsigned, T x, int from) {
  uint64_t mine[1] = {};
  std::memcpy(mine, &x, sizeof x);
  T y;
  std::memcpy(&y, emulation::exchange("shfl", mine)[from & 31], sizeof y);
  return y;
}
template <typename T>
inline T __shfl_xor_sync(unsigned all, T x, int mask) { return __shfl_sync(all, x, threadIdx.x % 32 ^ mask); }
inline bool __any_sync(unsigned, bool x) {
  uint64_t mine[1] = {x};
  auto lanes = emulation::exchange("any", mine);
  bool any = false;
  for (int i = 0; i < 32; ++i) any |= lanes[i][0] != 0;
  return any;
}
inline void __syncwarp() { emulation::exchange("syncwarp", {0}); }
inline void __syncthreads() { emulation::meet_at(0, int(emulation::cta->fibers.size())); }
