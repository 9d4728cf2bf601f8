// The traits of the plan that one call gets, as text; runs without a GPU.
#include <cstdio>

#include "planning/flat_call.h"
#include "planning/forward_plan.h"
#include "planning/plan_traits.h"

// `sizes` as flat_problem() has them. `operation`: 0 forward, 1 input gradient, 2 weight gradient, 3 bias gradient.
// `dtype`: a DataType. `arguments`: TF32 is allowed, there is a bias, there is a ReLU. `tensors`: strides and address
// of the first operand (input or grad_output), of the second (weight or, of the weight gradient, input), of the ReLU's
// output (a negative address: none) and of the result. Writes at most `capacity` characters, the terminating zero
// included, and returns how many the whole text has without it.
extern "C" __attribute__((visibility("default"))) int convt3d_plan_traits(const int64_t* sizes, int operation,
                                                                          int dtype, const int* arguments,
                                                                          int has_wgmma, const int64_t* tensors,
                                                                          char* text, int capacity) {
  using namespace convt3d;
  const Problem problem = flat_problem(sizes);
  const auto type = static_cast<DataType>(dtype);
  const ConstTensor first = flat_tensor(tensors);
  const ConstTensor second = flat_tensor(tensors + kTensorNumbers);
  const ConstTensor mask = flat_tensor(tensors + 2 * kTensorNumbers);
  const MutableTensor result = flat_result(tensors + 3 * kTensorNumbers);
  Traits traits;
  if (operation == 0) {
    const ForwardArguments forward{type, arguments[0] != 0 ? Float32Mode::kTf32 : Float32Mode::kIeee, arguments[1] != 0,
                                   arguments[2] != 0};
    const DeviceTraits device = flat_device(has_wgmma);
    const ForwardPlan plan = choose_forward(problem, type, forward.mode, result.stride[1] == 1, device);
    traits = forward_traits(problem, plan, forward, device, first, result);
  } else if (operation == 1) {
    traits = input_grad_traits(problem, type, first, mask, result);
  } else if (operation == 2) {
    traits = weight_grad_traits(problem, type, first, mask, second);
  } else {
    const Int3 size = problem.output_size();
    traits = bias_grad_traits({problem.batch, problem.out_channels, size[0], size[1], size[2]}, type, first, mask);
  }
  return std::snprintf(text, static_cast<size_t>(capacity), "%s", to_string(traits).c_str());
}
