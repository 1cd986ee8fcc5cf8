// Queries: from memory to the fragments that the tensor cores take.
#pragma once
#include "attention_decode/shape.cuh"

// Asks for the queries of one pass, and their scales, to be brought to L2: a hint, also for a request that is none.
__device__ __forceinline__ void prefetch_queries(const Params& p, int request, int kv_head) {
  constexpr int lines = HEAD_DIM * kQElement / 128 + (HEAD_DIM * kQElement % 128 != 0);
  int row = threadIdx.x / lines, line = threadIdx.x % lines;
  if (row >= kRows || unsigned(request) >= unsigned(p.batch) || unsigned(kv_head) >= unsigned(p.kv_heads)) return;
  int64_t token = request * int64_t(Q_LEN) + row / GROUP;
  int head = kv_head * GROUP + row % GROUP;
  ptx::prefetch_line(p.q + token * p.q_token_stride + head * p.q_head_stride + 128 * line);
  if (p.q_scale && line == 0) ptx::prefetch_line(p.q_scale + token * (p.kv_heads * GROUP) + head);
}

// The raw queries of one pass, held in registers between the load and the store to shared memory.
struct Queries {
  static constexpr int kPieceDims = 16 / kQElement;                     // head dims in a 16-byte load
  static constexpr int kRowPieces = HEAD_DIM / kPieceDims;
  static constexpr int kLoads = kRowsPadded * kRowPieces;               // 16-byte loads of the CTA
  static constexpr int kEach = (kLoads + kThreads - 1) / kThreads;
  uint4 raw[kEach];
  float q_scale[kEach], k_scale;

  __device__ __forceinline__ void load(const Params& p, int request, int kv_head, int pass) {
    k_scale = !K_SCALE_PER_TOKEN && p.k_scale ? __ldcg(p.k_scale) : 1.0f;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      int at = i * kThreads + threadIdx.x;
      int local = at / kRowPieces, row = pass * kRowsAPass + local, dim = at % kRowPieces * kPieceDims;
      raw[i] = make_uint4(0, 0, 0, 0);
      q_scale[i] = 1.0f;
      if (local < kRowsAPass && row < kRows) {
        const uint8_t* q = p.q + (request * int64_t(Q_LEN) + row / GROUP) * p.q_token_stride +
                           (kv_head * GROUP + row % GROUP) * p.q_head_stride + dim * kQElement;
        raw[i] = __ldcg(reinterpret_cast<const uint4*>(q));
        int64_t token = request * int64_t(Q_LEN) + row / GROUP;
        if (p.q_scale) q_scale[i] = __ldcg(p.q_scale + token * (p.kv_heads * GROUP) + kv_head * GROUP + row % GROUP);
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
