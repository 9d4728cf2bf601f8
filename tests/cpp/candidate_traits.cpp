// The traits of every plan that the tensor-core engine has for one forward: a library that tests/candidates.py builds.
#include <cstdio>
#include <string>

#include "engines/wgmma/plan/traits.h"
#include "planning/flat_call.h"
#include "planning/plan_traits.h"

// As convt3d_plan_traits in csrc/planning/traits_of_call.cpp; a line for each plan, none where another engine takes the
// forward.
extern "C" int convt3d_candidate_traits(const int64_t* sizes, int operation, int dtype, const int* arguments,
                                        int has_wgmma, const int64_t* tensors, char* text, int capacity) {
  using namespace convt3d;
  const Problem problem = flat_problem(sizes);
  const auto type = static_cast<DataType>(dtype);
  const ForwardArguments forward{type, arguments[0] != 0 ? Float32Mode::kTf32 : Float32Mode::kIeee, arguments[1] != 0,
                                 arguments[2] != 0};
  const ConstTensor input = flat_tensor(tensors);
  const MutableTensor output = flat_result(tensors + 3 * kTensorNumbers);
  const bool channels_last = output.stride[1] == 1;
  const DeviceTraits device = flat_device(has_wgmma);
  std::string lines;
  if (operation == 0 &&
      choose_forward(problem, type, forward.mode, channels_last, device).engine == ForwardEngine::kHaloWgmma) {
    const int terms = type == DataType::kFloat32 && forward.mode == Float32Mode::kIeee ? 2 : 1;
    const HaloElement element{static_cast<int32_t>(element_size(type)), terms};
    for (const HaloPlan& plan : halo_candidates(problem, element, channels_last, device)) {
      lines += to_string(halo_traits(problem, plan, forward, device, input, output)) + "\n";
    }
  }
  return std::snprintf(text, static_cast<size_t>(capacity), "%s", lines.c_str());
}
