// Router GEMM: y = x W^T for bf16 activations x [M, K] and an FP32 weight W [N, K] split into bf16 terms,
// W = W0 + W1 / 256 (+ W2 / 65536). All products come from one load of x.
//
// A CTA computes a tile of TILE_M tokens and TILE_N experts over its part of K. The terms of the tile's weight rows are
// stacked in shared memory, so one wgmma of TERMS * TILE_N columns multiplies x with all of them; each term has its own
// FP32 accumulators, and a thread holds the same (token, expert) of every term. Every PROMOTE blocks of K, and at the end,
// total += (acc0 + acc1 / 256) in FP32 registers: the tensor core truncates when it adds, so its chains are kept short.
//
//   few tokens  below 64, the copy of x brings only TILE_M rows; a wgmma reads what lies behind them as further rows, whose
//               results are dropped
//   weights     lie in memory as [blocks of 64 of K][terms][N][64]: what a stage takes of a term is one run of bytes
//   split K     SPLIT_K CTAs of a cluster share a tile. A warp's 16 x 8 of totals are a unit; unit u belongs to CTA
//               u % SPLIT_K. Each CTA sends each unit to its owner by stores that count at the owner's barrier; the owner
//               adds them in the order of the ranks, so the result does not depend on timing
//   multicast   MULTICAST CTAs of a cluster, neighbours along M, load a share of the weight rows each for all of them
//   persistent  without split K, a CTA takes tiles until none is left; copies run ahead across tiles
//   PDL         weights do not depend on the kernel ahead: the ring is filled with them before its results are waited for
//
// Shared memory:  ring [STAGES][x: TILE_M rows | W: TERMS * TILE_N rows] of 128-byte rows, swizzled by the copy engine |
//                 pad (a wgmma reads 64 rows of x) | parts [SPLIT_K][slots][32 lanes][unit] f32 |
//                 barriers full, empty [STAGES], gathered
// Barriers:       full: the bytes of a stage; empty: one arrival a warp of every CTA that the stage's weights came from;
//                 gathered: the bytes of all parts.
//                 Waits end: a barrier that never completes gives NaN.
//
// Compile-time: TILE_M, TILE_N, TERMS, STAGES, SPLIT_K, MULTICAST, PROMOTE, OUT_BF16.

#include "common/cluster.cuh"
#include "common/ptx.cuh"
#include "common/wgmma.cuh"

constexpr int kBlock = 64;  // elements of K a stage: the 128 bytes of a swizzled row
constexpr int kRowBytes = 128;
constexpr int kWarpgroupRows = 64;
constexpr int kWarpgroups = TILE_M > kWarpgroupRows ? TILE_M / kWarpgroupRows : 1;
constexpr int kConsumers = 128 * kWarpgroups;
// One warp copies. Two warpgroups need more registers than an even share: the copying warp is then one of a whole
// warpgroup, which gives most of its own away.
constexpr bool kUnevenRegisters = kWarpgroups > 1;
constexpr int kThreads = kConsumers + (kUnevenRegisters ? 128 : 32);
constexpr int kCopyRegisters = 40, kMultiplyRegisters = 232;  // 40 + 2 * 232 <= 65,536 / 128
constexpr int kColumns = TERMS * TILE_N;
constexpr int kXBytes = TILE_M * kRowBytes, kTermBytes = TILE_N * kRowBytes, kStageBytes = kXBytes + TERMS * kTermBytes;
constexpr int kReadBytes = kWarpgroups * kWarpgroupRows * kRowBytes;  // of x by the tensor cores
constexpr int kPadBytes = kReadBytes > kStageBytes ? kReadBytes - kStageBytes : 0;
constexpr int kUnitRows = TILE_M < 16 ? TILE_M : 16, kUnitColumns = 8;  // what a warp holds in a few registers
constexpr int kUnitRow = TILE_N / kUnitColumns;                           // units side by side
constexpr int kUnits = TILE_M / kUnitRows * kUnitRow;
constexpr int kUnitValues = kUnitRows * kUnitColumns / 32;  // of a lane
constexpr int kUnitBytes = kUnitRows * kUnitColumns * 4;
constexpr int kSlots = (kUnits + SPLIT_K - 1) / SPLIT_K;  // units of a tile that a CTA owns
constexpr int kPartsBytes = SPLIT_K > 1 ? SPLIT_K * kSlots * kUnitBytes : 0;
constexpr int kCluster = SPLIT_K * MULTICAST;
constexpr int kShareRows = TILE_N / MULTICAST, kShareBytes = kShareRows * kRowBytes;
constexpr int kTermsAtOnce = MULTICAST == 1 ? TERMS : 1;  // shares of further terms do not follow one another
constexpr float kTermScale = 1.0f / 256;

static_assert(TILE_M >= 8 && (TILE_M >= kWarpgroupRows ? TILE_M % kWarpgroupRows : TILE_M % 8) == 0);
static_assert(kShareRows % 8 == 0, "a share is whole swizzle atoms");

struct Params {
  ptx::TensorMap x;  // [M, K], box [TILE_M, 64]
  ptx::TensorMap w;  // [blocks, TERMS, N, 64], box [1, TERMS or 1, TILE_N / MULTICAST, 64]
  uint8_t* out;      // [M, N], contiguous
  int m, n;
  int blocks;        // of K
  int tiles_n;
  int tiles;         // clusters' worth of work
  int early;         // the weights are older than the kernel ahead
};

// One cluster's share of the work: tiles of neighbouring experts follow one another, for they share x.
struct Tile {
  int m, n;  // first token and expert

  __device__ __forceinline__ Tile(const Params& p, int index, int m_rank)
      : m((index / p.tiles_n * MULTICAST + m_rank) * TILE_M), n(index % p.tiles_n * TILE_N) {}
};

struct Shared {
  uint32_t ring, parts, full, empty, gathered;

  __device__ __forceinline__ explicit Shared(uint32_t base)
      : ring(base), parts(base + STAGES * kStageBytes + kPadBytes), full(parts + kPartsBytes), empty(full + 8 * STAGES),
        gathered(empty + 8 * STAGES) {}
  __device__ __forceinline__ uint32_t x(int stage) const { return ring + stage * kStageBytes; }
  __device__ __forceinline__ uint32_t w(int stage) const { return x(stage) + kXBytes; }
};

// A place in the ring and which time round it is.
struct Place {
  int stage = 0;
  uint32_t parity = 0;

  __device__ __forceinline__ void advance() {
    if (++stage == STAGES) stage = 0, parity ^= 1;
  }
};

// ---- the copying warp ------------------------------------------------------------------------------------------

__device__ __forceinline__ void copy_w(const Params& p, const Shared& s, const Tile& tile, int stage, int block, int m_rank,
                                       int k_rank) {
#pragma unroll
  for (int term = 0; term < TERMS; term += kTermsAtOnce) {
    uint32_t to = s.w(stage) + term * kTermBytes + m_rank * kShareBytes, barrier = s.full + 8 * stage;
    int row = tile.n + m_rank * kShareRows;
    if constexpr (MULTICAST == 1) {
      ptx::copy_box(to, &p.w, barrier, 0, row, term, block);
    } else {
      uint32_t all = 0;
      for (int peer = 0; peer < MULTICAST; ++peer) all |= 1u << (peer * SPLIT_K + k_rank);
      ptx::copy_box_to_many(to, &p.w, barrier, 0, row, term, block, all);
    }
  }
}

__device__ __forceinline__ void copy_x(const Params& p, const Shared& s, const Tile& tile, int stage, int block) {
  ptx::copy_box(s.x(stage), &p.x, s.full + 8 * stage, block * kBlock, tile.m);
}

__device__ __forceinline__ void produce(const Params& p, const Shared& s, int cluster, int clusters, int first, int last,
                                        int m_rank, int k_rank) {
  Tile tile(p, cluster, m_rank);
  int filled = min(STAGES, last - first);
  if (!p.early) ptx::wait_for_dependencies();
  for (int i = 0; i < filled; ++i) {
    ptx::arrive_expecting(s.full + 8 * i, kStageBytes);
    copy_w(p, s, tile, i, first + i, m_rank, k_rank);
  }
  if (p.early) ptx::wait_for_dependencies();
  for (int i = 0; i < filled; ++i) copy_x(p, s, tile, i, first + i);

  Place place{filled == STAGES ? 0 : filled, filled == STAGES ? 1u : 0u};
  bool patient = true;
#pragma unroll 1
  for (int index = cluster, block = first + filled; index < p.tiles; index += clusters, block = first) {
    Tile here(p, index, m_rank);
#pragma unroll 1
    for (; block < last; ++block, place.advance()) {
      // The first time round nothing has to be emptied: a new barrier counts as past the phase before its first.
      if (patient) patient = ptx::wait_barrier_patiently(s.empty + 8 * place.stage, place.parity ^ 1);
      ptx::arrive_expecting(s.full + 8 * place.stage, kStageBytes);
      copy_w(p, s, here, place.stage, block, m_rank, k_rank);
      copy_x(p, s, here, place.stage, block);
    }
  }
}

// ---- the multiplying warps -------------------------------------------------------------------------------------

// Says that this warp no longer reads a stage, to every CTA that writes it.
__device__ __forceinline__ void release(const Shared& s, int stage, int k_rank, int lane) {
  uint32_t barrier = s.empty + 8 * stage;
  if constexpr (MULTICAST == 1) {
    if (lane == 0) ptx::arrive(barrier);
  } else {
    if (lane < MULTICAST) ptx::arrive_in_cluster(ptx::address_in(barrier, lane * SPLIT_K + k_rank));
  }
}

using Totals = float[TILE_N / 2];

__device__ __forceinline__ float not_a_number() { return __int_as_float(0x7fffffff); }

// Adds up blocks of K. False when a copy never came.
__device__ __forceinline__ bool accumulate(const Shared& s, Totals& total, Place& place, int blocks, int warpgroup, int k_rank,
                                           int lane) {
  float acc[kColumns / 2];
#pragma unroll
  for (int i = 0; i < TILE_N / 2; ++i) total[i] = 0.0f;
#pragma unroll
  for (int i = 0; i < kColumns / 2; ++i) acc[i] = 0.0f;
  bool patient = true;
#pragma unroll 1
  for (int left = blocks; left > 0; left -= PROMOTE) {
    int before = 0;
#pragma unroll 1
    for (int i = 0, chain = min(left, PROMOTE); i < chain; ++i, place.advance()) {
      if (patient) patient = ptx::wait_barrier_patiently(s.full + 8 * place.stage, place.parity);
      uint64_t a = ptx::describe_tile(s.x(place.stage) + warpgroup * kWarpgroupRows * kRowBytes);
      uint64_t b = ptx::describe_tile(s.w(place.stage));
      ptx::wgmma_fence();
#pragma unroll
      for (int k = 0; k < kBlock / 16; ++k) ptx::wgmma<kColumns>(acc, a + 2 * k, b + 2 * k, i | k);
      ptx::wgmma_commit();
      if (i > 0) {
        ptx::wgmma_wait<1>();
        release(s, before, k_rank, lane);
      }
      before = place.stage;
    }
    ptx::wgmma_wait<0>();
    ptx::hold(acc);
    release(s, before, k_rank, lane);
#pragma unroll
    for (int i = 0; i < TILE_N / 2; ++i) {
      float low = acc[(TERMS - 1) * TILE_N / 2 + i];
      if constexpr (TERMS == 3) low = fmaf(low, kTermScale, acc[TILE_N / 2 + i]);
      total[i] += fmaf(low, kTermScale, acc[i]);
    }
  }
  return patient;
}

__device__ __forceinline__ void store(const Params& p, int row, int column, float2 y) {
  int64_t at = int64_t(row) * p.n + column;
  if constexpr (OUT_BF16) *reinterpret_cast<uint32_t*>(p.out + 2 * at) = ptx::pack_bf16(y.x, y.y);
  else *reinterpret_cast<float2*>(p.out + 4 * at) = y;
}

// Calls use(row of the tile, column of the tile, two neighbouring totals) for what this thread holds of the tile.
template <class Use>
__device__ __forceinline__ void for_each_pair(const Totals& total, int rows, int warp, int lane, Use use) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    int row = warp * 16 + half * 8 + lane / 4;
    if (row >= rows) continue;
#pragma unroll
    for (int j = 0; j < TILE_N / 8; ++j) {
      use(row, 8 * j + 2 * (lane % 4), make_float2(total[4 * j + 2 * half], total[4 * j + 2 * half + 1]));
    }
  }
}

// Units of the tile that this CTA owns, of those that hold tokens.
__device__ __forceinline__ int owned_units(int rows, int k_rank) {
  return ((rows + kUnitRows - 1) / kUnitRows * kUnitRow - k_rank + SPLIT_K - 1) / SPLIT_K;
}

// Sends each unit to its owner.
__device__ __forceinline__ void send(const Shared& s, const Totals& total, int rows, int m_rank, int k_rank, int warp, int lane) {
  if (warp * kUnitRows >= rows) return;
#pragma unroll
  for (int j = 0; j < kUnitRow; ++j) {
    int unit = warp * kUnitRow + j, owner = m_rank * SPLIT_K + unit % SPLIT_K;
    uint32_t at = s.parts + (k_rank * kSlots + unit / SPLIT_K) * kUnitBytes + lane * kUnitValues * 4;
    uint32_t to = ptx::address_in(at, owner), barrier = ptx::address_in(s.gathered, owner);
    if constexpr (kUnitValues == 4) {
      ptx::store_counted(to, make_float4(total[4 * j], total[4 * j + 1], total[4 * j + 2], total[4 * j + 3]), barrier);
    } else {
      ptx::store_counted(to, make_float2(total[4 * j], total[4 * j + 1]), barrier);
    }
  }
}

// Adds up the parts of the units that this CTA owns.
__device__ __forceinline__ void finish(const Params& p, const Shared& s, const uint8_t* parts, const Tile& tile, int rows,
                                       int k_rank, int lane) {
  bool whole = ptx::wait_barrier_patiently(s.gathered, 0);
  const float2* from = reinterpret_cast<const float2*>(parts) + lane * (kUnitValues / 2);
#pragma unroll 1
  for (int slot = threadIdx.x / 32; slot < owned_units(rows, k_rank); slot += kConsumers / 32) {
    int unit = slot * SPLIT_K + k_rank;
    int row = unit / kUnitRow * kUnitRows + lane / 4, column = tile.n + unit % kUnitRow * kUnitColumns + 2 * (lane % 4);
#pragma unroll
    for (int half = 0; half < kUnitValues / 2; ++half, row += 8) {
      float2 y = make_float2(0.0f, 0.0f);
#pragma unroll
      for (int rank = 0; rank < SPLIT_K; ++rank) {
        float2 part = from[(rank * kSlots + slot) * (kUnitBytes / 8) + half];
        y.x += part.x, y.y += part.y;
      }
      if (!whole) y.x = y.y = not_a_number();
      if (row < rows && column < p.n) store(p, tile.m + row, column, y);
    }
  }
}

extern "C" __global__ void __launch_bounds__(kThreads, 1) router_gemm(const __grid_constant__ Params p) {
  extern __shared__ __align__(1024) uint8_t memory[];
  const Shared s(ptx::shared_address(memory));
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int rank = blockIdx.x % kCluster, k_rank = rank % SPLIT_K, m_rank = rank / SPLIT_K;
  const int cluster = blockIdx.x / kCluster, clusters = gridDim.x / kCluster;
  const int first = p.blocks * k_rank / SPLIT_K, last = p.blocks * (k_rank + 1) / SPLIT_K;
  const bool copies = warp >= kConsumers / 32, copier = threadIdx.x == kConsumers;

  if (copier) {
    ptx::prefetch_tensor_map(&p.w);
    ptx::prefetch_tensor_map(&p.x);
    for (int i = 0; i < STAGES; ++i) {
      ptx::init_barrier(s.full + 8 * i, 1);
      ptx::init_barrier(s.empty + 8 * i, MULTICAST * kConsumers / 32);
    }
    if constexpr (SPLIT_K > 1) {
      int rows = min(TILE_M, p.m - Tile(p, cluster, m_rank).m);
      ptx::init_barrier(s.gathered, 1);
      ptx::arrive_expecting(s.gathered, SPLIT_K * kUnitBytes * owned_units(max(rows, 0), k_rank));
    }
    ptx::fence_barrier_init();
  }
  __syncwarp();
  if constexpr (kCluster > 1) ptx::arrive_cluster_relaxed();
  if constexpr (MULTICAST == 1) __syncthreads();
  if (p.early) ptx::launch_dependents();  // else when this grid ends: then the weights have been waited for
  if constexpr (MULTICAST > 1) ptx::wait_cluster();  // the barriers of all CTAs are there

  if (copies) {
    if constexpr (kUnevenRegisters) ptx::release_registers<kCopyRegisters>();
    if (copier) produce(p, s, cluster, clusters, first, last, m_rank, k_rank);
    __syncwarp();
    if constexpr (kCluster > 1 && MULTICAST == 1) ptx::wait_cluster();
  } else {
    if constexpr (kUnevenRegisters) ptx::claim_registers<kMultiplyRegisters>();
    ptx::wait_for_dependencies();  // `out` may be read by the kernel ahead; and patience begins after it
    Place place;
#pragma unroll 1
    for (int index = cluster; index < p.tiles; index += clusters) {
      Tile tile(p, index, m_rank);
      int rows = min(TILE_M, p.m - tile.m);
      Totals total;
      bool whole = accumulate(s, total, place, last - first, warp / 4, k_rank, lane);
      if (!whole || (s.ring & 1023)) {
#pragma unroll
        for (int i = 0; i < TILE_N / 2; ++i) total[i] = not_a_number();
      }
      if constexpr (SPLIT_K == 1) {
        for_each_pair(total, rows, warp, lane, [&](int row, int column, float2 y) {
          if (tile.n + column < p.n) store(p, tile.m + row, tile.n + column, y);
        });
      } else {  // one tile a cluster
        if constexpr (MULTICAST == 1) ptx::wait_cluster();  // the barriers of all owners are there
        send(s, total, rows, m_rank, k_rank, warp, lane);
        finish(p, s, memory + (s.parts - s.ring), tile, rows, k_rank, lane);
      }
    }
  }
  if constexpr (MULTICAST > 1) ptx::arrive_cluster(), ptx::wait_cluster();  // peers write into this CTA until they are done
}
