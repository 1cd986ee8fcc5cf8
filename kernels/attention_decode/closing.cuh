// The end of a descriptor: warps are combined, and pieces of one request.
#pragma once
#include "attention_decode/shape.cuh"
#include "attention_decode/slab.cuh"

// Writes this warp's state to its combine buffer: zeros and a reference of -inf where it had no slab.
__device__ __forceinline__ void put(const Accumulators& acc, const Shared& s, int warp, int lane) {
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
    float4* to = reinterpret_cast<float4*>(s.combine + (warp * kRowsPadded + row) * HEAD_DIM);
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

// The merge of a request is dealt to a power of two of leaders, each with an equal share of the rows: every
// kSharePieces-th piece from the first on, as many as there are rows. A contiguous fill puts these pieces last in their
// bins. Where not all CTAs are resident at once only the last piece leads, for its CTA starts after those it waits for.
__device__ __forceinline__ int share_shift(const Params& p, const Descriptor& d) {
  int leaders = p.resident ? max(1, d.num_chunks / kSharePieces) : 1;
  return 31 - __clz(min(leaders, kRows));
}

__device__ __forceinline__ bool leads(const Params& p, const Descriptor& d) {
  if (d.num_chunks == 1) return false;
  if (!p.resident) return d.chunk + 1 == d.num_chunks;
  return d.chunk % kSharePieces == 0 && d.chunk / kSharePieces >> share_shift(p, d) == 0;
}

__device__ __forceinline__ bool absent(float x) { return __float_as_uint(x) == kAbsent; }
__device__ __forceinline__ bool absent(float2 x) { return absent(x.x) || absent(x.y); }
__device__ __forceinline__ bool absent(float4 x) { return absent(x.x) || absent(x.y) || absent(x.z) || absent(x.w); }

__device__ __forceinline__ float present(float x) { return absent(x) ? __uint_as_float(0x7fffffff) : x; }
__device__ __forceinline__ float4 present(float4 x) { return make_float4(present(x.x), present(x.y), present(x.z), present(x.w)); }

// Where a strip of a partial result lies.
__device__ __forceinline__ int64_t partial_index(int slot, int strip) { return int64_t(slot) * (kRows * kStrips) + strip; }

// Stores a partial result for other CTAs: each word tells by itself whether it is there, so the stores need no order.
__device__ __forceinline__ void store_partial(const Params& p, int slot, int row, int quad, const Sum& x) {
  int64_t at = partial_index(slot, row * kStrips + quad / kStripQuads);
  ptx::store_shared_with_grid(p.partial_out + at * kStripDims + 4 * (quad % kStripQuads), present(x.o));
  if (quad % kStripQuads == 0) ptx::store_shared_with_grid(p.partial_sum + at, make_float2(x.reference, x.sum));
}

// Up to `count` partial results of one strip on their way from L2, four head dims a lane.
template <int count>
struct Pieces {
  float4 o[count];
  float2 sum[count];

  // Expects those in slots slot, slot + step, ... below `end`.
  __device__ __forceinline__ void expect(int slot, int step, int end) {
    const float nothing = __uint_as_float(kAbsent);
#pragma unroll
    for (int i = 0; i < count; ++i) {
      bool exists = slot + i * step < end;
      o[i] = exists ? make_float4(nothing, nothing, nothing, nothing) : make_float4(0, 0, 0, 0);
      sum[i] = exists ? make_float2(nothing, nothing) : make_float2(kMinusInfinity, 0.0f);
    }
  }
  // Asks for what is not there yet; does not wait for the answer.
  __device__ __forceinline__ void look(const Params& p, int slot, int step, int strip, int quad) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      int64_t at = partial_index(slot + i * step, strip);
      if (absent(o[i])) o[i] = ptx::load_shared_with_grid(reinterpret_cast<const float4*>(p.partial_out + at * kStripDims) + quad);
      if (absent(sum[i])) sum[i] = ptx::load_shared_with_grid(p.partial_sum + at);
    }
  }
  __device__ __forceinline__ bool waiting() const {
    bool any = false;
#pragma unroll
    for (int i = 0; i < count; ++i) any |= absent(o[i]) || absent(sum[i]);
    return any;
  }
  // Waits for all and adds them up.
  __device__ __forceinline__ void add_to(Sum& total, const Params& p, int slot, int step, int strip, int quad) {
#pragma unroll 1
    for (int patience = kPatience; waiting() && patience; --patience) look(p, slot, step, strip, quad);  // NaN, no hang
    Sum before = total;
#pragma unroll
    for (int i = 0; i < count; ++i) total.reference = fmaxf(total.reference, sum[i].x);
    total.o = make_float4(0, 0, 0, 0), total.sum = 0.0f;
    add(total, before.o, make_float2(before.reference, before.sum));
#pragma unroll
    for (int i = 0; i < count; ++i) add(total, o[i], sum[i]);
  }
};

// Empties slots slot, slot + step, ... below `end` of one strip. For whole warps, when all lanes of a strip have its sum.
__device__ __forceinline__ void empty_slots(const Params& p, int slot, int step, int end, int strip, int quad) {
  const float nothing = __uint_as_float(kAbsent);
  __syncwarp();
#pragma unroll 1
  for (; slot < end; slot += step) {
    int64_t at = partial_index(slot, strip);
    __stcg(reinterpret_cast<float4*>(p.partial_out + at * kStripDims) + quad, make_float4(nothing, nothing, nothing, nothing));
    if (quad == 0) __stcg(p.partial_sum + at, make_float2(nothing, nothing));
  }
}

// The pieces that a request's only leader adds to its own, which is still in registers.
struct Others {
  int from, end;  // slots
  __device__ __forceinline__ Others(const Params& p, const Descriptor& d)
      : from(d.slot_base + (p.resident ? 1 : 0)), end(d.slot_base + d.num_chunks - (p.resident ? 0 : 1)) {}
};

// Whether that leader takes them so: if they are few.
__device__ __forceinline__ bool merges_at_once(const Descriptor& d) { return d.num_chunks < 2 * kSharePieces; }

// Brings together all pieces of a request for a leader's share of the rows and writes the output. A strip is handled by a
// warp (two, where they are half as long); where the share has fewer strips than that, warps deal the pieces among them,
// then the head dims, and what they have goes from one to the other through the ring, which nobody uses any more.
__device__ __forceinline__ void merge(const Params& p, const Shared& s, const Descriptor& d, float v_scale, int warp, int lane) {
  constexpr int sides = 32 / kStripQuads, places = WARPS * sides;
  int shift = share_shift(p, d), share = p.resident ? d.chunk / kSharePieces : 0;
  int first = (share * kRows >> shift) * kStrips, strips = ((share + 1) * kRows >> shift) * kStrips - first;
  int parts = 1;
  while (2 * parts * strips <= places) parts *= 2;
  int quad = lane % kStripQuads, place = warp * sides + lane / kStripQuads, part = place % parts;
  float4* given = reinterpret_cast<float4*>(s.ring);                         // [places][kStripQuads]
  float2* sums = reinterpret_cast<float2*>(given + places * kStripQuads);    // [places]
#pragma unroll 1
  for (int base = 0; base < strips; base += places / parts) {
    int strip = first + base + place / parts, from = d.slot_base + part;
    bool mine = strip < first + strips;
    int end = mine ? d.slot_base + d.num_chunks : 0, dims = 4 * quad;
    Sum total{make_float4(0, 0, 0, 0), kMinusInfinity, 0.0f};
#pragma unroll 1
    for (int done = 0; done < d.num_chunks; done += kMergeAtOnce * parts) {
      Pieces<kMergeAtOnce> pieces;
      pieces.expect(from + done, parts, end);
      pieces.look(p, from + done, parts, strip, quad);
      pieces.add_to(total, p, from + done, parts, strip, quad);
    }
    if (parts > 1) {
      given[place * kStripQuads + quad] = total.o;
      if (quad == 0) sums[place] = make_float2(total.reference, total.sum);
      synchronize();
      // Lane (i, q) takes from the i-th of its strip's places the q-th of the quads that are this place's.
      int each = kStripQuads / parts, i = quad / each, at = place - part + i;
      dims = 4 * (part * each + quad % each);
      float2 piece = sums[at];
      total = {make_float4(0, 0, 0, 0), piece.x, 0.0f};
      for (int d = each; d < kStripQuads; d *= 2) total.reference = fmaxf(total.reference, __shfl_xor_sync(~0u, total.reference, d));
      add(total, given[at * kStripQuads + dims / 4], piece);
#pragma unroll 1
      for (int d = each; d < kStripQuads; d *= 2) {
        total.o.x += __shfl_xor_sync(~0u, total.o.x, d), total.o.y += __shfl_xor_sync(~0u, total.o.y, d);
        total.o.z += __shfl_xor_sync(~0u, total.o.z, d), total.o.w += __shfl_xor_sync(~0u, total.o.w, d);
        total.sum += __shfl_xor_sync(~0u, total.sum, d);
      }
      mine = mine && i == 0;
    }
    if (mine) store_output(p, d.request, d.kv_head, v_scale, strip / kStrips, strip % kStrips * kStripDims + dims, total);
    empty_slots(p, from, parts, end, strip, quad);
  }
}

// ---- one piece --------------------------------------------------------------------------------------------------

// What a descriptor's sum is for: the output; the output with the other pieces added; a slot.
enum class Close { kOutput, kMerge, kSlot };

// Adds up the combine buffers of all warps. Returns, in an instrumented build, when this piece was summed. `others` holds
// what was asked for, see `ask`.
__device__ __forceinline__ uint64_t combine(const Params& p, const Shared& s, const Descriptor& d, float v_scale, int pass, Close close,
                                            Pieces<kOthersAtOnce>& others, int lane) {
  constexpr int quads = HEAD_DIM / 4;
  uint64_t summed = 0;
#pragma unroll 1
  for (int at = threadIdx.x; at - lane < kRowsAPass * quads; at += kThreads) {  // whole warps
    int local = at / quads, quad = at % quads;
    int row = pass * kRowsAPass + local;
    bool mine = local < kRowsAPass && row < kRows;
    if (!mine) local = 0, row = 0;
    Sum total{make_float4(0, 0, 0, 0), kMinusInfinity, 0.0f};
    float2 piece[WARPS];
    float4 part[WARPS];
#pragma unroll
    for (int w = 0; w < WARPS; ++w) {
      part[w] = reinterpret_cast<const float4*>(s.combine + (w * kRowsPadded + local) * HEAD_DIM)[combine_quad(local, quad)];
      piece[w] = s.sums[w * kRowsPadded + local];
      total.reference = fmaxf(total.reference, piece[w].x);
    }
#pragma unroll
    for (int w = 0; w < WARPS; ++w) add(total, part[w], piece[w]);
    if (TIMELINE && at == threadIdx.x) summed = ptx::global_nanoseconds();
    if (close == Close::kMerge) {
      Others them(p, d);
      int end = mine ? them.end : 0, strip = row * kStrips + quad / kStripQuads;
#pragma unroll 1
      for (int slot = them.from; slot < them.end; slot += kOthersAtOnce) {
        if (!kAsksEarly || at != threadIdx.x || slot != them.from) others.expect(slot, 1, end);
        others.add_to(total, p, slot, 1, strip, quad % kStripQuads);
      }
      if (mine) store_output(p, d.request, d.kv_head, v_scale, row, 4 * quad, total);
      empty_slots(p, them.from, 1, end, strip, quad % kStripQuads);
    } else if (mine) {
      if (close == Close::kOutput) store_output(p, d.request, d.kv_head, v_scale, row, 4 * quad, total);
      else store_partial(p, d.slot_base + d.chunk, row, quad, total);
    }
  }
  return summed;
}

// Asks for the other pieces before this one is summed, so that those that are there cost no time then.
__device__ __forceinline__ void ask(const Params& p, const Descriptor& d, int pass, Pieces<kOthersAtOnce>& others) {
  constexpr int quads = HEAD_DIM / 4;
  Others them(p, d);
  int row = pass * kRowsAPass + threadIdx.x / quads, quad = threadIdx.x % quads;
  bool mine = threadIdx.x < kRowsAPass * quads && row < kRows;
  others.expect(them.from, 1, mine ? them.end : 0);
  others.look(p, them.from, 1, row * kStrips + quad / kStripQuads, quad % kStripQuads);
}
