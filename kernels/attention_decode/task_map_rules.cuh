// By which rules the candidates of policy balanced cut, all from sums over the batch: bins equal in tiles or in weight,
// how large, and how far cuts move to requests' edges. `balanced` in workbench/schedule/persistent.py has the same.
#pragma once
#include "attention_decode/task_map_stream.cuh"

constexpr long long kMaxWeight = 0x7fffffff;

// In the order in which ties are decided; the timed fill is snapped in three ways.
enum Candidate { kUpstream, kEven, kPieces, kTimed, kCandidates = kTimed + 3 };

// Where a candidate cuts. Its bins are equal in tiles or in weight.
struct alignas(16) Rule {
  int budget;  // of a bin, if in tiles
  int reach;   // cuts move to edges as far away as this
  int behind;  // the least distance behind an item's start, as bins are measured, of a cut that stays in the item
  int alike;   // candidates from here that share the cuts before they move; 0: no need to try it
};

// In shared memory: what is known of the batch when the prefix sums are, and then of the candidates.
struct Found {
  HeadSums head;
  // Only for balanced. Bins of equal weight: tiles a piece, the piece's weight, and their inverses.
  int piece, period;
  uint32_t piece_inverse, period_inverse;
  uint32_t loaded_tiles;  // tiles of a bin that are read while the chip streams
  uint32_t stream_ns;     // no makespan is shorter
  Rule rules[kCandidates];
  // Of those that were tried, see task_map_trial.cuh.
  uint2 budgets[kCandidates];  // as bins are measured, and the inverse
  uint32_t most_pieces[kCandidates], longest_bin[kCandidates];  // of an item; of all bins, nanoseconds
};

// The least bin of equal weight: two tiles with a descriptor each.
__device__ __forceinline__ int least_bin(const MapParams& p) { return 2 * (kUnits + p.descriptor_weight); }

// Whether `total` tiles of `busy` items weigh little enough for 32 bits. Cutting adds two pieces a bin at most.
__device__ __forceinline__ bool weight_fits(const MapParams& p, int total, int busy) {
  return int64_t(total) * kUnits + (int64_t(busy) + 2 * p.num_ctas) * p.descriptor_weight <= kMaxWeight;
}

// Tiles a piece of an item that is longer than a bin: what fits a bin beside a descriptor while nothing is cut yet.
__device__ __forceinline__ int tiles_a_piece(const MapParams& p, int total, int busy, int least) {
  int capacity = divide_up_by_ctas(p, total * kUnits + busy * p.descriptor_weight);
  return (max(capacity, least) - p.descriptor_weight) / kUnits;
}

// The least weight inside an item at which `tiles` of its tiles lie before a cut; see weighted_cuts in fills.py.
__device__ __forceinline__ int weight_before(const MapParams& p, int tiles, int piece, int period, uint32_t inverse) {
  int whole = divide(tiles, piece, inverse), rest = tiles - whole * piece;
  return whole * period + (rest > 0 ? rest * kUnits + p.descriptor_weight : 0);
}

// What balanced goes by, and its candidates' rules; by one warp, whose lanes divide at once.
__device__ __forceinline__ void decide(const MapParams& p, Found& found, int total, int longest, int piece,
                                       bool timed) {
  int lane = threadIdx.x % 32, period = timed ? piece * kUnits + p.descriptor_weight : 1;
  int even = max(divide_up_by_ctas(p, total), 1), upstream = max(even, p.floor_tiles);
  uint32_t quotient = (lane == 0 ? unsigned(longest) : ~0u) / unsigned(lane == 0 ? even : lane == 1 ? piece : period);
  int parts = max(int(__shfl_sync(~0u, quotient, 0)) - 1, 1);
  uint32_t piece_inverse = __shfl_sync(~0u, quotient, 1), period_inverse = __shfl_sync(~0u, quotient, 2);
  uint64_t stream_ns = stream_time(p, total);
  int pieces = max(even, divide_up(longest, parts));
  if (lane == 1) {
    found.piece = piece, found.period = period;
    found.piece_inverse = piece_inverse, found.period_inverse = period_inverse;
    found.loaded_tiles =
        p.loaded_tile_ns > p.cta_tile_ns ? divide(saturated(stream_ns), p.loaded_tile_ns, p.loaded_inverse) : 0;
    found.stream_ns = saturated(stream_ns + p.descriptor_ns);
  }
  // Upstream's fill and the even one are mostly cut alike, and pieces as the even one: then the latter is as good.
  Rule rule;
  bool weighs = lane >= kTimed;
  rule.budget = lane == kUpstream ? upstream : lane == kEven ? even : pieces;
  int share = lane == kTimed ? p.piece_tiles : even >> max(lane - kTimed + 1, 0);
  rule.reach = weighs ? share : lane == kUpstream ? 0 : rule.budget / 2;
  int weight = weight_before(p, rule.reach + 1, piece, period, piece_inverse);
  rule.behind = weighs ? weight : rule.reach + 1;
  bool other = lane == kEven ? upstream != even : pieces != even;
  rule.alike = weighs ? timed * (kCandidates - kTimed) : lane == kUpstream ? 1 + (upstream == even) : other;
  if (lane < kCandidates) {
    found.rules[lane] = rule;
    found.most_pieces[lane] = 0;
    found.longest_bin[lane] = rule.alike == 0 && lane != kEven ? kMaxTime : 0;
  }
}
