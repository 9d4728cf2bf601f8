// Hands a kernel to the device.
#pragma once

#include <cuda_runtime.h>

namespace convt3d {

template <typename Params>
cudaError_t launch_kernel(const cudaLaunchConfig_t& config, void (*kernel)(Params), const Params& params) {
  void* arguments[] = {const_cast<Params*>(&params)};
  return cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(kernel), arguments);
}

}  // namespace convt3d
