// A problem and its tensors as the package's Python hands them over.
#pragma once

#include <cstdint>

#include "planning/choose.h"
#include "planning/norm_task.h"

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

// Compute capability (major, minor), multiprocessors, shared memory of a block, L2, bytes and clocks per ms, the other
// numbers of a device in their order and, last, its engines, as DeviceTraits has them.
constexpr int kDeviceNumbers = 6 + kDeviceMeasures;

inline DeviceTraits flat_device(const double* numbers) {
  DeviceTraits device;
  device.capability_major = static_cast<int32_t>(*numbers++);
  device.capability_minor = static_cast<int32_t>(*numbers++);
  device.multiprocessors = static_cast<int32_t>(*numbers++);
  device.shared_bytes = static_cast<int32_t>(*numbers++);
  device.l2_bytes = static_cast<int64_t>(*numbers++);
  visit_measures(device, [&](double& value) { value = *numbers++; });
  device.engines = static_cast<uint32_t>(*numbers);
  return device;
}

inline void flatten(const DeviceTraits& device, double* numbers) {
  *numbers++ = device.capability_major;
  *numbers++ = device.capability_minor;
  *numbers++ = device.multiprocessors;
  *numbers++ = device.shared_bytes;
  *numbers++ = static_cast<double>(device.l2_bytes);
  visit_measures(device, [&](double value) { *numbers++ = value; });
  *numbers = device.engines;
}

// Strides, and the address of a tensor that is there, modulo kAddressModulus; negative where it is absent.
constexpr int kOperandNumbers = 6;

inline OperandTraits flat_operand(const int64_t* numbers) {
  OperandTraits operand;
  for (int i = 0; i < 5; ++i) operand.stride[i] = numbers[i];
  operand.present = numbers[5] >= 0;
  if (operand.present) operand.address = static_cast<int32_t>(numbers[5] % kAddressModulus);
  return operand;
}

// A call, as one structure: `sizes` as flat_problem() has them, an Operator, a DataType, whether TF32 is allowed;
// `operands`: the first, the second (weight or, of the weight gradient, input), the mask, the result. `engine`: the
// only one that is asked, or negative; `candidate`: see PlanQuery. Of a forward with a norm behind it, without
// derivatives: bytes of an element of the norm's result, else 0.
struct FlatCall {
  const int64_t* sizes;
  const int64_t* operands;
  const double* device;
  int32_t op;
  int32_t dtype;
  int32_t allow_tf32;
  int32_t engine;
  int32_t candidate;
  int32_t norm_result_bytes;
};

inline NormTask flat_norm(const FlatCall& call) {
  return norm_task(flat_problem(call.sizes), static_cast<DataType>(call.dtype),
                   flat_operand(call.operands + 3 * kOperandNumbers), call.norm_result_bytes);
}

inline PlanQuery flat_query(const FlatCall& call) {
  PlanQuery query{};
  query.op = static_cast<Operator>(call.op);
  query.problem = flat_problem(call.sizes);
  query.dtype = static_cast<DataType>(call.dtype);
  query.mode = call.allow_tf32 != 0 ? Float32Mode::kTf32 : Float32Mode::kIeee;
  OperandTraits* const operands[] = {&query.operands.first, &query.operands.second, &query.operands.mask,
                                     &query.operands.result, &query.operands.weight};
  for (int i = 0; i < 5; ++i) *operands[i] = flat_operand(call.operands + i * kOperandNumbers);
  query.device = flat_device(call.device);
  if (call.engine >= 0) query.engine = static_cast<Engine>(call.engine);
  query.candidate = call.candidate;
  if (call.norm_result_bytes > 0) query.norm = flat_norm(call);
  return query;
}

}  // namespace convt3d
