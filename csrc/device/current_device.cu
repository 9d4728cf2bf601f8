#include "device/current_device.h"

#include <cuda_runtime.h>

#include <map>
#include <mutex>

#include "core/build.h"
#include "core/devices.h"
#include "device/launch.cuh"

namespace convt3d {
namespace {

CurrentDevice ask_driver(int device) {
  const auto ask = [&](cudaDeviceAttr attribute) {
    int value = 0;
    check_cuda(cudaDeviceGetAttribute(&value, attribute, device), "asking for the device");
    return value;
  };
  CurrentDevice found{};
  DeviceTraits& traits = found.traits;
  traits.capability_major = ask(cudaDevAttrComputeCapabilityMajor);
  traits.capability_minor = ask(cudaDevAttrComputeCapabilityMinor);
  traits.multiprocessors = ask(cudaDevAttrMultiProcessorCount);
  traits.shared_bytes = ask(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  traits.l2_bytes = ask(cudaDevAttrL2CacheSize);
  traits.engines = compiled_engines(traits.capability_major, traits.capability_minor, compiled_architectures());
  cudaDeviceProp properties{};
  check_cuda(cudaGetDeviceProperties(&properties, device), "asking for the device's name");
  traits.rates = multiprocessor_rates(traits.capability_major, traits.capability_minor, properties.name);
  traits.launches = launch_times();
  traits.memory = memory_traits();
  if (const KnownDevice* known = find_device(properties.name)) {
    traits.bytes_per_ms = known->traits.bytes_per_ms;
    traits.clocks_per_ms = known->traits.clocks_per_ms;
    found.measured = known->measured;
  } else {
    // In kHz, which are clocks per ms; memory moves twice as many bits of its bus in each.
    traits.bytes_per_ms = 2.0 * ask(cudaDevAttrMemoryClockRate) * ask(cudaDevAttrGlobalMemoryBusWidth) / 8;
    traits.clocks_per_ms = ask(cudaDevAttrClockRate);
    // Some drivers do not tell: costs then are those of a GPU of the same kind.
    const DeviceTraits& like = device_of_capability(traits.capability_major, traits.capability_minor).traits;
    if (traits.bytes_per_ms <= 0) traits.bytes_per_ms = like.bytes_per_ms;
    if (traits.clocks_per_ms <= 0) traits.clocks_per_ms = like.clocks_per_ms;
  }
  return found;
}

}  // namespace

const CurrentDevice& current_device() {
  // A thread seldom changes its device: the one that it used last is at hand.
  thread_local int last = -1;
  thread_local const CurrentDevice* found = nullptr;
  int device = 0;
  check_cuda(cudaGetDevice(&device), "asking for the current device");
  if (device == last) return *found;
  static std::mutex mutex;
  static auto* const known = new std::map<int, CurrentDevice>;  // other threads may outlive exit
  const std::lock_guard<std::mutex> lock(mutex);
  const auto at = known->find(device);
  found = at != known->end() ? &at->second : &known->emplace(device, ask_driver(device)).first->second;
  last = device;
  return *found;
}

}  // namespace convt3d
