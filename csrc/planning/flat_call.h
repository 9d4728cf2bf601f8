// A problem and its tensors as the package's Python hands them over.
#pragma once

#include "core/call.h"
#include "core/devices.h"
#include "core/problem.h"

namespace convt3d {

// `sizes`: N, C_in, C_out, groups, then D H W of input, kernel, stride, padding, output_padding and dilation.
inline Problem flat_problem(const int64_t* sizes) {
  Problem problem;
  problem.batch = sizes[0];
  problem.in_channels = sizes[1];
  problem.out_channels = sizes[2];
  problem.groups = sizes[3];
  Int3* const triples[] = {&problem.input_size, &problem.kernel_size,    &problem.stride,
                           &problem.padding,    &problem.output_padding, &problem.dilation};
  const int64_t* next = sizes + 4;
  for (Int3* triple : triples) {
    for (int64_t& value : *triple) value = *next++;
  }
  return problem;
}

// An H200 or, without its matrix units, an A100.
inline DeviceTraits flat_device(int has_wgmma) { return device_of_capability(has_wgmma != 0 ? 9 : 8, 0).traits; }

// Strides, and the address of a tensor that is there: at a distance from a multiple of 256 bytes, or negative.
constexpr int kTensorNumbers = 6;

inline ConstTensor flat_tensor(const int64_t* numbers) {
  ConstTensor tensor;
  for (int i = 0; i < 5; ++i) tensor.stride[i] = numbers[i];
  if (numbers[5] >= 0) tensor.data = reinterpret_cast<const void*>(static_cast<uintptr_t>(256 + numbers[5]));
  return tensor;
}

inline MutableTensor flat_result(const int64_t* numbers) {
  const ConstTensor tensor = flat_tensor(numbers);
  return {const_cast<void*>(tensor.data), tensor.stride};
}

}  // namespace convt3d
