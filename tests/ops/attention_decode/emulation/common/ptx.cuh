// Stands in for the kernels' ptx.cuh: the same functions on a CPU, over fibers.
//
// Kept of a GPU: every thread; warp functions, which all 32 lanes must reach together; both kinds of barriers; the copy
// engine's layout, and that its bytes land in any order, at once or much later; small asynchronous copies, which land as a
// group when it is waited for and not before; the layouts of the tensor cores' fragments; CTAs start in order as others end.
//
// Not kept: memory order. What a thread writes, all threads of all CTAs see at once and in that order, so fences and cache
// hints do nothing and one that is missing goes unnoticed. Races between two places where a thread gives way. The kernel
// ahead. Time. The rounding of the tensor cores, of exp2 and of log2: bits are not a GPU's.
#pragma once
#include <algorithm>

#include "common/types.cuh"
#include "cuda_words.h"

namespace ptx {

using emulation::cta, emulation::fail, emulation::fiber, emulation::give_way;

inline uint32_t shared_address(const void* p) { return uint32_t(static_cast<const uint8_t*>(p) - cta->memory); }

inline void copy_async_4(uint32_t to, const void* from, uint32_t valid) {
  uint32_t x = 0;
  if (to % 4 || to + 4 > uint32_t(cta->memory_bytes)) fail("a copy to a place that is not aligned, or not there");
  if (valid) std::memcpy(&x, from, 4);
  fiber->open.push_back({cta->memory + to, x});
}
inline void commit_copies() { fiber->groups.push_back(std::exchange(fiber->open, {})); }
template <int pending>
inline void wait_copies() {
  for (; fiber->groups.size() > pending; fiber->groups.erase(fiber->groups.begin()))
    for (auto& word : fiber->groups.front()) std::memcpy(word.to, &word.value, 4);
}

// What `tensor_map` of __init__.py wrote. Sizes and box in elements, innermost first; strides in bytes, of all but the
// innermost; `swizzle`: bytes of a row of the pattern, 128 or 64.
struct alignas(64) TensorMap {
  uint64_t address, element, size[4], stride[3], box[4], swizzle, unused[2];
};

inline void prefetch_tensor_map(const TensorMap*) {}
inline void init_barrier(uint32_t barrier, uint32_t arrivals) {
  if (barrier % 8 || barrier + 8 > uint32_t(cta->memory_bytes)) fail("a barrier at a place that is not aligned, or not there");
  cta->barriers[barrier] = {int(arrivals), int(arrivals), 0, 0};
}
inline void fence_barrier_init() {}
inline void fence_copy_engine() {}
inline emulation::Barrier& barrier_at(uint32_t barrier) {
  auto found = cta->barriers.find(barrier);
  if (found == cta->barriers.end()) fail("a barrier that nobody initialised");
  return found->second;
}
inline void arrive_expecting(uint32_t barrier, uint32_t bytes) { emulation::settle(barrier_at(barrier), 1, -long(bytes)); }
inline void arrive(uint32_t barrier) { emulation::settle(barrier_at(barrier), 1, 0); }
inline void wait_barrier(uint32_t barrier, uint32_t parity) {
  while ((barrier_at(barrier).phase & 1) == parity) give_way();
}

inline void synchronize(int id, int threads) { emulation::meet_at(uint32_t(id), threads); }

inline void copy_box(uint32_t to, const TensorMap* map, uint32_t barrier, int x, int y, int z, int w) {
  const TensorMap& m = *map;
  uint32_t row_bytes = m.box[0] * m.element, row = 0;
  emulation::Copy copy{barrier, long(row_bytes * m.box[1] * m.box[2] * m.box[3])};
  barrier_at(barrier);
  if (to % 128 || to + copy.bytes > cta->memory_bytes) fail("a copy to a place that is not aligned, or not there");
  for (uint64_t d = w; d < w + m.box[3]; ++d)
    for (uint64_t c = z; c < z + m.box[2]; ++c)
      for (uint64_t b = y; b < y + m.box[1]; ++b, ++row) {
        // A negative coordinate is a large one. Outside the tensor there are zeros.
        bool inside = x >= 0 && x + m.box[0] <= m.size[0] && b < m.size[1] && c < m.size[2] && d < m.size[3];
        auto* from = reinterpret_cast<const uint8_t*>(m.address + x * m.element + b * m.stride[0] + c * m.stride[1] + d * m.stride[2]);
        for (uint32_t i = 0; i < row_bytes; ++i) {
          uint32_t address = to + row * row_bytes + i;
          address ^= (address >> 7 & (m.swizzle == 128 ? 7 : 3)) << 4;
          copy.left.emplace_back(cta->memory + address, inside ? from[i] : 0);
        }
      }
  std::shuffle(copy.left.begin(), copy.left.end(), emulation::dice);
  cta->copies.push_back(std::move(copy));
}
inline void prefetch_box(const TensorMap*, int, int, int, int) {}
inline void prefetch_line(const void*) {}

// Thread T holds of A rows T / 4 and + 8, of B column T / 4, of D those rows; columns (of B: rows) 2 (T % 4), + 1, + 8, + 9.
template <typename Value>
inline void multiply(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, Value value) {
  auto lanes = emulation::exchange("mma", {a[0], a[1], a[2], a[3], b0, b1});
  int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  for (int c = 0; c < 4; ++c) {
    int row = g + c / 2 * 8, column = 2 * t + c % 2;
    for (int k = 0; k < 16; ++k) {
      auto left = uint16_t(lanes[row % 8 * 4 + k % 8 / 2][row / 8 + k / 8 * 2] >> k % 2 * 16);
      auto right = uint16_t(lanes[column * 4 + k % 8 / 2][4 + k / 8] >> k % 2 * 16);
      d[c] += value(left) * value(right);
    }
  }
}
inline void mma_f16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  multiply(d, a, b0, b1, [](uint16_t x) { return float(bits<_Float16>(x)); });
}
inline void mma_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  multiply(d, a, b0, b1, [](uint16_t x) { return __uint_as_float(uint32_t(x) << 16); });
}

inline uint32_t e4m3_to_f16(uint32_t x) {
  int exponent = x >> 3 & 15, mantissa = x & 7;
  float size = exponent ? std::ldexp(8.0f + mantissa, exponent - 10) : std::ldexp(float(mantissa), -9);
  if (exponent == 15 && mantissa == 7) size = NAN;
  return bits<uint16_t>(_Float16(x & 128 ? -size : size));
}
inline uint32_t e4m3x2_to_f16x2(uint32_t pair) { return e4m3_to_f16(pair & 255) | e4m3_to_f16(pair >> 8 & 255) << 16; }
inline uint32_t e4m3x2_high_to_f16x2(uint32_t pair) { return e4m3x2_to_f16x2(pair >> 16); }
inline uint32_t to_f16(float x) { return bits<uint16_t>(_Float16(x)); }
inline uint32_t pack_f16(float low, float high) { return to_f16(low) | to_f16(high) << 16; }
inline uint32_t to_bf16(float x) {
  uint32_t u = __float_as_uint(x);
  return x != x ? 0x7fff : (u + 0x7fff + (u >> 16 & 1)) >> 16;
}
inline uint32_t pack_bf16(float low, float high) { return to_bf16(low) | to_bf16(high) << 16; }
inline float bf16_low(uint32_t pair) { return __uint_as_float(pair << 16); }
inline float bf16_high(uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); }
inline uint32_t transpose_8x8(uint32_t x) {
  auto lanes = emulation::exchange("transpose", {x});
  int row = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  auto element = [&](int r) { return uint32_t(lanes[r * 4 + row / 2][0]) >> row % 2 * 16 & 0xffff; };
  return element(2 * t) | element(2 * t + 1) << 16;
}
inline uint32_t permute_bytes(uint32_t a, uint32_t b, uint32_t selector) {
  uint64_t both = uint64_t(b) << 32 | a;
  uint32_t r = 0;
  for (int i = 0; i < 4; ++i) r |= uint32_t(both >> 8 * (selector >> 4 * i & 7) & 255) << 8 * i;
  return r;
}
inline float exp2(float x) { return std::exp2(x); }
inline float log2(float x) { return std::log2(x); }

// Other CTAs run between any two of these words.
inline void store_shared_with_grid(float* to, float4 x) { give_way(), std::memcpy(to, &x, sizeof x); }
inline void store_shared_with_grid(float2* to, float2 x) { give_way(), *to = x; }
inline float4 load_shared_with_grid(const float4* from) { return give_way(), *from; }
inline float2 load_shared_with_grid(const float2* from) { return give_way(), *from; }

inline void wait_for_dependencies() {}
inline void launch_dependents() {}
inline uint64_t global_nanoseconds() { return emulation::progress; }
inline uint32_t sm_id() { return 0; }

}  // namespace ptx
