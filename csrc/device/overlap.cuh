// Kernels that begin while the one before them still runs ("griddepcontrol"), where the device and the machine code
// have that: compute capability 9.0 and later. Elsewhere they follow each other.
#pragma once

#include <map>
#include <mutex>
#include <utility>

#include "device/current_device.h"
#include "device/launch.cuh"
#include "device/ptx/threads.cuh"

namespace convt3d {

// The next kernel may begin, once all blocks have said so.
__device__ __forceinline__ void begin_dependents() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  hopper::allow_dependents();
#endif
}
// Until what the kernel before wrote is there to be read.
__device__ __forceinline__ void wait_for_kernel_before() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  hopper::wait_for_predecessors();
#endif
}

// How a kernel is launched that waits for the one before it by itself. Machine code that was made for an older
// architecture does not wait, whatever the device.
inline LaunchOrder overlapping_order(const char* name, const void* function) {
  static std::mutex mutex;
  static auto* const known = new std::map<std::pair<const void*, int>, bool>;  // other threads may outlive exit
  int device = 0;
  check_cuda(cudaGetDevice(&device), name);
  const std::lock_guard<std::mutex> lock(mutex);
  const auto found = known->find({function, device});
  if (found != known->end()) return found->second ? LaunchOrder::kOverlapping : LaunchOrder::kAfter;
  cudaFuncAttributes attributes{};
  check_cuda(cudaFuncGetAttributes(&attributes, function), name);
  const bool waits = current_device().traits.capability_major >= 9 && attributes.ptxVersion >= 90;
  (*known)[{function, device}] = waits;
  return waits ? LaunchOrder::kOverlapping : LaunchOrder::kAfter;
}

}  // namespace convt3d
