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
// Compile-time: HEAD_DIM, CACHE_FP8, Q_FP8, GROUP, Q_LEN, WARPS, STAGES, CTAS_PER_SM, K_SCALE_PER_TOKEN, TIMELINE.

#include "attention_decode/task_map.cuh"
#include "common/ptx.cuh"

constexpr int kSlab = 16;                              // tokens a warp handles at a time; divides every page size
constexpr int kElement = CACHE_FP8 ? 1 : 2;            // bytes of a cache element
constexpr int kQElement = Q_FP8 ? 1 : 2;               // bytes of a query element
constexpr int kRows = GROUP * Q_LEN;                   // query rows that share a KV head
constexpr int kMaxRowsAPass = HEAD_DIM == 256 ? 16 : 32;
constexpr int kRowsAPass = kRows < kMaxRowsAPass ? kRows : kMaxRowsAPass;
constexpr int kPasses = (kRows + kRowsAPass - 1) / kRowsAPass;
constexpr int kNTiles = (kRowsAPass + 7) / 8;          // tiles of 8 query rows
constexpr int kRowsPadded = 8 * kNTiles;
constexpr int kKSteps = HEAD_DIM / 16;                 // products in a score
constexpr int kMTiles = HEAD_DIM / 16;                 // tiles of 16 head dims in the output

constexpr int kRowBytes = HEAD_DIM * kElement;
constexpr int kPieces = kRowBytes / 16;                // 16-byte pieces of a row of K or V
constexpr int kBoxBytes = kRowBytes < 128 ? kRowBytes : 128;  // bytes of a row in one box of the copy engine
constexpr int kBoxes = kRowBytes / kBoxBytes;
constexpr int kBoxPieces = kBoxBytes / 16;
constexpr int kSlabBytes = kSlab * kRowBytes;          // of K, and of V
constexpr int kStageBytes = 2 * kSlabBytes;

constexpr int kKVector = 16 / kElement;                // head dims in a 16-byte piece of K
constexpr int kKStepsAPiece = kKVector / 4;
constexpr int kVBytes = kBoxBytes / 8;                 // bytes of a box row of V that a thread owns: 16, or 8
constexpr int kVVector = kVBytes / kElement;           // head dims in them

constexpr int kThreads = 32 * WARPS;
constexpr int kTimelineColumns = 8;  // ns: begin, first slab here, last slab done, combined, end; SM, merged, CTA
constexpr int kMergeGroup = 8;       // pieces merged at a time
constexpr uint32_t kAbsent = 0xffffffffu;  // a NaN that no arithmetic produces
constexpr int kPatience = 1 << 21;   // looks at a slot before giving up: over a second
constexpr float kLazyRescale = 8.0f;
constexpr float kMinusInfinity = -__builtin_bit_cast(float, 0x7f800000u);
constexpr float kLn2 = 0.69314718055994531f;

struct Params {
  ptx::TensorMap k_map;        // [pages, page_size, kv_heads, HEAD_DIM], boxes of 16 tokens
  ptx::TensorMap v_map;
  const uint8_t* q;            // [batch * Q_LEN, q_heads, HEAD_DIM], strides below
  const float* q_scale;        // [batch * Q_LEN, q_heads] or null
  const float* k_scale;        // one, or [pages, page_size, kv_heads] by strides; null = 1
  const float* v_scale;        // one, or one a KV head; null = 1
  const int* block_table;      // [batch, table_stride]
  const Descriptor* map;
  const int* header;           // see task_map.cuh
  const int* empties;          // requests of length 0
  uint8_t* out;                // bf16 [batch * Q_LEN, q_heads, HEAD_DIM]
  float* lse;                  // [batch * Q_LEN, q_heads] or null
  float* partial_out;          // [2][slots, rows, HEAD_DIM], all kAbsent between launches; see store_partial
  float2* partial_sum;         // [2][slots, rows]: (reference in powers of two, sum), likewise
  uint64_t* timeline;          // [descriptors, kTimelineColumns] when TIMELINE
  int64_t q_token_stride, q_head_stride;                             // bytes
  int64_t scale_page_stride, scale_token_stride, scale_head_stride;  // bytes, of k_scale per token
  int64_t table_stride;        // elements
  int kv_heads;
  int slots;
  int page_shift;
  int v_scale_per_head;
  int early_map;               // the map and the table are older than the kernel before this one
  float scale;                 // softmax scale times log2(e)
};

__device__ __forceinline__ uint4 load_shared_16(const uint8_t* p) { return *reinterpret_cast<const uint4*>(p); }

__device__ __forceinline__ void mma(float (&d)[4], const uint32_t (&a)[4], uint2 b) {
  if constexpr (CACHE_FP8) ptx::mma_f16(d, a, b.x, b.y);
  else ptx::mma_bf16(d, a, b.x, b.y);
}

__device__ __forceinline__ uint32_t pack(float low, float high) {
  return CACHE_FP8 ? ptx::pack_f16(low, high) : ptx::pack_bf16(low, high);
}

// Byte offset of a 16-byte piece of a slab as the copy engine lays it out: boxes of 16 rows, and in a box of 128-byte
// rows the piece is XORed with the row, in one of 64-byte rows with half the row.
__device__ __forceinline__ int offset(int row, int piece) {
  int box = piece / kBoxPieces, inside = piece % kBoxPieces;
  int twist = kBoxPieces == 8 ? row & 7 : (row >> 1) & 3;
  return box * (kSlab * kBoxBytes) + row * kBoxBytes + ((inside ^ twist) * 16);
}

// The piece of K that thread t of a quad reads j-th. Two neighbours, so that a quad's rows 2i and 2i + 1 touch all banks.
__device__ __forceinline__ int k_piece(int j, int t) { return kBoxPieces == 8 ? 8 * (j / 2) + 2 * t + j % 2 : t; }

// Where this lane reads in a slab of K and of V; the rest is constant. Kept in registers.
struct Lane {
  int g, t;
  int k[kBoxPieces == 8 ? 2 : 1];  // row g, its pieces of the first box
  int v[2];                        // rows 2t and 2t + 1, its piece of the first box

  __device__ explicit Lane(int lane) : g(lane >> 2), t(lane & 3) {
#pragma unroll
    for (int j = 0; j < (kBoxPieces == 8 ? 2 : 1); ++j) k[j] = offset(g, k_piece(j, t)), keep(k[j]);
#pragma unroll
    for (int i = 0; i < 2; ++i) v[i] = offset(2 * t + i, g * kVBytes / 16) + g * kVBytes % 16, keep(v[i]);
  }
  // The compiler would rather compute it again for each slab.
  static __device__ __forceinline__ void keep(int& x) { asm volatile("" : "+r"(x)); }
};

struct Shared {
  uint8_t* all_rings; // [WARPS][STAGES]
  uint8_t* ring;      // this warp's
  float* k_scales;    // this warp's [STAGES][kSlab]
  uint32_t barriers;  // this warp's [STAGES]
  float* combine;     // [WARPS][kRowsPadded][HEAD_DIM]
  uint2* q;           // [kKSteps][kRowsPadded][4 threads of a quad]: 4 head dims, 16 bits each
  float* row_scale;   // [kRowsPadded]
  float2* sums;       // [2][WARPS][kRowsPadded]: the second set while pieces are added up
  int* stages;        // [WARPS]: the stage that a warp emptied last
};

constexpr int kRingBytes = WARPS * STAGES * kStageBytes;
constexpr bool kCombineInRing = kRowsPadded * HEAD_DIM * 4 <= kStageBytes;
constexpr int kCombineBytes = kCombineInRing ? 0 : WARPS * kRowsPadded * HEAD_DIM * 4;
constexpr int kQBytes = kRowsPadded * HEAD_DIM * 2;
constexpr int kSumsBytes = 2 * WARPS * kRowsPadded * 8;
constexpr int kScalesBytes = K_SCALE_PER_TOKEN ? WARPS * STAGES * kSlab * 4 : 0;
constexpr int kBarriersBytes = WARPS * STAGES * 8;

// Where float4 `quad` of a row of the combine buffer lies: spread so that a quad of threads, which writes four rows at
// one head dim, touches all banks.
__device__ __forceinline__ int combine_quad(int row, int quad) {
  int t = (row >> 1) & 3;
  return quad ^ (kVVector == 16 ? t : (t & 1) | ((t & 2) << 1));
}

// One warp's way through the slabs of its bin, as seen by the copies (which run STAGES slabs ahead). Nothing here waits for
// memory after the start: while one descriptor is copied, the pages of the next and the descriptor after it are under way.
struct Loader {
  struct Work {
    int request, kv_head, first, length;
    int steps;  // slabs of this warp
    int pages;  // lane i: page of slab (step & ~31) + i
  };
  Work now, then;
  int step, pass;
  bool more;   // whether `then` holds a descriptor
  int raw;     // lane i: word i of the descriptor after `then`
  bool any_raw;

  static __device__ __forceinline__ int read(const Params& p, int index, int lane) {
    return __ldg(reinterpret_cast<const int*>(p.map + index) + min(lane, 8));
  }
  static __device__ __forceinline__ void read_pages(const Params& p, Work& w, int from, int warp, int lane) {
    int s = from + lane;
    if (s < w.steps) {
      int token = w.first + kSlab * (warp + WARPS * s);
      w.pages = __ldg(p.block_table + w.request * p.table_stride + (token >> p.page_shift));
    }
  }
  // `raw` becomes `then`, and the reading of what follows begins.
  __device__ __forceinline__ void shift(const Params& p, int warp, int lane) {
    more = any_raw;
    if (!more) return;
    then.request = __shfl_sync(~0u, raw, 0), then.kv_head = __shfl_sync(~0u, raw, 1);
    then.first = __shfl_sync(~0u, raw, 2), then.length = __shfl_sync(~0u, raw, 4);
    int slabs = (__shfl_sync(~0u, raw, 3) + kSlab - 1) / kSlab, next = __shfl_sync(~0u, raw, 8);
    then.steps = slabs > warp ? (slabs - warp + WARPS - 1) / WARPS : 0;
    any_raw = next >= 0;
    if (any_raw) raw = read(p, next, lane);
    read_pages(p, then, 0, warp, lane);
  }
  __device__ __forceinline__ Loader(const Params& p, int warp, int lane) : step(0), pass(0), more(false), any_raw(true) {
    raw = read(p, blockIdx.x, lane);
    then.pages = 0;
    shift(p, warp, lane);
    now = then;
    shift(p, warp, lane);
  }
  // Moves on to a descriptor that has a slab for this warp. False at the end of the bin.
  __device__ __forceinline__ bool advance(const Params& p, int warp, int lane) {
    while (step >= now.steps) {
      if (pass + 1 < kPasses) {
        ++pass;
        if (now.steps > 32) read_pages(p, now, 0, warp, lane);
      } else {
        if (!more) return false;
        pass = 0;
        now = then;
        shift(p, warp, lane);
      }
      step = 0;
    }
    return true;
  }

  // Starts the copies of the next slab into stage `stage`, if there is one.
  __device__ __forceinline__ void issue(const Params& p, const Shared& s, int stage, int warp, int lane) {
    if (step >= now.steps && !advance(p, warp, lane)) return;
    if (step && (step & 31) == 0) read_pages(p, now, step, warp, lane);
    int token = now.first + kSlab * (warp + WARPS * step);
    int page = __shfl_sync(~0u, now.pages, step & 31);
    int in_page = token & ((1 << p.page_shift) - 1);
    uint32_t barrier = s.barriers + 8 * stage;
    if constexpr (K_SCALE_PER_TOKEN) {
      if (lane < kSlab) {
        bool live = token + lane < now.length;
        const uint8_t* from = reinterpret_cast<const uint8_t*>(p.k_scale) + page * p.scale_page_stride +
                              (in_page + (live ? lane : 0)) * p.scale_token_stride + now.kv_head * p.scale_head_stride;
        ptx::copy_async_4(ptx::shared_address(s.k_scales + stage * kSlab + lane), from, live ? 4 : 0);
      }
      ptx::arrive_after_copies(barrier);
    }
    if (lane == 0) {
      uint32_t to = ptx::shared_address(s.ring + stage * kStageBytes);
      ptx::arrive_expecting(barrier, kStageBytes);
#pragma unroll
      for (int box = 0; box < kBoxes; ++box) {
        int dim = box * (kBoxBytes / kElement);
        ptx::copy_box(to + box * kSlab * kBoxBytes, &p.k_map, barrier, dim, now.kv_head, in_page, page);
        ptx::copy_box(to + kSlabBytes + box * kSlab * kBoxBytes, &p.v_map, barrier, dim, now.kv_head, in_page, page);
      }
    }
    ++step;
  }
};

// The raw queries of one pass, held in registers between the load and the store to shared memory.
struct Queries {
  static constexpr int kPieceDims = 16 / kQElement;                     // head dims in a 16-byte load
  static constexpr int kRowPieces = HEAD_DIM / kPieceDims;
  static constexpr int kLoads = kRowsPadded * kRowPieces;               // 16-byte loads of the CTA
  static constexpr int kEach = (kLoads + kThreads - 1) / kThreads;
  uint4 raw[kEach];
  float q_scale[kEach], k_scale;

  __device__ __forceinline__ void load(const Params& p, int request, int kv_head, int pass) {
    k_scale = !K_SCALE_PER_TOKEN && p.k_scale ? __ldg(p.k_scale) : 1.0f;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      int at = i * kThreads + threadIdx.x;
      int local = at / kRowPieces, row = pass * kRowsAPass + local, dim = at % kRowPieces * kPieceDims;
      raw[i] = make_uint4(0, 0, 0, 0);
      q_scale[i] = 1.0f;
      if (local < kRowsAPass && row < kRows) {
        const uint8_t* q = p.q + (request * int64_t(Q_LEN) + row / GROUP) * p.q_token_stride +
                           (kv_head * GROUP + row % GROUP) * p.q_head_stride + dim * kQElement;
        raw[i] = __ldg(reinterpret_cast<const uint4*>(q));
        int64_t token = request * int64_t(Q_LEN) + row / GROUP;
        if (p.q_scale) q_scale[i] = __ldg(p.q_scale + token * (p.kv_heads * GROUP) + kv_head * GROUP + row % GROUP);
      }
    }
  }

  // Stores q as mma fragments and the scale of each row.
  __device__ __forceinline__ void store(const Shared& s, float scale) const {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      int at = i * kThreads + threadIdx.x;
      int row = at / kRowPieces, dim = at % kRowPieces * kPieceDims;
      uint32_t half[8];  // 16-bit values, two a register
      float shift = 1.0f;
      const uint32_t words[4] = {raw[i].x, raw[i].y, raw[i].z, raw[i].w};
      if constexpr (Q_FP8) {
#pragma unroll
        for (int w = 0; w < 4; ++w) {
          half[2 * w] = ptx::e4m3x2_to_f16x2(words[w]);
          half[2 * w + 1] = ptx::e4m3x2_high_to_f16x2(words[w]);
        }
      } else if constexpr (CACHE_FP8) {
        // bf16 reaches further than fp16: bring the row's largest element to [1, 2) by a power of two.
        float most = 0.0f;
#pragma unroll
        for (int w = 0; w < 4; ++w)
          most = fmaxf(most, fmaxf(fabsf(ptx::bf16_low(words[w])), fabsf(ptx::bf16_high(words[w]))));
#pragma unroll
        for (int d = 1; d < kRowPieces; d *= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, d));
        uint32_t exponent = __float_as_uint(most) >> 23;
        exponent = exponent < 1 ? 1 : (exponent > 253 ? 253 : exponent);
        shift = __uint_as_float(exponent << 23);
        float down = __uint_as_float((254 - exponent) << 23);
#pragma unroll
        for (int w = 0; w < 4; ++w)
          half[w] = ptx::pack_f16(ptx::bf16_low(words[w]) * down, ptx::bf16_high(words[w]) * down);
      } else {
#pragma unroll
        for (int w = 0; w < 4; ++w) half[w] = words[w];
      }
      if (at < kLoads) {
#pragma unroll
        for (int d = 0; d < kPieceDims / 4; ++d) {
          // Which product and thread of a quad meet these four head dims: the inverse of k_piece.
          int piece = (dim + 4 * d) / kKVector, inside = (dim + 4 * d) % kKVector / 4;
          int t = kBoxPieces == 8 ? piece % 8 / 2 : piece;
          int j = kBoxPieces == 8 ? piece / 8 * 2 + piece % 2 : 0;
          s.q[((j * kKStepsAPiece + inside) * kRowsPadded + row) * 4 + t] = make_uint2(half[2 * d], half[2 * d + 1]);
        }
        if (at % kRowPieces == 0) s.row_scale[row] = scale * q_scale[i] * k_scale * shift;
      }
    }
  }
};

// q's fragments, kept in registers where they are few and read from shared memory where not.
constexpr bool kQueriesInRegisters = kKSteps * kNTiles <= 8;
struct QueryFragments {
  uint2 kept[kQueriesInRegisters ? kKSteps * kNTiles : 1];
  float2 scale[kNTiles];  // of rows 2t and 2t + 1 of each tile

  static __device__ __forceinline__ uint2 read(const Shared& s, int step, int n, int g, int t) {
    return s.q[(step * kRowsPadded + 8 * n + g) * 4 + t];
  }
  __device__ __forceinline__ void load(const Shared& s, int g, int t) {
#pragma unroll
    for (int n = 0; n < kNTiles; ++n) {
      scale[n] = *reinterpret_cast<const float2*>(s.row_scale + 8 * n + 2 * t);
      if constexpr (kQueriesInRegisters) {
#pragma unroll
        for (int step = 0; step < kKSteps; ++step) kept[step * kNTiles + n] = read(s, step, n, g, t);
      }
    }
  }
  __device__ __forceinline__ uint2 get(const Shared& s, int step, int n, int g, int t) const {
    if constexpr (kQueriesInRegisters) return kept[step * kNTiles + n];
    else return read(s, step, n, g, t);
  }
};

// Output and softmax state of one warp: rows 2t and 2t + 1 of each tile, head dims as `accumulate` deals them.
struct Accumulators {
  float o[kMTiles][kNTiles][4];
  float2 reference[kNTiles], sum[kNTiles];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int n = 0; n < kNTiles; ++n) {
#pragma unroll
      for (int m = 0; m < kMTiles; ++m)
#pragma unroll
        for (int c = 0; c < 4; ++c) o[m][n][c] = 0.0f;
      reference[n] = make_float2(kMinusInfinity, kMinusInfinity);
      sum[n] = make_float2(0.0f, 0.0f);
    }
  }
};

// S^T = K Q^T of one slab: thread (g, t) gets tokens g and g + 8 of rows 2t and 2t + 1.
__device__ __forceinline__ void scores(float (&score)[kNTiles][4], const QueryFragments& q, const Shared& s,
                                       const uint8_t* k, const Lane& l) {
  // Two chains of products a score, so that the tensor core's latency is paid half as often.
  float odd[kNTiles][4];
#pragma unroll
  for (int n = 0; n < kNTiles; ++n)
#pragma unroll
    for (int c = 0; c < 4; ++c) score[n][c] = odd[n][c] = 0.0f;
#pragma unroll
  for (int j = 0; j < kPieces / 4; ++j) {
    const uint8_t* from = k + (kBoxPieces == 8 ? l.k[j % 2] + j / 2 * kSlab * kBoxBytes : l.k[0]);
    uint4 x = load_shared_16(from), y = load_shared_16(from + 8 * kBoxBytes);  // rows g and g + 8
    const uint32_t low[4] = {x.x, x.y, x.z, x.w}, high[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
    for (int inside = 0; inside < kKStepsAPiece; ++inside) {
      uint32_t a[4];
      if constexpr (CACHE_FP8) {
        a[0] = ptx::e4m3x2_to_f16x2(low[inside]), a[2] = ptx::e4m3x2_high_to_f16x2(low[inside]);
        a[1] = ptx::e4m3x2_to_f16x2(high[inside]), a[3] = ptx::e4m3x2_high_to_f16x2(high[inside]);
      } else {
        a[0] = low[2 * inside], a[2] = low[2 * inside + 1];
        a[1] = high[2 * inside], a[3] = high[2 * inside + 1];
      }
#pragma unroll
      for (int n = 0; n < kNTiles; ++n)
        mma(inside % 2 ? odd[n] : score[n], a, q.get(s, j * kKStepsAPiece + inside, n, l.g, l.t));
    }
  }
#pragma unroll
  for (int n = 0; n < kNTiles; ++n)
#pragma unroll
    for (int c = 0; c < 4; ++c) score[n][c] += odd[n][c];
}

// What a thread reads of V in one box: kVVector neighbouring head dims of tokens 2t, 2t + 1, 2t + 8, 2t + 9.
struct Values {
  uint32_t x[4][kVBytes / 4];

  __device__ __forceinline__ void load(const uint8_t* v, int box, const Lane& l) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint8_t* from = v + l.v[i & 1] + (i >> 1) * 8 * kBoxBytes + box * kSlab * kBoxBytes;
      if constexpr (kVBytes == 16) {
        uint4 y = load_shared_16(from);
        x[i][0] = y.x, x[i][1] = y.y, x[i][2] = y.z, x[i][3] = y.w;
      } else {
        uint2 y = *reinterpret_cast<const uint2*>(from);
        x[i][0] = y.x, x[i][1] = y.y;
      }
    }
  }
};

// O^T += V^T P^T of one slab. Two neighbouring head dims of a thread make an M tile. `first` is V's first box.
__device__ __forceinline__ void accumulate(Accumulators& acc, const uint2 (&p)[kNTiles], const Values& first,
                                           const uint8_t* v, const Lane& l) {
  constexpr int words = kVBytes / 4, dims_a_word = 4 / kElement;
#pragma unroll
  for (int box = 0; box < kBoxes; ++box) {
    Values values = first;
    if (box) values.load(v, box, l);
    const uint32_t(&x)[4][words] = values.x;
#pragma unroll
    for (int w = 0; w < words; ++w) {
#pragma unroll
      for (int pair = 0; pair < dims_a_word / 2; ++pair) {
        uint32_t a[4];
        if constexpr (CACHE_FP8) {
          uint32_t early = ptx::permute_bytes(x[0][w], x[1][w], pair ? 0x7362 : 0x5140);
          uint32_t late = ptx::permute_bytes(x[2][w], x[3][w], pair ? 0x7362 : 0x5140);
          a[0] = ptx::e4m3x2_to_f16x2(early), a[1] = ptx::e4m3x2_high_to_f16x2(early);
          a[2] = ptx::e4m3x2_to_f16x2(late), a[3] = ptx::e4m3x2_high_to_f16x2(late);
        } else {
          a[0] = ptx::permute_bytes(x[0][w], x[1][w], 0x5410), a[1] = ptx::permute_bytes(x[0][w], x[1][w], 0x7632);
          a[2] = ptx::permute_bytes(x[2][w], x[3][w], 0x5410), a[3] = ptx::permute_bytes(x[2][w], x[3][w], 0x7632);
        }
#pragma unroll
        for (int n = 0; n < kNTiles; ++n) mma(acc.o[(box * kVVector + w * dims_a_word) / 2 + pair][n], a, p[n]);
      }
    }
  }
}

// Moves the softmax reference of a tile to the largest score of this slab or what it was.
__device__ __forceinline__ void move_reference(Accumulators& acc, int n, float most_x, float most_y) {
#pragma unroll
  for (int d = 4; d < 32; d *= 2) {
    most_x = fmaxf(most_x, __shfl_xor_sync(~0u, most_x, d));
    most_y = fmaxf(most_y, __shfl_xor_sync(~0u, most_y, d));
  }
  float2& reference = acc.reference[n];
  most_x = fmaxf(most_x, reference.x), most_y = fmaxf(most_y, reference.y);
  float x = most_x == kMinusInfinity ? 1.0f : ptx::exp2(reference.x - most_x);
  float y = most_y == kMinusInfinity ? 1.0f : ptx::exp2(reference.y - most_y);
  reference = make_float2(most_x, most_y);
  acc.sum[n].x *= x, acc.sum[n].y *= y;
#pragma unroll
  for (int m = 0; m < kMTiles; ++m) {
    acc.o[m][n][0] *= x, acc.o[m][n][2] *= x;
    acc.o[m][n][1] *= y, acc.o[m][n][3] *= y;
  }
}

// One slab: scores, mask, online softmax, output. `token` is the slab's first, `k_scales` its scales where there are any.
__device__ __forceinline__ void slab(Accumulators& acc, const QueryFragments& q, const Shared& s, const uint8_t* stage,
                                     const float* k_scales, int token, int length, int pass, const Lane& l) {
  int g = l.g, t = l.t;
  Values values;
  values.load(stage + kSlabBytes, 0, l);
  float score[kNTiles][4];
  scores(score, q, s, stage, l);

  bool masked = token + kSlab > length - Q_LEN + 1;
  uint2 probability[kNTiles];
#pragma unroll
  for (int n = 0; n < kNTiles; ++n) {
    float (&x)[4] = score[n];  // (token g, row 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1)
    float2 scale = q.scale[n];
    x[0] *= scale.x, x[1] *= scale.y, x[2] *= scale.x, x[3] *= scale.y;
    if constexpr (K_SCALE_PER_TOKEN) {
      float low = k_scales[g], high = k_scales[g + 8];
      x[0] *= low, x[1] *= low, x[2] *= high, x[3] *= high;
    }
    if (masked) {
      int row = pass * kRowsAPass + 8 * n + 2 * t;
      int even = min(length - Q_LEN + 1 + row / GROUP, length), odd = min(length - Q_LEN + 1 + (row + 1) / GROUP, length);
      if (token + g >= even) x[0] = kMinusInfinity;
      if (token + g >= odd) x[1] = kMinusInfinity;
      if (token + g + 8 >= even) x[2] = kMinusInfinity;
      if (token + g + 8 >= odd) x[3] = kMinusInfinity;
    }
    float most_x = fmaxf(x[0], x[2]), most_y = fmaxf(x[1], x[3]);
    bool beyond = most_x > acc.reference[n].x + kLazyRescale || most_y > acc.reference[n].y + kLazyRescale;
    if (__any_sync(~0u, beyond)) move_reference(acc, n, most_x, most_y);
    // A row that has seen no key yet has no reference; its scores are all -inf.
    float base_x = acc.reference[n].x == kMinusInfinity ? 0.0f : acc.reference[n].x;
    float base_y = acc.reference[n].y == kMinusInfinity ? 0.0f : acc.reference[n].y;
    x[0] = ptx::exp2(x[0] - base_x), x[2] = ptx::exp2(x[2] - base_x);
    x[1] = ptx::exp2(x[1] - base_y), x[3] = ptx::exp2(x[3] - base_y);
    acc.sum[n].x += x[0] + x[2], acc.sum[n].y += x[1] + x[3];
    probability[n] = make_uint2(ptx::transpose_8x8(pack(x[0], x[1])), ptx::transpose_8x8(pack(x[2], x[3])));
  }
  accumulate(acc, probability, values, stage + kSlabBytes, l);
}

// Zeroes what lies behind the last of `valid` tokens in V: their probability is 0, and 0 * NaN is not.
__device__ __forceinline__ void clear_tail(uint8_t* v, int valid, int lane) {
#pragma unroll 1
  for (int at = lane * 16; at < kSlabBytes; at += 32 * 16)
    if (at / kBoxBytes % kSlab >= valid) *reinterpret_cast<uint4*>(v + at) = make_uint4(0, 0, 0, 0);
  ptx::fence_copy_engine();
  __syncwarp();
}

// The combine buffer of a warp: [kRowsPadded][HEAD_DIM].
__device__ __forceinline__ float* combine_of(const Shared& s, int warp, int stage) {
  if constexpr (kCombineInRing) return reinterpret_cast<float*>(s.all_rings + (warp * STAGES + stage) * kStageBytes);
  else return s.combine + warp * kRowsPadded * HEAD_DIM;
}

// Writes this warp's state to its combine buffer; `stage` is the one it emptied last.
__device__ __forceinline__ void put(const Accumulators& acc, const Shared& s, int stage, int warp, int lane) {
  int g = lane >> 2, t = lane & 3;
#pragma unroll
  for (int n = 0; n < kNTiles; ++n) {
    float2 sum = acc.sum[n];
#pragma unroll
    for (int d = 4; d < 32; d *= 2) {
      sum.x += __shfl_xor_sync(~0u, sum.x, d);
      sum.y += __shfl_xor_sync(~0u, sum.y, d);
    }
    int row = 8 * n + 2 * t;
    if (g == 0) {
      s.sums[warp * kRowsPadded + row] = make_float2(acc.reference[n].x, sum.x);
      s.sums[warp * kRowsPadded + row + 1] = make_float2(acc.reference[n].y, sum.y);
    }
    float4* to = reinterpret_cast<float4*>(combine_of(s, warp, stage) + row * HEAD_DIM);
#pragma unroll
    for (int m = 0; m < kMTiles; m += 2) {  // M tiles m and m + 1: four neighbouring head dims
      int box = 2 * m / kVVector, inside = 2 * m % kVVector;
      int quad = (box * (kBoxBytes / kElement) + g * kVVector + inside) / 4;
      const float(&a)[4] = acc.o[m][n], (&b)[4] = acc.o[m + 1][n];
      int at = combine_quad(row, quad);
      to[at] = make_float4(a[0], a[2], b[0], b[2]);
      to[at + HEAD_DIM / 4] = make_float4(a[1], a[3], b[1], b[3]);
    }
  }
}

struct Sum {
  float4 o;
  float reference, sum;
};

// Factor that brings a sum with one reference to a common, larger one.
__device__ __forceinline__ float rescale(float from, float to) {
  return from == kMinusInfinity ? 0.0f : ptx::exp2(from - to);
}

__device__ __forceinline__ void add(Sum& total, float4 o, float2 piece) {
  float factor = rescale(piece.x, total.reference);
  total.sum += piece.y * factor;
  total.o.x += o.x * factor, total.o.y += o.y * factor, total.o.z += o.z * factor, total.o.w += o.w * factor;
}

__device__ __forceinline__ void store_output(const Params& p, int request, int kv_head, float v_scale, int row, int dim,
                                             const Sum& x) {
  float scale = x.sum > 0.0f ? __fdividef(v_scale, x.sum) : 0.0f;
  int64_t index = (request * int64_t(Q_LEN) + row / GROUP) * (p.kv_heads * GROUP) + kv_head * GROUP + row % GROUP;
  *reinterpret_cast<uint2*>(p.out + 2 * (index * HEAD_DIM + dim)) =
      make_uint2(ptx::pack_bf16(x.o.x * scale, x.o.y * scale), ptx::pack_bf16(x.o.z * scale, x.o.w * scale));
  if (p.lse && dim == 0) p.lse[index] = x.sum > 0.0f ? (x.reference + ptx::log2(x.sum)) * kLn2 : kMinusInfinity;
}

// ---- requests in several pieces --------------------------------------------------------------------------------

__device__ __forceinline__ bool leads(const Descriptor& d) {
  return d.num_chunks > 1 && (d.chunk % kMergeGroup == kMergeGroup - 1 || d.chunk + 1 == d.num_chunks);
}

__device__ __forceinline__ uint32_t present(uint32_t x) { return x == kAbsent ? 0x7fffffffu : x; }

__device__ __forceinline__ float4 present(float4 x) {
  return make_float4(__uint_as_float(present(__float_as_uint(x.x))), __uint_as_float(present(__float_as_uint(x.y))),
                     __uint_as_float(present(__float_as_uint(x.z))), __uint_as_float(present(__float_as_uint(x.w))));
}

// Stores a partial result. Slots below p.slots are read by other CTAs: each word tells by itself whether it is there, so
// the stores need no order. Slots from p.slots on hold what a leader puts aside for itself.
__device__ __forceinline__ void store_partial(const Params& p, int slot, int row, int quad, const Sum& x) {
  int64_t at = int64_t(slot) * kRows + row;
  ptx::store_shared_with_grid(p.partial_out + at * HEAD_DIM + 4 * quad, present(x.o));
  if (quad == 0) ptx::store_shared_with_grid(p.partial_sum + at, make_float2(x.reference, x.sum));
}

// Fetches the partial result in `slot` into this warp's combine buffer, waiting for it, and marks the slot as empty.
__device__ __forceinline__ void fetch(const Params& p, const Shared& s, int slot, int pass, int turn, int warp, int lane) {
  constexpr int quads = HEAD_DIM / 4, all = kRowsAPass * quads, at_once = 8;
  const float nothing = __uint_as_float(kAbsent);
  int64_t first = int64_t(slot) * kRows + pass * kRowsAPass;
  int rows = min(kRowsAPass, kRows - pass * kRowsAPass);
  float4* from = reinterpret_cast<float4*>(p.partial_out + first * HEAD_DIM);
  float4* to = reinterpret_cast<float4*>(combine_of(s, warp, s.stages[warp]));
#pragma unroll 1
  for (int done = 0; done < all; done += 32 * at_once) {
    float4 part[at_once];
    float2 piece = make_float2(kMinusInfinity, 0.0f);
    bool absent;
    int patience = kPatience;
    do {
      if (done == 0 && lane < rows) piece = ptx::load_shared_with_grid(p.partial_sum + first + lane);
#pragma unroll
      for (int i = 0; i < at_once; ++i) {
        int at = done + 32 * i + lane;
        part[i] = make_float4(0, 0, 0, 0);
        if (at < rows * quads) part[i] = ptx::load_shared_with_grid(from + at);
      }
      absent = __float_as_uint(piece.x) == kAbsent || __float_as_uint(piece.y) == kAbsent;
#pragma unroll
      for (int i = 0; i < at_once; ++i) {
        absent |= __float_as_uint(part[i].x) == kAbsent || __float_as_uint(part[i].y) == kAbsent;
        absent |= __float_as_uint(part[i].z) == kAbsent || __float_as_uint(part[i].w) == kAbsent;
      }
    } while (__any_sync(~0u, absent) && --patience);  // a map that lacks a piece ends in NaN, not in a hang
#pragma unroll
    for (int i = 0; i < at_once; ++i) {
      int at = done + 32 * i + lane;
      if (at < rows * quads) {
        to[at / quads * quads + combine_quad(at / quads, at % quads)] = part[i];
        __stcg(from + at, make_float4(nothing, nothing, nothing, nothing));
      }
    }
    if (done == 0 && lane < rows) {
      s.sums[(turn * WARPS + warp) * kRowsPadded + lane] = piece;
      __stcg(p.partial_sum + first + lane, make_float2(nothing, nothing));
    }
  }
}

enum class Close { kOutput, kSlot, kBuffer };  // write the result; a partial result; keep the sum in buffer 0

// Adds up the combine buffers of all warps.
__device__ __forceinline__ void combine(const Params& p, const Shared& s, const Descriptor& d, float v_scale, int pass, int turn,
                                        Close close, int slot) {
  constexpr int quads = HEAD_DIM / 4;
#pragma unroll 1
  for (int at = threadIdx.x; at < kRowsAPass * quads; at += kThreads) {
    int local = at / quads, quad = at % quads;
    int row = pass * kRowsAPass + local;
    if (row >= kRows) break;
    Sum total{make_float4(0, 0, 0, 0), kMinusInfinity, 0.0f};
    float2 piece[WARPS];
    float4 part[WARPS];
#pragma unroll
    for (int w = 0; w < WARPS; ++w) {
      const float4* from = reinterpret_cast<const float4*>(combine_of(s, w, s.stages[w]) + local * HEAD_DIM);
      part[w] = from[combine_quad(local, quad)];
      piece[w] = s.sums[(turn * WARPS + w) * kRowsPadded + local];
      total.reference = fmaxf(total.reference, piece[w].x);
    }
#pragma unroll
    for (int w = 0; w < WARPS; ++w) {
      // A warp that saw no key of this row may have left its buffer as it was.
      bool seen = piece[w].x != kMinusInfinity;
      part[w] = make_float4(seen ? part[w].x : 0, seen ? part[w].y : 0, seen ? part[w].z : 0, seen ? part[w].w : 0);
      add(total, part[w], piece[w]);
    }
    if (close == Close::kOutput) {
      store_output(p, d.request, d.kv_head, v_scale, row, 4 * quad, total);
    } else if (close == Close::kSlot) {
      store_partial(p, slot, row, quad, total);
    } else {
      float4* to = reinterpret_cast<float4*>(combine_of(s, 0, s.stages[0]) + local * HEAD_DIM);
      to[combine_quad(local, quad)] = total.o;
      if (quad == 0) s.sums[(turn ^ 1) * WARPS * kRowsPadded + local] = make_float2(total.reference, total.sum);
    }
  }
}

// What a leader does for one pass: adds its group to its own partial result, and either passes the sum on in its own slot
// or, as the last leader, adds the other groups and writes the output. Its own part is in buffer 0, or was put aside.
__device__ __forceinline__ void lead(const Params& p, const Shared& s, const Descriptor& d, float v_scale, int pass, bool aside,
                                     int warp, int lane) {
  int group = d.chunk / kMergeGroup * kMergeGroup, members = d.chunk - group;
  bool last_leader = d.chunk + 1 == d.num_chunks;
  int pieces = aside + members + (last_leader ? group / kMergeGroup : 0);
  int turn = 1;
#pragma unroll 1
  for (int done = 0, kept = aside ? 0 : 1; done < pieces || kept == 1; kept = 2) {
    int first = kept ? 1 : 0;  // buffer 0 holds the sum so far
    int piece = done + warp - first;
    if (warp >= first) {
      if (piece < pieces) {
        int at = piece - aside, slot = d.slot_base + group + at;
        if (at < 0) slot = p.slots + d.slot_base + d.chunk;
        if (at >= members) slot = d.slot_base + (at - members) * kMergeGroup + kMergeGroup - 1;
        fetch(p, s, slot, pass, turn, warp, lane);
      } else if (lane < kRowsPadded) {
        s.sums[(turn * WARPS + warp) * kRowsPadded + lane] = make_float2(kMinusInfinity, 0.0f);
      }
    }
    done += WARPS - first;
    __syncthreads();
    Close close = done < pieces ? Close::kBuffer : last_leader ? Close::kOutput : Close::kSlot;
    combine(p, s, d, v_scale, pass, turn, close, d.slot_base + d.chunk);
    __syncthreads();
    turn ^= 1;
  }
}

// Zeros for requests of length 0, dealt to the CTAs in turn.
__device__ __forceinline__ void write_empties(const Params& p, int num_empty) {
  constexpr int pieces = HEAD_DIM / 8;  // 16 bytes of bf16
  int heads = p.kv_heads * GROUP;
#pragma unroll 1
  for (int i = blockIdx.x; i < num_empty; i += gridDim.x) {
    int64_t row = int64_t(__ldg(p.empties + i)) * Q_LEN * heads;
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
  if (lane < STAGES) ptx::init_barrier(s.barriers + 8 * lane, K_SCALE_PER_TOKEN ? 33 : 1);
  if (lane == 0) {
    ptx::fence_barrier_init();
    ptx::prefetch_tensor_map(&p.k_map);
    ptx::prefetch_tensor_map(&p.v_map);
  }
  __syncwarp();

  if (!p.early_map) ptx::wait_for_dependencies();
  Descriptor d = p.map[blockIdx.x];
  int num_empty = __ldg(p.header + kNumEmpty);
  Loader loader(p, warp, lane);
  if (p.early_map) ptx::wait_for_dependencies();
  uint64_t began = TIMELINE ? ptx::global_nanoseconds() : 0;
  Queries queries;
  if (d.num_tokens) queries.load(p, d.request, d.kv_head, 0);
#pragma unroll 1
  for (int i = 0; i < STAGES; ++i) loader.issue(p, s, i, warp, lane);
  Lane place(lane);
  int stage = 0;        // of the next slab to use
  uint32_t parity = 0;  // of its barrier
  int at = blockIdx.x;
  int late = 0, late_at = 0;  // descriptors that lead and are not the last of this bin: how many, the last of them
  // The request, head and successor of the descriptor after this one, known one descriptor ahead so that its queries can
  // be asked for when this one begins.
  auto peek = [&](int index) {
    const int4* from = reinterpret_cast<const int4*>(p.map + index);
    int4 head = __ldg(from);
    return make_int3(head.x, head.y, __ldg(reinterpret_cast<const int*>(from + 2)));
  };
  int3 after = make_int3(0, 0, -1), beyond = after;
  if (d.next >= 0) after = peek(d.next);
  if (d.num_tokens) {
    queries.store(s, p.scale);
    __syncthreads();
  }

  while (d.num_tokens) {
    bool has_after = d.next >= 0;
    if (has_after && after.z >= 0) beyond = peek(after.z);
    float v_scale = p.v_scale ? __ldg(p.v_scale + (p.v_scale_per_head ? d.kv_head : 0)) : 1.0f;
    int slabs = (d.num_tokens + kSlab - 1) / kSlab;
#pragma unroll 1
    for (int pass = 0; pass < kPasses; ++pass) {
      bool last_pass = pass + 1 == kPasses;
      if (!last_pass) queries.load(p, d.request, d.kv_head, pass + 1);
      else if (has_after) queries.load(p, after.x, after.y, 0);

      Accumulators acc;
      acc.clear();
      QueryFragments fragments;
      fragments.load(s, lane >> 2, lane & 3);
      uint64_t arrived = 0, streamed = 0, combined = 0;
      int emptied = 0;  // the stage that this warp emptied last
#pragma unroll 1
      for (int i = warp; i < slabs; i += WARPS) {
        uint8_t* here = s.ring + stage * kStageBytes;
        int token = d.first_token + kSlab * i;
        ptx::wait_barrier(s.barriers + 8 * stage, parity);
        if (TIMELINE && i == warp) arrived = ptx::global_nanoseconds();
        if (d.length - token < kSlab) clear_tail(here + kSlabBytes, d.length - token, lane);
        slab(acc, fragments, s, here, s.k_scales + stage * kSlab, token, d.length, pass, place);
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
      bool leader = leads(d);
      Close close = d.num_chunks == 1 ? Close::kOutput : leader && !has_after ? Close::kBuffer : Close::kSlot;
      combine(p, s, d, v_scale, pass, 0, close, (leader ? p.slots : 0) + d.slot_base + d.chunk);
      if (!last_pass || has_after) queries.store(s, p.scale);
      if (TIMELINE) combined = ptx::global_nanoseconds();
      __syncthreads();
      if (leader) {
        if (!has_after) lead(p, s, d, v_scale, pass, false, warp, lane);
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
          uint64_t now = ptx::global_nanoseconds();
          row[0] = began, row[1] = arrived, row[2] = streamed, row[3] = combined, row[4] = now;
          row[5] = ptx::sm_id(), row[6] = leader, row[7] = blockIdx.x;
          began = now;
        }
      }
    }
    if (!has_after) break;
    at = d.next;
    d = p.map[at];
    after = beyond;
  }
  // Normally there is at most one: a contiguous fill gives a bin one piece that began in another bin.
  if (late > 1) late_at = blockIdx.x;
  for (; late > 0; late_at = d.next) {
    d = p.map[late_at];
    if (!leads(d) || d.next < 0) continue;
    float v_scale = p.v_scale ? __ldg(p.v_scale + (p.v_scale_per_head ? d.kv_head : 0)) : 1.0f;
    for (int pass = 0; pass < kPasses; ++pass) lead(p, s, d, v_scale, pass, true, warp, lane);
    --late;
  }
  write_empties(p, num_empty);
}
