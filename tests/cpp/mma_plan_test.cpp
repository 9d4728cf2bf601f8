// The plans of the engine on mma.sync against the operator's definition. Built by tests/test_plan.py with a plain C++
// compiler: no torch, no CUDA.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <set>
#include <vector>

#include "channels_copy_checks.h"
#include "core/devices.h"
#include "core/integer.h"
#include "engines/mma/correlation/memory.h"
#include "engines/mma/correlation/plan.h"
#include "terms.h"
#include "weight_grad_checks.h"

using namespace convt3d;

namespace {

// A position that is read, a tap, and a position that is written: of elements or, along the width, of words.
struct Visited {
  int source;
  int tap;
  int destination;
};

// The elements and taps of words, where the source or the destination has them.
std::vector<Visited> halves(const mma::CorrelationPlan& plan, std::size_t axis, const Visited& words) {
  const mma::WidthPairs& pairs = plan.pairs;
  if (axis != 2 || !pairs.exist) return {words};
  std::vector<Visited> elements;
  for (int half = 0; half < 2; ++half) {
    const int tap = pairs.first_tap + 2 * words.tap + half;
    if (tap < 0 || tap >= pairs.taps) continue;
    elements.push_back(plan.reads_pairs() ? Visited{2 * words.source + half, tap, words.destination}
                                          : Visited{words.source, tap, 2 * words.destination + half});
  }
  return elements;
}

// What a plan's blocks visit along an axis, by the residues' and the staged tile's tables.
void check_mma_terms(const Problem& any, const mma::CorrelationPlan& plan, std::size_t of, bool forward) {
  const Problem problem = mma::turned(any, of);
  const mma::TileAxis& axis = plan.tile.axis[of];
  const mma::Residues& residues = plan.residues[of];
  const mma::ChannelRows& rows = plan.tile.channel_rows;
  const bool coordinates = of == 2 && plan.tile.has_channel_rows();
  std::vector<Term> visited;
  for (int first = 0; first < plan.boxes[of + 1] * plan.box[of]; first += plan.box[of]) {
    for (int e = 0; e < residues.count; ++e) {
      for (int j = 0; j < residues.tap_count[e]; ++j) {
        const int tap = residues.first_tap[e] + j * residues.tap_step;
        for (int u = 0; u < plan.box[of]; ++u) {
          const int destination = (first + u) * residues.count + e;
          if (destination >= residues.size) continue;
          // A stage of a split axis has the component of its tap.
          const int staged = axis.shift[tap] + u * (of == 2 ? plan.tile.column_step : 1);
          expect(staged >= 0 && staged < axis.staged(), "a tap reads what is staged", problem);
          const int component = axis.split ? j : staged / axis.length;
          const int row = axis.split ? staged : staged % axis.length;
          const int begin = first * axis.step + axis.delta[component];
          const int source = begin + row * (coordinates ? 1 : axis.step);
          if (coordinates) {
            expect(rows.before(begin) == rows.before(axis.delta[component]), "all boxes begin where copies may",
                   problem);
            expect(rows.before(begin) + row < rows.pieces * rows.elements, "a row has what its taps read", problem);
          }
          if (source < 0 || source >= axis.source_size) continue;
          for (const Visited& at : halves(plan, of, {source, tap, destination})) {
            visited.push_back(forward ? Term{at.source, at.tap, at.destination}
                                      : Term{at.destination, at.tap, at.source});
          }
        }
      }
    }
  }
  const std::set<Term> unique(visited.begin(), visited.end());
  expect(unique.size() == visited.size() && unique == defined_terms(problem),
         "the engine on mma.sync visits the defined terms", problem);
}

// Steps of K of a phase's stages, one after another.
std::vector<int> stage_steps(const mma::CorrelationPlan& plan, const std::array<int, 3>& residue) {
  std::vector<int> steps;
  for (int chunk = 0; chunk < plan.chunks; ++chunk) {
    for (int d = 0; d < plan.tile.axis[0].stages(); ++d) {
      for (int h = 0; h < plan.tile.axis[1].stages(); ++h) {
        for (int w = 0; w < plan.tile.axis[2].stages(); ++w) {
          int count = plan.chunk_steps;
          for (size_t i = 0; i < 3; ++i) {
            const int taps = plan.residues[i].tap_count[residue[i]];
            const int component = i == 0 ? d : i == 1 ? h : w;
            count *= plan.tile.axis[i].split ? (component < taps ? 1 : 0) : taps;
          }
          steps.push_back(count);
        }
      }
    }
  }
  return steps;
}

// Blocks that share a sum have all stages, and each the room for its weights.
void check_k_splits(const Problem& problem, const mma::CorrelationPlan& plan, const DeviceTraits& device) {
  const int64_t tiles = plan.shares() * plan.box_count();
  expect(plan.split_stages * (plan.k_splits - 1) < plan.stages() && plan.stages() <= plan.split_stages * plan.k_splits,
         "splits share the stages", problem);
  std::array<int, 3> residue;
  for (residue[0] = 0; residue[0] < plan.residues[0].count; ++residue[0]) {
    for (residue[1] = 0; residue[1] < plan.residues[1].count; ++residue[1]) {
      for (residue[2] = 0; residue[2] < plan.residues[2].count; ++residue[2]) {
        const std::vector<int> steps = stage_steps(plan, residue);
        for (size_t first = 0; first < steps.size(); first += static_cast<size_t>(plan.split_stages)) {
          int sum = 0;
          for (size_t i = first; i < std::min(steps.size(), first + plan.split_stages); ++i) sum += steps[i];
          expect(sum <= plan.weight_steps, "a split's weights have room", problem);
        }
      }
    }
  }
  if (plan.k_splits == 1) {
    expect(plan.kernel_bytes() == plan.packed_bytes, "one split has no partial sums", problem);
    return;
  }
  expect(plan.block_phases == 1 && plan.counters() == tiles, "a tile of one phase has a counter", problem);
  expect(tiles * plan.k_splits <= device.multiprocessors * shape_extent(plan.shape, plan.terms).blocks,
         "splits are for tiles that leave multiprocessors idle", problem);
  expect(plan.packed_bytes <= plan.counter_offset() &&
             plan.counter_offset() + 4 * plan.counters() <= plan.partial_offset() &&
             plan.partial_offset() + plan.partial_bytes() == plan.kernel_bytes(),
         "the workspace has room for all", problem);
  expect(plan.partial_bytes() <= int64_t{64} << 20, "partial sums are bounded", problem);
}

void check_copied(const Problem& problem, const mma::CorrelationPlan& plan, const mma::Tensors& tensors, bool forward,
                  int64_t most_copied) {
  using namespace mma;
  expect(plan.way == LoadWay::kCopy && !plan.masked, "a copy is read as it is", problem);
  expect(plan.copy.groups == plan.groups && plan.copy.channels == plan.k_channels, "a copy has the plan's groups",
         problem);
  expect(plan.copy_offset() >= plan.kernel_bytes() && plan.copy_offset() % 256 == 0 &&
             plan.workspace_bytes() == plan.copy_offset() + plan.copy.bytes(),
         "the workspace has room for a copy", problem);
  std::set<DepthRead> reads;
  for (const auto& [input, tap, output] : defined_terms(problem)) {
    const int64_t position = (forward ? output : input) / plan.residues[0].count;
    reads.insert({forward ? input : output, position / plan.box[0]});
  }
  const BoxCounts counts{plan.boxes, plan.batch, plan.tile.images, plan.box[0]};
  check_portions(problem, plan.portions, plan.boxes);
  check_copy(problem, plan.copy, tensors.source, plan.portions, counts, reads);
  check_copied_bytes(problem, {&plan.copy}, counts, most_copied);
}

void check_mma(const Problem& problem, int64_t most_copied) {
  using namespace mma;
  for (const int minor : {0, 9}) {
    const DeviceTraits& device = device_of_capability(minor == 0 ? 9 : 8, minor).traits;
    for (const bool forward : {true, false}) {
      for (const int terms : {1, 2}) {
        const DataType dtype = terms == 2 ? DataType::kFloat32 : DataType::kFloat16;
        const auto element_bytes = static_cast<int32_t>(element_size(dtype));
        const bool channels_last = minor == 0;
        const OperandTraits input = dense_operand(problem.in_channels, problem.input_size, channels_last);
        const OperandTraits output = dense_operand(problem.out_channels, problem.output_size(), channels_last);
        const Tensors tensors{forward ? input : output, {}, forward ? output : input};
        const Correlation correlation = forward ? Correlation::kForward : Correlation::kInputGrad;
        const std::vector<CorrelationPlan> plans =
            correlation_candidates(problem, correlation, dtype, terms, tensors, device, most_copied);
        const auto best = plan_correlation(problem, correlation, dtype, terms, tensors, device, most_copied);
        const auto cheapest = std::min_element(plans.begin(), plans.end(),
                                               [](const auto& a, const auto& b) { return a.cost_ms < b.cost_ms; });
        expect(plans.empty() ? !best : best && best->cost_ms == cheapest->cost_ms, "the cheapest plan is taken",
               problem);
        for (size_t i = 0; i < plans.size(); i += 1 + plans.size() / 40) {
          const CorrelationPlan& plan = plans[i];
          const ShapeExtent extent = shape_extent(plan.shape, plan.terms);
          for (const size_t axis : {size_t{0}, size_t{2}}) check_mma_terms(problem, plan, axis, forward);
          expect(plan.tile.images * plan.box[0] * plan.box[1] * plan.box[2] <= extent.m(), "a box fits the shape",
                 problem);
          for (size_t axis = 0; axis < 3; ++axis) {
            expect(plan.boxes[axis + 1] * plan.box[axis] >= plan.residues[axis].extent, "boxes cover the positions",
                   problem);
          }
          expect(plan.boxes[0] * plan.tile.images >= plan.batch, "boxes cover the images", problem);
          expect(plan.groups * plan.joined == problem.groups &&
                     plan.groups * plan.k_channels == (forward ? problem.in_channels : problem.out_channels) &&
                     plan.groups * plan.n_channels == (plan.store == mma::StoreWay::kPairs ? 2 : 1) *
                                                          (forward ? problem.out_channels : problem.in_channels),
                 "groups are joined whole", problem);
          expect(plan.n_blocks * extent.n() >= plan.n_channels &&
                     plan.chunks * plan.chunk_steps * kStepBytes >= plan.k_channels * element_bytes,
                 "blocks cover the channels", problem);
          const ChannelRows& rows = plan.tile.channel_rows;
          expect(plan.tile.has_channel_rows()
                     ? rows.pitch % 32 == 16 && rows.pitch >= rows.pieces * rows.elements * element_bytes &&
                           plan.tile.stride[2] * plan.tile.pitch >= rows.pitch * plan.chunk_steps * 8
                     : plan.tile.pitch % 32 == 16 && plan.tile.pitch >= plan.chunk_steps * kStepBytes,
                 "rows hold a chunk, an odd number of pieces apart", problem);
          check_k_splits(problem, plan, device);
          if (plan.copy.exists) check_copied(problem, plan, tensors, forward, most_copied);
          expect(plan.phases() % plan.block_phases == 0, "blocks share the phases out evenly", problem);
          expect(shared_layout(plan).bytes == plan.shared_bytes && plan.shared_bytes <= device.shared_bytes,
                 "shared memory suffices", problem);
        }
      }
    }
  }
}

// Eight neighbours of a box lie in eight rows of different banks, whatever the box's width.
void check_mma_banks() {
  for (const int width : {1, 2, 3, 4, 5, 6, 8, 12, 16}) {
    for (const int step : {1, 2, 3}) {
      Problem problem;
      problem.batch = problem.in_channels = problem.out_channels = 1;
      problem.input_size = {16, 16, width};
      problem.kernel_size = {3, 3, 3};
      problem.stride = {step, step, step};
      std::array<mma::TileAxis, 3> axis;
      const int box[3] = {4, 8, width};
      for (int i = 0; i < 3; ++i) mma::make_tile_axis(input_grad_axis(problem, i), box[i], false, axis[i]);
      const mma::StagedTile tile = mma::make_tile(axis, 1, 4);
      int conflicts = 0;
      for (int first = 0; first < 4 * 8 * width; first += 8) {
        std::set<int> banks;
        for (int m = first; m < first + 8; ++m) {
          banks.insert((m % width + m / width % 8 * tile.stride[2] + m / width / 8 * tile.stride[1]) % 8);
        }
        conflicts += static_cast<int>(8 - banks.size());
      }
      const bool whole = 8 % width == 0 || width % 8 == 0;
      expect(!whole || conflicts == 0, "a warp reads a tile without conflicts", problem);
    }
  }
}

// K is split where few blocks would have long sums, on every architecture, and nowhere else.
void check_which_are_split() {
  using namespace mma;
  for (const int capability : {80, 86, 89, 90, 100, 120}) {
    const DeviceTraits& device = device_of_capability(capability / 10, capability % 10).traits;
    for (const bool forward : {true, false}) {
      for (const bool channels_last : {false, true}) {
        for (const DataType dtype : {DataType::kFloat16, DataType::kBFloat16, DataType::kFloat32}) {
          for (const int terms : {1, 2}) {
            if (terms == 2 && dtype != DataType::kFloat32) continue;
            const auto best = [&](Problem& problem) {
              const OperandTraits input = dense_operand(problem.in_channels, problem.input_size, channels_last);
              const OperandTraits output = dense_operand(problem.out_channels, problem.output_size(), channels_last);
              return plan_correlation(problem, forward ? Correlation::kForward : Correlation::kInputGrad, dtype, terms,
                                      {forward ? input : output, {}, forward ? output : input}, device);
            };
            Problem small;
            small.batch = 1;
            small.in_channels = small.out_channels = 320;
            small.input_size = {4, 5, 4};
            small.kernel_size = {3, 3, 3};
            small.padding = {1, 1, 1};
            const auto of_small = best(small);
            expect(of_small && of_small->k_splits > 1, "a small volume of many channels is split", small);
            small.batch = 256;
            const auto of_many = best(small);
            expect(of_many && of_many->k_splits == 1, "many images are not split", small);
            Problem large = small;
            large.batch = 2;
            large.in_channels = large.out_channels = 32;
            large.input_size = {48, 64, 56};
            const auto of_large = best(large);
            expect(of_large && of_large->k_splits == 1, "a large volume is not split", large);
          }
        }
      }
    }
  }
}

// Where dense rows of 16 bits begin.
void check_rows_begin() {
  using mma::RowsBegin;
  const auto begin = [](const Int3& size, bool masked, const Int3& mask_size) {
    const OperandTraits mask = masked ? dense_operand(8, mask_size, false) : OperandTraits{};
    return mma::rows_begin(dense_operand(8, size, false), mask, 2, size[2]);
  };
  const Problem none{};
  for (const bool masked : {false, true}) {
    expect(begin({2, 4, 32}, masked, {2, 4, 32}) == RowsBegin::kWhole, "rows of 32 elements are whole", none);
    expect(begin({2, 4, 36}, masked, {2, 4, 36}) == RowsBegin::kAlike, "rows of 36 begin alike", none);
    expect(begin({3, 5, 7}, masked, {3, 5, 7}) == RowsBegin::kAnywhere, "105 elements begin anywhere", none);
  }
  expect(begin({2, 4, 32}, true, {2, 4, 36}) == RowsBegin::kAnywhere, "a mask whose lines begin elsewhere", none);
}

// A slice of channels, as autograd hands it over behind a concatenation, is read where it lies, but for small ones; and
// so is a copy.
void check_what_may_be_copied() {
  Problem problem;
  problem.batch = 2;
  problem.in_channels = problem.out_channels = 24;
  problem.input_size = {5, 6, 7};
  problem.kernel_size = {3, 3, 3};
  const Int3 size = problem.output_size();
  const int64_t positions = size[0] * size[1] * size[2];
  for (const bool channels_last : {false, true}) {
    for (const int64_t channels : {3, 4, 20, 24}) {
      const int64_t padded = round_up(channels, 8);
      const int64_t images = kMostSliceBytes / (padded * positions * 2);
      const auto may_be = [&](const OperandTraits& tensor, int64_t count) {
        return mma::copy_that_may_be(tensor, {}, count, size, 1, channels, 2).exists;
      };
      OperandTraits tensor = dense_operand(channels, size, channels_last);
      expect(may_be(tensor, 2 * images), "a dense operand may be copied", problem);
      tensor.stride = dense_operand(48, size, channels_last).stride;
      expect(may_be(tensor, images) == (channels > 3), "a small slice of channels may, unless most is zeros", problem);
      expect(!may_be(tensor, images + 1), "a large slice of channels is not copied", problem);
      const OperandTraits copy = copied_operand(operand_copy(tensor, {}, size, 1, channels, 2));
      expect(!may_be(copy, 1), "a copy is not copied", problem);
    }
  }
}

// Of a contiguous weight taps are neighbours, of one with its channels last these are.
void check_order_of_packing() {
  Problem problem;
  problem.in_channels = problem.out_channels = 16;
  problem.batch = 1;
  problem.input_size = {8, 8, 8};
  problem.padding = {1, 1, 1};
  for (const int64_t width : {1, 3}) {
    problem.kernel_size = {3, 3, width};
    const Operands operands = dense_operands(problem, true);
    const auto plan = mma::plan_correlation(problem, mma::Correlation::kForward, DataType::kFloat16, 1,
                                            {operands.first, operands.mask, operands.result}, fitted_device());
    for (const bool channels_last : {false, true}) {
      const ConstTensor weight = {nullptr, dense_operand(16, problem.kernel_size, channels_last).stride};
      for (const WeightOrder order : {WeightOrder::kInputIsK, WeightOrder::kOutputIsK}) {
        expect(plan && plan->packs_lanes_first(weight_strides(problem, weight, order)) == (channels_last || width == 1),
               "threads that pack the weight read neighbours", problem);
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
  while (problems < 120) {
    Problem problem;
    problem.batch = draw(0, 3) == 0 ? draw(8, 20) : draw(1, 3);
    problem.groups = draw(1, 4);
    const int most = draw(0, 2) == 0 ? 16 : 150;
    problem.in_channels = problem.groups * draw(1, most);
    problem.out_channels = problem.groups * draw(1, most);
    for (int axis = 0; axis < 3; ++axis) {
      problem.input_size[axis] = draw(1, 17);
      problem.kernel_size[axis] = draw(1, 7);
      problem.stride[axis] = draw(1, 6);
      problem.dilation[axis] = draw(0, 1) == 0 ? 1 : draw(1, 6);
      problem.padding[axis] = draw(0, 7);
      problem.output_padding[axis] =
          draw(0, static_cast<int>(std::max(problem.stride[axis], problem.dilation[axis])) - 1);
    }
    if (problem.output_size(0) <= 0 || problem.output_size(1) <= 0 || problem.output_size(2) <= 0) continue;
    ++problems;
    const int64_t most_copied[] = {1 << 12, 1 << 16, kMostCopiedBytes};
    check_mma(problem, most_copied[draw(0, 2)]);
  }
  check_mma_banks();
  check_which_are_split();
  check_rows_begin();
  check_what_may_be_copied();
  check_order_of_packing();
  std::printf("%d problems, %d failures\n", problems, failures);
  return failures == 0 ? 0 : 1;
}
