// TMA, the tensor memory accelerator ("cp.async.bulk"): contiguous bytes, and boxes of a tensor.
#pragma once

#include <cstdint>

#include "device/ptx/shared_memory.cuh"

namespace convt3d::hopper {

// Contiguous bytes, a multiple of 16, both addresses aligned to 16; completes on the barrier.
__device__ __forceinline__ void copy_to_shared(void* destination, const void* source, uint32_t bytes,
                                               uint64_t* barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared_address(destination)),
               "l"(source), "r"(bytes), "r"(shared_address(barrier))
               : "memory");
}

struct BoxOrigin {
  int32_t at[5];
};

// A box of a tensor, zero outside it; `map`: a kernel parameter's, made by cuTensorMapEncodeTiled.
__device__ __forceinline__ void copy_box_to_shared(void* destination, const void* map, const BoxOrigin& origin,
                                                   uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], "
      "[%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(shared_address(destination)),
      "l"(map), "r"(shared_address(barrier)), "r"(origin.at[0]), "r"(origin.at[1]), "r"(origin.at[2]),
      "r"(origin.at[3]), "r"(origin.at[4])
      : "memory");
}

// The other way, in the background; what lies outside the tensor is not written.
__device__ __forceinline__ void copy_box_to_global(const void* map, const void* source, const BoxOrigin& origin) {
  asm volatile(
      "cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];" ::"l"(map),
      "r"(shared_address(source)), "r"(origin.at[0]), "r"(origin.at[1]), "r"(origin.at[2]), "r"(origin.at[3]),
      "r"(origin.at[4])
      : "memory");
}
// A thread's copies to global memory since the last commit become a group.
__device__ __forceinline__ void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// All but the thread's last kPending groups have read their sources.
template <int kPending>
__device__ __forceinline__ void bulk_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

// Ordinary stores to shared memory become visible to wgmma and to bulk copies.
__device__ __forceinline__ void fence_async_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

}  // namespace convt3d::hopper
