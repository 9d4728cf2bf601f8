#include "core/devices.h"

#include <utility>

namespace convt3d {
namespace {

constexpr int32_t kKilobyte = 1024;
constexpr int64_t kMegabyte = int64_t{1024} * 1024;

KnownDevice device(const char* name, int capability, int multiprocessors, int shared_kilobytes, double l2_megabytes,
                   double gigabytes_per_second, double megahertz, bool measured = false) {
  KnownDevice known{name, {}, measured};
  DeviceTraits& traits = known.traits;
  traits.capability_major = capability / 10;
  traits.capability_minor = capability % 10;
  traits.multiprocessors = multiprocessors;
  traits.shared_bytes = shared_kilobytes * kKilobyte;
  traits.l2_bytes = static_cast<int64_t>(l2_megabytes * kMegabyte);
  traits.bytes_per_ms = gigabytes_per_second * 1e6;
  traits.clocks_per_ms = megahertz * 1e3;
  traits.engines = compiled_engines(traits.capability_major, traits.capability_minor, "sm_90a");
  return known;
}

// By capability and, of one capability, the one that stands for it first. Memory: peak of the data sheet. Clock: boost
// of the data sheet or, where it was measured, under load.
const KnownDevice kDevices[] = {
    device("GeForce RTX 2080 Ti", 75, 68, 64, 5.5, 616, 1545),
    device("T4", 75, 40, 64, 4, 320, 1590),
    device("A100-SXM4-80GB", 80, 108, 163, 40, 2039, 1410),
    device("A100 80GB PCIe", 80, 108, 163, 40, 1935, 1410),
    device("A100", 80, 108, 163, 40, 1555, 1410),
    device("A30", 80, 56, 163, 24, 933, 1440),
    device("RTX 3090", 86, 82, 99, 6, 936, 1695),
    device("A40", 86, 84, 99, 6, 696, 1740),
    device("A10", 86, 72, 99, 6, 600, 1695),
    device("RTX 4090", 89, 128, 99, 72, 1008, 2520),
    device("L40S", 89, 142, 99, 96, 864, 2520),
    device("L4", 89, 58, 99, 48, 300, 2040),
    device("H200", 90, 132, 227, 50, 4800, 1900, true),
    device("H200 NVL", 90, 132, 227, 50, 4800, 1785),
    device("H100 PCIe", 90, 114, 227, 50, 2039, 1755),
    device("H100 NVL", 90, 132, 227, 50, 3938, 1785),
    device("H100", 90, 132, 227, 50, 3352, 1980),
    device("B200", 100, 148, 227, 126, 8000, 1965),
    device("RTX 5090", 120, 170, 99, 96, 1792, 2407),
};

}  // namespace

const KnownDevice* find_device(const std::string& driver_name) {
  // As words: "A10" is no "A100".
  const std::string words = " " + driver_name + " ";
  const KnownDevice* found = nullptr;
  size_t longest = 0;
  for (const KnownDevice& known : kDevices) {
    const std::string name = std::string(" ") + known.name;
    const size_t at = words.find(name);
    if (at == std::string::npos || name.size() <= longest) continue;
    const char next = words[at + name.size()];
    if (next != ' ' && next != '-') continue;
    found = &known;
    longest = name.size();
  }
  return found;
}

const KnownDevice& device_of_capability(int major, int minor) {
  const KnownDevice* nearest = &kDevices[0];
  const auto capability = [](const KnownDevice& known) {
    return std::pair(known.traits.capability_major, known.traits.capability_minor);
  };
  for (const KnownDevice& known : kDevices) {
    if (capability(known) <= std::pair(major, minor) && capability(known) > capability(*nearest)) nearest = &known;
  }
  return *nearest;
}

const DeviceTraits& fitted_device() {
  static const DeviceTraits traits = device_of_capability(9, 0).traits;
  return traits;
}

}  // namespace convt3d
