// The boxes of a plan, as TMA reads them.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <stdexcept>
#include <string>
#include <type_traits>

#include "device/tensor_map.h"

namespace convt3d::wgmma {

// As the tensor cores and TMA take elements; TF32 is rounded to nearest.
template <typename T>
constexpr BoxType wgmma_box_type(bool rounds_to_tf32) {
  if (std::is_same_v<T, __half>) return BoxType::kFloat16;
  if (std::is_same_v<T, __nv_bfloat16>) return BoxType::kBFloat16;
  return rounds_to_tf32 ? BoxType::kTf32 : BoxType::kFloat32;
}

inline void encode_planned(const TensorBox& box, const char* tensor, CUtensorMap& map) {
  if (encode(box, map)) return;
  throw std::runtime_error(std::string("convt3d: the driver refuses to describe the ") + tensor +
                           " to the tensor memory accelerator: " + to_string(box));
}

}  // namespace convt3d::wgmma
