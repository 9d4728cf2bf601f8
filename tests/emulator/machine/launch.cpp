#include "machine/launch.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cuda.h"
#include "machine/block.h"

namespace emulator {
namespace {

constexpr int kOlderDevice = 1 << 20;  // in the number of a device without wgmma

int current_device = 132;
std::map<std::pair<const void*, int>, int64_t> allowed_bytes;  // of a function on a device

}  // namespace

void set_device(const Device& device) {
  current_device = device.multiprocessors + (device.has_wgmma ? 0 : kOlderDevice);
}

void begin_run(uint64_t seed) {
  clear_report();
  Schedule& now = schedule;
  now.random.seed(seed);
  now.late_products = !one_of(3);
  now.late_stores = !one_of(3);
  now.rest = one_of(2) ? 4 : 2;
  now.arrival = one_of(2) ? 4 : one_of(2) ? 1 : 64;
}

cudaError_t launch(const cudaLaunchConfig_t& config, const void* function, const std::function<void()>& kernel) {
  const auto bytes = static_cast<int64_t>(config.dynamicSmemBytes);
  try {
    const auto allowed = allowed_bytes.find({function, current_device});
    const int64_t most = allowed == allowed_bytes.end() ? kMostUnaskedSharedBytes : allowed->second;
    if (bytes > std::max(most, kMostUnaskedSharedBytes)) fail("a block of %ld bytes of shared memory", long{bytes});
    if (config.blockDim.x == 0 || config.blockDim.x > kMostThreads || config.gridDim.x == 0) {
      fail("a launch of %u blocks of %u threads", config.gridDim.x, config.blockDim.x);
    }
    begin_shared(bytes);
    gridDim = {config.gridDim.x, 1, 1};
    blockDim = {config.blockDim.x, 1, 1};
    std::vector<unsigned> order(config.gridDim.x);
    std::iota(order.begin(), order.end(), 0u);
    std::shuffle(order.begin(), order.end(), schedule.random);
    for (const unsigned block : order) {
      blockIdx = {block, 0, 0};
      if (!run_block(kernel, static_cast<int>(config.blockDim.x))) return cudaErrorLaunchFailure;
    }
  } catch (const std::runtime_error&) {
    return cudaErrorLaunchFailure;
  }
  return cudaSuccess;
}

}  // namespace emulator

cudaError_t cudaGetLastError() { return cudaSuccess; }

const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorLaunchFailure ? emulator::report().c_str() : "an invalid value";
}

cudaError_t cudaSetDevice(int device) {
  emulator::current_device = device;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = emulator::current_device;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  const char* const name = device >= emulator::kOlderDevice ? "NVIDIA A100-SXM4-80GB" : "NVIDIA H200";
  *properties = {};
  std::snprintf(properties->name, sizeof(properties->name), "%s", name);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      *value = device >= emulator::kOlderDevice ? 8 : 9;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = 0;
      return cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
      *value = device % emulator::kOlderDevice;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(emulator::kMostSharedBytes);
      return cudaSuccess;
    case cudaDevAttrL2CacheSize:
    case cudaDevAttrMemoryClockRate:
    case cudaDevAttrGlobalMemoryBusWidth:
    case cudaDevAttrClockRate:
      break;
  }
  *value = 1;  // nothing that runs asks
  return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  attributes->ptxVersion = 90;
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute, int value) {
  if (value > emulator::kMostSharedBytes) return cudaErrorInvalidValue;
  emulator::allowed_bytes[{function, emulator::current_device}] = value;
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *free = *total = std::size_t{1} << 36;
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* pointer, int value, std::size_t bytes, cudaStream_t) {
  try {
    emulator::check_write(pointer, bytes, 1);
  } catch (const std::runtime_error&) {
    return cudaErrorLaunchFailure;
  }
  std::memset(pointer, value, bytes);
  return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned, int,
                                             cudaDriverEntryPointQueryResult* found) {
  const bool known = std::string(name) == "cuTensorMapEncodeTiled";
  *function = known ? reinterpret_cast<void*>(&cuTensorMapEncodeTiled) : nullptr;
  *found = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}
