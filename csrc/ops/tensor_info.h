// Facts about a tensor as error messages and allocations need them, in terms of the stable ABI's integers: a type that
// is newer than the headers of this build has a number, where torch::headeronly::ScalarType would throw.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include <torch/csrc/stable/tensor.h>

#include "core/problem.h"

namespace convt3d {

using torch::stable::Tensor;
using Int5 = std::array<int64_t, 5>;  // (N, C, D, H, W), or a weight's (C_in, C_out/groups, kD, kH, kW)

struct Device {
  int32_t type = 0;
  int32_t index = 0;

  bool operator==(const Device& other) const { return type == other.type && index == other.index; }
};

int32_t dtype_of(const Tensor& tensor);
Device device_of(const Tensor& tensor);
bool is_strided(const Tensor& tensor);
Int5 sizes_of(const Tensor& tensor);    // of a 5-D tensor
Int5 strides_of(const Tensor& tensor);  // of a 5-D tensor

// The kernels' name of a dtype; none for a dtype that no operator supports.
std::optional<DataType> data_type(int32_t dtype);

std::string dtype_name(int32_t dtype);          // "float32", as torch.float32 without its module
std::string device_name(const Device& device);  // "cpu", "cuda:1"

}  // namespace convt3d
