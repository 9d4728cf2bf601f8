// The tables of GPUs: what is publicly known of them and what was measured. The only place with a number of one GPU;
// everything else asks the traits of the device that a plan is for. Knows nothing of torch or CUDA.
#pragma once

#include <string>

#include "core/device_traits.h"

namespace convt3d {

struct KnownDevice {
  const char* name;     // as in the driver's name of the device
  DeviceTraits traits;  // with the engines of a library that is built for it
  bool measured;        // the engines' costs were fitted or checked on it; else they are a model's
};

// nullptr where the table has none of the driver's name.
const KnownDevice* find_device(const std::string& driver_name);
// All of the table, "A30, A40".
std::string known_names();
// One of that compute capability or, where the table has none, of the nearest before it.
const KnownDevice& device_of_capability(int major, int minor);
// The rates of any device, in the table or not, by its compute capability and the driver's name of it.
MultiprocessorRates multiprocessor_rates(int major, int minor, const std::string& driver_name);
// The times and shares of any device.
LaunchTimes launch_times();
MemoryTraits memory_traits();
// The device where the costs that are in clocks were fitted.
const DeviceTraits& fitted_device();

}  // namespace convt3d
