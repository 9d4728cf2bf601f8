#include "ops/cuda_forward.h"

#include "ops/cuda_call.h"
#include "ops/float32_mode.h"

namespace convt3d {
namespace {

Tensor empty_output(const char* op, const Problem& problem, const Tensor& input, const Tensor& weight) {
  const Int3 size = problem.output_size();
  return allocate_result(op, {problem.batch, problem.out_channels, size[0], size[1], size[2]},
                         result_format({&input, &weight}), input);
}

}  // namespace

CudaForward::CudaForward(const char* op, const Problem& problem, const Tensor& input, const Tensor& weight,
                         const std::optional<Tensor>& bias, Activation activation, std::optional<DataType> norm_result)
    : op_(op),
      problem_(problem),
      input_(input),
      weight_(weight),
      bias_(bias),
      activation_(activation),
      output_(empty_output(op, problem, input, weight)) {
  if (problem.batch == 0) return;
  const DataType dtype = kernel_dtype(input);
  const OperandTraits output = operand_traits(mutable_view(output_));
  if (norm_result) norm_ = norm_task(problem, dtype, output, static_cast<int32_t>(element_size(*norm_result)));
  plan_ = plan_call(Operator::kForward, problem, dtype, float32_mode(),
                    {operand_traits(view(input)), operand_traits(view(weight)), {}, output}, norm_);
}

void CudaForward::run(const EpilogueMoments& moments, const EpilogueNorm& norm, bool stores) const {
  if (!plan_) return;
  const Scratch workspace(op_, workspace_bytes(*plan_), input_);
  const Epilogue epilogue{view_vector(bias_), activation_, moments, norm, stores};
  convt3d::forward(problem_, *plan_, kernel_dtype(input_), view(input_), view(weight_), epilogue, mutable_view(output_),
                   workspace.data(), current_stream(input_));
}

}  // namespace convt3d
