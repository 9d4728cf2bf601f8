#include "planning/least_cost.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "core/output_view.h"
#include "core/phase_map.h"
#include "engines/mma/least_cost.h"

namespace convt3d {
namespace {

// Of a correlation: what is written, and what the taps reach of what is read.
double correlation_elements(Operator op, const Problem& problem) {
  const bool forward = op == Operator::kForward;
  auto read = static_cast<double>(problem.batch * (forward ? problem.in_channels : problem.out_channels));
  auto written = static_cast<double>(problem.batch * (forward ? problem.out_channels : problem.in_channels));
  for (int i = 0; i < 3; ++i) {
    const AxisMap map = forward ? forward_axis(problem, i) : input_grad_axis(problem, i);
    // Positions whose remainder by the step some tap has.
    const int read_of_step = std::min(map.src_step / std::gcd(map.src_step, map.dilation), map.taps);
    read *= std::min(map.src_size, map.dst_size / map.dst_step * read_of_step);
    written *= map.dst_size;
  }
  return read + written;
}

double weight_grad_elements(const Problem& problem) {
  auto in = static_cast<double>(problem.batch * problem.in_channels);
  auto out = static_cast<double>(problem.batch * problem.out_channels);
  for (int i = 0; i < 3; ++i) {
    in *= static_cast<double>(problem.input_size[static_cast<size_t>(i)]);
    out *= static_cast<double>(problem.output_size(i));
  }
  return in + out;
}

}  // namespace

double least_cost_ms(const PlanQuery& query, Engine engine) {
  const auto& [op, layer, dtype, mode, operands, device, asked, candidate, most_copied, sums_bias, is_part, whole,
               norm] = query;
  std::optional<OutputView> view;
  if (!whole)
    view = op == Operator::kForward ? written_outputs(layer) : read_outputs(layer, steps_width(operands.first));
  const Problem& problem = view ? view->problem : layer;
  if (engine != Engine::kWgmma && engine != Engine::kMma) return 0;
  if (is_backward(op) || op == Operator::kBiasGrad) return 0;
  const bool weight = op == Operator::kWeightGrad;
  const double bytes = static_cast<double>(element_size(dtype)) *
                       (weight ? weight_grad_elements(problem) : correlation_elements(op, problem));
  const double share = engine == Engine::kWgmma ? device.memory.boxes : device.memory.ahead;
  const double memory_ms = bytes / (share * device.bytes_per_ms);
  if (engine == Engine::kWgmma) return memory_ms;
  const double products_ms = mma::least_products_ms(op, problem, dtype, terms_of(query), device);
  return std::max(memory_ms, products_ms) + (weight ? device.launches.summed : device.launches.packed);
}

}  // namespace convt3d
