// Decode attention over a paged KV cache, driven by a task map.
//
// A CTA drains its bin: for each descriptor it reads the tokens [first, first + n) of one (KV head, request), as 16-token
// slabs dealt to its warps in turn. A warp is a pipeline of its own: the copy engine fills its private ring of STAGES
// slabs, which runs on across descriptors, so the next request's bytes are in flight while this one is closed.
//
//   slab        16 tokens of K and of V. Tokens (then head dims) fill the M side of mma.m16n8k16 and the query rows that
//               share the KV head (G * q_len) its N side: S^T = K Q^T, O^T += V^T P^T, so 8 rows waste nothing
//   softmax     online, in powers of two, one reference a row and warp. It moves only when a score exceeds it by more
//               than kLazyRescale, which bounds P by 2^kLazyRescale; until then no shuffle and no rescaling
//   FP8 cache   K and V are widened to fp16, which holds every E4M3 value; the order of head dims inside a product is
//               free as long as Q follows, so each thread reads whole 16-byte pieces
//   closing     warps combine through shared memory. A request in one piece goes straight to `out`. Of several pieces,
//               every kMergeGroup-th and the last lead: the others store an FP32 partial result, a leader adds up its
//               group, and the last leader adds up the groups, each warp fetching one piece into its combine buffer. A
//               partial result is its own signal: its slot holds the pattern kAbsent until it is there, and whoever used
//               it puts the pattern back. A leader waits for CTAs of lower index only, which start before it, and only
//               when its own bin is done
//
// Shared memory:  ring [WARPS][STAGES][K slab | V slab], swizzled by the copy engine | combine [WARPS][rows][HEAD_DIM] f32
//                 (in the stage that a warp emptied last, where it fits) | q fragments, 16-bit | sums [2][WARPS][rows]
//                 | row scale | K scales [WARPS][STAGES][16] | barriers
// Barriers:       one mbarrier a stage and warp (bytes of the slab); two CTA barriers a descriptor around the combine
//                 buffer. A stage is refilled by the warp that emptied it, so nothing has to say that it is free.
//
// Start:          a CTA begins when its SM is free, while others of the kernel ahead still end and the memory is half idle.
//                 Until they have ended it asks for its queries and each warp's first PREFETCH slabs to be brought to L2,
//                 by a map and a table that may still be old: at worst a wasted read.
//
// Compile-time: HEAD_DIM, CACHE_FP8, Q_FP8, GROUP, Q_LEN, WARPS, STAGES, CTAS_PER_SM, PREFETCH, K_SCALE_PER_TOKEN, TIMELINE.

#include "attention_decode/closing.cuh"
#include "attention_decode/loader.cuh"
#include "attention_decode/queries.cuh"
#include "attention_decode/shape.cuh"
#include "attention_decode/slab.cuh"
#include "common/ptx.cuh"

// Zeros for requests of length 0, dealt to the CTAs in turn.
__device__ __forceinline__ void write_empties(const Params& p, int num_empty) {
  constexpr int pieces = HEAD_DIM / 8;  // 16 bytes of bf16
  int heads = p.kv_heads * GROUP;
#pragma unroll 1
  for (int i = blockIdx.x; i < num_empty; i += gridDim.x) {
    int64_t row = int64_t(__ldcg(p.empties + i)) * Q_LEN * heads;
#pragma unroll 1
    for (int at = threadIdx.x; at < Q_LEN * heads * pieces; at += kThreads) {
      reinterpret_cast<uint4*>(p.out)[row * pieces + at] = make_uint4(0, 0, 0, 0);
      if (p.lse && at % pieces == 0) p.lse[row + at / pieces] = kMinusInfinity;
    }
  }
}

extern "C" __global__ void __launch_bounds__(kThreads, CTAS_PER_SM) attention_decode(const __grid_constant__ Params p) {
  extern __shared__ __align__(1024) uint8_t shared[];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  Shared s;
  uint8_t* at_byte = shared;
  auto take = [&](int bytes) {
    uint8_t* here = at_byte;
    at_byte += bytes;
    return here;
  };
  s.all_rings = take(kRingBytes);
  s.ring = s.all_rings + warp * STAGES * kStageBytes;
  s.combine = reinterpret_cast<float*>(take(kCombineBytes));
  s.q = reinterpret_cast<uint2*>(take(kQBytes));
  s.sums = reinterpret_cast<float2*>(take(kSumsBytes));
  s.row_scale = reinterpret_cast<float*>(take(4 * kRowsPadded));
  s.k_scales = reinterpret_cast<float*>(take(kScalesBytes)) + warp * STAGES * kSlab;
  s.barriers = ptx::shared_address(take(kBarriersBytes)) + warp * STAGES * 8;
  s.stages = reinterpret_cast<int*>(take(4 * WARPS));

  ptx::launch_dependents();  // the next kernel may take its place and wait for the end of this one
  if (lane < STAGES) ptx::init_barrier(s.barriers + 8 * lane, 1);
  ptx::fence_barrier_init();  // by every lane: each shows the copy engine only what it wrote itself
  ptx::fence_copy_engine();
  if (lane == 0) {
    ptx::prefetch_tensor_map(&p.k_map);
    ptx::prefetch_tensor_map(&p.v_map);
  }
  __syncwarp();

  // Before the kernel ahead has ended: what the bin will read, by what the map and the table say now. If that kernel
  // writes them (early_map == 0), they are read again after it.
  int words = read_words(p, blockIdx.x, lane), after;
  Loader loader(p, words, after, warp, lane);
  loader.prefetch(p, warp, lane);
  prefetch_queries(p, word(words, 0), word(words, 1));
  ptx::wait_for_dependencies();
  if (!p.early_map) {
    words = read_words(p, blockIdx.x, lane);
    loader = Loader(p, words, after, warp, lane);
  }
  uint64_t began = TIMELINE ? ptx::global_nanoseconds() : 0;
  int num_empty = __ldcg(p.header + kNumEmpty);
  Queries queries;
  bool busy = word(words, 3) > 0;
  loader.issue(p, s, 0, warp, lane);
  if (busy) queries.load(p, word(words, 0), word(words, 1), 0);
#pragma unroll 1
  for (int i = 1; i < STAGES; ++i) loader.issue(p, s, i, warp, lane);
  Lane place(lane);
  int stage = 0;        // of the next slab to use
  uint32_t parity = 0;  // of its barrier
  int at = blockIdx.x;
  int late = 0, late_at = 0;  // descriptors that lead once the bin is done: how many, the last of them
  // The descriptor after this one is known when this one begins, so that its queries can be asked for.
  int beyond = after;
  if (busy) {
    queries.store(s, p.scale);
    __syncthreads();
  }

  while (busy) {
    int next = word(words, kNextWord);
    bool has_after = next >= 0;
    if (has_after) {
      int later = word(after, kNextWord);
      if (later >= 0) beyond = read_words(p, later, lane);
    }
    int first_token = word(words, 2), length = word(words, 4);
    float v_scale = p.v_scale ? __ldcg(p.v_scale + (p.v_scale_per_head ? word(words, 1) : 0)) : 1.0f;
    int slabs = (word(words, 3) + kSlab - 1) / kSlab;
#pragma unroll 1
    for (int pass = 0; pass < kPasses; ++pass) {
      bool last_pass = pass + 1 == kPasses;
      if (!last_pass) queries.load(p, word(words, 0), word(words, 1), pass + 1);
      else if (has_after) queries.load(p, word(after, 0), word(after, 1), 0);

      Accumulators acc;
      acc.clear();
      QueryFragments fragments;
      fragments.load(s, lane >> 2, lane & 3);
      uint64_t arrived = 0, streamed = 0, combined = 0;
      int emptied = 0;  // the stage that this warp emptied last
#pragma unroll 1
      for (int i = warp; i < slabs; i += WARPS) {
        uint8_t* here = s.ring + stage * kStageBytes;
        int token = first_token + kSlab * i;
        ptx::wait_barrier(s.barriers + 8 * stage, parity);
        if constexpr (K_SCALE_PER_TOKEN) {  // one group of scales a stage is under way, this slab's the oldest
          ptx::wait_copies<STAGES - 1>();
          __syncwarp();
        }
        if (TIMELINE && i == warp) arrived = ptx::global_nanoseconds();
        if (length - token < kSlab) clear_tail(here + kSlabBytes, length - token, lane);
        slab(acc, fragments, s, here, s.k_scales + stage * kSlab, token, length, pass, place);
        __syncwarp();  // all lanes are done with the stage that is filled again now
        if (!kCombineInRing || i + WARPS < slabs) loader.issue(p, s, stage, warp, lane);
        emptied = stage;
        if (++stage == STAGES) stage = 0, parity ^= 1;
      }
      if (TIMELINE) streamed = ptx::global_nanoseconds();
      if (warp < slabs) put(acc, s, emptied, warp, lane);
      else if (lane < kRowsPadded) s.sums[warp * kRowsPadded + lane] = make_float2(kMinusInfinity, 0.0f);
      if (lane == 0) s.stages[warp] = emptied;
      __syncthreads();
      Descriptor d = unpack(words);
      bool leader = leads(d);
      // At the end of the bin a leader goes on with what it has, unless others of the bin, which it may wait for, are due.
      bool now = leader && !has_after && late == 0;
      Close close = d.num_chunks == 1 ? Close::kOutput : now ? Close::kBuffer : Close::kSlot;
      combine(p, s, d, v_scale, pass, 0, close, (leader ? p.slots : 0) + d.slot_base + d.chunk);
      if (!last_pass || has_after) queries.store(s, p.scale);
      if (TIMELINE) combined = ptx::global_nanoseconds();
      __syncthreads();
      if (leader) {
        if (now) lead(p, s, d, v_scale, pass, false, warp, lane);
        else if (last_pass) ++late, late_at = at;
      }
      if (kCombineInRing && warp < slabs) {  // the stage that held the combine buffer
        ptx::fence_copy_engine();
        __syncwarp();
        loader.issue(p, s, emptied, warp, lane);
      }
      if constexpr (TIMELINE) {
        if (threadIdx.x == 0 && last_pass) {
          uint64_t* row = p.timeline + int64_t(at) * kTimelineColumns;
          uint64_t ended = ptx::global_nanoseconds();
          row[0] = began, row[1] = arrived, row[2] = streamed, row[3] = combined, row[4] = now ? combined : ended;
          row[5] = ptx::sm_id(), row[6] = leader, row[7] = blockIdx.x;
          if (now) row[8] = combined, row[9] = ended;
          began = ended;
        }
      }
    }
    if (!has_after) break;
    at = next;
    words = after;
    after = beyond;
  }
  // Normally there is at most one: a contiguous fill gives a bin one piece that began in another bin.
  if (late > 1) late_at = blockIdx.x;
  for (Descriptor d; late > 0; late_at = d.next) {
    d = unpack(read_words(p, late_at, lane));
    if (!leads(d)) continue;
    float v_scale = p.v_scale ? __ldcg(p.v_scale + (p.v_scale_per_head ? d.kv_head : 0)) : 1.0f;
    uint64_t merging = TIMELINE ? ptx::global_nanoseconds() : 0;
    for (int pass = 0; pass < kPasses; ++pass) lead(p, s, d, v_scale, pass, true, warp, lane);
    if constexpr (TIMELINE) {
      uint64_t* row = p.timeline + int64_t(late_at) * kTimelineColumns;
      if (threadIdx.x == 0) row[8] = merging, row[9] = ptx::global_nanoseconds();
    }
    --late;
  }
  write_empties(p, num_empty);
}
