// Kernels that begin while the one before them still runs ("griddepcontrol"), where the device and the machine code
// have that: compute capability 9.0 and later. Elsewhere they follow each other.
#pragma once

#include <atomic>
#include <cstdint>

#include "device/current_device.h"
#include "device/kernel_memo.h"
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
  enum : int64_t { kUnknown, kWaits, kDoesNotWait };
  static KernelMemo memo;
  int device = 0;
  check_cuda(cudaGetDevice(&device), name);
  std::atomic<int64_t>& known = memo.of(function, device);
  int64_t answer = known.load(std::memory_order_relaxed);
  if (answer == kUnknown) {  // of several threads, each may ask
    cudaFuncAttributes attributes{};
    check_cuda(cudaFuncGetAttributes(&attributes, function), name);
    const bool waits = current_device().traits.capability_major >= 9 && attributes.ptxVersion >= 90;
    answer = waits ? kWaits : kDoesNotWait;
    known.store(answer, std::memory_order_relaxed);
  }
  return answer == kWaits ? LaunchOrder::kOverlapping : LaunchOrder::kAfter;
}

}  // namespace convt3d
