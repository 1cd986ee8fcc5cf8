// The end of a descriptor: warps are combined, and pieces of one request.
#pragma once
#include "attention_decode/shape.cuh"
#include "attention_decode/slab.cuh"

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
