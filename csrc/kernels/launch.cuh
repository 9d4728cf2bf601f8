// The one place that launches a kernel, and what a failed launch says.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <climits>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "kernels/api.h"

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

inline int multiprocessor_count() {
  int device = 0;
  int count = 0;
  check_cuda(cudaGetDevice(&device), "asking for the current device");
  check_cuda(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device), "asking for the device");
  return count;
}

// `blocks` past the largest grid are taken by the kernels' own loops over their tiles.
template <typename Params>
void launch(const char* name, void (*kernel)(Params), int64_t blocks, int threads, Stream stream, const Params& params,
            int64_t shared_bytes = 0) {
  if (blocks == 0) return;
  const void* function = reinterpret_cast<const void*>(kernel);
  if (shared_bytes > 0) {
    check_cuda(
        cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)),
        name);
  }
  const dim3 grid(static_cast<unsigned>(std::min<int64_t>(blocks, INT_MAX)));
  void* arguments[] = {const_cast<Params*>(&params)};
  check_cuda(cudaLaunchKernel(function, grid, dim3(static_cast<unsigned>(threads)), arguments,
                              static_cast<size_t>(shared_bytes), static_cast<cudaStream_t>(stream)),
             name);
}

}  // namespace convt3d
