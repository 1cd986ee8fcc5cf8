// What a compact map of upstream's rule is in upstream's dense format: rows of 12 int32, a header row, `budget + 1`
// rows a bin (unused ones -1, -1, 0 ...), then the pieces of each (KV head, request).
#pragma once
#include "attention_decode/task_map.cuh"

struct DenseParams {
  const Descriptor* map;
  const int* header;
  const int* empties;
  int* dense;          // zeroed by the caller
  int num_ctas, kv_heads, batch, q_len, budget;
};

// Writes the rows of `bin`, by one CTA; that of the first bin writes the header row too.
__device__ __forceinline__ void write_dense_bin(const DenseParams& p, int bin) {
  int slots = p.budget + 1;
  int* rows = p.dense + 12 * (1 + int64_t(bin) * slots);
  int* counts = p.dense + 12 * (1 + int64_t(p.num_ctas) * slots);
  __shared__ int used;
  if (threadIdx.x == 0) {
    int slot = 0;
    for (int at = bin; at >= 0 && p.map[at].num_tokens; at = p.map[at].next, ++slot) {
      const Descriptor& d = p.map[at];
      int end = d.first_token + d.num_tokens;
      bool last = d.chunk + 1 == d.num_chunks;
      // The new tokens are not in the cache yet; what the last piece has no room for is missing before it.
      int missing = last ? p.q_len : (d.chunk + 2 == d.num_chunks ? max(p.q_len - (d.length - end), 0) : 0);
      int cached = d.num_tokens - missing;
      int values[9] = {d.kv_head, d.request, d.chunk, d.first_token, d.num_tokens, cached, (d.num_tokens + 63) / 64,
                       max(cached, 0) / 64, missing > 0};
      for (int i = 0; i < 9; ++i) rows[12 * slot + i] = values[i];
      if (d.chunk == 0) {
        counts[d.kv_head * p.batch + d.request] = d.num_chunks;
        atomicMax(p.dense + 5, d.num_chunks);
      }
    }
    used = slot;
    if (bin == 0) {
      p.dense[0] = slots, p.dense[1] = p.num_ctas, p.dense[2] = p.kv_heads, p.dense[3] = p.batch;
    }
  }
  __syncthreads();
  for (int slot = used + threadIdx.x; slot < slots; slot += blockDim.x) rows[12 * slot] = rows[12 * slot + 1] = -1;
}
