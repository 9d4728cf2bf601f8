// Which engine and plan a forward gets, and what it is expected to take, as text; runs without a GPU.
#include <cstdio>
#include <sstream>

#include "core/devices.h"
#include "planning/flat_call.h"
#include "planning/forward_plan.h"

namespace convt3d {
namespace {

// Multiply-adds per second of the SIMT engine by its tile, on an H200: from its float32 records; double takes twice as
// long.
double simt_rate(TileShape tile) {
  switch (tile) {
    case TileShape::kNarrow:
      return 4e12;
    case TileShape::kSlim:
      return 3e12;
    case TileShape::kMedium:
      return 10e12;
    case TileShape::kWide:
      return 14e12;
  }
  return 14e12;
}

// Input, weight and output, once each.
double tensor_bytes(const Problem& problem, DataType dtype) {
  const auto positions = [](const Int3& size) { return static_cast<double>(size[0]) * size[1] * size[2]; };
  const double elements = problem.batch * problem.in_channels * positions(problem.input_size) +
                          problem.in_channels * problem.out_channels_per_group() * positions(problem.kernel_size) +
                          problem.batch * problem.out_channels * positions(problem.output_size());
  return elements * element_size(dtype);
}

double expected_ms(const ForwardPlan& plan, const Problem& problem, DataType dtype, const DeviceTraits& device) {
  if (plan.engine == ForwardEngine::kHaloWgmma) return plan.halo.cost / device.clocks_per_ms;
  constexpr double kDepthwiseBytesPerMs = 3.4e9;  // that engine is limited by memory: what it moves on an H200
  if (plan.engine == ForwardEngine::kDepthwise) return tensor_bytes(problem, dtype) / kDepthwiseBytesPerMs;
  const CorrelationPlan& simt = plan.simt;
  const bool is_double = dtype == DataType::kFloat64;
  const double rows = static_cast<double>(simt.tiles_m) * tile_extent(simt.tile, is_double).m;
  const double products = rows * simt.groups * problem.taps() * simt.k_padded * simt.n_padded;
  return 1e3 * products / simt_rate(simt.tile) * (is_double ? 2 : 1);
}

std::string explain(const Problem& problem, DataType dtype, Float32Mode mode, bool channels_last,
                    const DeviceTraits& device) {
  const ForwardPlan plan = choose_forward(problem, dtype, mode, channels_last, device);
  const std::string text = to_string(plan);  // "engine: plan"
  const size_t colon = text.find(": ");
  std::ostringstream out;
  out << "engine=" << text.substr(0, colon) << "\nplan=" << text.substr(colon + 2)
      << "\nworkspace_bytes=" << plan.workspace_bytes << "\nexpected_ms=" << expected_ms(plan, problem, dtype, device);
  return out.str();
}

}  // namespace
}  // namespace convt3d

// `sizes` as flat_problem() has them.
// `element_bytes`: 2, 4 or 8. Writes "key=value" lines of at most `capacity` characters, the terminating zero included,
// and returns how many the whole text has without it.
extern "C" __attribute__((visibility("default"))) int convt3d_explain_forward(const int64_t* sizes, int element_bytes,
                                                                              int allow_tf32, int channels_last,
                                                                              int has_wgmma, char* text, int capacity) {
  using namespace convt3d;
  const Problem problem = flat_problem(sizes);
  const DataType dtype = element_bytes == 8   ? DataType::kFloat64
                         : element_bytes == 4 ? DataType::kFloat32
                                              : DataType::kFloat16;
  const Float32Mode mode = allow_tf32 != 0 ? Float32Mode::kTf32 : Float32Mode::kIeee;
  const std::string explained = explain(problem, dtype, mode, channels_last != 0, flat_device(has_wgmma));
  return std::snprintf(text, static_cast<size_t>(capacity), "%s", explained.c_str());
}
