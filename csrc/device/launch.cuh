// The one place that launches a kernel, and what a failed launch says.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdint>
#include <mutex>
#include <stdexcept>
#include <string>

#include "core/build.h"
#include "core/call.h"
#include "device/kernel_memo.h"
#include "device/ptx/launch.cuh"

namespace convt3d {

inline void check_cuda(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // not sticky: do not let the next caller see it
  std::string text = std::string("convt3d: ") + what + " failed: " + cudaGetErrorString(error);
  if (error == cudaErrorNoKernelImageForDevice || error == cudaErrorInvalidDeviceFunction ||
      error == cudaErrorUnsupportedPtxVersion) {
    int device = 0;
    cudaDeviceProp properties{};
    if (cudaGetDevice(&device) == cudaSuccess && cudaGetDeviceProperties(&properties, device) == cudaSuccess) {
      text += std::string(". The device is ") + properties.name + " (compute capability " +
              std::to_string(properties.major) + "." + std::to_string(properties.minor) + ")";
    }
    text += "; this build has kernels for " + compiled_architectures();
  }
  throw std::runtime_error(text);
}

// Lets `function` have `bytes` of dynamic shared memory on the current device.
inline void allow_shared_memory(const char* name, const void* function, int64_t bytes) {
  static KernelMemo allowed;
  int device = 0;
  check_cuda(cudaGetDevice(&device), name);
  std::atomic<int64_t>& known = allowed.of(function, device);
  if (bytes <= known.load(std::memory_order_acquire)) return;
  // One thread at a time, so that the driver is never told less than before.
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  if (bytes <= known.load(std::memory_order_relaxed)) return;
  check_cuda(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
             name);
  known.store(bytes, std::memory_order_release);
}

// When a kernel begins: after all earlier work of its stream or, if that kernel allows it (griddepcontrol), while the
// one before it still runs, whose results it then waits for itself.
enum class LaunchOrder { kAfter, kOverlapping };

// `blocks` past the largest grid are taken by the kernels' own loops over their tiles.
template <typename Params>
void launch(const char* name, void (*kernel)(Params), int64_t blocks, int threads, Stream stream, const Params& params,
            int64_t shared_bytes = 0, LaunchOrder order = LaunchOrder::kAfter) {
  if (blocks == 0) return;
  if (shared_bytes > 0) allow_shared_memory(name, reinterpret_cast<const void*>(kernel), shared_bytes);
  cudaLaunchAttribute overlapping{};
  overlapping.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlapping.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(std::min<int64_t>(blocks, INT_MAX)));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<size_t>(shared_bytes);
  config.stream = static_cast<cudaStream_t>(stream);
  config.attrs = &overlapping;
  config.numAttrs = order == LaunchOrder::kOverlapping ? 1 : 0;
  check_cuda(launch_kernel(config, kernel, params), name);
}

}  // namespace convt3d
