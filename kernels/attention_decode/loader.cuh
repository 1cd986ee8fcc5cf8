// What the copy engine is asked for, and when: the work of one warp, the loader, for all others of its CTA.
#pragma once
#include "attention_decode/shape.cuh"

// The loader's way through its bin. Nothing here waits for memory after the start: while one descriptor is copied, the
// pages of the next and the descriptor after it are under way.
//
// No index taken from the map or from the table leads outside them, whatever they hold: a loader may be made from what
// they held before the kernel ahead wrote them, to say what will probably be needed (`prefetch`).
struct Loader {
  struct Work {
    int request, kv_head, first, tokens, length;
    int pages;  // lane i: page of box (box & ~31) + i
  };
  Work now, then;
  bool more;   // whether `then` holds a descriptor
  int raw;     // lane i: word i of the descriptor after `then`
  bool any_raw;

  static __device__ __forceinline__ void read_pages(const Params& p, Work& w, int from, int lane) {
    int inside = (from + lane) << p.box_shift;
    if (inside < w.tokens && p.table_columns > 0) {
      unsigned request = min(unsigned(w.request), unsigned(p.batch - 1));
      unsigned column = min(unsigned(w.first + inside) >> p.page_shift, unsigned(p.table_columns - 1));
      w.pages = __ldcg(p.block_table + request * p.table_stride + column);
    }
  }
  // `raw` becomes `then`, and the reading of what follows begins.
  __device__ __forceinline__ void shift(const Params& p, int lane) {
    more = any_raw;
    if (!more) return;
    then = {word(raw, 0), word(raw, 1), word(raw, 2), word(raw, 3), word(raw, 4), 0};
    int next = word(raw, kNextWord);
    any_raw = next >= 0;
    if (any_raw) raw = read_words(p, next, lane);
    read_pages(p, then, 0, lane);
  }
  // `words` is the bin's first descriptor.
  __device__ __forceinline__ Loader(const Params& p, int words, int lane) : more(false), raw(words), any_raw(true) {
    shift(p, lane);
    now = then;
    shift(p, lane);
  }
  // Asks for the bin's first tokens to be brought to L2. A hint: nothing depends on its being right.
  __device__ __forceinline__ void prefetch(const Params& p, int lane) const {
    int inside = lane << p.box_shift;
    if (inside >= min(PREFETCH * WARPS * kSlab, now.tokens)) return;
    int in_page = (now.first + inside) & ((1 << p.page_shift) - 1);
#pragma unroll 1
    for (int box = 0; box < kBoxes; ++box) {
      int dim = box * (kBoxBytes / kElement);
      ptx::prefetch_box(&p.k_map, dim, now.kv_head, in_page, now.pages);
      ptx::prefetch_box(&p.v_map, dim, now.kv_head, in_page, now.pages);
    }
  }

  // Copies tokens [inside, inside + kFetch) of `now`, or as many as there are, into a stage that is free. A box of a page
  // a lane: one, or several where pages or tiles are smaller than kFetch.
  __device__ __forceinline__ void copy(const Params& p, const Shared& s, int inside, int stage, int lane) {
    int first_box = inside >> p.box_shift, box_tokens = 1 << p.box_shift;
    if (inside && (first_box & 31) == 0) read_pages(p, now, first_box, lane);
    if (p.early_cache && now.first + inside + kFetch > now.length - Q_LEN) ptx::wait_for_dependencies();  // newest tokens
    int boxes = min(kFetch, now.tokens - inside + box_tokens - 1) >> p.box_shift;
    int page = word(now.pages, (first_box + lane) & 31);
    int page_mask = (1 << p.page_shift) - 1;
    uint32_t barrier = s.full(stage);
    if (lane == 0) ptx::arrive_expecting(barrier, boxes * (2 * kRowBytes) << p.box_shift);
    if (lane < boxes) {
      int in_page = (now.first + inside + (lane << p.box_shift)) & page_mask;
      uint32_t to = ptx::shared_address(s.ring + stage * kStageBytes) + (lane << p.box_shift) * kBoxBytes;
#pragma unroll
      for (int box = 0; box < kBoxes; ++box) {
        int dim = box * (kBoxBytes / kElement);
        ptx::copy_box(to + box * kBoxStride, &p.k_map, barrier, dim, now.kv_head, in_page, page);
        ptx::copy_box(to + kFetchBytes + box * kBoxStride, &p.v_map, barrier, dim, now.kv_head, in_page, page);
      }
    }
    if constexpr (K_SCALE_PER_TOKEN) {
#pragma unroll
      for (int i = 0; i < kFetch; i += 32) {
        int token = now.first + inside + i + lane, from_page = word(now.pages, (first_box + ((i + lane) >> p.box_shift)) & 31);
        bool live = i + lane < now.tokens - inside;
        const uint8_t* from = reinterpret_cast<const uint8_t*>(p.k_scale) + (live ? from_page * p.scale_page_stride : 0) +
                              (live ? token & page_mask : 0) * p.scale_token_stride + now.kv_head * p.scale_head_stride;
        ptx::copy_async_4(ptx::shared_address(s.k_scales + stage * kFetch + i + lane), from, live ? 4 : 0);
      }
      ptx::commit_copies();
    }
  }

  // The whole bin.
  __device__ __forceinline__ void run(const Params& p, const Shared& s, int lane) {
    int stage = 0;
    uint32_t parity = 1;  // of the phase that a stage's last use ends; the first uses wait for nothing
    int scaled = -1;      // the stage whose K scales are under way
    while (true) {
#pragma unroll 1
      for (int pass = 0; pass < kPasses; ++pass) {
        if (pass && now.tokens > 32 << p.box_shift) read_pages(p, now, 0, lane);
#pragma unroll 1
        for (int inside = 0; inside < now.tokens; inside += kFetch) {
          ptx::wait_barrier(s.empty(stage), parity);
          copy(p, s, inside, stage, lane);
          if constexpr (K_SCALE_PER_TOKEN) {  // those of the stage before are there
            ptx::wait_copies<1>();
            if (scaled >= 0) ptx::arrive(s.full(scaled));
            scaled = stage;
          }
          if (++stage == kStages) stage = 0, parity ^= 1;
        }
      }
      if (!more) break;
      now = then;
      shift(p, lane);
    }
    if constexpr (K_SCALE_PER_TOKEN) {
      ptx::wait_copies<0>();
      if (scaled >= 0) ptx::arrive(s.full(scaled));
    }
  }
};
