#include "engines/depthwise/cost.h"

#include <algorithm>

namespace convt3d {
namespace {

double positions(const Int3& size) { return static_cast<double>(size[0]) * size[1] * size[2]; }

// Input, weight and output, or their gradients.
double moved_bytes(const Problem& problem, DataType dtype) {
  const double elements = static_cast<double>(problem.batch * problem.in_channels) * positions(problem.input_size) +
                          static_cast<double>(problem.in_channels * problem.out_channels_per_group() * problem.taps()) +
                          static_cast<double>(problem.batch * problem.out_channels) * positions(problem.output_size());
  return elements * element_size(dtype);
}

}  // namespace

Cost depthwise_cost(const Problem& problem, const DepthwiseForwardPlan& plan, DataType dtype,
                    const DeviceTraits& device) {
  // Memory is its kernels' limit, but where rows leave in pieces that are no vectors.
  const double memory_ms = moved_bytes(problem, dtype) / (device.memory.vectors * device.bytes_per_ms);
  if (plan.kernel.channels() || plan.access.destination_vectors) return {memory_ms, true};
  // By a multiprocessor, of 16 bits and of 32; measured on an H200.
  const double stored_in_clock = plan.access.destination_runs ? 1.6 : 1.4;
  const double outputs = static_cast<double>(problem.batch * problem.out_channels) * positions(problem.output_size());
  const double store_ms = outputs / (stored_in_clock * device.multiprocessors * device.clocks_per_ms);
  return {std::max(memory_ms, store_ms), true};
}

Cost depthwise_cost(const Problem& problem, const DepthwiseTilePlan& plan, DataType dtype, const DeviceTraits& device) {
  // Assumed, not measured.
  constexpr double kIssueFraction = 0.6;
  constexpr double kStartClocks = 6000;
  double bytes = moved_bytes(problem, dtype) + 2.0 * plan.workspace_bytes();
  if (plan.masked) {
    bytes += static_cast<double>(problem.batch * problem.out_channels) * positions(problem.output_size()) *
             element_size(dtype);
  }
  const double memory_ms = bytes / (device.memory.staged * device.bytes_per_ms);
  const double issue_ms = plan.clocks / (kIssueFraction * device.multiprocessors * device.clocks_per_ms);
  return {std::max(memory_ms, issue_ms) + kStartClocks / device.clocks_per_ms, false};
}

Cost depthwise_cost(const Problem& problem, const DepthwisePatchPlan& plan, DataType dtype,
                    const DeviceTraits& device) {
  // Assumed, not measured.
  constexpr double kIssueFraction = 0.6;
  constexpr double kStartClocks = 6000;
  const double bytes = moved_bytes(problem, dtype) + 2.0 * plan.workspace_bytes();
  const double memory_ms = bytes / (device.memory.general * device.bytes_per_ms);
  const double issue_ms = plan.clocks / (kIssueFraction * device.multiprocessors * device.clocks_per_ms);
  return {std::max(memory_ms, issue_ms) + kStartClocks / device.clocks_per_ms, false};
}

}  // namespace convt3d
