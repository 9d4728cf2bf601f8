// The plans of the matmul engine.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/devices.h"
#include "core/integer.h"
#include "engines/matmul/plan.h"
#include "terms.h"

namespace convt3d {

// Whether the weight's columns are where the order of a plan says.
inline void check_matmul_columns(const MatmulPlan& plan, const Problem& problem, const Operands& operands) {
  const int64_t channels = problem.out_channels_per_group();
  const int64_t taps = problem.taps();
  const auto& weight = operands.second.stride;
  for (int64_t column = 0; column < plan.columns; ++column) {
    const int64_t channel = plan.channels_last ? column % channels : column / taps;
    int64_t tap = plan.channels_last ? column / channels : column % taps;
    const int64_t w = tap % plan.taps[2];
    tap /= plan.taps[2];
    const int64_t h = tap % plan.taps[1];
    const int64_t d = tap / plan.taps[1];
    const int64_t place = channel * weight[1] + d * weight[2] + h * weight[3] + w * weight[4];
    if (place != column) return expect(false, "columns of the weight are neighbours", problem);
  }
}

inline void check_matmul_plan(const MatmulPlan& plan, const Problem& problem, const Operands& operands,
                              const DeviceTraits& device) {
  const MatmulExtent extent = plan.extent();
  const int64_t channels = problem.out_channels_per_group();
  expect(int64_t{plan.m_tiles} * extent.m >= plan.positions && int64_t{plan.m_tiles - 1} * extent.m < plan.positions,
         "tiles cover the positions, and none is empty", problem);
  expect(int64_t{plan.n_tiles} * extent.n >= plan.columns && int64_t{plan.n_tiles - 1} * extent.n < plan.columns,
         "tiles cover the columns, and none is empty", problem);
  expect(plan.walkers >= 1 && plan.walkers <= plan.m_tiles, "no walker is idle", problem);
  const int64_t depth = kMatmulStageBytes / plan.element_bytes;
  expect(plan.k_stages * depth >= plan.in_channels && (plan.k_stages - 1) * depth < plan.in_channels,
         "stages cover the channels, and none is empty", problem);
  expect(plan.shared_bytes <= device.shared_bytes, "a block's tiles fit into shared memory", problem);
  const MatmulLayout layout = matmul_layout(plan);
  const int32_t weights = plan.resident ? plan.k_stages : plan.buffers;
  expect(layout.weight >= plan.buffers * layout.input_bytes &&
             layout.output >= layout.weight + weights * layout.weight_bytes &&
             layout.positions >= layout.output + extent.m * layout.output_pitch &&
             layout.columns >= layout.positions + extent.m * 8 && layout.bytes >= layout.columns + extent.n * 12,
         "what a block stages does not overlap", problem);
  expect(layout.output % 16 == 0 && layout.positions % 16 == 0 && layout.weight % 16 == 0, "all of it is aligned",
         problem);
  const int64_t stored = plan.store.elements;
  const int64_t neighbours = plan.channels_last ? channels : plan.taps[2];
  expect(stored == 1 || (operands.result.stride[plan.channels_last ? 1 : 4] == 1 && neighbours % stored == 0 &&
                         operands.result.address % (stored * plan.element_bytes) == 0),
         "columns that are stored together are neighbours", problem);
}

// Whether a problem is one product, and that its plans are right, in both formats and of tensors at odd places.
inline void check_matmul(const Problem& any) {
  Problem problem = any;
  for (const bool one_product : {false, true}) {
    if (one_product) {
      problem.stride = problem.kernel_size;
      problem.padding = problem.output_padding = {0, 0, 0};
      problem.dilation = {1, 1, 1};
      problem.in_channels = problem.groups * 16;
      problem.out_channels = problem.groups * 8;
    }
    bool is_product = true;
    for (size_t i = 0; i < 3; ++i) {
      is_product = is_product && problem.kernel_size[i] == problem.stride[i] && problem.padding[i] == 0 &&
                   problem.output_padding[i] == 0 && (problem.kernel_size[i] == 1 || problem.dilation[i] == 1);
    }
    for (const char* name : {"H200", "GeForce RTX 4090"}) {
      const DeviceTraits& device = find_device(std::string("NVIDIA ") + name)->traits;
      for (const DataType dtype : {DataType::kFloat16, DataType::kFloat32, DataType::kFloat64}) {
        for (const bool channels_last : {false, true}) {
          for (const int32_t address : {0, 4}) {
            Operands operands = dense_operands(problem, channels_last);
            operands.first.address = operands.result.address = address;
            const std::vector<MatmulPlan> plans = matmul_candidates(problem, dtype, 1, operands, device);
            expect(is_product || plans.empty(), "nothing else is one product", problem);
            expect(dtype != DataType::kFloat64 || plans.empty(), "there are no tensor cores for it", problem);
            if (one_product && dtype != DataType::kFloat64 && !(channels_last && address != 0)) {
              expect(!plans.empty(), "a product has a plan", problem);
            }
            for (const MatmulPlan& plan : plans) check_matmul_plan(plan, problem, operands, device);
            if (!plans.empty()) check_matmul_columns(plans[0], problem, operands);
          }
        }
      }
    }
  }
}

}  // namespace convt3d
