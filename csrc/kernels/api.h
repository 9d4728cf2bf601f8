// What csrc/ops calls to run an operator on a CUDA device: no torch type, no CUDA header.
//
// Contract of every function here:
// - the arguments were checked (csrc/ops/checks.h); sizes follow from the Problem, strides are in elements and
//   arbitrary for inputs (0 for an expanded dimension included), and for outputs any dense or strided layout without
//   overlap;
// - the tensors' device is the current one, and `stream` is a cudaStream_t of it; nothing synchronizes, so that the
// calls can be
//   captured in a CUDA graph;
// - `workspace` points to at least the bytes that the matching *_workspace_bytes function returned, aligned to 256
// bytes;
// - a failed launch throws std::runtime_error with the reason; a device without a kernel image is named together
//   with the architectures this build has;
// - same arguments, same bits: no atomics, every reduction in a fixed order.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "core/call.h"
#include "core/problem.h"
#include "epilogue/epilogue.h"

namespace convt3d {

// output = epilogue(conv_transpose3d(input, weight)). The plan is that of the current device and is
// remembered: asking again for the same costs no search.
struct ForwardPlan;
std::shared_ptr<const ForwardPlan> plan_forward_call(const Problem& problem, DataType dtype, Float32Mode mode,
                                                     MutableTensor output);
int64_t forward_workspace_bytes(const ForwardPlan& plan);
void forward(const Problem& problem, const ForwardPlan& plan, DataType dtype, ConstTensor input, ConstTensor weight,
             const Epilogue& epilogue, MutableTensor output, void* workspace, Stream stream);

// In the three gradients `relu_output`, where present, is the output of the forward with ReLU: grad_output counts
// only where relu_output > 0.

// grad_input[N, C_in, D, H, W] from grad_output[N, C_out, D', H', W'] and weight
int64_t input_grad_workspace_bytes(const Problem& problem, DataType dtype);
void input_grad(const Problem& problem, DataType dtype, ConstTensor grad_output, ConstTensor relu_output,
                ConstTensor weight, MutableTensor grad_input, void* workspace, Stream stream);

// grad_weight[C_in, C_out/groups, kD, kH, kW] from grad_output and input
int64_t weight_grad_workspace_bytes(const Problem& problem, DataType dtype);
void weight_grad(const Problem& problem, DataType dtype, ConstTensor grad_output, ConstTensor relu_output,
                 ConstTensor input, MutableTensor grad_weight, void* workspace, Stream stream);

// grad_bias[C] (stride 1) = sum of grad_output[N, C, D, H, W] over all but C; `size` is grad_output's size
int64_t bias_grad_workspace_bytes(const std::array<int64_t, 5>& size, DataType dtype);
void bias_grad(const std::array<int64_t, 5>& size, DataType dtype, ConstTensor grad_output, ConstTensor relu_output,
               void* grad_bias, void* workspace, Stream stream);

// Device facts for error messages and collect_env: total memory of the current device in bytes.
int64_t device_total_memory();
}  // namespace convt3d
