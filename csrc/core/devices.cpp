#include "core/devices.h"

#include <utility>

namespace convt3d {
namespace {

constexpr int32_t kKilobyte = 1024;
constexpr int64_t kMegabyte = int64_t{1024} * 1024;

// Of a compute capability. Without any device's own: GeForce is an exception that multiprocessor_rates() makes.
struct CapabilityRates {
  int capability;
  double products;  // multiply-adds of mma.sync in a clock, 16-bit factors, added in float32; TF32: half as many
  double l2_bytes;
};

// Multiply-adds of 8.0, 8.6, 8.9 and 12.0: the data sheets' dense peak of tensor cores with float32 accumulation,
// divided by multiprocessors, clock and 2; TF32's peak is half of it on each. A100: 312 TFLOPS on 108 at 1.41 GHz.
// A40: 149.7 on 84 at 1.74. L40S: 362 on 142 at 2.52. RTX PRO 6000 Blackwell: 504 on 188 at 2.62.
// 9.0: 62.9 % of the peak, which is wgmma's, 2048: the mean that "Benchmarking and Dissecting the Nvidia Hopper GPU
// Architecture via Microbenchmarking" (arXiv 2402.13499) measured for mma.sync.
// 10.0: as 8.0. Public measurements are 8.5 clocks of a quarter of a B200's multiprocessor for m16n8k16, and 569 TFLOPS
// of a B300's 148 multiprocessors; the peak of the data sheet is that of other instructions.
// L2: te42kyfo/gpu-benches (gpu-l2-cache) measured 5.4 TB/s on an A100 at 1.41 GHz, 5.2 on an L40 (142
// multiprocessors) at 2.49, 6.95 on an H100 PCIe at 1.755 and 9.8 on an H200 at 1.98, where the L1 helps. Assumed: 8.6
// and 12.0 are like 8.9, 10.0 like 9.0.
// 7.5: a T4's 65 TFLOPS on 40 at 1.59 GHz; L2 as 8.9's. No engine uses the tensor cores there.
const CapabilityRates kRates[] = {
    {75, 512, 15},          {80, 1024, 35},  {86, 512, 15},  {89, 512, 15},
    {90, 0.629 * 2048, 35}, {100, 1024, 35}, {120, 512, 15},
};

// Other devices are assumed to be like the one that is named, and so is an H200 where nothing is.
constexpr LaunchTimes kLaunches = {
    0.0035,  // next: assumed
    0.0015,  // early: seen on an H100
    0.005,   // summed: fitted on an H200
    0.0077,  // packed: fitted on an H200
    0.01,    // packed_and_summed: assumed
    0.2,     // beside: set by reasoning
};
constexpr double kFittedPeak = 4800e6 / 1900e3 / 132;  // of an H200: bytes in a clock, for each multiprocessor
constexpr MemoryTraits kMemory = {
    1230,                // latency_clocks: fitted on an H200
    0.885,               // ahead: fitted on an H200
    15.6 / kFittedPeak,  // boxes: fitted on an H200
    0.708,               // vectors: fitted on an H200
    0.7,                 // general: assumed
    0.6,                 // staged: assumed
    0.16,                // packed: fitted on an H200
};

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
  traits.rates = multiprocessor_rates(traits.capability_major, traits.capability_minor, name);
  traits.launches = launch_times();
  traits.memory = memory_traits();
  const std::string architecture = "sm_" + std::to_string(capability) + (capability == 90 ? "a" : "");
  traits.engines = compiled_engines(traits.capability_major, traits.capability_minor, architecture);
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
    device("GeForce RTX 3090", 86, 82, 99, 6, 936, 1695),
    device("A40", 86, 84, 99, 6, 696, 1740),
    device("A10", 86, 72, 99, 6, 600, 1695),
    device("GeForce RTX 4090", 89, 128, 99, 72, 1008, 2520),
    device("L40S", 89, 142, 99, 96, 864, 2520),
    device("L4", 89, 58, 99, 48, 300, 2040),
    device("H200", 90, 132, 227, 50, 4800, 1900, true),
    device("H200 NVL", 90, 132, 227, 50, 4800, 1785),
    device("H100 PCIe", 90, 114, 227, 50, 2039, 1755),
    device("H100 NVL", 90, 132, 227, 50, 3938, 1785),
    device("H100", 90, 132, 227, 50, 3352, 1980),
    device("B200", 100, 148, 227, 126, 8000, 1965),
    device("GeForce RTX 5090", 120, 170, 99, 96, 1792, 2407),
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

std::string known_names() {
  std::string names;
  for (const KnownDevice& known : kDevices) names += (names.empty() ? "" : ", ") + std::string(known.name);
  return names;
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

MultiprocessorRates multiprocessor_rates(int major, int minor, const std::string& driver_name) {
  const CapabilityRates* nearest = &kRates[0];
  for (const CapabilityRates& rates : kRates) {
    if (rates.capability <= major * 10 + minor) nearest = &rates;
  }
  constexpr double kMultiplyAdds = 16 * 8 * 16;
  constexpr double kSharedBytes = 128;  // 32 banks of 4 bytes: CUDA C++ Programming Guide, "Compute Capabilities"
  // Half of the rate with float32 accumulation. RTX 3090, 4090 and 5090: 71, 165 and 210 TFLOPS in the data sheets.
  const double slower = driver_name.find("GeForce") != std::string::npos ? 2 : 1;
  return {kMultiplyAdds / nearest->products * slower, nearest->l2_bytes, kSharedBytes};
}

LaunchTimes launch_times() { return kLaunches; }

MemoryTraits memory_traits() { return kMemory; }

const DeviceTraits& fitted_device() {
  static const DeviceTraits traits = device_of_capability(9, 0).traits;
  return traits;
}

}  // namespace convt3d
