// The phase map and the plans against the operator's definition, term by term. Built by tests/test_plan.py with a plain
// C++ compiler: no torch, no CUDA.
#include "engines/simt/plan.h"
#include "depthwise_checks.h"
#include "depthwise_patch_checks.h"
#include "depthwise_tile_checks.h"
#include "matmul_checks.h"
#include "norm_checks.h"
#include "operand_checks.h"
#include "ordered_sum_checks.h"
#include "output_view_checks.h"
#include "terms.h"
#include "wgmma_checks.h"

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <set>
#include <vector>

using namespace convt3d;

namespace {

// What a kernel visits along one axis: phases, positions, taps. `source_is_input` tells the forward from the input
// gradient.
std::vector<Term> visited_terms(const AxisMap& axis, bool source_is_input) {
  std::vector<Term> terms;
  for (int index = 0; index < axis.phases; ++index) {
    const AxisPhase phase = axis_phase(axis, index);
    for (int u = 0; u < phase.extent; ++u) {
      const int destination = u * axis.dst_step + phase.residue;
      for (int j = 0; j < phase.tap_count; ++j) {
        const int tap = phase.first_tap + j * axis.tap_step;
        const int source = u * axis.src_step + phase.first_offset + j * axis.offset_step;
        if (source < 0 || source >= axis.src_size) continue;
        terms.push_back(source_is_input ? Term{source, tap, destination} : Term{destination, tap, source});
      }
    }
  }
  return terms;
}

void check_terms(const Problem& problem) {
  const std::set<Term> expected = defined_terms(problem);
  for (const bool forward : {true, false}) {
    const AxisMap axis = forward ? forward_axis(problem, 0) : input_grad_axis(problem, 0);
    const std::vector<Term> visited = visited_terms(axis, forward);
    const std::set<Term> unique(visited.begin(), visited.end());
    expect(unique.size() == visited.size(), "a term is visited once", problem);
    expect(unique == expected, forward ? "forward visits the defined terms" : "input gradient visits the defined terms",
           problem);
  }
  // Every output that is in no phase with taps must be covered by the fill.
  const AxisMap axis = forward_axis(problem, 0);
  std::set<int> written;
  for (int index = 0; index < axis.phases; ++index) {
    const AxisPhase phase = axis_phase(axis, index);
    for (int u = 0; u < phase.extent; ++u) {
      const int o = u * axis.dst_step + phase.residue;
      expect(o < problem.output_size(0), "a phase stays inside the output", problem);
      expect(written.insert(o).second, "phases do not overlap", problem);
    }
  }
  const bool complete = static_cast<int64_t>(written.size()) == problem.output_size(0);
  expect(complete || plan_forward(problem, DataType::kFloat32, {}).has_empty_phase, "outputs without a tap are filled",
         problem);
}

void check_plans(const Problem& problem) {
  for (const DataType dtype : {DataType::kFloat32, DataType::kFloat64, DataType::kFloat16}) {
    const bool is_double = dtype == DataType::kFloat64;
    for (const CorrelationPlan& plan : {plan_forward(problem, dtype, {}), plan_input_grad(problem, dtype, {})}) {
      const TileExtent tile = tile_extent(plan.tile, is_double);
      expect(plan.tiles_n * tile.n >= plan.n_channels && plan.n_padded == plan.tiles_n * tile.n, "N is covered",
             problem);
      expect(plan.k_padded >= plan.k_channels && plan.k_padded % tile.k == 0, "K is whole tiles", problem);
      for (int index = 0; index < plan.axis[0].phases; ++index) {
        int64_t positions = plan.batch * axis_phase(plan.axis[0], index).extent;
        for (int i = 1; i < 3; ++i) positions *= axis_phase(plan.axis[i], 0).extent;
        expect(plan.tiles_m * tile.m >= positions, "M is covered", problem);
      }
      expect(plan.packed_weight_elements == problem.groups * problem.taps() * plan.k_padded * plan.n_padded,
             "packed weight", problem);
    }
    const WeightGradPlan plan = plan_weight_grad(problem, dtype, {});
    const TileExtent tile = tile_extent(plan.tile, is_double);
    expect(plan.tiles_m * tile.m >= plan.rows && plan.tiles_n * tile.n >= plan.n_channels, "weight gradient tiles",
           problem);
    expect(plan.splits * plan.split_positions >= plan.positions &&
               (plan.splits - 1) * plan.split_positions < plan.positions,
           "splits cover the positions and none is empty", problem);
  }
}

void check_divisors(std::mt19937& random) {
  std::uniform_int_distribution<int> any(0, INT_MAX);
  for (int i = 0; i < 100000; ++i) {
    const int value = std::max(1, any(random) >> any(random) % 31);
    const Divisor divisor = make_divisor(value);
    const int multiple = any(random) / value * value;
    for (const int n : {any(random), INT_MAX, multiple, std::max(0, multiple - 1)}) {
      const int quotient = divisor.quotient(n);
      if (quotient != n / value || divisor.remainder(n, quotient) != n % value) {
        ++failures;
        std::printf("FAILED %d / %d\n", n, value);
        return;
      }
    }
  }
}

}  // namespace

// The seed may be given.
int main(int argc, char** argv) {
  std::mt19937 random(argc > 1 ? static_cast<uint32_t>(std::atoi(argv[1])) : 7);
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  int problems = 0;
  check_matmul_of_many_channels();
  while (problems < 1200) {
    Problem problem;
    problem.batch = draw(0, 3) == 0 ? draw(8, 20) : draw(1, 3);  // of enough images some share a tile
    problem.groups = draw(1, 3);
    problem.in_channels = problem.groups * draw(1, 70);
    problem.out_channels = problem.groups * draw(1, 70);
    const int largest_stride = draw(0, 1) == 0 ? kWgmmaMaxStride : 6;  // others have no tensor-core plan
    for (int axis = 0; axis < 3; ++axis) {
      problem.input_size[axis] = draw(1, 9);
      problem.kernel_size[axis] = draw(1, 7);
      problem.stride[axis] = draw(1, largest_stride);
      problem.dilation[axis] = draw(1, 6);
      problem.padding[axis] = draw(0, 7);
      problem.output_padding[axis] =
          draw(0, static_cast<int>(std::max(problem.stride[axis], problem.dilation[axis])) - 1);
    }
    if (problem.output_size(0) <= 0 || problem.output_size(1) <= 0 || problem.output_size(2) <= 0) continue;
    ++problems;
    check_terms(problem);
    check_read_outputs(problem);
    check_plans(problem);
    check_general_sum_shapes(problem);
    check_wgmma(problem);
    check_matmul(problem);
    check_depthwise(problem, draw(1, 3), draw(1, 3));
    if (draw(0, 1) == 0) {
      for (int axis = 0; axis < 3; ++axis) {
        problem.dilation[axis] = 1;
        problem.stride[axis] = draw(1, 2);
        problem.output_padding[axis] = draw(0, static_cast<int>(problem.stride[axis]) - 1);
      }
      if (problem.output_size(0) <= 0 || problem.output_size(1) <= 0 || problem.output_size(2) <= 0) continue;
    }
    check_depthwise_tiles(problem, draw(1, 40));
    check_depthwise_patches(problem, draw(1, 80));
  }
  check_taps_as_channels();
  check_taps_beside_channels();
  check_ordered_sum_shapes();
  check_depthwise_sum_shapes();
  check_depthwise_workspace();
  check_depthwise_patch_workspace();
  check_joined_taps();
  // Rows that are shorter than a segment could be, many in a tile.
  for (int width = 1; width <= 9; ++width) {
    for (int size = 1; size <= 2; ++size) {
      Problem problem;
      problem.batch = 1;
      problem.in_channels = 64;
      problem.out_channels = 32;
      problem.input_size = {25, 25, width};
      problem.kernel_size = problem.stride = {size, size, size};
      ++problems;
      check_wgmma(problem);
    }
  }
  for (const int64_t width : {8, 16, 24, 32, 64, 160}) {
    for (const int64_t channels : {40, 320}) problems += check_layers_of_one_tap(width, channels);
  }
  check_image_boxes();
  check_operands();
  check_input_copies();
  check_large_problems();
  check_divisors(random);
  check_norm_vectors(random);
  std::printf("%d problems, %d failures\n", problems, failures);
  return failures == 0 ? 0 : 1;
}
