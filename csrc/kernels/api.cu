#include "kernels/api.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "core/build.h"
#include "device/current_device.h"
#include "device/launch.cuh"
#include "engines/depthwise/run.h"
#include "engines/simt/run.h"
#include "engines/wgmma/run.h"
#include "planning/forward_plan_cache.h"

namespace convt3d {
namespace {

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

}  // namespace

std::shared_ptr<const ForwardPlan> plan_forward_call(const Problem& problem, DataType dtype, Float32Mode mode,
                                                     MutableTensor output) {
  // Not destroyed at exit: other threads may still be calling.
  static auto* const cache = new ForwardPlanCache(256);
  return cache->get({problem, dtype, mode, output.stride[1] == 1, current_device().traits});
}

int64_t forward_workspace_bytes(const ForwardPlan& plan) { return plan.workspace_bytes; }

void forward(const Problem& problem, const ForwardPlan& plan, DataType dtype, ConstTensor input, ConstTensor weight,
             const Epilogue& epilogue, MutableTensor output, void* workspace, Stream stream) {
  with_type(dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    switch (plan.engine) {
      case ForwardEngine::kDepthwise:
        return depthwise::forward<T>(problem, plan.depthwise, input, weight, epilogue, output, stream);
      case ForwardEngine::kHaloWgmma:
        if constexpr (!std::is_same_v<T, double>) {
          wgmma::forward<T>(problem, plan.halo, input, weight, epilogue, output, workspace, stream);
        }
        return;
      case ForwardEngine::kSimt:
        return simt::forward<T>(problem, plan.simt, input, weight, epilogue, output, workspace, stream);
    }
  });
}

int64_t input_grad_workspace_bytes(const Problem& problem, DataType dtype) {
  return plan_input_grad(problem, dtype).packed_weight_elements * element_size(dtype);
}

void input_grad(const Problem& problem, DataType dtype, ConstTensor grad_output, ConstTensor relu_output,
                ConstTensor weight, MutableTensor grad_input, void* workspace, Stream stream) {
  with_type(dtype, [&](auto tag) {
    simt::input_grad<typename decltype(tag)::Type>(problem, plan_input_grad(problem, dtype), grad_output, relu_output,
                                                   weight, grad_input, workspace, stream);
  });
}

int64_t weight_grad_workspace_bytes(const Problem& problem, DataType dtype) {
  return plan_weight_grad(problem, dtype).partial_elements * element_size(DataType::kFloat64);
}

void weight_grad(const Problem& problem, DataType dtype, ConstTensor grad_output, ConstTensor relu_output,
                 ConstTensor input, MutableTensor grad_weight, void* workspace, Stream stream) {
  with_type(dtype, [&](auto tag) {
    simt::weight_grad<typename decltype(tag)::Type>(problem, plan_weight_grad(problem, dtype), grad_output, relu_output,
                                                    input, grad_weight, workspace, stream);
  });
}

int64_t bias_grad_workspace_bytes(const std::array<int64_t, 5>& size, DataType) {
  // Whichever layout: the channel-contiguous one has the more splits.
  return plan_bias_grad(size, true).splits * size[1] * element_size(DataType::kFloat64);
}

void bias_grad(const std::array<int64_t, 5>& size, DataType dtype, ConstTensor grad_output, ConstTensor relu_output,
               void* grad_bias, void* workspace, Stream stream) {
  with_type(dtype, [&](auto tag) {
    simt::bias_grad<typename decltype(tag)::Type>(size, plan_bias_grad(size, grad_output.stride[1] == 1), grad_output,
                                                  relu_output, grad_bias, workspace, stream);
  });
}

int64_t device_total_memory() {
  size_t free = 0;
  size_t total = 0;
  check_cuda(cudaMemGetInfo(&free, &total), "reading the device's memory");
  return static_cast<int64_t>(total);
}

std::string compiled_architectures() { return CONVT3D_ARCHS; }

}  // namespace convt3d
