// What csrc/ops calls to run an operator on a CUDA device: no torch type, no CUDA header.
//
// Contract of every function here:
// - the arguments were checked (csrc/ops/checks.h); sizes follow from the Problem, strides are in elements and, but for
//   joins_weight(), arbitrary for inputs (0 for an expanded dimension included), and for outputs any dense or strided
//   layout without overlap;
// - a plan is one that plan_call() gave for the same operator, problem and type, and for tensors with the same traits;
// - the tensors' device is the current one, and `stream` is a cudaStream_t of it; nothing synchronizes, so that the
//   calls can be captured in a CUDA graph;
// - `workspace` points to at least the plan's workspace_bytes(), aligned to 256 bytes;
// - a failed launch throws std::runtime_error with the reason; a device without a kernel image is named together with
//   the architectures this build has;
// - same arguments, same bits: every sum in a fixed order. (Atomics only hand out work, whose order no result shows.)
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "core/call.h"
#include "core/operands.h"
#include "core/operator.h"
#include "core/problem.h"
#include "epilogue/epilogue.h"
#include "planning/norm_task.h"

namespace convt3d {

struct OperatorPlan;

// What an operator runs on the current device. It is remembered: asking again for the same costs no search.
std::shared_ptr<const OperatorPlan> plan_call(Operator op, const Problem& problem, DataType dtype, Float32Mode mode,
                                              const Operands& operands,
                                              const std::optional<NormTask>& norm = std::nullopt);
int64_t workspace_bytes(const OperatorPlan& plan);
// Of gradients: whether a plan is for a weight, and a gradient of it, whose taps along the width follow one another as
// the channels do: stride[4] == C_out * stride[1], as with the channels last. No plan asks for it but where grad_output
// is so.
bool joins_weight(const OperatorPlan& plan);
// Parts of each image and output channel that a forward's epilogue can leave moments of; 0: none.
int64_t moment_parts(const OperatorPlan& plan);
// How a norm behind a forward is computed on the current device.
NormWay norm_way(const OperatorPlan& forward, const NormTask& task);

// output = epilogue(conv_transpose3d(input, weight))
void forward(const Problem& problem, const OperatorPlan& plan, DataType dtype, ConstTensor input, ConstTensor weight,
             const Epilogue& epilogue, MutableTensor output, void* workspace, Stream stream);

// In all gradients `relu_output`, where present, is the output of the forward with ReLU: grad_output counts
// only where relu_output is not <= 0.

// grad_input[N, C_in, D, H, W] from grad_output[N, C_out, D', H', W'] and weight
void input_grad(const Problem& problem, const OperatorPlan& plan, DataType dtype, ConstTensor grad_output,
                ConstTensor relu_output, ConstTensor weight, MutableTensor grad_input, void* workspace, Stream stream);

// grad_weight[C_in, C_out/groups, kD, kH, kW] from grad_output and input
void weight_grad(const Problem& problem, const OperatorPlan& plan, DataType dtype, ConstTensor grad_output,
                 ConstTensor relu_output, ConstTensor input, MutableTensor grad_weight, void* workspace, Stream stream);

// grad_bias[C_out] (stride 1) = sum of grad_output over all but its channels. Of the problem only the output's size
// counts: see bias_grad_problem() in core/problem.h.
void bias_grad(const Problem& problem, const OperatorPlan& plan, DataType dtype, ConstTensor grad_output,
               ConstTensor relu_output, void* grad_bias, void* workspace, Stream stream);

// All gradients by the plan of a kBackward (grad_bias: nullptr) or a kBackwardAndBias.
void backward(const Problem& problem, const OperatorPlan& plan, DataType dtype, ConstTensor grad_output,
              ConstTensor relu_output, ConstTensor input, ConstTensor weight, MutableTensor grad_input,
              MutableTensor grad_weight, void* grad_bias, void* workspace, Stream stream);

// Device facts for error messages and collect_env: total memory of the current device in bytes.
int64_t device_total_memory();

}  // namespace convt3d
