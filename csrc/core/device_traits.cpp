#include "core/device_traits.h"

#include <algorithm>
#include <sstream>
#include <stdexcept>
#include <tuple>

namespace convt3d {
namespace {

// GPUs of Tegra systems: Jetson TX1, TX2, Xavier and Orin, and Thor under its two numbers (10.1 before CUDA 13).
constexpr int kTegra[] = {53, 62, 72, 87, 101, 110};

bool is_tegra(int capability) {
  return std::find(std::begin(kTegra), std::end(kTegra), capability) != std::end(kTegra);
}

// Such as sm_90a: number 90, suffix 'a'.
struct Architecture {
  explicit Architecture(const std::string& name) : machine_code(name.rfind("sm_", 0) == 0) {
    const std::string version = name.substr(name.find('_') + 1);
    size_t digits = 0;
    number = std::stoi(version, &digits);
    if (digits < version.size()) suffix = version[digits];
  }

  // CUDA C++ Programming Guide, "Binary Compatibility": machine code runs on later minor revisions of its major one;
  // not so on Tegra, nor between Tegra and other GPUs. "PTX Compatibility": PTX runs on every later GPU. "Feature
  // Availability": with an `a` only on its own capability, with an `f` only in its family, which is of one major one.
  bool runs_on(int capability) const {
    if (capability < number || (suffix == 'a' && capability != number)) return false;
    const bool same_major = capability / 10 == number / 10;
    if (!machine_code) return suffix != 'f' || same_major;
    return capability == number || (same_major && !is_tegra(capability) && !is_tegra(number));
  }

  bool machine_code;
  int number;
  char suffix = 0;
};

}  // namespace

std::string image_for(int capability_major, int capability_minor, const std::string& architectures) {
  // The driver takes machine code before PTX, and of each the latest; of one number, that with a suffix.
  std::tuple<bool, int, char> best;
  std::string image;
  std::istringstream names(architectures);
  for (std::string name; names >> name;) {
    const Architecture architecture(name);
    if (!architecture.runs_on(10 * capability_major + capability_minor)) continue;
    const std::tuple<bool, int, char> rank(architecture.machine_code, architecture.number, architecture.suffix);
    if (!image.empty() && rank <= best) continue;
    best = rank;
    image = name;
  }
  return image;
}

uint32_t compiled_engines(int capability_major, int capability_minor, const std::string& architectures) {
  // Those of every architecture; a device without any machine code is told so by its first launch.
  uint32_t engines = engine_bit(Engine::kSimt) | engine_bit(Engine::kDepthwise);
  const std::string image = image_for(capability_major, capability_minor, architectures);
  // mma.sync for bfloat16 and TF32, and cp.async.
  if (!image.empty() && Architecture(image).number >= 80) {
    engines |= engine_bit(Engine::kMma) | engine_bit(Engine::kMatmul);
  }
  // Hopper's own instructions are no part of any other architecture.
  if (image == "sm_90a") engines |= engine_bit(Engine::kWgmma);
  return engines;
}

DeviceTraits imposed_on(const DeviceTraits& at_hand, const DeviceTraits& other) {
  if (other.shared_bytes > at_hand.shared_bytes) {
    throw std::invalid_argument("a block has " + std::to_string(other.shared_bytes) +
                                " bytes of shared memory there, and must have at most the " +
                                std::to_string(at_hand.shared_bytes) + " of the device at hand");
  }
  DeviceTraits imposed = other;
  imposed.engines &= at_hand.engines;
  return imposed;
}

}  // namespace convt3d
