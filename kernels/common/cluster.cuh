// PTX of thread block clusters and of waiting with an end, one thin function an instruction.
#pragma once
#include "common/ptx.cuh"

namespace ptx {

// How often a wait asks before it gives up; each time the hardware may suspend the thread for a while.
constexpr int kBarrierPatience = 1 << 20;

// Waits for a phase of a barrier. False when it does not come: a wrong kernel ends in NaN, not in a hang.
__device__ __forceinline__ bool wait_barrier_patiently(uint32_t barrier, uint32_t parity) {
  uint32_t done;
  asm volatile(
      "{\n"
      ".reg .pred done, more;\n"
      ".reg .b32 left;\n"
      "mov.b32 left, %3;\n"
      "again_%=:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\n"
      "@done bra out_%=;\n"
      "sub.s32 left, left, 1;\n"
      "setp.gt.s32 more, left, 0;\n"
      "@more bra again_%=;\n"
      "out_%=:\n"
      "selp.b32 %0, 1, 0, done;\n"
      "}" : "=r"(done) : "r"(barrier), "r"(parity), "n"(kBarrierPatience) : "memory");
  return done;
}

__device__ __forceinline__ void arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// The address, in CTA `rank` of the cluster, of what lies at `address` in this CTA.
__device__ __forceinline__ uint32_t address_in(uint32_t address, int rank) {
  uint32_t r;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(address), "r"(rank));
  return r;
}

// Arrives at a barrier of any CTA of the cluster, to say that reading is done. It does not publish what this thread wrote:
// that takes `.release.cluster`, which waits for all of the thread's memory accesses and has no place in a loop over stages.
__device__ __forceinline__ void arrive_in_cluster(uint32_t cluster_address) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(cluster_address) : "memory");
}

// Stores to any CTA of the cluster; the bytes count at a barrier of that CTA, whose waiters see them.
__device__ __forceinline__ void store_counted(uint32_t cluster_address, float2 x, uint32_t cluster_barrier) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::"r"(cluster_address),
               "f"(x.x), "f"(x.y), "r"(cluster_barrier) : "memory");
}

__device__ __forceinline__ void store_counted(uint32_t cluster_address, float4 x, uint32_t cluster_barrier) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];"
               ::"r"(cluster_address), "f"(x.x), "f"(x.y), "f"(x.z), "f"(x.w), "r"(cluster_barrier) : "memory");
}

// The barrier of all threads of the cluster. What a thread wrote before it arrived, others see after their wait.
__device__ __forceinline__ void arrive_cluster() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }

// The same without publishing what was written; initialised barriers are published by `fence_barrier_init`.
__device__ __forceinline__ void arrive_cluster_relaxed() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }

__device__ __forceinline__ void wait_cluster() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

// Copies the box at (x, y) of a 2-dimensional tensor.
__device__ __forceinline__ void copy_box(uint32_t to, const TensorMap* map, uint32_t barrier, int x, int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y) : "memory");
}

// Copies the box at (x, y, z, w) of a 4-dimensional tensor into the CTAs whose bits `mask` holds, at the same place in
// each, each told by its own barrier.
__device__ __forceinline__ void copy_box_to_many(uint32_t to, const TensorMap* map, uint32_t barrier, int x, int y, int z,
                                                 int w, uint32_t mask) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
      " [%0], [%1, {%3, %4, %5, %6}], [%2], %7;" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w), "h"(static_cast<unsigned short>(mask)) : "memory");
}

}  // namespace ptx
