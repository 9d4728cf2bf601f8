#include "engines/mma/least_cost.h"

#include <algorithm>

#include "core/integer.h"
#include "core/phase_map.h"
#include "engines/mma/tile/multiprocessor_cost.h"

namespace convt3d::mma {
namespace {

constexpr double kRows = 16;  // of a product, by
constexpr double kColumns = 8;
constexpr double kDepthBytes = 32;

// Of rows that are positions, a tap at a time. Groups that are joined fill columns and depth up with each other, but
// add no more than one of these is full.
double correlation_products(Operator op, const Problem& problem, double element_bytes) {
  const bool forward = op == Operator::kForward;
  double positions = static_cast<double>(problem.batch);
  for (int i = 0; i < 3; ++i) {
    const AxisMap map = forward ? forward_axis(problem, i) : input_grad_axis(problem, i);
    positions *= static_cast<double>(map.dst_size / map.dst_step);  // of each residue, at least
  }
  const auto in = static_cast<double>(problem.in_channels_per_group());
  const auto out = static_cast<double>(problem.out_channels_per_group());
  const double depth = (forward ? in : out) * element_bytes / kDepthBytes;
  const double columns = (forward ? out : in) / kColumns;
  return positions / kRows * static_cast<double>(problem.taps() * problem.groups) *
         std::max({depth, columns, depth * columns});
}

// Of rows that are eights of output channels of a tap; positions are the depth.
double weight_grad_products(const Problem& problem, double element_bytes) {
  const Int3& size = problem.input_size;
  const auto positions = static_cast<double>(problem.batch * size[0] * size[1] * size[2]);
  const auto eights = static_cast<double>(problem.taps() * ceil_div(problem.out_channels_per_group(), 8));
  const auto columns = static_cast<double>(ceil_div(problem.in_channels_per_group(), 8));
  return positions * element_bytes / kDepthBytes * eights / 2 * columns * static_cast<double>(problem.groups);
}

}  // namespace

double least_products_ms(Operator op, const Problem& problem, DataType dtype, int terms, const DeviceTraits& device) {
  const auto element_bytes = static_cast<double>(element_size(dtype));
  const double products = op == Operator::kWeightGrad ? weight_grad_products(problem, element_bytes)
                                                      : correlation_products(op, problem, element_bytes);
  return products * (terms == 2 ? 3 : 1) * device.rates.product_clocks / kProductShare /
         (device.multiprocessors * device.clocks_per_ms);
}

}  // namespace convt3d::mma
