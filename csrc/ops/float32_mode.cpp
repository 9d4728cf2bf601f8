#include "ops/float32_mode.h"

#include <cstdint>
#include <optional>

// at::globalContext() and at::Context::allowTF32CuDNN(std::optional<at::Float32Op>) const, outside the stable ABI:
// hence weak.
const void* convt3d_global_context() __asm__("_ZN2at13globalContextEv") __attribute__((weak));
bool convt3d_allow_tf32(const void* context, std::optional<int32_t> op) __asm__(
    "_ZNK2at7Context14allowTF32CuDNNESt8optionalINS_9Float32OpEE") __attribute__((weak));

namespace convt3d {

Float32Mode float32_mode() {
  constexpr int32_t kConvolution = 1;  // at::Float32Op::CONV
  if (convt3d_global_context == nullptr || convt3d_allow_tf32 == nullptr) return Float32Mode::kIeee;
  return convt3d_allow_tf32(convt3d_global_context(), kConvolution) ? Float32Mode::kTf32 : Float32Mode::kIeee;
}

}  // namespace convt3d
