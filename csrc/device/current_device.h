// The traits of the current device, as its driver tells them. No CUDA header.
#pragma once

#include "core/device_traits.h"

namespace convt3d {

struct CurrentDevice {
  DeviceTraits traits;
  bool measured;  // see KnownDevice
};

// The driver is asked once for each device.
const CurrentDevice& current_device();

}  // namespace convt3d
