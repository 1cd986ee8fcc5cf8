// What the map kernel is given, and the divisions and times that follow from it. They are exact, so CPU and GPU agree.
// Integer division is slow, so a divisor that comes again has an inverse, from the host if it knows the divisor.
#pragma once
#include "common/types.cuh"

using uint16_t = unsigned short;

constexpr int kUnits = 16;                  // parts of a tile in which weights are measured
constexpr uint32_t kMaxTime = 0xffffffffu;  // longer makespans count as this

struct MapParams {
  const int* lengths;  // [batch]
  int4* map;           // [num_ctas + kv_heads * max_batch] descriptors
  int* header;         // see task_map.cuh
  int* empties;        // [max_batch]
  int batch, max_batch, kv_heads, num_ctas;
  uint32_t ctas_inverse;  // floor(2^32 / num_ctas), at most 2^32 - 1
  int scan_warps, run;    // warps that make the prefix sums, and requests of each of their threads
  int tile_shift;
  int floor_tiles;  // work floor of the upstream rule
  int max_length;   // lengths beyond 0 .. max_length, which the host cannot see, count as the nearest of the two
  int balanced;     // 0: upstream's rule
  // What balanced decides by. Times in nanoseconds.
  uint64_t tile_work, stream_rate;  // 1000 tile_bytes; floor(2^32 tile_work / bytes_per_us), at most 2^64 - 1
  uint32_t loaded_inverse;          // (2^32 - 1) / loaded_tile_ns
  int descriptor_weight, piece_tiles;
  int tile_bytes, bytes_per_us, cta_tile_ns, loaded_tile_ns, descriptor_ns, partial_ns, merge_ns, merge_chunk_ns;
};

__device__ __forceinline__ int divide_up(int a, int b) { return int((unsigned(a) + b - 1) / unsigned(b)); }

// The quotient by multiplication is exact or one too small.
__device__ __forceinline__ int divide_up_by_ctas(const MapParams& p, int a) {
  uint32_t n = unsigned(a) + p.num_ctas - 1, quotient = __umulhi(n, p.ctas_inverse);
  return quotient + (n - quotient * p.num_ctas >= unsigned(p.num_ctas));
}

// Division by a d that gave `inverse`, (2^32 - 1) / d: as above, the product's quotient is exact or one too small.
__device__ __forceinline__ uint32_t inverse_of(int d) { return 0xffffffffu / unsigned(d); }

__device__ __forceinline__ int divide(uint32_t n, int d, uint32_t inverse) {
  uint32_t quotient = __umulhi(n, inverse);
  return quotient + (n - quotient * d >= unsigned(d));
}

__device__ __forceinline__ int divide_up(int a, int d, uint32_t inverse) {
  return divide(unsigned(a) + d - 1, d, inverse);
}

__device__ __forceinline__ uint32_t saturated(uint64_t ns) { return ns < kMaxTime ? uint32_t(ns) : kMaxTime; }

// Time of all tiles at the bandwidth of the chip, rounded up. The product by the rate is less than 1.5 too small, and
// the work that is left then is right whatever the upper bits of both products.
__device__ __forceinline__ uint64_t stream_time(const MapParams& p, uint32_t tiles) {
  uint64_t ns = tiles * uint64_t(uint32_t(p.stream_rate >> 32)) + __umulhi(tiles, uint32_t(p.stream_rate));
  int64_t left = int64_t(tiles * p.tile_work - ns * unsigned(p.bytes_per_us));
  return ns + (left > 0) + (left > p.bytes_per_us);
}
