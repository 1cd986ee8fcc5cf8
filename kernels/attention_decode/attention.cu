// Decode attention over a paged KV cache, driven by a task map.
//
// A CTA drains its bin: for each descriptor it reads the tokens [first, first + n) of one (KV head, request), 64 at a time.
// One warp, the loader, has the copy engine fill a ring of stages, which runs on across descriptors, so the next request's
// bytes are in flight while this one is closed. The other WARPS compute: groups of four take the stages in turn, each of
// the four a slab.
//
//   slab        16 tokens of K and of V. Tokens (then head dims) fill the M side of mma.m16n8k16 and the query rows that
//               share the KV head (G * q_len) its N side: S^T = K Q^T, O^T += V^T P^T, so 8 rows waste nothing
//   softmax     online, in powers of two, one reference a row and warp. It moves only when a score exceeds it by more
//               than kLazyRescale, which bounds P by 2^kLazyRescale; until then no shuffle and no rescaling
//   FP8 cache   K and V are widened to fp16, which holds every E4M3 value; the order of head dims inside a product is
//               free as long as Q follows, so each thread reads whole 16-byte pieces
//   closing     warps combine through shared memory. A request in one piece goes straight to `out`. Of a few pieces the
//               first leads: its CTA adds the others, which are stored as FP32 partial results, to what it has in
//               registers. Of many, every kSharePieces-th leads: when their bins are done, their CTAs bring all pieces
//               together, each for its share of the rows. A partial result is its own signal: its slot holds the pattern
//               kAbsent until it is there, and whoever used it puts the pattern back
//
// Shared memory:  ring [stages][K of 64 tokens | V], swizzled by the copy engine | combine [WARPS][rows][HEAD_DIM] f32
//                 | q fragments, 16-bit | sums [WARPS][rows] | row scale | K scales [stages][64] | barriers. At the end of
//                 the bin a merge uses the ring.
// Barriers:       two mbarriers a stage (its bytes are there; its four warps have used them); two barriers of all that
//                 compute a descriptor, around the combine buffers.
//
// Start:          a CTA begins when its SM is free, while others of the kernel ahead still end and the memory is half idle.
//                 Until they have ended it asks for its queries and the first PREFETCH slabs a warp to be brought to L2,
//                 by a map and a table that may still be old: at worst a wasted read. With early_cache it fills its ring
//                 instead, up to the tokens that the kernel ahead appends.
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

extern "C" __global__ void __launch_bounds__(kThreads + 32, CTAS_PER_SM) attention_decode(const __grid_constant__ Params p) {
  extern __shared__ __align__(1024) uint8_t shared[];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  Shared s;
  uint8_t* at_byte = shared;
  auto take = [&](int bytes) {
    uint8_t* here = at_byte;
    at_byte += bytes;
    return here;
  };
  s.ring = take(kRingBytes);
  s.combine = reinterpret_cast<float*>(take(kCombineBytes));
  s.q = reinterpret_cast<uint2*>(take(kQBytes));
  s.sums = reinterpret_cast<float2*>(take(kSumsBytes));
  s.row_scale = reinterpret_cast<float*>(take(4 * kRowsPadded));
  s.k_scales = reinterpret_cast<float*>(take(kScalesBytes));
  s.barriers = ptx::shared_address(take(kBarriersBytes));

  ptx::launch_dependents();  // the next kernel may take its place and wait for the end of this one
  if (threadIdx.x < kStages) {
    ptx::init_barrier(s.full(threadIdx.x), K_SCALE_PER_TOKEN ? 33 : 1);
    ptx::init_barrier(s.empty(threadIdx.x), K_SCALE_PER_TOKEN ? 32 * kGroupWarps : kGroupWarps);
    ptx::fence_barrier_init();
    ptx::fence_copy_engine();
  }
  __syncthreads();

  // Before the kernel ahead has ended: what the bin will read, by what the map and the table say now. If that kernel
  // writes them (early_map == 0), they are read again after it.
  int words = read_words(p, blockIdx.x, lane);
  // Who has nothing to do makes room for the next kernel at once. Not so the first CTA: whoever waits for the end of this
  // kernel relies on its having waited for the one ahead.
  if (p.early_map && blockIdx.x > 0 && word(words, 3) == 0 && __ldcg(p.header + kNumEmpty) == 0) return;
  if (warp == WARPS) {
    if (lane == 0) {
      ptx::prefetch_tensor_map(&p.k_map);
      ptx::prefetch_tensor_map(&p.v_map);
    }
    Loader loader(p, words, lane);
    if (!p.early_cache) {
      loader.prefetch(p, lane);
      ptx::wait_for_dependencies();
      if (!p.early_map) loader = Loader(p, read_words(p, blockIdx.x, lane), lane);
    }
    loader.run(p, s, lane);
    return;
  }
  prefetch_queries(p, word(words, 0), word(words, 1));
  ptx::wait_for_dependencies();
  if (!p.early_map) words = read_words(p, blockIdx.x, lane);
  uint64_t began = TIMELINE ? ptx::global_nanoseconds() : 0;
  int num_empty = __ldcg(p.header + kNumEmpty);
  int after = word(words, kNextWord) >= 0 ? read_words(p, word(words, kNextWord), lane) : 0;
  Queries queries;
  bool busy = word(words, 3) > 0;
  if (busy) queries.load(p, word(words, 0), word(words, 1), 0);
  Lane place(lane);
  int group = warp / kGroupWarps, part = warp % kGroupWarps;
  int stage = group;    // the next that this warp's group takes
  uint32_t parity = 0;  // of its barrier
  int ahead = group;    // how many stages of this descriptor the other groups take first
  int at = blockIdx.x;
  int leading = 0, leader = 0, leader_at = 0;  // how many descriptors lead; the last of them, its index
  // The descriptor after this one is known when this one begins, so that its queries can be asked for.
  int beyond = after;
  if (busy) {
    queries.store(s, p.scale);
    synchronize();
  }

  while (busy) {
    int next = word(words, kNextWord);
    bool has_after = next >= 0;
    if (has_after) {
      int later = word(after, kNextWord);
      if (later >= 0) beyond = read_words(p, later, lane);
    }
    int first_token = word(words, 2), tokens = word(words, 3), length = word(words, 4);
    float v_scale = p.v_scale ? __ldcg(p.v_scale + (p.v_scale_per_head ? word(words, 1) : 0)) : 1.0f;
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
      int inside = ahead * kFetch;
#pragma unroll 1
      for (; inside < tokens; inside += kGroups * kFetch) {
        ptx::wait_barrier(s.full(stage), parity);
        if (TIMELINE && !arrived) arrived = ptx::global_nanoseconds();
        int mine = inside + part * kSlab, token = first_token + mine;
        if (mine < tokens) {
          uint8_t* k = s.ring + stage * kStageBytes + part * kSlab * kBoxBytes;
          if (length - token < kSlab) clear_tail(k + kFetchBytes, length - token, lane);
          slab(acc, fragments, s, k, s.k_scales + stage * kFetch + part * kSlab, token, length, pass, place);
        }
        __syncwarp();  // all lanes are done with the stage
        if (K_SCALE_PER_TOKEN || lane == 0) ptx::arrive(s.empty(stage));
        stage += kGroups;
        if (stage >= kStages) stage = group, parity ^= 1;
      }
      ahead = (inside - tokens) / kFetch;  // the stages between the end of the descriptor and this group's next
      if (TIMELINE) {
        streamed = ptx::global_nanoseconds();
        if (!arrived) arrived = streamed;
      }
      // A request's only leader, when its bin is done, adds the other pieces to what it has; other leaders come to it later.
      Descriptor d = unpack(words);
      bool leads_merge = leads(p, d), now = leads_merge && !has_after && merges_at_once(d);
      Close close = d.num_chunks == 1 ? Close::kOutput : now ? Close::kMerge : Close::kSlot;
      Pieces<kOthersAtOnce> others;
      if (kAsksEarly && now) ask(p, d, pass, others);
      put(acc, s, warp, lane);
      synchronize();
      uint64_t summed = combine(p, s, d, v_scale, pass, close, others, lane);
      if (TIMELINE) combined = now ? summed : ptx::global_nanoseconds();
      if (!last_pass || has_after) {
        queries.store(s, p.scale);
        synchronize();  // nobody reads the combine buffers any more, and everybody sees the queries
      }
      if (leads_merge && !now && last_pass) ++leading, leader = words, leader_at = at;
      if constexpr (TIMELINE) {
        if (threadIdx.x == 0 && last_pass) {
          uint64_t* row = p.timeline + int64_t(at) * kTimelineColumns;
          uint64_t ended = ptx::global_nanoseconds();
          row[0] = began, row[1] = arrived, row[2] = streamed, row[3] = combined, row[4] = now ? combined : ended;
          row[5] = ptx::sm_id(), row[6] = leads_merge, row[7] = blockIdx.x;
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
  if (leading > 1) leader = read_words(p, leader_at = blockIdx.x, lane);
  while (leading > 0) {
    Descriptor d = unpack(leader);
    if (leads(p, d)) {
      uint64_t merging = TIMELINE ? ptx::global_nanoseconds() : 0;
      merge(p, s, d, p.v_scale ? __ldcg(p.v_scale + (p.v_scale_per_head ? d.kv_head : 0)) : 1.0f, warp, lane);
      if constexpr (TIMELINE) {
        uint64_t* row = p.timeline + int64_t(leader_at) * kTimelineColumns;
        if (threadIdx.x == 0) row[8] = merging, row[9] = ptx::global_nanoseconds();
      }
      --leading;
    }
    if (leading > 0) {
      leader = read_words(p, leader_at = d.next, lane);
      synchronize();  // nobody reads the shared memory of this merge any more
    }
  }
  write_empties(p, num_empty);
}
