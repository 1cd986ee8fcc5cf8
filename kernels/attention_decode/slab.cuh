// Sixteen tokens: scores, online softmax, output.
#pragma once
#include "attention_decode/queries.cuh"
#include "attention_decode/shape.cuh"

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
    const uint8_t* from = k + (kBoxPieces == 8 ? l.k[j % 2] + j / 2 * kBoxStride : l.k[0]);
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
      const uint8_t* from = v + l.v[i & 1] + (i >> 1) * 8 * kBoxBytes + box * kBoxStride;
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

// One slab: scores, mask, online softmax, output. `k` is its first row of K, V lies kFetchBytes behind; `token` is its
// first token, `k_scales` its scales where there are any.
__device__ __forceinline__ void slab(Accumulators& acc, const QueryFragments& q, const Shared& s, const uint8_t* k,
                                     const float* k_scales, int token, int length, int pass, const Lane& l) {
  int g = l.g, t = l.t;
  Values values;
  values.load(k + kFetchBytes, 0, l);
  float score[kNTiles][4];
  scores(score, q, s, k, l);

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
  accumulate(acc, probability, values, k + kFetchBytes, l);
}

// Zeroes what lies behind the last of `valid` tokens in V: their probability is 0, and 0 * NaN is not.
__device__ __forceinline__ void clear_tail(uint8_t* v, int valid, int lane) {
#pragma unroll 1
  for (int at = lane; at < kSlab * kPieces; at += 32) {
    int row = at / kBoxPieces % kSlab, box = at / (kBoxPieces * kSlab);
    if (row >= valid) *reinterpret_cast<uint4*>(v + box * kBoxStride + row * kBoxBytes + at % kBoxPieces * 16) = make_uint4(0, 0, 0, 0);
  }
  ptx::fence_copy_engine();
  __syncwarp();
}
