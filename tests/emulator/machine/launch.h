// The device, as its host sees it.
#pragma once

#include <cstdint>
#include <functional>

#include "cuda_runtime.h"

namespace emulator {

// The current device: its number is that of its multiprocessors and, below 9.0, more.
struct Device {
  int multiprocessors = 132;
  bool has_wgmma = true;
};
void set_device(const Device& device);
// Begins a run: what is late, and in which order, follows from the seed.
void begin_run(uint64_t seed);

// At once; in any order of its blocks. An error leaves a report.
cudaError_t launch(const cudaLaunchConfig_t& config, const void* function, const std::function<void()>& kernel);

}  // namespace emulator
