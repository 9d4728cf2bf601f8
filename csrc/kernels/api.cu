#include "kernels/api.h"

#include <cuda_runtime.h>

#include <atomic>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <variant>

#include "core/build.h"
#include "device/current_device.h"
#include "device/launch.cuh"
#include "engines/depthwise/run.h"
#include "engines/depthwise/run_patches.h"
#include "engines/depthwise/run_tiles.h"
#include "engines/matmul/run.h"
#include "engines/mma/backward/run.h"
#include "engines/mma/correlation/run.h"
#include "engines/mma/weight_grad/run.h"
#include "engines/simt/run.h"
#include "engines/wgmma/run.h"
#include "engines/wgmma/weight_grad/run.h"
#include "kernels/backward_tensors.cuh"
#include "kernels/with_type.cuh"
#include "planning/flat_call.h"
#include "planning/norm_way.h"
#include "planning/plan_cache.h"

namespace convt3d {
namespace {

// The only engine that calls ask, and for which of its candidates; negative: all are asked, backwards for one of
// theirs.
struct Asked {
  int32_t engine;
  int32_t candidate;
};
std::atomic<Asked> asked{Asked{-1, 0}};

// The NormWay of all norms whose forward can; negative: whichever is expected to take least time.
std::atomic<int32_t> asked_norm_way{-1};

// The device whose plans are made instead of those for the current one; none: nullptr.
std::atomic<const DeviceTraits*> imposed{nullptr};

DeviceTraits planned_device() {
  const DeviceTraits& at_hand = current_device().traits;
  const DeviceTraits* const other = imposed.load(std::memory_order_acquire);
  return other == nullptr ? at_hand : imposed_on(at_hand, *other);
}

}  // namespace

std::shared_ptr<const OperatorPlan> plan_call(Operator op, const Problem& problem, DataType dtype, Float32Mode mode,
                                              const Operands& operands, const std::optional<NormTask>& norm) {
  // Not destroyed at exit: other threads may still be calling.
  static auto* const cache = new PlanCache(1024);
  PlanQuery query{op, problem, dtype, mode, operands, planned_device(), std::nullopt, 0};
  const auto [engine, candidate] = asked.load(std::memory_order_relaxed);
  if (engine >= 0) query.engine = static_cast<Engine>(engine);
  if (engine >= 0 || is_backward(op)) query.candidate = candidate;
  query.norm = norm;
  return cache->get(query);
}

int64_t workspace_bytes(const OperatorPlan& plan) { return plan.workspace_bytes; }
bool joins_weight(const OperatorPlan& plan) { return plan.joins_weight(); }

NormWay norm_way(const OperatorPlan& forward, const NormTask& task) {
  const int32_t way = asked_norm_way.load(std::memory_order_relaxed);
  return choose_norm(forward, task, planned_device(), way < 0 ? std::nullopt : std::optional(static_cast<NormWay>(way)))
      .way;
}

namespace {

// What `plan` needs of a tensor of all outputs, and its problem.
template <typename Tensor>
Tensor read_part(const OperatorPlan& plan, const Tensor& tensor, DataType dtype) {
  return plan.view ? viewed(*plan.view, tensor, element_size(dtype)) : tensor;
}
const Problem& read_problem(const OperatorPlan& plan, const Problem& problem) {
  return plan.view ? plan.view->problem : problem;
}
template <typename Tensor>
Tensor read_weight(const OperatorPlan& plan, const Tensor& weight) {
  return plan.view ? viewed_weight(*plan.view, weight) : weight;
}

int64_t channel_folds(const OperatorPlan& plan) { return plan.view ? plan.view->channel_folds() : 1; }

// Those gradients of `planned`, a SeparatePlan, that it has.
void separate_gradients(const Problem& layer, const OperatorPlan& planned, DataType dtype, const BackwardTensors& all,
                        ConstTensor weight, const SummedGrads& grads, void* workspace, Stream stream);

// What gradients of `plan` read of grad_output and of the ReLU's output, and the problem that they are of.
struct ReadGradient {
  const Problem& problem;
  ConstTensor grad_output;
  ConstTensor relu_output;
};
ReadGradient read_gradient(const OperatorPlan& plan, const Problem& layer, const ConstTensor& grad_output,
                           const ConstTensor& relu_output, DataType dtype) {
  return {read_problem(plan, layer), read_part(plan, grad_output, dtype), read_part(plan, relu_output, dtype)};
}

}  // namespace

void forward(const Problem& layer, const OperatorPlan& plan, DataType dtype, ConstTensor input,
             ConstTensor layer_weight, const Epilogue& layer_epilogue, MutableTensor all_output, void* workspace,
             Stream stream) {
  const Problem& problem = read_problem(plan, layer);
  const ConstTensor weight = read_weight(plan, layer_weight);
  const MutableTensor output = read_part(plan, all_output, dtype);
  Epilogue epilogue = layer_epilogue;
  if (plan.view) epilogue.bias.stride = 0;  // all channels are the layer's only one
  with_type(dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    if (const auto* depthwise = std::get_if<DepthwiseForwardPlan>(&plan.plan)) {
      return depthwise::forward<T>(problem, *depthwise, input, weight, epilogue, output, stream);
    }
    if constexpr (!std::is_same_v<T, double>) {
      if (const auto* tiles = std::get_if<DepthwiseTilePlan>(&plan.plan)) {
        return depthwise::tile_forward<T>(problem, *tiles, input, weight, epilogue, output, stream);
      }
      if (const auto* of_wgmma = std::get_if<WgmmaPlan>(&plan.plan)) {
        return wgmma::forward<T>(problem, *of_wgmma, input, weight, epilogue, output, workspace, stream);
      }
      if (const auto* product = std::get_if<MatmulPlan>(&plan.plan)) {
        return matmul::forward<T>(*product, input, weight, epilogue, output, stream);
      }
      if (const auto* correlation = std::get_if<mma::CorrelationPlan>(&plan.plan)) {
        return mma::forward<T>(problem, *correlation, input, weight, epilogue, output, workspace, stream);
      }
    }
    simt::forward<T>(problem, std::get<CorrelationPlan>(plan.plan), input, weight, epilogue, output, workspace, stream);
  });
}

void input_grad(const Problem& layer, const OperatorPlan& plan, DataType dtype, ConstTensor all_grad_output,
                ConstTensor all_relu_output, ConstTensor layer_weight, MutableTensor grad_input, void* workspace,
                Stream stream) {
  const ConstTensor weight = read_weight(plan, layer_weight);
  if (std::holds_alternative<SeparatePlan>(plan.plan)) {
    return separate_gradients(layer, plan, dtype, {all_grad_output, all_relu_output, {}, grad_input}, weight, {},
                              workspace, stream);
  }
  const ReadGradient read = read_gradient(plan, layer, all_grad_output, all_relu_output, dtype);
  with_type(dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    if constexpr (!std::is_same_v<T, double>) {
      if (const auto* tiles = std::get_if<DepthwiseTilePlan>(&plan.plan)) {
        return depthwise::tile_input_grad<T>(read.problem, *tiles, read.grad_output, read.relu_output, weight,
                                             grad_input, stream);
      }
      if (const auto* patches = std::get_if<DepthwisePatchPlan>(&plan.plan)) {
        return depthwise::patch_input_grad<T>(*patches, read.grad_output, weight, grad_input, stream);
      }
      if (const auto* product = std::get_if<MatmulPlan>(&plan.plan)) {
        return matmul::input_grad<T>(*product, read.grad_output, weight, grad_input, workspace, stream);
      }
      if (const auto* of_wgmma = std::get_if<WgmmaPlan>(&plan.plan)) {
        return wgmma::input_grad<T>(read.problem, *of_wgmma, read.grad_output, weight, grad_input, workspace, stream);
      }
      if (const auto* correlation = std::get_if<mma::CorrelationPlan>(&plan.plan)) {
        return mma::input_grad<T>(read.problem, *correlation, read.grad_output, read.relu_output, weight, grad_input,
                                  workspace, stream);
      }
    }
    simt::input_grad<T>(read.problem, std::get<CorrelationPlan>(plan.plan), read.grad_output, read.relu_output, weight,
                        grad_input, workspace, stream);
  });
}

namespace {

// Gradients of the weight and, where the plan has it, of the bias, of all images.
void weight_grad(const Problem& layer, const OperatorPlan& plan, DataType dtype, ConstTensor all_grad_output,
                 ConstTensor all_relu_output, ConstTensor input, const SummedGrads& layer_grads, void* workspace,
                 Stream stream) {
  const MutableTensor grad_weight = read_weight(plan, layer_grads.weight);
  const SummedGrads grads{grad_weight, layer_grads.bias, layer_grads.channel_folds * channel_folds(plan)};
  if (std::holds_alternative<SeparatePlan>(plan.plan)) {
    return separate_gradients(layer, plan, dtype, {all_grad_output, all_relu_output, input, {}}, {}, grads, workspace,
                              stream);
  }
  const ReadGradient read = read_gradient(plan, layer, all_grad_output, all_relu_output, dtype);
  with_type(dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    if constexpr (!std::is_same_v<T, double>) {
      if (const auto* tiles = std::get_if<DepthwiseTilePlan>(&plan.plan)) {
        return depthwise::tile_weight_grad<T>(read.problem, *tiles, read.grad_output, read.relu_output, input, grads,
                                              workspace, stream);
      }
      if (const auto* patches = std::get_if<DepthwisePatchPlan>(&plan.plan)) {
        return depthwise::patch_weight_grad<T>(read.problem, *patches, read.grad_output, input, grads, workspace,
                                               stream);
      }
      if (const auto* of_mma = std::get_if<mma::WeightGradPlan>(&plan.plan)) {
        return mma::weight_grad<T>(read.problem, *of_mma, read.grad_output, read.relu_output, input, grads, workspace,
                                   stream);
      }
      if (const auto* of_wgmma = std::get_if<WgmmaWeightGradPlan>(&plan.plan)) {
        return wgmma::weight_grad<T>(read.problem, *of_wgmma, read.grad_output, input, grads, workspace, stream);
      }
    }
    simt::weight_grad<T>(read.problem, std::get<WeightGradPlan>(plan.plan), read.grad_output, read.relu_output, input,
                         grad_weight, workspace, stream);
  });
}

}  // namespace

void weight_grad(const Problem& layer, const OperatorPlan& plan, DataType dtype, ConstTensor grad_output,
                 ConstTensor relu_output, ConstTensor input, MutableTensor grad_weight, void* workspace,
                 Stream stream) {
  weight_grad(layer, plan, dtype, grad_output, relu_output, input, SummedGrads{grad_weight}, workspace, stream);
}

void bias_grad(const Problem& problem, const OperatorPlan& plan, DataType dtype, ConstTensor grad_output,
               ConstTensor relu_output, void* grad_bias, void* workspace, Stream stream) {
  with_type(dtype, [&](auto tag) {
    simt::bias_grad<typename decltype(tag)::Type>(problem, std::get<BiasGradPlan>(plan.plan), grad_output, relu_output,
                                                  grad_bias, workspace, stream);
  });
}

namespace {

void weight_grad_round(const Problem& layer, const OperatorPlan& plan, DataType dtype, const BackwardTensors& round,
                       const SummedGrads& grads, void* workspace, Stream stream, const GradRound& of_all) {
  const auto* const of_mma = std::get_if<mma::WeightGradPlan>(&plan.plan);
  const auto* const of_wgmma = std::get_if<WgmmaWeightGradPlan>(&plan.plan);
  if (of_mma == nullptr && of_wgmma == nullptr) {  // which has one round
    return weight_grad(layer, plan, dtype, round.grad_output, round.relu_output, round.input, grads, workspace, stream);
  }
  // Of a copy the plan may have a view of its own, along the width.
  const Problem& problem = read_problem(plan, layer);
  const ConstTensor grad_output = read_part(plan, round.grad_output, dtype);
  const ConstTensor relu_output = read_part(plan, round.relu_output, dtype);
  const SummedGrads viewed_grads{read_weight(plan, grads.weight), grads.bias,
                                 grads.channel_folds * channel_folds(plan)};
  with_type(dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    if constexpr (!std::is_same_v<T, double>) {
      if (of_wgmma != nullptr) {
        return wgmma::weight_grad<T>(problem, *of_wgmma, grad_output, round.input, viewed_grads, workspace, stream,
                                     of_all);
      }
      mma::weight_grad<T>(problem, *of_mma, grad_output, relu_output, round.input, viewed_grads, workspace, stream,
                          of_all);
    }
  });
}

// The gradient of the bias comes first: the weight is packed meanwhile. What is beside another gradient is launched
// right after it.
void separate_gradients(const Problem& layer, const OperatorPlan& planned, DataType dtype, const BackwardTensors& all,
                        ConstTensor weight, const SummedGrads& grads, void* workspace, Stream stream) {
  const auto& plan = std::get<SeparatePlan>(planned.plan);
  const Problem& problem = read_problem(planned, layer);
  const BackwardTensors read{read_part(planned, all.grad_output, dtype), read_part(planned, all.relu_output, dtype),
                             all.input, all.grad_input};
  const bool reads_all = !planned.view;
  auto* const bytes = static_cast<unsigned char*>(workspace);
  Problem of_round = problem;
  of_round.batch = problem.batch / plan.rounds;
  for (int64_t first = 0; first < problem.batch; first += of_round.batch) {
    const BackwardTensors uncopied = images_from(read, first, dtype);
    const BackwardTensors round = copied_round(plan, dtype, uncopied, bytes, stream);
    const BackwardTensors& of_input = plan.leaves_copy ? uncopied : round;
    if (first == 0 && plan.bias_grad) {
      const BackwardTensors& summed = plan.rounds == 1 && reads_all ? round : all;
      bias_grad(bias_grad_problem(layer), *plan.bias_grad, dtype, summed.grad_output, summed.relu_output, grads.bias,
                bytes + plan.bias_grad_offset(), stream);
    }
    if (plan.input_grad) {
      input_grad(of_round, *plan.input_grad, dtype, of_input.grad_output, of_input.relu_output, weight,
                 of_input.grad_input, bytes + plan.input_grad_offset(), stream);
    }
    if (!plan.weight_grad) continue;
    weight_grad_round(of_round, *plan.weight_grad, dtype, round, grads, bytes + plan.weight_grad_offset(), stream,
                      {first > 0, first + of_round.batch == problem.batch});
  }
}

}  // namespace

void backward(const Problem& layer, const OperatorPlan& plan, DataType dtype, ConstTensor all_grad_output,
              ConstTensor all_relu_output, ConstTensor input, ConstTensor layer_weight, MutableTensor grad_input,
              MutableTensor layer_grad_weight, void* grad_bias, void* workspace, Stream stream) {
  const ConstTensor weight = read_weight(plan, layer_weight);
  const SummedGrads grads{read_weight(plan, layer_grad_weight), grad_bias, channel_folds(plan)};
  if (std::holds_alternative<SeparatePlan>(plan.plan)) {
    return separate_gradients(layer, plan, dtype, {all_grad_output, all_relu_output, input, grad_input}, weight, grads,
                              workspace, stream);
  }
  const Problem& problem = read_problem(plan, layer);
  const ConstTensor grad_output = read_part(plan, all_grad_output, dtype);
  const ConstTensor relu_output = read_part(plan, all_relu_output, dtype);
  with_type(dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    if constexpr (!std::is_same_v<T, double>) {
      if (const auto* patches = std::get_if<DepthwisePatchPlan>(&plan.plan)) {
        return depthwise::patch_backward<T>(problem, *patches, grad_output, input, weight, grad_input, grads, workspace,
                                            stream);
      }
      mma::backward<T>(problem, std::get<mma::BackwardPlan>(plan.plan), grad_output, relu_output, input, weight,
                       grad_input, grads, workspace, stream);
    }
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

// For tests and measurements: from now on, calls of this process ask this Engine alone, for this one of its candidates;
// or all where it is negative, and backwards for one of theirs.
extern "C" __attribute__((visibility("default"))) void convt3d_ask_engine(int engine, int candidate) {
  convt3d::asked = {engine, candidate};
}

// For tests and measurements: from now on, norms behind forwards of this process are computed in this NormWay where
// their plans can; or as expected to be fastest where it is negative.
extern "C" __attribute__((visibility("default"))) void convt3d_ask_norm_way(int way) { convt3d::asked_norm_way = way; }

// For tests: from now on, calls of this process are planned as for the device with these traits (kDeviceNumbers), or as
// for the current one where there are none.
extern "C" __attribute__((visibility("default"))) void convt3d_impose_device(const double* numbers) {
  // Never freed: other threads may be planning by what was imposed before.
  convt3d::imposed = numbers == nullptr ? nullptr : new convt3d::DeviceTraits(convt3d::flat_device(numbers));
}

// The traits of the current device (kDeviceNumbers), and whether the engines' costs were measured on it. Returns a
// negative number where the driver fails.
extern "C" __attribute__((visibility("default"))) int convt3d_current_device(double* numbers) {
  try {
    const convt3d::CurrentDevice& device = convt3d::current_device();
    convt3d::flatten(device.traits, numbers);
    return device.measured ? 1 : 0;
  } catch (const std::runtime_error&) {
    return -1;
  }
}
