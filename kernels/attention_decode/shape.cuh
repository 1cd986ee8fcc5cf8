// Sizes, parameters and shared memory of the decode attention kernel.
#pragma once
#include "attention_decode/task_map.cuh"
#include "common/barriers.cuh"
#include "common/ptx.cuh"

constexpr int kSlab = 16;                              // tokens a warp handles at a time; divides every page size
constexpr int kFetch = 64;                             // tokens a stage: a slab for each warp of a group
constexpr int kGroupWarps = kFetch / kSlab;
constexpr int kGroups = WARPS / kGroupWarps;           // groups take stages in turn
constexpr int kStages = STAGES * kGroups;              // stages of the CTA's ring
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
constexpr int kBoxStride = kFetch * kBoxBytes;         // from a box of a row to the next
constexpr int kFetchBytes = kFetch * kRowBytes;        // of K, and of V
constexpr int kStageBytes = 2 * kFetchBytes;

constexpr int kKVector = 16 / kElement;                // head dims in a 16-byte piece of K
constexpr int kKStepsAPiece = kKVector / 4;
constexpr int kVBytes = kBoxBytes / 8;                 // bytes of a box row of V that a thread owns: 16, or 8
constexpr int kVVector = kVBytes / kElement;           // head dims in them

constexpr int kThreads = 32 * WARPS;                   // those that compute; the loader's warp comes after them
// ns: begin, first slab here, last slab done, combined, end; SM, leads, CTA; ns of a leader's merge: begin, end
constexpr int kTimelineColumns = 10;
constexpr int kStripDims = HEAD_DIM < 128 ? HEAD_DIM : 128;  // head dims of a row that a warp merges, four a lane
constexpr int kStrips = HEAD_DIM / kStripDims;
constexpr int kStripQuads = kStripDims / 4;
constexpr int kMergeAtOnce = 8;      // pieces that a thread fetches at a time
constexpr int kOthersAtOnce = 3;     // the same, where its own piece is in registers
constexpr bool kAsksEarly = kNTiles == 1 && HEAD_DIM <= 128;  // whether there are registers for them while warps are combined
constexpr int kSharePieces = 4;      // of so many pieces of a request one leads
constexpr uint32_t kAbsent = 0xffffffffu;  // a NaN that no arithmetic produces
constexpr int kPatience = 1 << 21;   // looks at a slot before giving up: over a second
constexpr int kNextWord = 8;         // word of a descriptor that names the next
constexpr float kLazyRescale = 8.0f;
constexpr float kMinusInfinity = -__builtin_bit_cast(float, 0x7f800000u);
constexpr float kLn2 = 0.69314718055994531f;

struct Params {
  ptx::TensorMap k_map;        // [pages, page_size, kv_heads, HEAD_DIM], boxes of 2^box_shift tokens
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
  float* partial_out;          // [slots, rows, HEAD_DIM], all kAbsent between launches; see store_partial
  float2* partial_sum;         // [slots, rows, kStrips]: (reference in powers of two, sum), likewise
  uint64_t* timeline;          // [descriptors, kTimelineColumns] when TIMELINE
  int64_t q_token_stride, q_head_stride;                             // bytes
  int64_t scale_page_stride, scale_token_stride, scale_head_stride;  // bytes, of k_scale per token
  int64_t table_stride;        // elements
  int batch;
  int table_columns;
  int map_rows;                // descriptors that the map has room for
  int kv_heads;
  int resident;                // all CTAs of the grid fit the GPU at once
  int page_shift;
  int box_shift;               // tokens that the copy engine takes at a time: kFetch, or fewer where a page or tile has less
  int v_scale_per_head;
  int early_map;               // the map and the table are older than the kernel before this one
  int early_cache;             // so is the cache, but for the newest Q_LEN tokens of each request
  float scale;                 // softmax scale times log2(e)
};

// Inputs are read past L1 (__ldcg) everywhere: with programmatic dependent launch an SM may still hold lines that the
// kernels before this one read before they were written.
//
// A descriptor is read by a warp, lane i its word i, and unpacked when it is needed: that takes one register instead of nine.
__device__ __forceinline__ int read_words(const Params& p, int index, int lane) {
  unsigned inside = min(unsigned(index), unsigned(p.map_rows - 1));
  return __ldcg(reinterpret_cast<const int*>(p.map + inside) + min(lane, kNextWord));
}
__device__ __forceinline__ int word(int words, int i) { return __shfl_sync(~0u, words, i); }
__device__ __forceinline__ Descriptor unpack(int words) {
  return {word(words, 0), word(words, 1), word(words, 2), word(words, 3), word(words, 4),
          word(words, 5), word(words, 6), word(words, 7), word(words, kNextWord), {}};
}

__device__ __forceinline__ uint4 load_shared_16(const uint8_t* p) { return *reinterpret_cast<const uint4*>(p); }

__device__ __forceinline__ void mma(float (&d)[4], const uint32_t (&a)[4], uint2 b) {
  if constexpr (CACHE_FP8) ptx::mma_f16(d, a, b.x, b.y);
  else ptx::mma_bf16(d, a, b.x, b.y);
}

__device__ __forceinline__ uint32_t pack(float low, float high) {
  return CACHE_FP8 ? ptx::pack_f16(low, high) : ptx::pack_bf16(low, high);
}

// Byte offset of a 16-byte piece of a slab as the copy engine lays it out: box by box of a row, and in a box of 128-byte
// rows the piece is XORed with the row, in one of 64-byte rows with half the row.
__device__ __forceinline__ int offset(int row, int piece) {
  int box = piece / kBoxPieces, inside = piece % kBoxPieces;
  int twist = kBoxPieces == 8 ? row & 7 : (row >> 1) & 3;
  return box * kBoxStride + row * kBoxBytes + ((inside ^ twist) * 16);
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
  uint8_t* ring;      // [kStages][K, V], each [kBoxes][kFetch] rows of a box
  float* k_scales;    // [kStages][kFetch]
  uint32_t barriers;  // [2][kStages]: a stage's bytes are there, a stage's bytes are used
  float* combine;     // [WARPS][kRowsPadded][HEAD_DIM]
  uint2* q;           // [kKSteps][kRowsPadded][4 threads of a quad]: 4 head dims, 16 bits each
  float* row_scale;   // [kRowsPadded]
  float2* sums;       // [WARPS][kRowsPadded]: softmax reference and sum of each warp

  __device__ __forceinline__ uint32_t full(int stage) const { return barriers + 8 * stage; }
  __device__ __forceinline__ uint32_t empty(int stage) const { return barriers + 8 * (kStages + stage); }
};

// The barrier of the threads that compute.
__device__ __forceinline__ void synchronize() { ptx::synchronize(1, kThreads); }

constexpr int kRingBytes = kStages * kStageBytes;
constexpr int kCombineBytes = WARPS * kRowsPadded * HEAD_DIM * 4;
constexpr int kQBytes = kRowsPadded * HEAD_DIM * 2;
constexpr int kSumsBytes = WARPS * kRowsPadded * 8;
constexpr int kScalesBytes = K_SCALE_PER_TOKEN ? kStages * kFetch * 4 : 0;
constexpr int kBarriersBytes = 2 * kStages * 8;

// Where float4 `quad` of a row of the combine buffer lies: spread so that a quad of threads, which writes four rows at
// one head dim, touches all banks.
__device__ __forceinline__ int combine_quad(int row, int quad) {
  int t = (row >> 1) & 3;
  return quad ^ (kVVector == 16 ? t : (t & 1) | ((t & 2) << 1));
}
