// csrc/device/ptx/launch.cuh on a CPU.
#pragma once

#include <cuda_runtime.h>

#include "machine/launch.h"

namespace convt3d {

template <typename Params>
cudaError_t launch_kernel(const cudaLaunchConfig_t& config, void (*kernel)(Params), const Params& params) {
  return emulator::launch(config, reinterpret_cast<const void*>(kernel), [&] { kernel(params); });
}

}  // namespace convt3d
