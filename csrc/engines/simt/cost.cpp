#include "engines/simt/cost.h"

#include <algorithm>

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
// Two launches, as the engine mma was seen to take for them.
constexpr double kStartClocks = 15000;

// Gradients in 16 bits and of few products took 1.25 to 1.63 times as long on an H200 as the rates alone say: memory
// is waited for.
constexpr double kOtherTypes = 1.3;

double memory_ms(const Problem& problem, DataType dtype, const DeviceTraits& device) {
  const Int3 output = problem.output_size();
  const double elements = static_cast<double>(problem.batch) *
                          (static_cast<double>(problem.in_channels) * problem.input_size[0] * problem.input_size[1] *
                               problem.input_size[2] +
                           static_cast<double>(problem.out_channels) * output[0] * output[1] * output[2]);
  return elements * element_size(dtype) / (device.memory.general * device.bytes_per_ms);
}

// Blocks that a multiprocessor needs to compute at its rate. Set by one layer: with 125 blocks for the 132
// multiprocessors of an H200 it took 49 to 53 us where 26 to 29 were expected.
constexpr int64_t kBlocksAtOnce = 3;

// Blocks of the same work each take turns on the multiprocessors.
Cost cost(Operator op, const Problem& problem, TileShape tile, DataType dtype, int64_t blocks, double block_products,
          const DeviceTraits& device) {
  const int64_t turns = std::max(kBlocksAtOnce, ceil_div(blocks, device.multiprocessors));
  const double clocks = static_cast<double>(turns) * block_products / rate(op, tile);
  const bool fitted = is_fitted(op, tile, dtype);
  const double factor = dtype == DataType::kFloat64 ? kDoubleFactor : fitted ? 1 : kOtherTypes;
  return {(clocks * factor + kStartClocks) / device.clocks_per_ms + memory_ms(problem, dtype, device), fitted};
}

}  // namespace

Cost simt_cost(Operator op, const Problem& problem, const CorrelationPlan& plan, DataType dtype,
               const DeviceTraits& device) {
  const bool is_double = dtype == DataType::kFloat64;
  const TileExtent tile = tile_extent(plan.tile, is_double);
  const double taps = static_cast<double>(problem.taps()) / static_cast<double>(plan.phases);  // of a phase
  return cost(op, problem, plan.tile, dtype, plan.tiles(), taps * plan.k_padded * tile.m * tile.n, device);
}

Cost simt_cost(const Problem& problem, const WeightGradPlan& plan, DataType dtype, const DeviceTraits& device) {
  const bool is_double = dtype == DataType::kFloat64;
  const TileExtent tile = tile_extent(plan.tile, is_double);
  return cost(Operator::kWeightGrad, problem, plan.tile, dtype, plan.tiles(),
              static_cast<double>(plan.split_positions) * tile.m * tile.n, device);
}

Cost simt_cost(const Problem& problem, const BiasGradPlan& plan, DataType dtype, const DeviceTraits& device) {
  const double elements = static_cast<double>(plan.positions) * problem.out_channels * (plan.masked ? 2 : 1);
  return {elements * element_size(dtype) / (device.memory.general * device.bytes_per_ms) +
              kStartClocks / device.clocks_per_ms,
          false};
}

}  // namespace convt3d
