// From a type that is known at run time to one of C++.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "core/problem.h"

namespace convt3d {

template <typename T>
struct TypeTag {
  using Type = T;
};

template <typename Function>
void with_type(DataType dtype, Function&& function) {
  switch (dtype) {
    case DataType::kFloat32:
      return function(TypeTag<float>());
    case DataType::kFloat64:
      return function(TypeTag<double>());
    case DataType::kFloat16:
      return function(TypeTag<__half>());
    case DataType::kBFloat16:
      return function(TypeTag<__nv_bfloat16>());
  }
}

}  // namespace convt3d
