// Barriers of some of a CTA's threads. (`arrive` is also in cluster.cuh; no kernel includes both.)
#pragma once
#include "common/types.cuh"

namespace ptx {

// Arrives at an mbarrier; what this thread did before is seen by those who wait.
__device__ __forceinline__ void arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Barrier `id` of the CTA, for `threads` of its threads: whole warps.
__device__ __forceinline__ void synchronize(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

}  // namespace ptx
