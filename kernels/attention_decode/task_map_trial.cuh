// What each candidate of policy balanced costs, and which costs least: a thread a cut and the bin that begins there.
// Costs as in workbench/schedule/costs.py, in whole nanoseconds.
#pragma once
#include "attention_decode/task_map_rules.cuh"
#include "common/ptx.cuh"

// A cut of the stream: its position, and 2 * item + whether it lies inside the item rather than at its start.
using Cut = int2;

// The cut at `at` in item `item`, which is [start, end), or at the item's nearer end within `reach`.
__device__ __forceinline__ Cut snapped(int item, int start, int end, int at, int reach) {
  int back = at - start, ahead = end - at;
  bool near = min(back, ahead) <= reach, forward = near && back > ahead;
  return make_int2(near ? (forward ? end : start) : at, 2 * (item + forward) + !near);
}

// Without the vote among lanes that a compiler puts before an atomic operation at a known address.
__device__ __forceinline__ void raise_shared(uint32_t* to, uint32_t value) {
  asm volatile("red.shared::cta.max.u32 [%0], %1;" ::"r"(ptx::shared_address(to)), "r"(value) : "memory");
}

// Writes `cuts` [kCandidates][num_ctas + 1] of the candidates worth trying, their budgets, and what they come to.
// `least` is the least bin of equal weight.
__device__ __forceinline__ void try_candidates(const MapParams& p, Stream stream, HeadSums sums, Found& found,
                                               Cut* cuts, int least, int warp, int warps, int lane, int stride) {
  int count = sums.count;
  uint32_t slower_ns = max(p.loaded_tile_ns - p.cta_tile_ns, 0);
  int piece = found.piece, period = found.period;
  uint32_t loaded_tiles = found.loaded_tiles;

  // Cuts, a warp 32 of the candidates that are alike, and the 31 bins between them; the last cut begins the next
  // warp's bins. Those of equal weight take longest and come first.
  int parts = (p.num_ctas + 30) / 31;
#pragma unroll 1
  for (int round = warp; round < 4 * parts; round += warps) {
    int nth = (round >= parts) + (round >= 2 * parts) + (round >= 3 * parts);
    int candidate = nth ? nth - 1 : kTimed, from = (round - nth * parts) * 31, c = min(from + lane, p.num_ctas);
    Rule rule = found.rules[candidate];
    if (rule.alike == 0) continue;
    bool by_weight = candidate == kTimed;
    const int* before = by_weight ? stream.weights : stream.starts;
    int of_head = before[count], end = of_head * p.kv_heads;
    int budget = by_weight ? max(divide_up_by_ctas(p, end), least) : rule.budget;
    uint32_t inverse_budget = inverse_of(budget);
    if (from == 0 && lane < rule.alike) found.budgets[candidate + lane] = make_uint2(budget, inverse_budget);
    int64_t target = int64_t(c) * budget;
    bool done = target >= end;  // then at the start of an item that is none
    int head = done ? p.kv_heads : p.kv_heads > 1 ? int(target) / of_head : 0;
    int inside = done ? 0 : int(target) - head * of_head;
    int number = last_not_above(p.batch, count, inside, [&](int i) { return before[i]; });
    int item = head * count + number, base = head * sums.tiles, item_before = before[number];
    int item_start = base + stream.starts[number], item_end = base + stream.starts[number + 1], at = base + inside;
    if (by_weight) {
      // Whole pieces of a request, and the tiles that fit the rest: see weighted_cuts in workbench/schedule/fills.py.
      int weight = inside - item_before, whole = divide(weight, period, found.period_inverse);
      int rest = max(weight - whole * period - p.descriptor_weight, 0);
      at = min(item_start + whole * piece + rest / kUnits, item_end);
    }
    // Moves the cuts, and gives the most pieces of an item and the longest bin.
    auto tried = [&](const Rule& rule, Cut* to) {
      Cut low = snapped(item, item_start, item_end, at, rule.reach), high;
      to[c] = low;
      high.x = __shfl_down_sync(~0u, low.x, 1), high.y = __shfl_down_sync(~0u, low.y, 1);
      bool entered = low.y & 1, left = high.y & 1, same = entered && low.y == high.y;  // inside an item

      // Cuts inside one item follow one another, and the item's first piece lies in the bin before them. Where they
      // began in another warp: the first cut that is far enough behind the item's start.
      uint32_t breaks = ~__ballot_sync(~0u, same) & ((1u << lane) - 1);
      int first = divide_up(head * of_head + item_before + rule.behind, budget, inverse_budget);
      first = breaks ? from + 32 - __clz(breaks) : first;
      uint32_t pieces = __reduce_max_sync(~0u, entered ? c - first + 2 : 1);

      // See BinSums in workbench/schedule/fills.py. The last lane's bin looks empty.
      uint32_t tiles = high.x - low.x, split = entered + left - same;
      uint32_t descriptors = (unsigned(high.y + 1) >> 1) - (unsigned(low.y) >> 1);
      uint64_t ns = uint64_t(tiles) * unsigned(p.cta_tile_ns) + uint64_t(min(tiles, loaded_tiles)) * slower_ns +
                    uint64_t(descriptors) * unsigned(p.descriptor_ns) + uint64_t(split) * unsigned(p.partial_ns);
      return make_uint2(pieces, __reduce_max_sync(~0u, tiles > 0 ? saturated(ns) : 0));
    };
    Cut* to = cuts + candidate * stride;
    uint2 result;
    if (by_weight) {  // side by side, for these warps have most to do
      uint2 each[3] = {tried(rule, to), tried(found.rules[kTimed + 1], to + stride),
                       tried(found.rules[kTimed + 2], to + 2 * stride)};
      result = lane == 0 ? each[0] : lane == 1 ? each[1] : each[2];
    } else {
#pragma unroll 1
      for (int i = 0; i < rule.alike; ++i) {
        uint2 one = tried(found.rules[candidate + i], to + i * stride);
        if (lane == i) result = one;
      }
    }
    if (lane < rule.alike) {
      raise_shared(&found.most_pieces[candidate + lane], result.x);
      raise_shared(&found.longest_bin[candidate + lane], result.y);
    }
  }
}

// The candidate of the least makespan, merge included; of equal ones that of the shortest longest bin, then the first.
__device__ __forceinline__ int cheapest(const MapParams& p, const Found& found) {
  int lane = threadIdx.x % 32;
  uint32_t makespan = kMaxTime, bin_ns = kMaxTime;
  if (lane < kCandidates) {
    uint32_t pieces = found.most_pieces[lane];
    bin_ns = found.longest_bin[lane];
    uint64_t merge_ns = pieces > 1 ? p.merge_ns + uint64_t(pieces) * p.merge_chunk_ns : 0;
    makespan = saturated(max(bin_ns, found.stream_ns) + merge_ns);
  }
  bool least_time = makespan == __reduce_min_sync(~0u, makespan);
  uint32_t shortest = __reduce_min_sync(~0u, least_time ? bin_ns : kMaxTime);
  return __ffs(__ballot_sync(~0u, least_time && bin_ns == shortest)) - 1;
}
