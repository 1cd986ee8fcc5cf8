// What the copy engine is asked for, and when.
#pragma once
#include "attention_decode/shape.cuh"

// One warp's way through the slabs of its bin, as seen by the copies (which run STAGES slabs ahead). Nothing here waits for
// memory after the start: while one descriptor is copied, the pages of the next and the descriptor after it are under way.
//
// No index taken from the map or from the table leads outside them, whatever they hold: a loader may be made from what
// they held before the kernel ahead wrote them, to say what will probably be needed (`prefetch`).
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

  static __device__ __forceinline__ void read_pages(const Params& p, Work& w, int from, int warp, int lane) {
    int s = from + lane;
    if (s < w.steps && p.table_columns > 0) {
      int token = w.first + kSlab * (warp + WARPS * s);
      unsigned request = min(unsigned(w.request), unsigned(p.batch - 1));
      unsigned column = min(unsigned(token) >> p.page_shift, unsigned(p.table_columns - 1));
      w.pages = __ldcg(p.block_table + request * p.table_stride + column);
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
    if (any_raw) raw = read_words(p, next, lane);
    read_pages(p, then, 0, warp, lane);
  }
  // `words` is the bin's first descriptor, `after` becomes its second.
  __device__ __forceinline__ Loader(const Params& p, int words, int& after, int warp, int lane)
      : step(0), pass(0), more(false), raw(words), any_raw(true) {
    then.pages = 0;
    shift(p, warp, lane);
    now = then;
    after = raw;
    shift(p, warp, lane);
  }
  // Asks for this warp's first slabs to be brought to L2. A hint: nothing depends on its being right.
  __device__ __forceinline__ void prefetch(const Params& p, int warp, int lane) const {
    if (lane >= min(PREFETCH, now.steps)) return;
    int token = now.first + kSlab * (warp + WARPS * lane);
    int in_page = token & ((1 << p.page_shift) - 1);
#pragma unroll 1
    for (int box = 0; box < kBoxes; ++box) {
      int dim = box * (kBoxBytes / kElement);
      ptx::prefetch_box(&p.k_map, dim, now.kv_head, in_page, now.pages);
      ptx::prefetch_box(&p.v_map, dim, now.kv_head, in_page, now.pages);
    }
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
  // K scales come as one group of ordinary asynchronous copies a call, an empty one where there is nothing to copy.
  __device__ __forceinline__ void issue(const Params& p, const Shared& s, int stage, int warp, int lane) {
    if (step < now.steps || advance(p, warp, lane)) copy(p, s, stage, warp, lane);
    if constexpr (K_SCALE_PER_TOKEN) ptx::commit_copies();
  }

  __device__ __forceinline__ void copy(const Params& p, const Shared& s, int stage, int warp, int lane) {
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
