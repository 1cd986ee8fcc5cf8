// Builds the task map on the GPU from lengths that only the GPU knows. One launch, no synchronisation. Beside it, a
// kernel that writes such a map in upstream's format.
//
// The tiles of all (KV head, request) form one stream, KV head outermost; a fill cuts it into one interval a CTA. Every
// cut follows from prefix sums over the requests, so a thread computes it alone by binary search:
//
//   1  task_map_stream.cuh: prefix sums over the non-empty requests of one KV head, for all heads are alike
//      task_map_rules.cuh, beside them: what balanced goes by
//   2  task_map_trial.cuh, policy balanced only: a thread a cut of each fill and the bin that begins there, for the
//      predicted makespans; the least wins, and of equal ones that with the shortest longest bin
//   3  task_map_rows.cuh: a thread a bin writes the bin's first descriptor, a thread a (KV head, request) that where
//      the request starts
//
// Every CTA of the grid repeats 1 and 2 and writes its share of 3. What a warp that is not needed would do costs those
// that are needed their turns, so it waits or ends. Times are whole nanoseconds, and the candidates and their order are
// those of workbench/schedule/persistent.py, so CPU and GPU agree on every batch.
//
// Shared memory, the part between [ ] for policy balanced only:
//   starts [batch + 1] int, [ weights [batch + 1] int, cuts [kCandidates][num_ctas + 1] int2, ]
//   requests [batch] 16 bits, slack [batch] 8 bits

#include "attention_decode/task_map.cuh"
#include "attention_decode/task_map_dense.cuh"
#include "attention_decode/task_map_params.cuh"
#include "attention_decode/task_map_rows.cuh"
#include "attention_decode/task_map_rules.cuh"
#include "attention_decode/task_map_stream.cuh"
#include "attention_decode/task_map_trial.cuh"
#include "common/ptx.cuh"

#ifndef PROFILE
#define PROFILE 0  // 1: nanoseconds of the stages go to header[3..6]
#endif

constexpr int kMaxThreads = 1024;

extern "C" __global__ void __launch_bounds__(kMaxThreads, 1) build_task_map(const __grid_constant__ MapParams p) {
  extern __shared__ int shared[];
  __shared__ int3 totals_of_warps[32];
  __shared__ uint2 sums_of_warps[32];
  __shared__ Found found;

  int stride = p.num_ctas + 1;
  Stream stream;
  stream.starts = shared;
  stream.weights = stream.starts + p.batch + 1;
  Cut* cuts = reinterpret_cast<Cut*>(stream.weights + p.batch + 1);
  void* behind = p.balanced ? static_cast<void*>(cuts + kCandidates * stride) : stream.weights;
  stream.requests = reinterpret_cast<uint16_t*>(behind);
  stream.slack = reinterpret_cast<uint8_t*>(stream.requests + p.batch);

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
  int least = least_bin(p);
  if (scans || decides) {
    Run mine(p, p.scan_warps == 1 ? lane : threadIdx.x);
    // Others need not wait: they touch nothing of earlier grids before they have met these warps.
    ptx::wait_for_dependencies();
    if (PROFILE) t0 = ptx::global_nanoseconds();
    mine.read(mine.from);
    int3 run = mine.totals();

    int piece = 0x7fffffff;  // tiles; where weights do not fit, no request has a second one
    bool timed = false;
    uint32_t piece_inverse = 0;
    if (p.balanced) {
      int3 all = totals_over(p.scan_warps, max(p.scan_warps, decider + 1), run, totals_of_warps);
      int total = all.x * p.kv_heads, busy = all.y * p.kv_heads;
      timed = weight_fits(p, total, busy);
      if (timed) piece = tiles_a_piece(p, total, busy, least);
      if (decides) decide(p, found, total, all.z, piece, timed);
      if (scans) piece_inverse = inverse_of(piece);
    }
    if (scans) write_stream(p, stream, found.head, mine, run, piece, piece_inverse, timed, sums_of_warps);
  }
  __syncthreads();
  HeadSums sums = found.head;
  int total = sums.tiles * p.kv_heads;
  int even = divide_up_by_ctas(p, total);
  int upstream = max(max(even, p.floor_tiles), 1);

  stamp(3);
  // The CTAs take turns at the rows warp by warp, so that each writes as little as can be. A warp has bins or items.
  int bins = (p.num_ctas + 31) / 32 * 32, rows = bins + p.kv_heads * sums.count;
  int turn = warp * gridDim.x + blockIdx.x, turns = warps * gridDim.x;
  int chosen = kUpstream;
  if (p.balanced && total > 0) {
    try_candidates(p, stream, sums, found, cuts, least, warp, warps, lane, stride);
    __syncthreads();
    if (turn * 32 >= rows) return;

    stamp(4);
    chosen = cheapest(p, found);
  }

  stamp(5);
  Fill fill = chosen_fill(p, stream, sums, found, cuts, chosen, upstream, total);
#pragma unroll 1
  for (int at = turn * 32 + lane; at < rows; at += turns * 32) write_row(p, stream, sums, found, fill, bins, at);
  stamp(6);
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    p.header[kNumEmpty] = p.batch - sums.count;
    p.header[kPolicyChosen] = chosen;
    p.header[kBudget] = upstream;
  }
}

extern "C" __global__ void write_dense_map(const __grid_constant__ DenseParams p) {
  ptx::wait_for_dependencies();
  write_dense_bin(p, blockIdx.x);
}
