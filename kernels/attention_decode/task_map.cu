// Builds the task map on the GPU from lengths that only the GPU knows. One launch, no synchronisation.
//
// The tiles of all (KV head, request) form one stream, KV head outermost; a fill cuts it into one interval a CTA. Every
// cut follows from prefix sums over the requests, so a thread computes it alone by binary search:
//
//   1  prefix sums over the non-empty requests of one KV head (all heads are alike); beside them, what balanced goes by
//   2  policy balanced only: a thread a cut of each fill and the bin that begins there, for the predicted makespans;
//      the least wins, and of equal ones that with the shortest longest bin
//   3  a thread a bin writes the bin's first descriptor, a thread a (KV head, request) that where the request starts
//
// Every CTA of the grid repeats 1 and 2 and writes its share of 3. What a warp that is not needed would do costs those
// that are needed their turns, so it waits or ends. Times are whole nanoseconds, and the candidates and their order are
// those of workbench/schedule/policies.py, so CPU and GPU agree on every batch.
//
// Shared memory, the part between [ ] for policy balanced only:
//   starts [batch + 1] int, [ weights [batch + 1] int, cuts [kCandidates][num_ctas + 1] int2, ]
//   requests [batch] 16 bits, slack [batch] 8 bits

#include "common/types.cuh"

#include "attention_decode/task_map.cuh"
#include "common/ptx.cuh"

#ifndef PROFILE
#define PROFILE 0  // 1: nanoseconds of the stages go to header[3..6]
#endif

using uint16_t = unsigned short;

constexpr int kMaxThreads = 1024;
constexpr int kHeld = 4;    // lengths that a thread keeps
constexpr int kUnits = 16;  // parts of a tile in which weights are measured
constexpr long long kMaxWeight = 0x7fffffff;
constexpr uint32_t kMaxTime = 0xffffffffu;  // longer makespans count as this

// In the order in which ties are decided; the timed fill is snapped in three ways.
enum Candidate { kUpstream, kEven, kPieces, kTimed, kCandidates = kTimed + 3 };

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

// Time of all tiles at the bandwidth of the chip, rounded up. The product by the rate is less than 1.5 too small, and
// the work that is left then is right whatever the upper bits of both products.
__device__ __forceinline__ uint64_t stream_time(const MapParams& p, uint32_t tiles) {
  uint64_t ns = tiles * uint64_t(uint32_t(p.stream_rate >> 32)) + __umulhi(tiles, uint32_t(p.stream_rate));
  int64_t left = int64_t(tiles * p.tile_work - ns * unsigned(p.bytes_per_us));
  return ns + (left > 0) + (left > p.bytes_per_us);
}

__device__ __forceinline__ uint32_t saturated(uint64_t ns) { return ns < kMaxTime ? uint32_t(ns) : kMaxTime; }

// Without the vote among lanes that a compiler puts before an atomic operation at a known address.
__device__ __forceinline__ void raise_shared(uint32_t* to, uint32_t value) {
  asm volatile("red.shared::cta.max.u32 [%0], %1;" ::"r"(ptx::shared_address(to)), "r"(value) : "memory");
}

// Division by a d that gave `inverse`, (2^32 - 1) / d: the product's quotient is exact or one too small, as above.
__device__ __forceinline__ uint32_t inverse_of(int d) { return 0xffffffffu / unsigned(d); }

__device__ __forceinline__ int divide(uint32_t n, int d, uint32_t inverse) {
  uint32_t quotient = __umulhi(n, inverse);
  return quotient + (n - quotient * d >= unsigned(d));
}

__device__ __forceinline__ int divide_up(int a, int d, uint32_t inverse) {
  return divide(unsigned(a) + d - 1, d, inverse);
}

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
};

// Where a candidate cuts. Its bins are equal in tiles or in weight.
struct alignas(16) Rule {
  int budget;  // of a bin, if in tiles
  int reach;   // cuts move to edges as far away as this
  int behind;  // the least distance behind an item's start, as bins are measured, of a cut that stays in the item
  int alike;   // candidates from here that share the cuts before they move; 0: no need to try it
};

// What is known of the batch when the prefix sums are.
struct Found {
  int count, head_tiles;  // of one head: requests that have tiles, and their tiles
  // Only for balanced. Bins of equal weight: tiles a piece, the piece's weight, and their inverses.
  int piece, period;
  uint32_t piece_inverse, period_inverse;
  uint32_t loaded_tiles;  // tiles of a bin that are read while the chip streams
  uint32_t stream_ns;     // no makespan is shorter
  Rule rules[kCandidates];
  uint2 budgets[kCandidates];  // as bins are measured, and the inverse
  uint32_t most_pieces[kCandidates], longest_bin[kCandidates];  // of an item; of all bins, nanoseconds
};

// The items of the stream are the requests that have tiles, of all KV heads: item = head * count + number in the head.
// A cut of the stream: its position, and 2 * item + whether it lies inside the item rather than at its start.
using Cut = int2;

// The cut at `at` in item `item`, which is [start, end), or at the item's nearer end within `reach`.
__device__ __forceinline__ Cut snapped(int item, int start, int end, int at, int reach) {
  int back = at - start, ahead = end - at;
  bool near = min(back, ahead) <= reach, forward = near && back > ahead;
  return make_int2(near ? (forward ? end : start) : at, 2 * (item + forward) + !near);
}

// The least weight inside an item at which `tiles` of its tiles lie before a cut; see weighted_cuts in fills.py.
__device__ __forceinline__ int weight_before(const MapParams& p, int tiles, int piece, int period, uint32_t inverse) {
  int whole = divide(tiles, piece, inverse), rest = tiles - whole * piece;
  return whole * period + (rest > 0 ? rest * kUnits + p.descriptor_weight : 0);
}

// A chosen fill.
struct Fill {
  bool listed;        // cuts are those of `cuts`, else every `budget` tiles
  const Cut* cuts;
  const int* before;  // as bins are measured, what lies before each item
  int of_head, budget, reach, total;
  uint32_t inverse_budget;
  bool by_weight;

  __device__ __forceinline__ int operator()(int c) const {
    return listed ? cuts[c].x : int(min(uint64_t(unsigned(c)) * unsigned(budget), uint64_t(unsigned(total))));
  }
  // The bins that hold the first and the last tile of an item. A cut ends up behind the item's start if it lies more
  // than `reach` or half the item behind it, and before the item's end if it lies more than `reach` before that.
  __device__ __forceinline__ int2 homes(const MapParams& p, const Found& found, int head, int number, int tiles) const {
    int first = min(reach, tiles / 2) + 1, last = max(tiles - reach, 0);
    if (by_weight) {
      first = weight_before(p, first, found.piece, found.period, found.piece_inverse);
      last = weight_before(p, last, found.piece, found.period, found.piece_inverse);
    }
    int start = head * of_head + before[number];
    int home = divide_up(start + first, budget, inverse_budget) - 1;
    return make_int2(home, max(home, divide_up(start + last, budget, inverse_budget) - 1));
  }
};

// What balanced goes by, and where its candidates cut; by one warp, whose lanes divide at once.
__device__ __forceinline__ void decide(const MapParams& p, Found& found, int total, int longest, int piece,
                                       bool timed) {
  int lane = threadIdx.x % 32, period = timed ? piece * kUnits + p.descriptor_weight : 1;
  int even = max(divide_up_by_ctas(p, total), 1), upstream = max(even, p.floor_tiles);
  uint32_t quotient = (lane == 0 ? unsigned(longest) : ~0u) / unsigned(lane == 0 ? even : lane == 1 ? piece : period);
  int parts = max(int(__shfl_sync(~0u, quotient, 0)) - 1, 1);
  uint32_t piece_inverse = __shfl_sync(~0u, quotient, 1), period_inverse = __shfl_sync(~0u, quotient, 2);
  uint64_t stream_ns = stream_time(p, total);
  int pieces = max(even, divide_up(longest, parts));
  if (lane == 1) {
    found.piece = piece, found.period = period;
    found.piece_inverse = piece_inverse, found.period_inverse = period_inverse;
    found.loaded_tiles =
        p.loaded_tile_ns > p.cta_tile_ns ? divide(saturated(stream_ns), p.loaded_tile_ns, p.loaded_inverse) : 0;
    found.stream_ns = saturated(stream_ns + p.descriptor_ns);
  }
  // Upstream's fill and the even one are mostly cut alike, and pieces as the even one: then the latter is as good.
  Rule rule;
  bool weighs = lane >= kTimed;
  rule.budget = lane == kUpstream ? upstream : lane == kEven ? even : pieces;
  int share = lane == kTimed ? p.piece_tiles : even >> max(lane - kTimed + 1, 0);
  rule.reach = weighs ? share : lane == kUpstream ? 0 : rule.budget / 2;
  int weight = weight_before(p, rule.reach + 1, piece, period, piece_inverse);
  rule.behind = weighs ? weight : rule.reach + 1;
  bool other = lane == kEven ? upstream != even : pieces != even;
  rule.alike = weighs ? timed * (kCandidates - kTimed) : lane == kUpstream ? 1 + (upstream == even) : other;
  if (lane < kCandidates) {
    found.rules[lane] = rule;
    found.most_pieces[lane] = 0;
    found.longest_bin[lane] = rule.alike == 0 && lane != kEven ? kMaxTime : 0;
  }
}

extern "C" __global__ void __launch_bounds__(kMaxThreads, 1) build_task_map(const __grid_constant__ MapParams p) {
  extern __shared__ int shared[];
  __shared__ int3 totals_of_warps[32];
  __shared__ uint2 sums_of_warps[32];
  __shared__ Found found;

  int stride = p.num_ctas + 1;
  int* starts = shared;
  int* weights = starts + p.batch + 1;
  Cut* cuts = reinterpret_cast<Cut*>(weights + p.batch + 1);
  auto* requests = reinterpret_cast<uint16_t*>(p.balanced ? static_cast<void*>(cuts + kCandidates * stride) : weights);
  uint8_t* slack = reinterpret_cast<uint8_t*>(requests + p.batch);

  ptx::launch_dependents();
  uint64_t t0 = 0;
  auto stamp = [&](int i) {
    if (PROFILE && blockIdx.x == 0 && threadIdx.x == 0) p.header[i] = int(ptx::global_nanoseconds() - t0);
  };

  // By way of a shuffle, for the compiler to know that a warp's lanes agree.
  int warp = __shfl_sync(~0u, int(threadIdx.x / 32), 0), warps = blockDim.x / 32, lane = threadIdx.x % 32;
  // 1: by few warps. One alone needs no barrier, and those that wait take no turns from it. Beside them one warp
  // decides where the candidates cut.
  int decider = min(p.scan_warps, warps - 1);
  bool scans = warp < p.scan_warps, decides = p.balanced && warp == decider;
  int least = 2 * (kUnits + p.descriptor_weight);
  if (scans || decides) {
    Run mine(p, p.scan_warps == 1 ? lane : threadIdx.x);
    // Others need not wait: they touch nothing of earlier grids before they have met these warps.
    ptx::wait_for_dependencies();
    if (PROFILE) t0 = ptx::global_nanoseconds();
    mine.read(mine.from);
    int3 run = make_int3(0, 0, 0);
    mine.each([&](int, int, int tiles) { run.x += tiles, run.y += tiles > 0, run.z = max(run.z, tiles); });

    int piece = 0x7fffffff;
    bool timed = false;
    uint32_t piece_inverse = 0;
    if (p.balanced) {
      int3 all = totals_over(p.scan_warps, max(p.scan_warps, decider + 1), run, totals_of_warps);
      int total = all.x * p.kv_heads, busy = all.y * p.kv_heads;
      timed = int64_t(total) * kUnits + (int64_t(busy) + 2 * p.num_ctas) * p.descriptor_weight <= kMaxWeight;
      if (timed) {
        int capacity = divide_up_by_ctas(p, total * kUnits + busy * p.descriptor_weight);
        piece = (max(capacity, least) - p.descriptor_weight) / kUnits;
      }
      if (decides) decide(p, found, total, all.z, piece, timed);
      if (scans) piece_inverse = inverse_of(piece);
    }
    if (scans) {
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
          starts[number] = before.x;
          requests[number] = request;
          slack[number] = (tiles << p.tile_shift) - length;
          if (p.balanced) {
            weights[number] = before.x * kUnits + pieces * p.descriptor_weight;
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
        starts[count] = all.x;
        if (p.balanced)
          weights[count] = timed ? all.x * kUnits + (all.y >> kPiecesShift) * p.descriptor_weight : 1;
        found.count = count, found.head_tiles = all.x;
      }
    }
  }
  __syncthreads();
  int count = found.count, head_tiles = found.head_tiles;
  int total = head_tiles * p.kv_heads;
  int even = divide_up_by_ctas(p, total);
  int upstream = max(max(even, p.floor_tiles), 1);

  stamp(3);
  // The CTAs take turns at the rows warp by warp, so that each writes as little as can be. A warp has bins or items.
  int bins = (p.num_ctas + 31) / 32 * 32, rows = bins + p.kv_heads * count;
  int turn = warp * gridDim.x + blockIdx.x, turns = warps * gridDim.x;
  int chosen = kUpstream;
  if (p.balanced && total > 0) {
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
      const int* before = by_weight ? weights : starts;
      int of_head = before[count], end = of_head * p.kv_heads;
      int budget = by_weight ? max(divide_up_by_ctas(p, end), least) : rule.budget;
      uint32_t inverse_budget = inverse_of(budget);
      if (from == 0 && lane < rule.alike) found.budgets[candidate + lane] = make_uint2(budget, inverse_budget);
      int64_t target = int64_t(c) * budget;
      bool done = target >= end;
      int head = done ? p.kv_heads : p.kv_heads > 1 ? int(target) / of_head : 0;
      int inside = done ? 0 : int(target) - head * of_head;
      int number = last_not_above(p.batch, count, inside, [&](int i) { return before[i]; });
      int item = head * count + number, base = head * head_tiles, item_before = before[number];
      int item_start = base + starts[number], item_end = base + starts[number + 1], at = base + inside;
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
    __syncthreads();
    if (turn * 32 >= rows) return;

    stamp(4);
    uint32_t makespan = kMaxTime, bin_ns = kMaxTime;
    if (lane < kCandidates) {
      uint32_t pieces = found.most_pieces[lane];
      bin_ns = found.longest_bin[lane];
      uint64_t merge_ns = pieces > 1 ? p.merge_ns + uint64_t(pieces) * p.merge_chunk_ns : 0;
      makespan = saturated(max(bin_ns, found.stream_ns) + merge_ns);
    }
    bool least_time = makespan == __reduce_min_sync(~0u, makespan);
    uint32_t shortest = __reduce_min_sync(~0u, least_time ? bin_ns : kMaxTime);
    chosen = __ffs(__ballot_sync(~0u, least_time && bin_ns == shortest)) - 1;
  }

  stamp(5);
  // 3: write. An item-start descriptor lies at num_ctas + kv_head * max_batch + request.
  Fill fill{p.balanced && total > 0, cuts + chosen * stride, starts, head_tiles, upstream, 0, total, 0, false};
  if (!fill.listed) {
    fill.inverse_budget = inverse_of(upstream);
  } else {
    fill.reach = found.rules[chosen].reach;
    fill.budget = found.budgets[chosen].x, fill.inverse_budget = found.budgets[chosen].y;
    fill.by_weight = chosen >= kTimed;
    if (fill.by_weight) fill.before = weights, fill.of_head = weights[count];
  }
#pragma unroll 1
  for (int at = turn * 32 + lane; at < rows; at += turns * 32) {
    bool leads = at < bins;  // begins a bin
    int low = 0, limit = 0, item = at - bins, head = 0, number = item;
    if (leads) {
      if (at >= p.num_ctas) continue;
      low = fill(at), limit = fill(at + 1);
      if (low == limit) {
        int4* row = p.map + int64_t(at) * 3;
        row[0] = row[1] = make_int4(0, 0, 0, 0);
        row[2] = make_int4(-1, 0, 0, 0);
        continue;
      }
      if (fill.listed) number = item = fill.cuts[at].y >> 1;
    }
    if (!leads || fill.listed) {
      if (p.kv_heads > 1) head = item / count, number = item - head * count;
    } else {
      if (p.kv_heads > 1) head = low / head_tiles;
      number = last_not_above(p.batch, count, low - head * head_tiles, [&](int i) { return starts[i]; });
    }
    int start = starts[number], tiles = starts[number + 1] - start, request = requests[number];
    int2 homes = fill.homes(p, found, head, number, tiles);
    start += head * head_tiles;
    int end = start + tiles, index = at;
    if (!leads) {
      if (fill(homes.x) == start) continue;  // the bin's first row
      low = start, limit = fill(homes.x + 1), index = p.num_ctas + head * p.max_batch + request;
    }
    int next = -1;
    if (end < limit) {
      bool over = number + 1 == count;
      next = p.num_ctas + (head + over) * p.max_batch + requests[over ? 0 : number + 1];
    }
    int length = (tiles << p.tile_shift) - slack[number], first = (low - start) << p.tile_shift;
    int tokens = end <= limit ? length - first : (limit - low) << p.tile_shift;
    int4* row = p.map + int64_t(index) * 3;
    row[0] = make_int4(request, head, first, tokens);
    row[1] = make_int4(length, (leads ? at : homes.x) - homes.x, homes.y - homes.x + 1, 2 * homes.x + 1);
    row[2] = make_int4(next, 0, 0, 0);
  }
  stamp(6);
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    p.header[kNumEmpty] = p.batch - count;
    p.header[kPolicyChosen] = chosen;
    p.header[kBudget] = upstream;
  }
}

// Writes a compact map of upstream's rule in upstream's dense format: rows of 12 int32, a header row, `budget + 1` rows
// a bin (unused ones -1, -1, 0 ...), then the pieces of each (KV head, request). One CTA a bin.
struct DenseParams {
  const Descriptor* map;
  const int* header;
  const int* empties;
  int* dense;          // zeroed by the caller
  int num_ctas, kv_heads, batch, q_len, budget;
};

extern "C" __global__ void write_dense_map(const __grid_constant__ DenseParams p) {
  ptx::wait_for_dependencies();
  int bin = blockIdx.x, slots = p.budget + 1;
  int* rows = p.dense + 12 * (1 + int64_t(bin) * slots);
  int* counts = p.dense + 12 * (1 + int64_t(p.num_ctas) * slots);
  __shared__ int used;
  if (threadIdx.x == 0) {
    int slot = 0;
    for (int at = bin; at >= 0 && p.map[at].num_tokens; at = p.map[at].next, ++slot) {
      const Descriptor& d = p.map[at];
      int end = d.first_token + d.num_tokens;
      bool last = d.chunk + 1 == d.num_chunks;
      // The new tokens are not in the cache yet; what the last piece is too short to hold is missing from the one before.
      int missing = last ? p.q_len : (d.chunk + 2 == d.num_chunks ? max(p.q_len - (d.length - end), 0) : 0);
      int cached = d.num_tokens - missing;
      int values[9] = {d.kv_head, d.request, d.chunk, d.first_token, d.num_tokens, cached, (d.num_tokens + 63) / 64,
                       max(cached, 0) / 64, missing > 0};
      for (int i = 0; i < 9; ++i) rows[12 * slot + i] = values[i];
      if (d.chunk == 0) {
        counts[d.kv_head * p.batch + d.request] = d.num_chunks;
        atomicMax(p.dense + 5, d.num_chunks);
      }
    }
    used = slot;
    if (bin == 0) {
      p.dense[0] = slots, p.dense[1] = p.num_ctas, p.dense[2] = p.kv_heads, p.dense[3] = p.batch;
    }
  }
  __syncthreads();
  for (int slot = used + threadIdx.x; slot < slots; slot += blockDim.x) rows[12 * slot] = rows[12 * slot + 1] = -1;
}
