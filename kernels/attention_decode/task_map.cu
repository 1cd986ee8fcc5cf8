// Builds the task map on the GPU from lengths that only the GPU knows. One launch, no synchronisation.
//
// The tiles of all (KV head, request) form one stream, KV head outermost; a fill cuts it into one interval a CTA. Every
// cut follows from prefix sums over the requests, so a thread computes its bin alone by binary search:
//
//   1  prefix sums over the requests of one KV head (all heads are alike): tiles, non-empty requests
//   2  policy balanced only: cuts of the candidates, the fullest bin of each, predicted makespan of each; least wins
//   3  a thread a bin writes the bin's first descriptor, a thread a (KV head, request) the one where that request starts
//
// Every CTA of the grid repeats 1 and 2 and writes its share of 3. Times are integer nanoseconds and the candidates and
// their order are those of workbench/schedule/policies.py, so CPU and GPU agree on every batch.
//
// Shared memory: tiles [batch + 1] | rank [batch + 1] | pieces [batch + 1] | cuts of three fills [ctas + 1] each

#include "common/types.cuh"

#include "attention_decode/task_map.cuh"
#include "common/ptx.cuh"

#ifndef PROFILE
#define PROFILE 0  // 1: nanoseconds of the stages go to header[3..7]
#endif

constexpr int kThreads = 1024;
constexpr int kWarps = kThreads / 32;
constexpr int kFloors = 6;  // bins of at least 1, 2, 4, 8, 16, 32 tiles
constexpr int kSnapShare = 8;
constexpr long long kNever = 0x7fffffffffffffffll;

// Candidates in the order in which ties are decided.
enum Candidate { kUpstream = 0, kFirstFloor = 1, kEven = kFirstFloor + kFloors, kEvenSnapped, kTimed, kTimedSnapped, kCandidates };
enum CutArray { kEvenSnappedCuts = 0, kTimedCuts, kTimedSnappedCuts, kCutArrays };

struct MapParams {
  const int* lengths;      // [batch]
  int4* map;               // [num_ctas + kv_heads * max_batch] descriptors
  int* header;             // see task_map.cuh
  int* empties;            // [max_batch]
  int batch, max_batch, kv_heads, num_ctas;
  int tile;
  int floor_tiles;         // work floor of the upstream rule
  int max_length;          // lengths beyond 0 .. max_length, which the host cannot see, count as the nearest of the two
  int balanced;            // 0: upstream's rule
  // Cost model, integer nanoseconds.
  int tile_bytes, bytes_per_us, cta_tile_ns, shared_tile_ns, descriptor_ns, partial_ns, merge_ns, merge_chunk_ns;
};

// 64-bit division is a long subroutine; where both fit 32 bits the hardware's helps.
__device__ __forceinline__ int divide_up(int a, int b) { return int((unsigned(a) + b - 1) / unsigned(b)); }
__device__ __noinline__ int64_t divide(int64_t a, int64_t b) {
  return ((a | b) >> 32) == 0 ? int64_t(uint32_t(a) / uint32_t(b)) : a / b;
}
__device__ __forceinline__ int64_t divide_up(int64_t a, int64_t b) { return divide(a + b - 1, b); }

// Exclusive prefix sums over the block of two values a thread; `total` gets the sums.
__device__ int2 block_scan(int2 value, int2* warp_sums, int2& total) {
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int2 sum = value;
  for (int d = 1; d < 32; d *= 2) {
    int x = __shfl_up_sync(~0u, sum.x, d), y = __shfl_up_sync(~0u, sum.y, d);
    if (lane >= d) sum.x += x, sum.y += y;
  }
  if (lane == 31) warp_sums[warp] = sum;
  __syncthreads();
  int2 all = warp_sums[lane];
  for (int d = 1; d < 32; d *= 2) {
    int x = __shfl_up_sync(~0u, all.x, d), y = __shfl_up_sync(~0u, all.y, d);
    if (lane >= d) all.x += x, all.y += y;
  }
  total = make_int2(__shfl_sync(~0u, all.x, 31), __shfl_sync(~0u, all.y, 31));
  int previous = warp > 0 ? warp - 1 : 0;
  int2 before = make_int2(__shfl_sync(~0u, all.x, previous), __shfl_sync(~0u, all.y, previous));
  if (warp == 0) before = make_int2(0, 0);
  return make_int2(before.x + sum.x - value.x, before.y + sum.y - value.y);
}

// Last i in [0, n) with array[i] <= x; array[0] <= x.
template <typename Get>
__device__ __forceinline__ int last_not_above(int n, int64_t x, Get get) {
  int low = 0, high = n;  // array[low] <= x < array[high]
  while (high - low > 1) {
    int middle = (low + high) >> 1;
    if (get(middle) <= x) low = middle; else high = middle;
  }
  return low;
}

struct Stream {
  const int* tiles;  // prefix sums over the requests of one head
  const int* rank;   // non-empty requests before
  int batch, heads;
  int head_tiles, total;

  struct Item { int head, request, start, end; };  // [start, end) in the stream

  __device__ __forceinline__ Item at(int position) const {
    int head = heads > 1 ? position / head_tiles : 0, inside = position - head * head_tiles;
    int request = last_not_above(batch, inside, [&](int i) { return int64_t(tiles[i]); });
    return {head, request, head * head_tiles + tiles[request], head * head_tiles + tiles[request + 1]};
  }
  __device__ __forceinline__ int order(const Item& i) const { return i.head * rank[batch] + rank[i.request]; }
};

// Where a fill cuts the stream: every `budget` tiles, or at `array`.
struct Cuts {
  const int* array;
  int budget;
  int num, total;

  __device__ __forceinline__ int operator()(int c) const {
    if (array) return array[c];
    int64_t at = int64_t(c) * budget;
    return at < total ? int(at) : total;
  }
  // The bin that holds `position`.
  __device__ __forceinline__ int home(int position) const {
    if (!array) return position / budget;
    return last_not_above(num, position, [&](int i) { return int64_t(array[i]); });
  }
};

__device__ __forceinline__ int read_length(const MapParams& p, int request) {
  return min(max(__ldcg(p.lengths + request), 0), p.max_length);
}

__device__ __forceinline__ int snap(const Stream& s, int cut, int reach) {
  if (cut >= s.total) return s.total;
  Stream::Item i = s.at(cut);
  int back = cut - i.start, ahead = i.end - cut;
  if (min(back, ahead) > reach) return cut;
  return back <= ahead ? i.start : i.end;
}

// Cuts of equal time: see weighted_cuts in workbench/schedule/fills.py.
struct Timed {
  const int* tiles;
  const int* pieces;  // prefix sums of ceil(tiles / piece)
  int batch, heads, total, head_tiles;
  int64_t tile_ns, descriptor_ns, piece, head_weight, capacity;

  __device__ __forceinline__ int64_t weight(int i) const { return tiles[i] * tile_ns + pieces[i] * descriptor_ns; }

  __device__ __forceinline__ int operator()(int c) const {
    int64_t target = c * capacity;
    if (target >= head_weight * heads) return total;
    int head = heads > 1 ? int(divide(target, head_weight)) : 0;
    int64_t inside = target - head * head_weight;
    int i = last_not_above(batch, inside, [&](int j) { return weight(j); });
    inside -= weight(i);
    int64_t period = piece * tile_ns + descriptor_ns;
    int64_t whole = divide(inside, period), rest = inside - whole * period - descriptor_ns;
    int64_t cut = tiles[i] + whole * piece + (rest > 0 ? divide(rest, tile_ns) : 0);
    return head * head_tiles + int(min(cut, int64_t(tiles[i + 1])));
  }
};

// Predicted time of bin [low, high), and the pieces of its first request up to there: the last piece of a split request
// is the first of its bin.
__device__ __forceinline__ int64_t bin_ns(const MapParams& p, const Stream& s, const Cuts& cuts, int c, int low, int high,
                                          int64_t tile_ns, int& chunks) {
  Stream::Item first = s.at(low), last = s.at(high - 1);
  bool same = first.start == last.start;
  int descriptors = s.order(last) - s.order(first) + 1;
  int split = (low > first.start || high < first.end) + (!same && high < last.end);
  chunks = c - cuts.home(first.start) + 1;
  return (high - low) * tile_ns + int64_t(descriptors) * p.descriptor_ns + int64_t(split) * p.partial_ns;
}

extern "C" __global__ void __launch_bounds__(kThreads, 1) build_task_map(const __grid_constant__ MapParams p) {
  extern __shared__ int shared[];
  __shared__ int2 warp_sums[2][32];
  __shared__ int fullest[kCandidates], most_chunks[kCandidates];
  __shared__ long long longest[kCandidates];
  __shared__ int unusable[kCutArrays];

  int* tiles = shared;
  int* rank = tiles + p.batch + 1;
  int* pieces = rank + p.batch + 1;
  int* arrays = pieces + p.batch + 1;  // [kCutArrays][num_ctas + 1]
  int stride = p.num_ctas + 1;

  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  uint64_t t0 = PROFILE ? ptx::global_nanoseconds() : 0;
  auto stamp = [&](int i) {
    if (PROFILE && blockIdx.x == 0 && threadIdx.x == 0) p.header[i] = int(ptx::global_nanoseconds() - t0);
  };
  // 1: each thread sums a run of consecutive requests, then the runs are scanned.
  int each = (p.batch + kThreads - 1) / kThreads;
  int from = min(int(threadIdx.x) * each, p.batch), to = min(from + each, p.batch);
  int2 mine = make_int2(0, 0), all;  // tiles, requests that have any
  for (int i = from; i < to; ++i) {
    int t = (read_length(p, i) + p.tile - 1) / p.tile;
    tiles[i + 1] = t;
    mine.x += t, mine.y += t > 0;
  }
  int2 before = block_scan(mine, warp_sums[0], all);
  int head_tiles = all.x, busy = all.y;
  if (threadIdx.x == 0) tiles[0] = rank[0] = pieces[0] = 0;
  for (int i = from; i < to; ++i) {
    int t = tiles[i + 1];
    if (t == 0 && blockIdx.x == 0) p.empties[i - before.y] = i;
    tiles[i + 1] = before.x += t;
    rank[i + 1] = before.y += t > 0;
  }
  Stream stream{tiles, rank, p.batch, p.kv_heads, head_tiles, head_tiles * p.kv_heads};
  int total = stream.total;
  int even = divide_up(total, p.num_ctas);
  int upstream = max(max(even, p.floor_tiles), 1);
  if (threadIdx.x < kCandidates) {
    fullest[threadIdx.x] = 0;
    most_chunks[threadIdx.x] = 0;
    longest[threadIdx.x] = 0;
  }
  if (threadIdx.x < kCutArrays) unusable[threadIdx.x] = 0;
  __syncthreads();

  stamp(3);
  int chosen = kUpstream;
  bool timed_usable = false;
  int reach = even / kSnapShare;
  if (p.balanced && total > 0) {
    // 2a: cuts of the fills that have no closed form.
    Timed timed{tiles, pieces, p.batch, p.kv_heads, total, head_tiles, p.shared_tile_ns, p.descriptor_ns, 0, 0, 0};
    int64_t capacity =
        divide_up(total * timed.tile_ns + int64_t(busy) * p.kv_heads * timed.descriptor_ns, int64_t(p.num_ctas));
    timed_usable = capacity >= 2 * (timed.descriptor_ns + timed.tile_ns);
    if (timed_usable) {
      timed.piece = min(divide(capacity - timed.descriptor_ns, timed.tile_ns), int64_t(total));
      mine = make_int2(0, 0);
      for (int i = from; i < to; ++i) mine.x += divide_up(tiles[i + 1] - tiles[i], int(timed.piece));
      before = block_scan(mine, warp_sums[1], all);
      int head_pieces = all.x;
      for (int i = from; i < to; ++i) pieces[i + 1] = before.x += divide_up(tiles[i + 1] - tiles[i], int(timed.piece));
      timed.head_weight = head_tiles * timed.tile_ns + head_pieces * timed.descriptor_ns;
      timed.capacity = divide_up(timed.head_weight * p.kv_heads, int64_t(p.num_ctas));
      __syncthreads();
    }
    Cuts equal{nullptr, max(even, 1), p.num_ctas, total};
    for (int c = threadIdx.x; c <= p.num_ctas; c += kThreads) {
      if (reach) arrays[kEvenSnappedCuts * stride + c] = snap(stream, equal(c), reach);
      if (timed_usable) {
        int cut = timed(c);
        arrays[kTimedCuts * stride + c] = cut;
        if (reach) arrays[kTimedSnappedCuts * stride + c] = snap(stream, cut, reach);
      }
    }
    __syncthreads();
  }

  stamp(4);
  auto cuts_of = [&](int candidate) {
    Cuts cuts{nullptr, upstream, p.num_ctas, total};
    if (candidate >= kFirstFloor && candidate < kEven) cuts.budget = 1 << (candidate - kFirstFloor);
    if (candidate == kEven) cuts.budget = max(even, 1);
    if (candidate > kEven) cuts.array = arrays + (candidate - kEvenSnapped) * stride;
    return cuts;
  };
  auto considered = [&](int candidate) {
    if (candidate >= kFirstFloor && candidate < kEven) return (1 << (candidate - kFirstFloor)) > even;
    if (candidate == kEvenSnapped) return reach > 0;
    if (candidate == kTimed) return timed_usable;
    if (candidate == kTimedSnapped) return timed_usable && reach > 0;
    return true;
  };

  if (p.balanced && total > 0) {
    // 2b: the fullest bin of each fill; a fill with an empty bin before a full one is out.
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    constexpr int warps_an_array = kWarps / kCutArrays;
    int array = warp / warps_an_array;
    if (array < kCutArrays && considered(kEvenSnapped + array)) {
      int most = 0;
      const int* cuts = arrays + array * stride;
      for (int c = threadIdx.x - array * warps_an_array * 32; c < p.num_ctas; c += warps_an_array * 32) {
        int low = cuts[c], high = cuts[c + 1];
        if (low == high && low < total) unusable[array] = 1;
        most = max(most, high - low);
      }
      most = __reduce_max_sync(~0u, most);
      if (lane == 0) atomicMax(&fullest[kEvenSnapped + array], most);
    }
    if (threadIdx.x <= kEven) fullest[threadIdx.x] = min(cuts_of(threadIdx.x).budget, total);
    __syncthreads();

    stamp(5);
    // 2c: the longest bin and the most pieces of a request. The fills considered share the warps.
    int number = 0;
    for (int candidate = 0; candidate < kCandidates; ++candidate) number += considered(candidate);
    int warps_each = kWarps / number, turn = warp / warps_each, candidate = 0;
    for (int left = turn; candidate < kCandidates; ++candidate)
      if (considered(candidate) && left-- == 0) break;
    if (candidate < kCandidates) {
      Cuts cuts = cuts_of(candidate);
      int64_t stream_ns = divide_up(int64_t(total) * p.tile_bytes * 1000, int64_t(p.bytes_per_us));
      int64_t tile_ns = max(int64_t(p.cta_tile_ns), divide_up(stream_ns, int64_t(fullest[candidate])));
      long long most_ns = 0;
      int most = 0;
      for (int c = threadIdx.x - turn * warps_each * 32; c < p.num_ctas; c += warps_each * 32) {
        int low = cuts(c), high = cuts(c + 1), chunks;
        if (low == high) continue;
        most_ns = max(most_ns, (long long)bin_ns(p, stream, cuts, c, low, high, tile_ns, chunks));
        most = max(most, chunks);
      }
      for (int d = 16; d > 0; d /= 2) most_ns = max(most_ns, __shfl_xor_sync(~0u, most_ns, d));
      most = __reduce_max_sync(~0u, most);
      if (lane == 0) {
        atomicMax(&longest[candidate], most_ns);
        atomicMax(&most_chunks[candidate], most);
      }
    }
    __syncthreads();
    long long least = kNever;
    for (candidate = 0; candidate < kCandidates; ++candidate) {
      bool usable = considered(candidate) && !(candidate > kEven && unusable[candidate - kEvenSnapped]);
      int chunks = most_chunks[candidate];
      long long ns = longest[candidate] + (chunks > 1 ? p.merge_ns + int64_t(chunks) * p.merge_chunk_ns : 0);
      if (usable && ns < least) least = ns, chosen = candidate;
    }
  }

  stamp(6);
  // 3: write. An item-start descriptor lies at num_ctas + kv_head * max_batch + request.
  Cuts cuts = cuts_of(chosen);
  auto write = [&](int index, int bin, int low, const Stream::Item& item) {
    int high = min(cuts(bin + 1), item.end);
    int next = -1;
    if (high < cuts(bin + 1)) {
      Stream::Item following = stream.at(high);
      next = p.num_ctas + following.head * p.max_batch + following.request;
    }
    int home = cuts.home(item.start);
    int length = read_length(p, item.request);
    int first = (low - item.start) * p.tile;
    int tokens = int(min(int64_t(high - item.start) * p.tile, int64_t(length))) - first;
    int4* row = p.map + int64_t(index) * 3;
    row[0] = make_int4(item.request, item.head, first, tokens);
    row[1] = make_int4(length, bin - home, cuts.home(item.end - 1) - home + 1, 2 * home + 1);
    row[2] = make_int4(next, 0, 0, 0);
  };
  int items = p.kv_heads * p.batch;
  for (int at = blockIdx.x * kThreads + threadIdx.x; at < p.num_ctas + items; at += gridDim.x * kThreads) {
    if (at < p.num_ctas) {
      int low = cuts(at);
      if (low == cuts(at + 1)) {
        p.map[int64_t(at) * 3] = make_int4(0, 0, 0, 0);
        p.map[int64_t(at) * 3 + 1] = make_int4(0, 0, 0, 0);
        p.map[int64_t(at) * 3 + 2] = make_int4(-1, 0, 0, 0);
      } else {
        write(at, at, low, stream.at(low));
      }
    } else {
      int head = (at - p.num_ctas) / p.batch, request = at - p.num_ctas - head * p.batch;
      int start = head * head_tiles + tiles[request], end = head * head_tiles + tiles[request + 1];
      if (start == end) continue;
      int bin = cuts.home(start);
      if (cuts(bin) != start) write(p.num_ctas + head * p.max_batch + request, bin, start, {head, request, start, end});
    }
  }
  stamp(7);
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    p.header[kNumEmpty] = p.batch - busy;
    p.header[kPolicyChosen] = chosen;
    p.header[kBudget] = upstream;
  }
}

// Writes a compact map of upstream's rule in upstream's dense format: rows of 12 int32, a header row, `budget + 1` rows a
// bin (unused ones -1, -1, 0 ...), then the pieces of each (KV head, request). One CTA a bin.
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
