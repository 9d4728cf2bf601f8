#include "check/run.h"

#include <cmath>
#include <cstring>
#include <sstream>
#include <stdexcept>
#include <utility>
#include <variant>
#include <vector>

#include "check/compare.h"
#include "check/epilogue.h"
#include "check/mma.h"
#include "check/plans.h"
#include "check/reference.h"
#include "check/tensor.h"
#include "check/wgmma.h"
#include "core/output_view.h"
#include "kernels/api.h"
#include "machine/block.h"
#include "machine/launch.h"
#include "machine/memory.h"

namespace check {
namespace {

using convt3d::OperatorPlan;
using convt3d::Problem;

constexpr std::size_t kWorkspaceAlignment = 256;

bool on_tensor_cores(const OperatorPlan& plan) {
  return plan.engine() == convt3d::Engine::kWgmma || plan.engine() == convt3d::Engine::kMma ||
         plan.engine() == convt3d::Engine::kMatmul;
}

bool shares_sums(const OperatorPlan& plan) {
  const auto* const correlation = std::get_if<convt3d::mma::CorrelationPlan>(&plan.plan);
  return correlation != nullptr && correlation->k_splits > 1;
}

// The parts of one run.
class Run {
 public:
  explicit Run(const Case& item) : item_(item), problem_(item.problem), random_(item.seed) {
    integers_ = chance(random_, 50);
    constexpr int kMultiprocessors[] = {1, 2, 5, 132};
    emulator::Device device;
    device.multiprocessors = multiprocessors_ = kMultiprocessors[between(random_, 0, 3)];
    device.has_wgmma = item.wgmma;
    emulator::set_device(device);
    emulator::begin_run(random_());
    emulator::clear_regions();
  }

  Outcome operator()() {
    switch (item_.op) {
      case Operator::kForward:
        forward();
        break;
      case Operator::kInputGrad:
        input_grad();
        break;
      case Operator::kWeightGrad:
        weight_grad();
        break;
      case Operator::kBiasGrad:
        bias_grad();
        break;
      case Operator::kBackward:
        backward();
        break;
    }
    return outcome_;
  }

 private:
  Tensor source(const char* name, const Size5& size, const Arrangement& arrangement) {
    Tensor tensor(name, size, item_.data_type(), item_.layout, arrangement, false, random_);
    std::normal_distribution<double> normal;
    tensor.fill([&] { return integers_ ? static_cast<double>(between(random_, -2, 2)) : normal(random_); });
    tensor.hand_out();
    return tensor;
  }
  // Contiguous, with a step, or one value for all channels.
  const Arrangement& bias_arrangement() {
    return arrangement_of(chance(random_, 60) ? "dense" : chance(random_, 70) ? "slice_w" : "expanded_c");
  }
  Tensor target(const char* name, const Size5& size) {
    Tensor tensor(name, size, item_.data_type(), item_.result_layout(), *item_.result, true, random_);
    tensor.hand_out();
    return tensor;
  }
  // A weight, or what its gradient is written into, in a layout that a plan is for.
  Tensor joined(const OperatorPlan& plan, Tensor weight, bool written) {
    if (!plan.joins_weight() || convt3d::joins_width(weight.stride(), problem_.out_channels)) return weight;
    Tensor other("joined weight", weight.size(), item_.data_type(), Layout::kNdhwc, arrangement_of("dense"), written,
                 random_);
    const std::vector<double> values = written ? std::vector<double>{} : weight.values();
    auto next = values.begin();
    if (!written) other.fill([&] { return *next++; });
    other.hand_out();
    replaced_.push_back(std::move(weight));
    return other;
  }
  // The output of the forward, whose zeros stop a gradient and whose NaNs do not.
  Tensor mask(const Size5& size) {
    Tensor tensor("relu_output", size, item_.data_type(), item_.layout, *item_.mask, false, random_);
    const bool has_nan = chance(random_, 10);
    tensor.fill([&] {
      if (has_nan && chance(random_, 10)) return static_cast<double>(NAN);
      return static_cast<double>(between(random_, 0, 1));
    });
    tensor.hand_out();
    return tensor;
  }
  std::vector<double> masked(const Tensor& grad, const Tensor* mask) const {
    std::vector<double> values = grad.values();
    if (mask == nullptr) return values;
    const std::vector<double> outputs = mask->values();
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (outputs[i] <= 0) values[i] = 0;
    }
    return values;
  }
  std::unique_ptr<MemoryBlock> workspace(int64_t bytes) {
    auto block = std::make_unique<MemoryBlock>(static_cast<std::size_t>(bytes), kWorkspaceAlignment, 0, true);
    std::memset(block->begin(), 0xFF, block->bytes());
    emulator::add_region({block->begin(), block->begin() + block->bytes(), true, "the workspace"});
    return block;
  }

  OperatorPlan planned(const convt3d::ConstTensor& first, const convt3d::ConstTensor& second,
                       const convt3d::ConstTensor& mask, const convt3d::MutableTensor& result) {
    OperatorPlan plan =
        plan_of(item_, {operand_traits(first), operand_traits(second), operand_traits(mask), operand_traits(result)});
    if (auto* const of_wgmma = std::get_if<convt3d::WgmmaPlan>(&plan.plan)) {
      of_wgmma->grid = make_grid(of_wgmma->product, of_wgmma->tile, of_wgmma->pipelines, multiprocessors_);
    }
    outcome_.plan = to_string(plan);
    return plan;
  }

  // Calls the operator, and looks at what it left behind.
  template <typename Call>
  void finish(const Tensor& result, const MemoryBlock& space, bool split, Call&& call) {
    try {
      expected_ = {};
      call();
    } catch (const std::runtime_error& error) {
      outcome_.failure = error.what();
      return;
    }
    if (!result.surroundings_untouched()) {
      outcome_.failure = "memory around the result is written";
    } else if (!space.surroundings_untouched()) {
      outcome_.failure = "memory around the workspace is written";
    } else {
      const Bounds bounds{integers_, item_.data_type(), split};
      outcome_.failure = norm_ ? norm_->compare(expected_, bounds) : compare(result, expected_, bounds);
    }
  }

  // Of a sum that blocks share, once more with the blocks in another order: the same bits.
  template <typename Call>
  void repeat(const Tensor& result, bool shared, Call&& call) {
    call();
    if (!shared) return;
    const std::vector<double> first = result.values();
    emulator::begin_run(random_());
    call();
    const std::vector<double> second = result.values();
    if (std::memcmp(first.data(), second.data(), first.size() * sizeof(double)) != 0) {
      throw std::runtime_error("blocks in another order give other bits");
    }
  }

  void forward() {
    const Tensor input = source("input", item_.first_size(), *item_.first);
    const Tensor weight = source("weight", item_.second_size(), *item_.second);
    const Tensor bias = source("bias", {1, problem_.out_channels, 1, 1, 1}, bias_arrangement());
    const Tensor output = target("output", item_.output_size());
    convt3d::Epilogue epilogue;
    if (item_.bias) epilogue.bias = {bias.data(), bias.stride()[1]};
    if (item_.relu) epilogue.activation = convt3d::Activation::kRelu;
    const auto draw_norm = [&](int64_t parts) {
      if (parts == 0 || !chance(random_, 50)) return;
      norm_ = std::make_unique<NormEpilogue>(item_, parts, output, integers_, random_);
      norm_->add_to(epilogue);
    };
    if (item_.engine == Engine::kMma && item_.plan >= 0) {
      const convt3d::mma::CorrelationPlan plan = mma_plan(item_, input.source(), {}, output.target());
      outcome_.plan = to_string(plan);
      draw_norm(plan.moment_parts());
      const auto space = workspace(plan.workspace_bytes());
      finish(output, *space, item_.type == Type::kFloat32, [&] {
        repeat(output, plan.k_splits > 1, [&] {
          mma_forward(item_, plan, input.source(), weight.source(), epilogue, output.target(), space->begin());
        });
        expected_ = expected_output(item_, in_cores(input.values()), in_cores(weight.values()), bias.values());
      });
      return;
    }
    const OperatorPlan plan = planned(input.source(), weight.source(), {}, output.target());
    draw_norm(moment_parts(plan));
    const bool cores = on_tensor_cores(plan);
    const auto space = workspace(plan.workspace_bytes);
    finish(output, *space, cores && item_.type == Type::kFloat32, [&] {
      repeat(output, shares_sums(plan), [&] {
        convt3d::forward(problem_, plan, item_.data_type(), input.source(), weight.source(), epilogue, output.target(),
                         space->begin(), nullptr);
      });
      expected_ = cores ? expected_output(item_, in_cores(input.values()), in_cores(weight.values()), bias.values())
                        : expected_output(item_, input.values(), weight.values(), bias.values());
    });
  }

  void input_grad() {
    const Tensor grad = source("grad_output", item_.first_size(), *item_.first);
    Tensor given = source("weight", item_.second_size(), *item_.second);
    const Tensor outputs = mask(item_.output_size());
    const Tensor result = target("grad_input", item_.input_size());
    if (item_.engine == Engine::kMma && item_.plan >= 0) {
      const convt3d::mma::CorrelationPlan plan = mma_plan(item_, grad.source(), mask_of(outputs), result.target());
      outcome_.plan = to_string(plan);
      const auto space = workspace(plan.workspace_bytes());
      finish(result, *space, item_.type == Type::kFloat32, [&] {
        repeat(result, plan.k_splits > 1, [&] {
          mma_input_grad(item_, plan, grad.source(), mask_of(outputs), given.source(), result.target(), space->begin());
        });
        expected_ = expected_input_grad(item_, in_cores(masked(grad, item_.relu ? &outputs : nullptr)),
                                        in_cores(given.values()));
      });
      return;
    }
    const OperatorPlan plan = planned(grad.source(), given.source(), mask_of(outputs), result.target());
    const Tensor weight = joined(plan, std::move(given), false);
    const bool cores = on_tensor_cores(plan);
    const auto space = workspace(plan.workspace_bytes);
    finish(result, *space, cores && item_.type == Type::kFloat32, [&] {
      repeat(result, shares_sums(plan), [&] {
        convt3d::input_grad(problem_, plan, item_.data_type(), grad.source(), mask_of(outputs), weight.source(),
                            result.target(), space->begin(), nullptr);
      });
      const std::vector<double> gy = masked(grad, item_.relu ? &outputs : nullptr);
      expected_ = cores ? expected_input_grad(item_, in_cores(gy), in_cores(weight.values()))
                        : expected_input_grad(item_, gy, weight.values());
    });
  }

  void weight_grad() {
    const Tensor grad = source("grad_output", item_.first_size(), *item_.first);
    const Tensor input = source("input", item_.second_size(), *item_.second);
    const Tensor outputs = mask(item_.output_size());
    Tensor given = target("grad_weight", item_.weight_size());
    if (item_.engine == Engine::kMma && item_.plan >= 0) {
      const convt3d::mma::WeightGradPlan plan =
          mma_weight_grad_plan(item_, grad.source(), mask_of(outputs), input.source());
      outcome_.plan = to_string(plan);
      const auto space = workspace(plan.workspace_bytes());
      finish(given, *space, item_.type == Type::kFloat32, [&] {
        mma_weight_grad(item_, plan, grad.source(), mask_of(outputs), input.source(), given.target(), space->begin());
        expected_ = expected_weight_grad(item_, in_cores(masked(grad, item_.relu ? &outputs : nullptr)),
                                         in_cores(input.values()));
      });
      return;
    }
    if (item_.engine == Engine::kWgmma && item_.bias && weight_grad_with_bias(grad, input, given)) return;
    const OperatorPlan plan = planned(grad.source(), input.source(), mask_of(outputs), given.target());
    const Tensor result = joined(plan, std::move(given), true);
    const bool cores = on_tensor_cores(plan);
    const auto space = workspace(plan.workspace_bytes);
    finish(result, *space, cores && item_.type == Type::kFloat32, [&] {
      convt3d::weight_grad(problem_, plan, item_.data_type(), grad.source(), mask_of(outputs), input.source(),
                           result.target(), space->begin(), nullptr);
      const std::vector<double> gy = masked(grad, item_.relu ? &outputs : nullptr);
      expected_ = cores ? expected_weight_grad(item_, in_cores(gy), in_cores(input.values()))
                        : expected_weight_grad(item_, gy, input.values());
    });
  }

  // Where Hopper's matrix units have both.
  bool weight_grad_with_bias(const Tensor& grad, const Tensor& input, const Tensor& result) {
    const auto plan = plan_with_bias(item_, {operand_traits(grad.source()), operand_traits(input.source()), {}, {}});
    if (!plan) return false;
    outcome_.plan = to_string(*plan);
    const Tensor grad_bias = target("grad_bias", {1, problem_.out_channels, 1, 1, 1});
    const auto space = workspace(plan->workspace_bytes());
    finish(result, *space, item_.type == Type::kFloat32, [&] {
      wgmma_weight_grad(item_, *plan, grad.source(), input.source(), {result.target(), grad_bias.data()},
                        space->begin());
      expected_ = expected_weight_grad(item_, in_cores(grad.values()), in_cores(input.values()));
    });
    check_further(grad_bias, *space, false, [&] { expected_ = expected_bias_grad(item_, grad.values()); });
    return true;
  }

  void bias_grad() {
    const Size5 size = item_.output_size();
    const Tensor grad = source("grad_output", size, *item_.first);
    const Tensor outputs = mask(size);
    const Tensor result = target("grad_bias", {1, problem_.out_channels, 1, 1, 1});
    const OperatorPlan plan = planned(grad.source(), {}, mask_of(outputs), {});
    const auto space = workspace(plan.workspace_bytes);
    finish(result, *space, false, [&] {
      convt3d::bias_grad(problem_, plan, item_.data_type(), grad.source(), mask_of(outputs), result.data(),
                         space->begin(), nullptr);
      expected_ = expected_bias_grad(item_, masked(grad, item_.relu ? &outputs : nullptr));
    });
  }

  // All gradients at once.
  void backward() {
    const Tensor grad = source("grad_output", item_.first_size(), *item_.first);
    const Tensor input = source("input", item_.second_size(), *item_.second);
    Tensor weight = source("weight", item_.weight_size(), arrangement_of("dense"));
    const Tensor outputs = mask(item_.output_size());
    const Tensor grad_input = target("grad_input", item_.input_size());
    Tensor grad_weight = target("grad_weight", item_.weight_size());
    const Tensor grad_bias = target("grad_bias", {1, problem_.out_channels, 1, 1, 1});
    const convt3d::Operands operands = {operand_traits(grad.source()), operand_traits(input.source()),
                                        operand_traits(mask_of(outputs)), operand_traits(grad_input.target()),
                                        operand_traits(weight.source())};
    const OperatorPlan plan =
        item_.engine == Engine::kMma ? mma_backward_plan(item_, operands) : plan_of(item_, operands);
    outcome_.plan = to_string(plan);
    weight = joined(plan, std::move(weight), false);
    grad_weight = joined(plan, std::move(grad_weight), true);
    const auto* const separate = std::get_if<convt3d::SeparatePlan>(&plan.plan);
    const OperatorPlan& of_input = separate == nullptr ? plan : *separate->input_grad;
    const OperatorPlan& of_weight = separate == nullptr ? plan : *separate->weight_grad;
    const auto in_cores_of = [&](const OperatorPlan& gradient, const std::vector<double>& values) {
      return on_tensor_cores(gradient) ? in_cores(values) : values;
    };
    const auto space = workspace(plan.workspace_bytes);
    const auto split = [&](const OperatorPlan& gradient) {
      return item_.type == Type::kFloat32 && on_tensor_cores(gradient);
    };
    const std::vector<double> gy = masked(grad, item_.relu ? &outputs : nullptr);
    finish(grad_input, *space, split(of_input), [&] {
      convt3d::backward(problem_, plan, item_.data_type(), grad.source(), mask_of(outputs), input.source(),
                        weight.source(), grad_input.target(), grad_weight.target(),
                        item_.bias ? grad_bias.data() : nullptr, space->begin(), nullptr);
      expected_ = expected_input_grad(item_, in_cores_of(of_input, gy), in_cores_of(of_input, weight.values()));
    });
    check_further(grad_weight, *space, split(of_weight), [&] {
      expected_ = expected_weight_grad(item_, in_cores_of(of_weight, gy), in_cores_of(of_weight, input.values()));
    });
    if (!item_.bias) return;
    check_further(grad_bias, *space, false, [&] { expected_ = expected_bias_grad(item_, gy); });
  }
  // Another result of the same call.
  template <typename Expect>
  void check_further(const Tensor& result, const MemoryBlock& space, bool split, Expect&& expect) {
    if (outcome_.failure.empty()) finish(result, space, split, expect);
  }

  // What the tensor cores have of an operand.
  std::vector<double> in_cores(std::vector<double> values) const {
    if (item_.type == Type::kTf32) {
      for (double& value : values) value = rounded_to_tf32(value);
    }
    return values;
  }

  convt3d::ConstTensor mask_of(const Tensor& outputs) const {
    return item_.relu ? outputs.source() : convt3d::ConstTensor{};
  }

  const Case& item_;
  const Problem& problem_;
  Random random_;
  bool integers_;
  int multiprocessors_;
  Expected expected_;
  std::vector<Tensor> replaced_;        // whose memory nobody else gets
  std::unique_ptr<NormEpilogue> norm_;  // of a forward
  Outcome outcome_;
};

}  // namespace

Outcome run(const Case& item) { return Run(item)(); }

}  // namespace check
