#include "engines/simt/cost.h"

#include "core/integer.h"

namespace convt3d {
namespace {

// Multiply-adds of a multiprocessor in a clock, padding included: from float32 records of large layers on an H200.
// No layer of these had a gradient with the slim tile.
double rate(Operator op, TileShape tile) {
  const int row = op == Operator::kForward ? 0 : op == Operator::kInputGrad ? 1 : 2;
  constexpr double kRates[3][4] = {{16, 12, 40, 56}, {23, 12, 49, 66}, {19, 12, 37, 40}};
  return kRates[row][static_cast<int>(tile)];
}

bool is_fitted(Operator op, TileShape tile, DataType dtype) {
  return dtype == DataType::kFloat32 && (op == Operator::kForward || tile != TileShape::kSlim);
}

constexpr double kDoubleFactor = 2;  // at least: GPUs that are not for data centers have far fewer units for doubles
// Assumed, not measured: the launches, and what the sums of the bias gradient reach of the memory's peak.
constexpr double kStartClocks = 6000;
constexpr double kMemoryFraction = 0.7;

// Blocks of the same work each take turns on the multiprocessors.
Cost cost(Operator op, TileShape tile, DataType dtype, int64_t blocks, double block_products,
          const DeviceTraits& device) {
  const double clocks = static_cast<double>(ceil_div(blocks, device.multiprocessors)) * block_products / rate(op, tile);
  return {(clocks * (dtype == DataType::kFloat64 ? kDoubleFactor : 1) + kStartClocks) / device.clocks_per_ms,
          is_fitted(op, tile, dtype)};
}

}  // namespace

Cost simt_cost(Operator op, const Problem& problem, const CorrelationPlan& plan, DataType dtype,
               const DeviceTraits& device) {
  const bool is_double = dtype == DataType::kFloat64;
  const TileExtent tile = tile_extent(plan.tile, is_double);
  const double taps = static_cast<double>(problem.taps()) / static_cast<double>(plan.phases);  // of a phase
  return cost(op, plan.tile, dtype, plan.tiles(), taps * plan.k_padded * tile.m * tile.n, device);
}

Cost simt_cost(const WeightGradPlan& plan, DataType dtype, const DeviceTraits& device) {
  const bool is_double = dtype == DataType::kFloat64;
  const TileExtent tile = tile_extent(plan.tile, is_double);
  return cost(Operator::kWeightGrad, plan.tile, dtype, plan.tiles(),
              static_cast<double>(plan.split_positions) * tile.m * tile.n, device);
}

Cost simt_cost(const Problem& problem, const BiasGradPlan& plan, DataType dtype, const DeviceTraits& device) {
  const double elements = static_cast<double>(plan.positions) * problem.out_channels * (plan.masked ? 2 : 1);
  return {
      elements * element_size(dtype) / (kMemoryFraction * device.bytes_per_ms) + kStartClocks / device.clocks_per_ms,
      false};
}

}  // namespace convt3d
