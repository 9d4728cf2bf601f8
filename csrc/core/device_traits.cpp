#include "core/device_traits.h"

namespace convt3d {

uint32_t compiled_engines(int capability_major, int capability_minor, const std::string& architectures) {
  // Those of every architecture; a device without any machine code is told so by its first launch.
  uint32_t engines = engine_bit(Engine::kSimt) | engine_bit(Engine::kDepthwise);
  // mma.sync for bfloat16 and TF32, and cp.async.
  if (capability_major >= 8) engines |= engine_bit(Engine::kMma);
  // Hopper's own instructions are no part of any other architecture.
  const bool hopper = capability_major == 9 && capability_minor == 0;
  if (hopper && architectures.find("sm_90a") != std::string::npos) engines |= engine_bit(Engine::kWgmma);
  return engines;
}

}  // namespace convt3d
