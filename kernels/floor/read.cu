// The least a memory-bound kernel can take: reads `bytes` once and keeps almost nothing of it.
//
// Each thread keeps kInFlight 16-byte loads under way. The sum goes to `sink` only if it equals a value that random data
// does not give, so the loads cannot be left out.
#include "common/ptx.cuh"

constexpr int kInFlight = 8;

extern "C" __global__ void __launch_bounds__(512) read_bytes(const uint4* from, int64_t count, uint32_t* sink) {
  ptx::wait_for_dependencies();
  uint32_t sum = 0;
  int64_t stride = int64_t(gridDim.x) * blockDim.x;
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride * kInFlight) {
    uint4 x[kInFlight];
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) {
      int64_t at = i + j * stride;
      if (at < count) asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(x[j].x), "=r"(x[j].y), "=r"(x[j].z), "=r"(x[j].w) : "l"(from + at));
      else x[j] = make_uint4(0, 0, 0, 0);
    }
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) sum += x[j].x ^ x[j].y ^ x[j].z ^ x[j].w;
  }
  if (sum == 0x12345677u) *sink = sum;
}
