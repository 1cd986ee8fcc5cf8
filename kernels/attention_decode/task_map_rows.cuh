// Which descriptors a fill gives, and where they lie: one that begins a bin at the bin's number, one that begins an
// item inside a bin at num_ctas + kv_head * max_batch + request. So a thread knows the place of its row and of the next
// without counting those before.
#pragma once
#include "attention_decode/task_map_trial.cuh"

// A chosen fill.
struct Fill {
  bool listed;        // cuts are those of `cuts`, else every `budget` tiles
  const Cut* cuts;
  const int* before;  // as bins are measured, what lies before each item
  int of_head, budget, reach, total;
  uint32_t inverse_budget;
  bool by_weight;

  // Position of cut `c`. A work floor makes budgets whose products need 64 bits.
  __device__ __forceinline__ int operator()(int c) const {
    return listed ? cuts[c].x : int(min(uint64_t(unsigned(c)) * unsigned(budget), uint64_t(unsigned(total))));
  }
  // The bins that hold the first and the last tile of an item. A cut ends up behind the item's start if it lies more
  // than `reach` or half the item behind it, and before the item's end if it lies more than `reach` before that.
  __device__ __forceinline__ int2 homes(const MapParams& p, const Found& found, int head, int number, int tiles) const {
    int first = min(reach, tiles / 2) + 1, last = max(tiles - reach, 0);
    if (by_weight) {
      first = weight_before(p, first, found.piece, found.period, found.piece_inverse);
      last = weight_before(p, last, found.piece, found.period, found.piece_inverse);
    }
    int start = head * of_head + before[number];
    int home = divide_up(start + first, budget, inverse_budget) - 1;
    return make_int2(home, max(home, divide_up(start + last, budget, inverse_budget) - 1));
  }
};

// Candidate `chosen`; where none was tried, upstream's fill of `upstream` tiles a bin, whose cuts take no list.
__device__ __forceinline__ Fill chosen_fill(const MapParams& p, Stream stream, HeadSums sums,
                                            const Found& found, const Cut* cuts, int chosen, int upstream, int total) {
  Fill fill{p.balanced && total > 0, cuts + chosen * (p.num_ctas + 1), stream.starts, sums.tiles, upstream, 0, total,
            0, false};
  if (!fill.listed) {
    fill.inverse_budget = inverse_of(upstream);
  } else {
    fill.reach = found.rules[chosen].reach;
    fill.budget = found.budgets[chosen].x, fill.inverse_budget = found.budgets[chosen].y;
    fill.by_weight = chosen >= kTimed;
    if (fill.by_weight) fill.before = stream.weights, fill.of_head = stream.weights[sums.count];
  }
  return fill;
}

// Writes row `at`, if there is one: of the first `bins` a bin's, of the others an item's.
__device__ __forceinline__ void write_row(const MapParams& p, Stream stream, HeadSums sums, const Found& found,
                                          const Fill& fill, int bins, int at) {
  int count = sums.count;
  bool leads = at < bins;  // begins a bin
  int low = 0, limit = 0, item = at - bins, head = 0, number = item;
  if (leads) {
    if (at >= p.num_ctas) return;
    low = fill(at), limit = fill(at + 1);
    if (low == limit) {
      int4* row = p.map + int64_t(at) * 3;
      row[0] = row[1] = make_int4(0, 0, 0, 0);
      row[2] = make_int4(-1, 0, 0, 0);
      return;
    }
    if (fill.listed) number = item = fill.cuts[at].y >> 1;
  }
  if (!leads || fill.listed) {
    if (p.kv_heads > 1) head = item / count, number = item - head * count;
  } else {
    if (p.kv_heads > 1) head = low / sums.tiles;
    number = last_not_above(p.batch, count, low - head * sums.tiles, [&](int i) { return stream.starts[i]; });
  }
  int start = stream.starts[number], tiles = stream.starts[number + 1] - start, request = stream.requests[number];
  int2 homes = fill.homes(p, found, head, number, tiles);
  start += head * sums.tiles;
  int end = start + tiles, index = at;
  if (!leads) {
    if (fill(homes.x) == start) return;  // the bin's first row
    low = start, limit = fill(homes.x + 1), index = p.num_ctas + head * p.max_batch + request;
  }
  int next = -1;
  if (end < limit) {
    bool over = number + 1 == count;
    next = p.num_ctas + (head + over) * p.max_batch + stream.requests[over ? 0 : number + 1];
  }
  int length = (tiles << p.tile_shift) - stream.slack[number], first = (low - start) << p.tile_shift;
  int tokens = end <= limit ? length - first : (limit - low) << p.tile_shift;
  // Partial results at twice the bin: an item of n pieces ends n - 1 bins on, so the next one's lie behind its own.
  int4* row = p.map + int64_t(index) * 3;
  row[0] = make_int4(request, head, first, tokens);
  row[1] = make_int4(length, (leads ? at : homes.x) - homes.x, homes.y - homes.x + 1, 2 * homes.x + 1);
  row[2] = make_int4(next, 0, 0, 0);
}
