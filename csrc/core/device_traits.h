// What a plan may know of the device that it is for. An argument of every choice, so that a plan for any device is made
// and tested on any machine. Knows nothing of torch or CUDA.
#pragma once

#include <cstdint>
#include <string>

namespace convt3d {

enum class Engine : int { kSimt, kDepthwise, kWgmma, kMma, kMatmul };

constexpr uint32_t engine_bit(Engine engine) { return uint32_t{1} << static_cast<int>(engine); }

// What a multiprocessor does at most, on all its tensor cores, in clocks of its own.
struct MultiprocessorRates {
  double product_clocks = 0;  // of a mma.sync of 16 x 8 x 32 bytes that adds in float32: m16n8k16, or m16n8k8 in TF32
  double l2_bytes = 0;        // in a clock, read from L2 while all multiprocessors do so
  double shared_bytes = 0;    // in a clock, of its shared memory
};

// What the device takes to launch kernels beside the time of these, in milliseconds.
struct LaunchTimes {
  double next = 0;               // of a kernel that follows another one
  double early = 0;              // of one that begins while the kernel before ends
  double summed = 0;             // of a kernel, and of the sum of what its blocks leave
  double packed = 0;             // of a kernel, and of the packing of a small weight before it
  double packed_and_summed = 0;  // of all three
  double beside = 0;  // two kernels that take longer fill the device each, and gain nothing beside each other
};

// What kernels have of the device's memory. Shares are of its peak, by how a kernel reads and writes.
struct MemoryTraits {
  double latency_clocks = 0;  // of a multiprocessor, until what it reads arrives while all of them read
  double ahead = 0;           // share of kernels that have copies on their way while they compute, and of strips
  double boxes = 0;           // share of kernels whose tiles TMA reads
  double vectors = 0;         // share of kernels whose threads compute what they have loaded as vectors
  double general = 0;         // share of kernels that read whatever lies in memory
  double staged = 0;          // share of kernels whose threads load a tile before any of them computes
  double packed = 0;          // share of kernels that pack a weight
};

struct DeviceTraits {
  int32_t capability_major = 0;
  int32_t capability_minor = 0;
  int32_t multiprocessors = 0;
  int32_t shared_bytes = 0;  // of its shared memory, what one block can have
  int64_t l2_bytes = 0;
  double bytes_per_ms = 0;   // of the device's memory, at its peak
  double clocks_per_ms = 0;  // of a multiprocessor
  MultiprocessorRates rates;
  LaunchTimes launches;
  MemoryTraits memory;
  uint32_t engines = 0;        // engine_bit() of those whose machine code the library has for this device
  int32_t kernel_blocks = 32;  // of one kernel, that a multiprocessor has at most at a time: what the device allows

  bool has(Engine engine) const { return (engines & engine_bit(engine)) != 0; }
  // Whether its machine code has stmatrix, of 9.0 and later: known of 9.0 by kWgmma, which is compiled for 90a alone.
  bool stores_matrices() const { return capability_major > 9 || has(Engine::kWgmma); }
  // Whether its kernels can begin while the one before runs (griddepcontrol), likewise of 9.0 and later.
  bool begins_early() const { return stores_matrices(); }
};

// Calls `visit` with each of the kDeviceMeasures traits that are a double.
constexpr int kDeviceMeasures = 18;
template <typename Traits, typename Visit>
void visit_measures(Traits& device, Visit&& visit) {
  for (auto* value :
       {&device.bytes_per_ms, &device.clocks_per_ms, &device.rates.product_clocks, &device.rates.l2_bytes,
        &device.rates.shared_bytes, &device.launches.next, &device.launches.early, &device.launches.summed,
        &device.launches.packed, &device.launches.packed_and_summed, &device.launches.beside,
        &device.memory.latency_clocks, &device.memory.ahead, &device.memory.boxes, &device.memory.vectors,
        &device.memory.general, &device.memory.staged, &device.memory.packed}) {
    visit(*value);
  }
}

// Which of a library's architectures (compiled_architectures() in core/build.h) a device of this compute capability
// runs, such as "sm_86", or "compute_90" where it compiles PTX; empty where it runs none.
std::string image_for(int capability_major, int capability_minor, const std::string& architectures);

// The engines that run on a device of this compute capability, of a library with machine code for `architectures`.
uint32_t compiled_engines(int capability_major, int capability_minor, const std::string& architectures);

// What plans are made for where the device at hand runs those of another: the other's traits, with the engines that
// both have. Throws std::invalid_argument where a block of the other has more shared memory.
DeviceTraits imposed_on(const DeviceTraits& at_hand, const DeviceTraits& other);

}  // namespace convt3d
