// Where each request lies in the stream of tiles: prefix sums over the requests, and the search of a position in them.
//
// All KV heads are alike, so the sums are those of one, over the requests that have tiles, numbered in order: empty
// ones would begin where others do, and a search would meet them. The items of the stream are these requests of all
// heads, item = head * count + number.
#pragma once
#include "attention_decode/task_map_params.cuh"

constexpr int kHeld = 4;  // lengths that a thread keeps

struct HeadSums {
  int count, tiles;  // of one head: requests that have tiles, and their tiles
};

// In shared memory, by number.
struct Stream {
  int* starts;         // [count + 1] tiles before each, and of all
  int* weights;        // [count + 1] the same in weight; for balanced only
  uint16_t* requests;  // [count]
  uint8_t* slack;      // [count] tokens that the last tile lacks
};

// Consecutive requests of a thread. The first of them stay in registers, all that there are in most batches.
struct Run {
  const MapParams& p;
  int from, to, held[kHeld];

  __device__ __forceinline__ Run(const MapParams& p, int thread) : p(p) {
    from = min(thread * p.run, p.batch), to = min(from + p.run, p.batch);
  }
  __device__ __forceinline__ void read(int first) {
#pragma unroll
    for (int i = 0; i < kHeld; ++i) held[i] = first + i < to ? __ldcg(p.lengths + first + i) : 0;
#pragma unroll
    for (int i = 0; i < kHeld; ++i) held[i] = min(max(held[i], 0), p.max_length);
  }
  // Calls `call` with number, length and tiles of each; what lies beyond `to` has length 0.
  template <typename Call>
  __device__ __forceinline__ void each(Call call) {
#pragma unroll 1
    for (int first = from; first == from || first < to; first += kHeld) {
      if (p.run > kHeld) read(first);
#pragma unroll
      for (int i = 0; i < kHeld; ++i) {
        if (i > 0 && i >= p.run) break;
        int tiles = (unsigned(held[i]) + (1u << p.tile_shift) - 1) >> p.tile_shift;
        call(first + i, held[i], tiles);
      }
    }
  }
  // Tiles, requests that have some, the most of one.
  __device__ __forceinline__ int3 totals() {
    int3 run = make_int3(0, 0, 0);
    each([&](int, int, int tiles) { run.x += tiles, run.y += tiles > 0, run.z = max(run.z, tiles); });
    return run;
  }
};

// A barrier of the first `threads` threads, for which others need not wait.
template <int id>
__device__ __forceinline__ void meet_warps(int threads) {
  asm volatile("bar.sync %0, %1;" ::"n"(id), "r"(threads) : "memory");
}

// Sums (x, y) and the maximum (z) over the first `warps` warps, for those and others up to `told`.
__device__ __forceinline__ int3 totals_over(int warps, int told, int3 value, int3* of_warps) {
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int x = __reduce_add_sync(~0u, value.x), y = __reduce_add_sync(~0u, value.y), z = __reduce_max_sync(~0u, value.z);
  if (warps == 1) return make_int3(x, y, z);
  if (lane == 0 && warp < warps) of_warps[warp] = make_int3(x, y, z);
  meet_warps<1>(32 * told);
  int3 other = lane < warps ? of_warps[lane] : make_int3(0, 0, 0);
  return make_int3(__reduce_add_sync(~0u, other.x), __reduce_add_sync(~0u, other.y), __reduce_max_sync(~0u, other.z));
}

// Exclusive prefix sums over the first `warps` warps of two values a thread; `all` gets the sums.
__device__ __forceinline__ uint2 scan_over(int warps, uint2 value, uint2* of_warps, uint2& all) {
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  uint2 sum = value;
#pragma unroll
  for (int d = 1; d < 32; d *= 2) {
    uint32_t x = __shfl_up_sync(~0u, sum.x, d), y = __shfl_up_sync(~0u, sum.y, d);
    if (lane >= d) sum.x += x, sum.y += y;
  }
  uint2 before = make_uint2(sum.x - value.x, sum.y - value.y);
  if (warps == 1) {
    all = make_uint2(__shfl_sync(~0u, sum.x, 31), __shfl_sync(~0u, sum.y, 31));
    return before;
  }
  if (lane == 31) of_warps[warp] = sum;
  meet_warps<2>(32 * warps);
  uint2 other = lane < warps ? of_warps[lane] : make_uint2(0, 0);
  all = make_uint2(__reduce_add_sync(~0u, other.x), __reduce_add_sync(~0u, other.y));
  if (lane >= warp) other = make_uint2(0, 0);
  return make_uint2(before.x + __reduce_add_sync(~0u, other.x), before.y + __reduce_add_sync(~0u, other.y));
}

// Writes the stream, its sums, and the list of empty requests, which is CTA 0's; by the warps that scan, a thread its
// own requests, whose totals are `run`. Weights count a descriptor for every `piece` tiles of a request, a piece begun
// included; where they might not fit 32 bits (not `timed`) no candidate goes by them.
__device__ __forceinline__ void write_stream(const MapParams& p, const Stream& stream, HeadSums& head, Run& mine,
                                             int3 run, int piece, uint32_t piece_inverse, bool timed,
                                             uint2* sums_of_warps) {
  // Requests that have tiles and their pieces share a word; there are at most 16,384 of the former.
  constexpr int kPiecesShift = 15;
  uint2 sums = make_uint2(run.x, run.y), all;
  if (p.balanced)
    mine.each([&](int, int, int tiles) {
      sums.y += (tiles > 0 ? divide_up(tiles, piece, piece_inverse) : 0) << kPiecesShift;
    });
  uint2 before = scan_over(p.scan_warps, sums, sums_of_warps, all);
  int number = before.y & ((1 << kPiecesShift) - 1), pieces = before.y >> kPiecesShift;
  mine.each([&](int request, int length, int tiles) {
    if (tiles > 0) {
      stream.starts[number] = before.x;
      stream.requests[number] = request;
      stream.slack[number] = (tiles << p.tile_shift) - length;
      if (p.balanced) {
        stream.weights[number] = before.x * kUnits + pieces * p.descriptor_weight;
        pieces += divide_up(tiles, piece, piece_inverse);
      }
      before.x += tiles, ++number;
    }
  });
  if (blockIdx.x == 0 && run.y < mine.to - mine.from) {
    number -= run.y;
    mine.each([&](int request, int, int tiles) {
      if (tiles > 0) ++number;
      else if (request < mine.to) p.empties[request - number] = request;
    });
  }
  if (threadIdx.x == 0) {
    int count = all.y & ((1 << kPiecesShift) - 1);
    stream.starts[count] = all.x;
    if (p.balanced)
      stream.weights[count] = timed ? all.x * kUnits + (all.y >> kPiecesShift) * p.descriptor_weight : 1;
    head.count = count, head.tiles = all.x;
  }
}

// The last i in [0, count) with get(i) <= x, given get(0) <= x < get(count). All threads take the steps of `most`,
// which is at least count; three reads at once in each, for a step takes as long as a read.
template <typename Get>
__device__ __forceinline__ int last_not_above(int most, int count, int x, Get get) {
  int found = 0;
#pragma unroll 1
  for (int step = most > 1 ? 1 << (31 - __clz(most - 1) & ~1) : 0; step > 0; step >>= 2) {
    int a = min(found + step, count), b = min(found + 2 * step, count), c = min(found + 3 * step, count);
    bool past_a = get(a) <= x, past_b = get(b) <= x, past_c = get(c) <= x;
    found = past_c ? c : past_b ? b : past_a ? a : found;
  }
  return found;
}
