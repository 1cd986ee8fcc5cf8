// Decode attention over a paged KV cache, driven by a task map.
//
// A CTA drains its bin: for each descriptor it reads the tokens [first, first + n) of one (KV head, request), as 16-token
// slabs dealt to its warps in turn. A warp is a pipeline of its own: its slabs come by cp.async into a private ring of
// STAGES stages that runs on across descriptors, so the next request's bytes are in flight while this one is closed.
//
//   slab        16 tokens of K and of V: S = Q K^T and O += P V by mma.m16n8k16, rows of Q in M (G * q_len of them)
//   softmax     online, one running maximum a row and warp, in powers of two; O is rescaled only when the maximum
//               grows by more than 2^kLazyRescale, which keeps P below that bound
//   FP8 cache   K and V are widened to fp16, which holds every E4M3 value; the order of K's head dims and of V's tokens
//               inside a tile is free as long as Q and P follow, so each thread reads whole 16-byte pieces
//   closing     warps combine through shared memory; one piece: straight to `out`; more: FP32 partial + (max, sum),
//               and whichever CTA arrives last (a counter that resets itself) merges all pieces of its (KV head, request)
//
// Shared memory:  ring [WARPS][STAGES][K slab | V slab | K scales] | combine [WARPS][rows][HEAD_DIM] f32
//                 | q fragments, 16-bit | row scale | max, sum [WARPS][rows] | flag
// Barriers:       none in the slab loop; two CTA barriers a descriptor, around the combine buffer.
//
// Compile-time: HEAD_DIM, CACHE_FP8, Q_FP8, GROUP, Q_LEN, WARPS, STAGES, CTAS_PER_SM, K_SCALE_PER_TOKEN, TIMELINE.

#include "common/types.cuh"

#include "attention_decode/task_map.cuh"
#include "common/ptx.cuh"

constexpr int kSlab = 16;                              // tokens a warp handles at a time; divides every page size
constexpr int kElement = CACHE_FP8 ? 1 : 2;            // bytes of a cache element
constexpr int kQElement = Q_FP8 ? 1 : 2;               // bytes of a query element
constexpr int kRows = GROUP * Q_LEN;                   // query rows that share a KV head
constexpr int kMaxRowsAPass = HEAD_DIM == 256 ? 16 : 32;
constexpr int kRowsAPass = kRows < kMaxRowsAPass ? kRows : kMaxRowsAPass;
constexpr int kPasses = (kRows + kRowsAPass - 1) / kRowsAPass;
constexpr bool kHalf = kRowsAPass <= 8;                // rows 8-15 of the one M tile do not exist
constexpr int kMTiles = (kRowsAPass + 15) / 16;
constexpr int kRowsPadded = kHalf ? 8 : 16 * kMTiles;
constexpr int kKSteps = HEAD_DIM / 16;
constexpr int kNTiles = HEAD_DIM / 8;

constexpr int kRowBytes = HEAD_DIM * kElement;
constexpr int kPieces = kRowBytes / 16;                // 16-byte pieces of a row of K or V
constexpr int kScaleBytes = K_SCALE_PER_TOKEN ? 4 * kSlab : 0;
constexpr int kStageBytes = 2 * kSlab * kRowBytes + kScaleBytes;

constexpr int kKVector = 16 / kElement;                // head dims in a 16-byte piece of K
constexpr int kVBytes = kRowBytes / 8 < 16 ? kRowBytes / 8 : 16;  // bytes of V a thread reads at once
constexpr int kVVector = kVBytes / kElement;           // head dims in them
constexpr int kVParts = kNTiles / kVVector;

constexpr int kThreads = 32 * WARPS;
constexpr int kTimelineColumns = 8;  // ns: begin, first slab here, last slab done, combined, end; SM, merged, CTA
constexpr float kLazyRescale = 8.0f;
constexpr float kMinusInfinity = -__builtin_bit_cast(float, 0x7f800000u);
constexpr float kLn2 = 0.69314718055994531f;

struct Params {
  const uint8_t* q;            // [batch * Q_LEN, q_heads, HEAD_DIM], strides below
  const float* q_scale;        // [batch * Q_LEN, q_heads] or null
  const uint8_t* k;
  const uint8_t* v;
  const float* k_scale;        // one, or [pages, page_size, kv_heads] by strides; null = 1
  const float* v_scale;        // one, or one a KV head; null = 1
  const int* block_table;      // [batch, table_stride]
  const Descriptor* map;
  const int* header;           // see task_map.cuh
  const int* empties;          // requests of length 0
  uint8_t* out;                // bf16 [batch * Q_LEN, q_heads, HEAD_DIM]
  float* lse;                  // [batch * Q_LEN, q_heads] or null
  float* partial_out;          // [slots, rows, HEAD_DIM]
  float2* partial_sum;         // [slots, rows]: (max in powers of two, sum)
  uint32_t* counters;          // [kv_heads * max_batch], zero between launches
  uint64_t* timeline;          // [descriptors, kTimelineColumns] when TIMELINE
  int64_t q_token_stride, q_head_stride;             // bytes
  int64_t k_page_stride, k_token_stride, k_head_stride;  // bytes
  int64_t v_page_stride, v_token_stride, v_head_stride;
  int64_t scale_page_stride, scale_token_stride, scale_head_stride;  // bytes, of k_scale per token
  int64_t table_stride;        // elements
  int kv_heads;
  int max_batch;
  int page_shift;
  int v_scale_per_head;
  float scale;                 // softmax scale times log2(e)
};

// XOR applied to the piece index of a row, so that the reads below touch all banks: a K read takes pieces t of rows
// u and u + 4, a V read pieces g, g + 1 of rows t = 0..3.
__device__ __forceinline__ int swizzle(int row) { return (((row & 3) << 1) ^ (row & 4)) & (kPieces - 1); }

__device__ __forceinline__ uint4 load_shared_16(const uint8_t* p) { return *reinterpret_cast<const uint4*>(p); }

__device__ __forceinline__ void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if constexpr (CACHE_FP8) ptx::mma_f16(d, a, b0, b1);
  else ptx::mma_bf16(d, a, b0, b1);
}

__device__ __forceinline__ uint32_t pack(float low, float high) {
  return CACHE_FP8 ? ptx::pack_f16(low, high) : ptx::pack_bf16(low, high);
}

// Head dim of q's fragment registers: thread t of a quad holds dims d .. d + 3 of k step `step` (a0, a2).
__device__ __forceinline__ int fragment_dim(int step, int t) {
  constexpr int a_piece = kKVector / 4;  // k steps fed by one 16-byte piece
  return kKVector * (4 * (step / a_piece) + t) + 4 * (step % a_piece);
}

struct Shared {
  uint8_t* ring;     // this warp's
  float* combine;    // [WARPS][kRowsPadded][HEAD_DIM]
  uint2* q;          // [kKSteps][kRowsPadded][4 threads of a quad]: 4 head dims, 16 bits each
  float* row_scale;  // [kRowsPadded]
  float2* sums;      // [WARPS][kRowsPadded]
  int* last;         // whether this CTA merges
};

constexpr int kCombineBytes = WARPS * kRowsPadded * HEAD_DIM * 4;
constexpr int kQBytes = kKSteps * kRowsPadded * 4 * 8;

// One warp's way through the slabs of its bin, as seen by the loads (which run STAGES - 1 slabs ahead).
struct Loader {
  const Params& p;
  int lane, warp;
  int next;          // descriptor to load after this one
  int pass;
  int kv_head, request, first, length;
  int step, steps;   // slabs of this warp in the descriptor
  int pages;         // lane i: page of slab (step & ~31) + i

  __device__ Loader(const Params& params, int warp_, int lane_) : p(params), lane(lane_), warp(warp_), next(blockIdx.x),
      pass(kPasses - 1), kv_head(0), request(0), first(0), length(0), step(0), steps(0), pages(0) {}

  __device__ __forceinline__ void read_pages() {
    int s = step + lane;
    if (s < steps) {
      int token = first + kSlab * (warp + WARPS * s);
      pages = __ldg(p.block_table + request * p.table_stride + (token >> p.page_shift));
    }
  }

  // Moves on to a descriptor that has a slab for this warp. False at the end of the bin.
  __device__ __forceinline__ bool advance() {
    while (step >= steps) {
      if (++pass >= kPasses) {
        pass = 0;
        if (next < 0) {
          pass = kPasses - 1;
          return false;
        }
        const int4* d = reinterpret_cast<const int4*>(p.map + next);
        int4 a = __ldg(d), b = __ldg(d + 1), c = __ldg(d + 2);
        request = a.x, kv_head = a.y, first = a.z, length = b.x, next = c.x;
        int slabs = (a.w + kSlab - 1) / kSlab;
        steps = slabs > warp ? (slabs - warp + WARPS - 1) / WARPS : 0;
      }
      step = 0;
      read_pages();
    }
    return true;
  }

  // Starts the copies of the next slab into `stage`, as one group (an empty one at the end of the bin).
  __device__ __forceinline__ void issue(uint8_t* stage) {
    constexpr int rows_at_once = 32 / kPieces;
    if (advance()) {
      if (step && (step & 31) == 0) read_pages();
      int token = first + kSlab * (warp + WARPS * step);
      int64_t page = __shfl_sync(~0u, pages, step & 31);
      int in_page = token & ((1 << p.page_shift) - 1);
      int valid = length - token;  // tokens from here to the end of the request; later ones read as zeros
      const uint8_t* k = p.k + page * p.k_page_stride + in_page * p.k_token_stride + kv_head * p.k_head_stride;
      const uint8_t* v = p.v + page * p.v_page_stride + in_page * p.v_token_stride + kv_head * p.v_head_stride;
      uint32_t to = ptx::shared_address(stage);
      int row = lane / kPieces, piece = lane % kPieces;
      if (valid >= kSlab) {
        k += row * p.k_token_stride + piece * 16;
        v += row * p.v_token_stride + piece * 16;
#pragma unroll
        for (int i = 0; i < kSlab; i += rows_at_once) {
          uint32_t at = to + (row + i) * kRowBytes + ((piece ^ swizzle(row + i)) * 16);
          ptx::copy_async_16(at, k, 16);
          ptx::copy_async_16(at + kSlab * kRowBytes, v, 16);
          k += rows_at_once * p.k_token_stride;
          v += rows_at_once * p.v_token_stride;
        }
      } else {
#pragma unroll 1
        for (; row < kSlab; row += rows_at_once) {
          uint32_t at = to + row * kRowBytes + ((piece ^ swizzle(row)) * 16);
          uint32_t bytes = row < valid ? 16 : 0;
          int64_t source = row < valid ? row : 0;
          ptx::copy_async_16(at, k + source * p.k_token_stride + piece * 16, bytes);
          ptx::copy_async_16(at + kSlab * kRowBytes, v + source * p.v_token_stride + piece * 16, bytes);
        }
      }
      if constexpr (K_SCALE_PER_TOKEN) {
        if (lane < kSlab) {
          const uint8_t* s = reinterpret_cast<const uint8_t*>(p.k_scale) + page * p.scale_page_stride +
                             (in_page + (lane < valid ? lane : 0)) * p.scale_token_stride + kv_head * p.scale_head_stride;
          ptx::copy_async_4(to + 2 * kSlab * kRowBytes + 4 * lane, s, lane < valid ? 4 : 0);
        }
      }
      ++step;
    }
    ptx::commit_copies();
  }
};

// The raw queries of one pass, held in registers between the load and the store to shared memory.
struct Queries {
  static constexpr int kPieceDims = 16 / kQElement;                     // head dims in a 16-byte load
  static constexpr int kLoads = kRowsPadded * HEAD_DIM / kPieceDims;    // 16-byte loads of the CTA
  static constexpr int kEach = (kLoads + kThreads - 1) / kThreads;
  uint4 raw[kEach];

  __device__ __forceinline__ void load(const Params& p, int request, int kv_head, int pass) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      int at = i * kThreads + threadIdx.x;
      int row = pass * kRowsAPass + at / (HEAD_DIM / kPieceDims), dim = at % (HEAD_DIM / kPieceDims) * kPieceDims;
      raw[i] = make_uint4(0, 0, 0, 0);
      if (at < kLoads && at / (HEAD_DIM / kPieceDims) < kRowsAPass && row < kRows) {
        const uint8_t* q = p.q + (request * int64_t(Q_LEN) + row / GROUP) * p.q_token_stride +
                           (kv_head * GROUP + row % GROUP) * p.q_head_stride + dim * kQElement;
        raw[i] = __ldg(reinterpret_cast<const uint4*>(q));
      }
    }
  }

  // Stores q as mma fragments and the scale of each row.
  __device__ __forceinline__ void store(const Params& p, const Shared& s, int request, int kv_head, int pass) const {
    constexpr int pieces = HEAD_DIM / kPieceDims;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      int at = i * kThreads + threadIdx.x;
      int row = at / pieces, dim = at % pieces * kPieceDims;
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
        for (int d = 1; d < pieces; d *= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, d));
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
          // The inverse of fragment_dim.
          constexpr int a_piece = kKVector / 4;
          int vector = (dim + 4 * d) / kKVector, inside = (dim + 4 * d) % kKVector / 4;
          int step = vector / 4 * a_piece + inside, t = vector % 4;
          s.q[(step * kRowsPadded + row) * 4 + t] = make_uint2(half[2 * d], half[2 * d + 1]);
        }
        if (at % pieces == 0) {
          int r = pass * kRowsAPass + row;
          float scale = p.scale * shift;
          if (r < kRows && row < kRowsAPass) {
            int64_t token = request * int64_t(Q_LEN) + r / GROUP;
            if (p.q_scale) scale *= __ldg(p.q_scale + token * (p.kv_heads * GROUP) + kv_head * GROUP + r % GROUP);
            if (!K_SCALE_PER_TOKEN && p.k_scale) scale *= __ldg(p.k_scale);
          }
          s.row_scale[row] = scale;
        }
      }
    }
  }
};

// Accumulators of one warp for one pass of one descriptor.
struct Accumulators {
  float o[kMTiles][kNTiles][4];
  float max[2 * kMTiles], sum[2 * kMTiles];  // rows g and g + 8 of each M tile

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int m = 0; m < kMTiles; ++m) {
#pragma unroll
      for (int n = 0; n < kNTiles; ++n)
#pragma unroll
        for (int c = 0; c < 4; ++c) o[m][n][c] = 0.0f;
      max[2 * m] = max[2 * m + 1] = kMinusInfinity;
      sum[2 * m] = sum[2 * m + 1] = 0.0f;
    }
  }
};

// q's fragment of one k step and M tile.
__device__ __forceinline__ void load_q(uint32_t (&a)[4], const Shared& s, int step, int m, int g, int t) {
  uint2 low = s.q[(step * kRowsPadded + 16 * m + g) * 4 + t];
  a[0] = low.x, a[2] = low.y;
  if constexpr (kHalf) {
    a[1] = a[3] = 0;
  } else {
    uint2 high = s.q[(step * kRowsPadded + 16 * m + g + 8) * 4 + t];
    a[1] = high.x, a[3] = high.y;
  }
}

// q's fragments of the whole head, kept in registers where they are few and read from shared memory where not.
constexpr bool kQueriesInRegisters = kHalf && kKSteps <= 8;
struct QueryFragments {
  uint2 low[kQueriesInRegisters ? kKSteps : 1];

  __device__ __forceinline__ void read(const Shared& s, int g, int t) {
    if constexpr (kQueriesInRegisters) {
#pragma unroll
      for (int step = 0; step < kKSteps; ++step) low[step] = s.q[(step * kRowsPadded + g) * 4 + t];
    }
  }

  __device__ __forceinline__ void get(uint32_t (&a)[4], const Shared& s, int step, int m, int g, int t) const {
    if constexpr (kQueriesInRegisters) {
      a[0] = low[step].x, a[2] = low[step].y, a[1] = a[3] = 0;
    } else {
      load_q(a, s, step, m, g, t);
    }
  }
};

// S = Q K^T of one slab. Column c of n tile j is token 8 j + c / 2 + 4 (c % 2): thread t holds tokens 8 j + t and
// 8 j + t + 4, which are the tokens that it will read of V.
__device__ __forceinline__ void scores(float (&score)[kMTiles][2][4], const QueryFragments& q, const Shared& s,
                                       const uint8_t* k, int g, int t) {
  // Two chains of products a score, so that the tensor core's latency is paid half as often.
  float odd[kMTiles][2][4];
#pragma unroll
  for (int m = 0; m < kMTiles; ++m)
#pragma unroll
    for (int j = 0; j < 2; ++j)
#pragma unroll
      for (int c = 0; c < 4; ++c) score[m][j][c] = odd[m][j][c] = 0.0f;
  constexpr int a_piece = kKVector / 4;
#pragma unroll
  for (int i = 0; i < kPieces / 4; ++i) {
    uint32_t words[2][4];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      int row = 8 * j + (g >> 1) + 4 * (g & 1);
      uint4 x = load_shared_16(k + row * kRowBytes + (((4 * i + t) ^ swizzle(row)) * 16));
      words[j][0] = x.x, words[j][1] = x.y, words[j][2] = x.z, words[j][3] = x.w;
    }
#pragma unroll
    for (int inside = 0; inside < a_piece; ++inside) {
      uint32_t b[2][2];
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        if constexpr (CACHE_FP8) {
          b[j][0] = ptx::e4m3x2_to_f16x2(words[j][inside]);
          b[j][1] = ptx::e4m3x2_high_to_f16x2(words[j][inside]);
        } else {
          b[j][0] = words[j][2 * inside];
          b[j][1] = words[j][2 * inside + 1];
        }
      }
#pragma unroll
      for (int m = 0; m < kMTiles; ++m) {
        uint32_t a[4];
        q.get(a, s, i * a_piece + inside, m, g, t);
#pragma unroll
        for (int j = 0; j < 2; ++j) mma(inside % 2 ? odd[m][j] : score[m][j], a, b[j][0], b[j][1]);
      }
    }
  }
#pragma unroll
  for (int m = 0; m < kMTiles; ++m)
#pragma unroll
    for (int j = 0; j < 2; ++j)
#pragma unroll
      for (int c = 0; c < 4; ++c) score[m][j][c] += odd[m][j][c];
}

// O += P V of one slab. Column n of output tile (part, e) is head dim kVVector * (n + 8 part) + e.
__device__ __forceinline__ void accumulate(Accumulators& acc, const uint32_t (&probability)[kMTiles][4], const uint8_t* v,
                                           int g, int t) {
#pragma unroll
  for (int part = 0; part < kVParts; ++part) {
    uint32_t words[4][kVBytes / 4];  // tokens t, t + 4, t + 8, t + 12
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      int row = t + 4 * i, byte = (g + 8 * part) * kVBytes;
      const uint8_t* from = v + row * kRowBytes + (((byte / 16) ^ swizzle(row)) * 16) + byte % 16;
      if constexpr (kVBytes == 16) {
        uint4 x = load_shared_16(from);
        words[i][0] = x.x, words[i][1] = x.y, words[i][2] = x.z, words[i][3] = x.w;
      } else {
        uint2 x = *reinterpret_cast<const uint2*>(from);
        words[i][0] = x.x, words[i][1] = x.y;
      }
    }
#pragma unroll
    for (int w = 0; w < kVBytes / 4; ++w) {
      uint32_t b[kVVector * 4 / kVBytes][2];  // head dims of this word, the two token pairs of each
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        uint32_t x = words[2 * h][w], y = words[2 * h + 1][w];
        if constexpr (CACHE_FP8) {
          uint32_t low = ptx::permute_bytes(x, y, 0x5140), high = ptx::permute_bytes(x, y, 0x7362);
          b[0][h] = ptx::e4m3x2_to_f16x2(low), b[1][h] = ptx::e4m3x2_high_to_f16x2(low);
          b[2][h] = ptx::e4m3x2_to_f16x2(high), b[3][h] = ptx::e4m3x2_high_to_f16x2(high);
        } else {
          b[0][h] = ptx::permute_bytes(x, y, 0x5410), b[1][h] = ptx::permute_bytes(x, y, 0x7632);
        }
      }
#pragma unroll
      for (int e = 0; e < kVVector * 4 / kVBytes; ++e)
#pragma unroll
        for (int m = 0; m < kMTiles; ++m)
          mma(acc.o[m][part * kVVector + w * (kVVector * 4 / kVBytes) + e], probability[m], b[e][0], b[e][1]);
    }
  }
}

// One slab: scores, mask, online softmax, output. `token` is the slab's first.
__device__ __forceinline__ void slab(Accumulators& acc, const QueryFragments& q, const Shared& s, const uint8_t* stage,
                                     int token, int length, int pass, int lane) {
  int g = lane >> 2, t = lane & 3;
  float score[kMTiles][2][4];
  scores(score, q, s, stage, g, t);

  bool masked = token + kSlab > length - Q_LEN + 1;
  uint32_t probability[kMTiles][4];
#pragma unroll
  for (int m = 0; m < kMTiles; ++m) {
    float x[2][4];  // [row g or g + 8][token t, t + 4, t + 8, t + 12]
#pragma unroll
    for (int h = 0; h < (kHalf ? 1 : 2); ++h) {
      int row = 16 * m + 8 * h + g;
      float scale = s.row_scale[row];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        x[h][i] = score[m][i >> 1][2 * h + (i & 1)] * scale;
        if constexpr (K_SCALE_PER_TOKEN)
          x[h][i] *= reinterpret_cast<const float*>(stage + 2 * kSlab * kRowBytes)[t + 4 * i];
      }
      if (masked) {
        int visible = length - Q_LEN + 1 + (pass * kRowsAPass + row) / GROUP;
        if (visible > length) visible = length;
#pragma unroll
        for (int i = 0; i < 4; ++i)
          if (token + t + 4 * i >= visible) x[h][i] = kMinusInfinity;
      }
      float most = fmaxf(fmaxf(x[h][0], x[h][1]), fmaxf(x[h][2], x[h][3]));
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
      float& current = acc.max[2 * m + h];
      if (__any_sync(~0u, most > current + kLazyRescale)) {
        float grown = fmaxf(most, current);
        float factor = grown == kMinusInfinity ? 1.0f : ptx::exp2(current - grown);
        current = grown;
        acc.sum[2 * m + h] *= factor;
#pragma unroll
        for (int n = 0; n < kNTiles; ++n) {
          acc.o[m][n][2 * h] *= factor;
          acc.o[m][n][2 * h + 1] *= factor;
        }
      }
      float base = current == kMinusInfinity ? 0.0f : current;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        x[h][i] = ptx::exp2(x[h][i] - base);
        acc.sum[2 * m + h] += x[h][i];
      }
    }
    probability[m][0] = pack(x[0][0], x[0][1]);
    probability[m][2] = pack(x[0][2], x[0][3]);
    probability[m][1] = kHalf ? 0 : pack(x[1][0], x[1][1]);
    probability[m][3] = kHalf ? 0 : pack(x[1][2], x[1][3]);
  }
  accumulate(acc, probability, stage + kSlab * kRowBytes, g, t);
}

// Writes this warp's accumulators to the combine buffer, [row][head dim].
__device__ __forceinline__ void put(const Accumulators& acc, const Shared& s, int warp, int lane) {
  int g = lane >> 2, t = lane & 3;
#pragma unroll
  for (int m = 0; m < kMTiles; ++m)
#pragma unroll
    for (int h = 0; h < (kHalf ? 1 : 2); ++h) {
      int row = 16 * m + 8 * h + g;
      float sum = acc.sum[2 * m + h];
      sum += __shfl_xor_sync(~0u, sum, 1);
      sum += __shfl_xor_sync(~0u, sum, 2);
      if (t == 0) s.sums[warp * kRowsPadded + row] = make_float2(acc.max[2 * m + h], sum);
      float* to = s.combine + (warp * kRowsPadded + row) * HEAD_DIM;
#pragma unroll
      for (int part = 0; part < kVParts; ++part)
#pragma unroll
        for (int c = 0; c < 2; ++c)
#pragma unroll
          for (int e = 0; e < kVVector; e += 4) {
            int n = part * kVVector + e;
            int dim = kVVector * (2 * t + c + 8 * part) + e;
            // XOR with the row spreads the rows of a quad over the banks.
            *reinterpret_cast<float4*>(to + (dim ^ ((row & 7) << 2))) = make_float4(
                acc.o[m][n][2 * h + c], acc.o[m][n + 1][2 * h + c], acc.o[m][n + 2][2 * h + c], acc.o[m][n + 3][2 * h + c]);
          }
    }
}

__device__ __forceinline__ void store_output(const Params& p, int request, int kv_head, int row, int dim, float4 o,
                                             float max, float sum) {
  float scale = sum > 0.0f ? 1.0f / sum : 0.0f;
  if (p.v_scale) scale *= __ldg(p.v_scale + (p.v_scale_per_head ? kv_head : 0));
  int64_t index = (request * int64_t(Q_LEN) + row / GROUP) * (p.kv_heads * GROUP) + kv_head * GROUP + row % GROUP;
  *reinterpret_cast<uint2*>(p.out + 2 * (index * HEAD_DIM + dim)) =
      make_uint2(ptx::pack_bf16(o.x * scale, o.y * scale), ptx::pack_bf16(o.z * scale, o.w * scale));
  if (p.lse && dim == 0) p.lse[index] = sum > 0.0f ? (max + ptx::log2(sum)) * kLn2 : kMinusInfinity;
}

__device__ __forceinline__ void add_scaled(float4& o, float4 x, float factor) {
  o.x += x.x * factor, o.y += x.y * factor, o.z += x.z * factor, o.w += x.w * factor;
}

// Factor that brings a partial sum with maximum `max` to the common maximum `most`.
__device__ __forceinline__ float rescale(float max, float most) {
  return max == kMinusInfinity ? 0.0f : ptx::exp2(max - most);
}

// Adds up the pieces of one (KV head, request) for this pass. Called by all threads of the CTA that arrived last.
constexpr int kMergeAtOnce = 8;  // pieces in flight a thread

__device__ __forceinline__ void merge(const Params& p, const Descriptor& d, int pass) {
  constexpr int quads = HEAD_DIM / 4;
#pragma unroll 1
  for (int at = threadIdx.x; at < kRowsAPass * quads; at += kThreads) {
    int row = pass * kRowsAPass + at / quads, dim = at % quads * 4;
    if (row >= kRows) break;
    const float2* sums = p.partial_sum + int64_t(d.slot_base) * kRows + row;
    const float* parts = p.partial_out + (int64_t(d.slot_base) * kRows + row) * HEAD_DIM + dim;
    float most = kMinusInfinity, sum = 0.0f;
    float4 o = make_float4(0, 0, 0, 0);
#pragma unroll 1
    for (int c = 0; c < d.num_chunks; c += kMergeAtOnce) {
      float2 piece[kMergeAtOnce];
      float4 part[kMergeAtOnce];
      float grown = most;
#pragma unroll
      for (int i = 0; i < kMergeAtOnce; ++i) {
        int at_piece = min(c + i, d.num_chunks - 1);
        piece[i] = __ldcg(sums + int64_t(at_piece) * kRows);
        part[i] = __ldcg(reinterpret_cast<const float4*>(parts + int64_t(at_piece) * kRows * HEAD_DIM));
      }
#pragma unroll
      for (int i = 0; i < kMergeAtOnce; ++i)
        if (c + i < d.num_chunks) grown = fmaxf(grown, piece[i].x);
      float factor = rescale(most, grown);
      o.x *= factor, o.y *= factor, o.z *= factor, o.w *= factor, sum *= factor;
      most = grown;
#pragma unroll
      for (int i = 0; i < kMergeAtOnce; ++i) {
        if (c + i < d.num_chunks) {
          factor = rescale(piece[i].x, most);
          sum += piece[i].y * factor;
          add_scaled(o, part[i], factor);
        }
      }
    }
    store_output(p, d.request, d.kv_head, row, dim, o, most, sum);
  }
}

// Combines the warps and writes the result or the partial result. Between the two barriers of a descriptor.
__device__ __forceinline__ void finish(const Params& p, const Shared& s, const Descriptor& d, int pass) {
  constexpr int quads = HEAD_DIM / 4;
#pragma unroll 1
  for (int at = threadIdx.x; at < kRowsAPass * quads; at += kThreads) {
    int local = at / quads, dim = at % quads * 4;
    int row = pass * kRowsAPass + local;
    if (row >= kRows) break;
    float most = kMinusInfinity;
#pragma unroll
    for (int w = 0; w < WARPS; ++w) most = fmaxf(most, s.sums[w * kRowsPadded + local].x);
    float4 o = make_float4(0, 0, 0, 0);
    float sum = 0.0f;
#pragma unroll
    for (int w = 0; w < WARPS; ++w) {
      float2 piece = s.sums[w * kRowsPadded + local];
      float factor = rescale(piece.x, most);
      sum += piece.y * factor;
      const float* from = s.combine + (w * kRowsPadded + local) * HEAD_DIM + (dim ^ ((local & 7) << 2));
      add_scaled(o, *reinterpret_cast<const float4*>(from), factor);
    }
    if (d.num_chunks == 1) {
      store_output(p, d.request, d.kv_head, row, dim, o, most, sum);
    } else {
      int64_t at_row = int64_t(d.slot_base + d.chunk) * kRows + row;
      __stcg(reinterpret_cast<float4*>(p.partial_out + at_row * HEAD_DIM + dim), o);
      if (dim == 0) __stcg(p.partial_sum + at_row, make_float2(most, sum));
    }
  }
}

// Zeros for requests of length 0, dealt to the CTAs in turn.
__device__ __forceinline__ void write_empties(const Params& p, int num_empty) {
  constexpr int pieces = HEAD_DIM / 8;  // 16 bytes of bf16
  int heads = p.kv_heads * GROUP;
  for (int i = blockIdx.x; i < num_empty; i += gridDim.x) {
    int64_t row = int64_t(__ldg(p.empties + i)) * Q_LEN * heads;
    for (int at = threadIdx.x; at < Q_LEN * heads * pieces; at += kThreads) {
      reinterpret_cast<uint4*>(p.out)[row * pieces + at] = make_uint4(0, 0, 0, 0);
      if (p.lse && at % pieces == 0) p.lse[row + at / pieces] = kMinusInfinity;
    }
  }
}

extern "C" __global__ void __launch_bounds__(kThreads, CTAS_PER_SM) attention_decode(const __grid_constant__ Params p) {
  extern __shared__ __align__(128) uint8_t shared[];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  Shared s;
  s.ring = shared + warp * STAGES * kStageBytes;
  uint8_t* rest = shared + WARPS * STAGES * kStageBytes;
  s.combine = reinterpret_cast<float*>(rest);
  s.q = reinterpret_cast<uint2*>(rest + kCombineBytes);
  s.sums = reinterpret_cast<float2*>(rest + kCombineBytes + kQBytes);
  s.row_scale = reinterpret_cast<float*>(s.sums + WARPS * kRowsPadded);
  s.last = reinterpret_cast<int*>(s.row_scale + kRowsPadded);

  ptx::wait_for_dependencies();
  uint64_t began = TIMELINE ? ptx::global_nanoseconds() : 0;
  Loader loader(p, warp, lane);
  Descriptor d = p.map[blockIdx.x];
  Descriptor after;
  int num_empty = __ldg(p.header + kNumEmpty);
  Queries queries;
  int stage = 0;  // ring position of the next slab to use
  int at = blockIdx.x;
  if (d.num_tokens) queries.load(p, d.request, d.kv_head, 0);
#pragma unroll 1
  for (int i = 0; i < STAGES - 1; ++i) loader.issue(s.ring + i * kStageBytes);
  if (d.num_tokens) {
    queries.store(p, s, d.request, d.kv_head, 0);
    __syncthreads();
  }

  Accumulators acc;
  while (d.num_tokens) {
    // What comes next is loaded now, so that it is here when this descriptor ends.
    bool has_after = d.next >= 0;
    if (has_after) after = p.map[d.next];
    int slabs = (d.num_tokens + kSlab - 1) / kSlab;
    for (int pass = 0; pass < kPasses; ++pass) {
      bool last_pass = pass + 1 == kPasses;
      if (!last_pass) queries.load(p, d.request, d.kv_head, pass + 1);
      else if (has_after) queries.load(p, after.request, after.kv_head, 0);

      acc.clear();
      QueryFragments fragments;
      fragments.read(s, lane >> 2, lane & 3);
      uint64_t arrived = 0, streamed = 0, combined = 0;
      for (int i = warp; i < slabs; i += WARPS) {
        ptx::wait_copies<STAGES - 2>();
        __syncwarp();  // the slab is here for all lanes, and all are done with the stage that the next copies overwrite
        if (TIMELINE && i == warp) arrived = ptx::global_nanoseconds();
        int free = stage == 0 ? STAGES - 1 : stage - 1;
        loader.issue(s.ring + free * kStageBytes);
        slab(acc, fragments, s, s.ring + stage * kStageBytes, d.first_token + kSlab * i, d.length, pass, lane);
        stage = stage + 1 == STAGES ? 0 : stage + 1;
      }
      if (TIMELINE) streamed = ptx::global_nanoseconds();
      put(acc, s, warp, lane);
      __syncthreads();
      finish(p, s, d, pass);
      if (!last_pass) queries.store(p, s, d.request, d.kv_head, pass + 1);
      else if (has_after) queries.store(p, s, after.request, after.kv_head, 0);

      if (TIMELINE) combined = ptx::global_nanoseconds();
      bool split_done = d.num_chunks > 1 && last_pass;
      if (split_done) __threadfence();
      __syncthreads();
      if (split_done) {
        uint32_t* counter = p.counters + d.kv_head * int64_t(p.max_batch) + d.request;
        if (threadIdx.x == 0) {
          bool last = ptx::count_arrival(counter) + 1 == static_cast<uint32_t>(d.num_chunks);
          if (last) *counter = 0;  // ready for the next launch
          *s.last = last;
        }
        __syncthreads();
        if (*s.last)
          for (int i = 0; i < kPasses; ++i) merge(p, d, i);
      }
      if constexpr (TIMELINE) {
        if (threadIdx.x == 0 && last_pass) {
          uint64_t* row = p.timeline + int64_t(at) * kTimelineColumns;
          uint64_t now = ptx::global_nanoseconds();
          row[0] = began, row[1] = arrived, row[2] = streamed, row[3] = combined, row[4] = now;
          row[5] = ptx::sm_id(), row[6] = split_done && *s.last, row[7] = blockIdx.x;
          began = now;
        }
      }
    }
    if (!has_after) break;
    at = d.next;
    d = after;
  }
  ptx::wait_copies<0>();
  ptx::launch_dependents();
  write_empties(p, num_empty);
}
