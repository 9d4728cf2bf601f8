#include "engines/matmul/plan.h"

#include <algorithm>
#include <array>
#include <climits>
#include <cstddef>
#include <initializer_list>
#include <utility>

#include "core/integer.h"
#include "engines/matmul/cost.h"

namespace convt3d {
namespace {

constexpr int32_t kCopyBytes = 16;
constexpr int32_t kMostBuffers = 4;
constexpr int32_t kReservedBytes = 1024;  // of a block's shared memory, by the driver

bool is_product(const Problem& problem) {
  for (size_t i = 0; i < 3; ++i) {
    if (problem.kernel_size[i] != problem.stride[i] || problem.padding[i] != 0 || problem.output_padding[i] != 0)
      return false;
    if (problem.kernel_size[i] > 1 && problem.dilation[i] != 1) return false;
  }
  return true;
}

// Whether strides of an axis are these; of an axis of one they do not count.
bool has_stride(const OperandTraits& tensor, size_t axis, int64_t size, int64_t stride) {
  return size == 1 || tensor.stride[axis] == stride;
}

// The weight's columns are neighbours: by (tap, output channel) or by (output channel, tap).
bool has_columns(const Problem& problem, const OperandTraits& weight, bool channels_last) {
  const auto& [depth, height, width] = problem.kernel_size;
  const int64_t channels = problem.out_channels_per_group();
  const int64_t w = channels_last ? channels : 1;
  return has_stride(weight, 1, channels, channels_last ? 1 : problem.taps()) && has_stride(weight, 4, width, w) &&
         has_stride(weight, 3, height, width * w) && has_stride(weight, 2, depth, height * width * w);
}

// Of the input. Positions of a channel are those of one axis; images and channels are as far apart as they like.
std::optional<std::pair<MatmulRows, int32_t>> reading(const Problem& problem, const OperandTraits& input,
                                                      int32_t element_bytes) {
  const auto& [depth, height, width] = problem.input_size;
  const int64_t positions = depth * height * width;
  const int32_t piece = kCopyBytes / element_bytes;
  // What lies past the last image and channel is not read, but has an address. Depth, height and width have nothing
  // past the last: of an axis of one the stride does not count.
  const std::array<int64_t, 5> sizes = {2, 2, depth, height, width};
  const auto aligned = [&](int64_t count, std::initializer_list<size_t> axes) {
    for (const size_t axis : axes) {
      if (sizes[axis] > 1 && input.stride[axis] % count != 0) return false;
    }
    return input.address % (count * element_bytes) == 0;
  };
  if (input.stride[1] == 1 && problem.in_channels_per_group() % piece == 0 && aligned(piece, {0, 2, 3, 4}))
    return std::pair(MatmulRows::kChannels, kCopyBytes);
  if (!has_stride(input, 4, width, 1) || !has_stride(input, 3, height, width) ||
      !has_stride(input, 2, depth, height * width))
    return std::nullopt;
  for (int32_t bytes = kCopyBytes; bytes >= 4; bytes /= 4) {
    const int32_t count = bytes / element_bytes;
    if (positions % count == 0 && aligned(count, {0, 1})) return std::pair(MatmulRows::kPositions, bytes);
  }
  return std::pair(MatmulRows::kPositions, element_bytes);
}

// Whether all positions are those of one axis, along the width's stride.
bool is_linear(const Problem& problem, const OperandTraits& input) {
  const auto& [depth, height, width] = problem.input_size;
  const int64_t w = input.stride[4];
  return has_stride(input, 3, height, width * w) && has_stride(input, 2, depth, height * width * w) &&
         has_stride(input, 0, problem.batch, depth * height * width * w);
}

MatmulStore storing(const Problem& problem, const OperandTraits& output, bool channels_last, int32_t element_bytes) {
  const int64_t neighbours = channels_last ? problem.out_channels_per_group() : problem.kernel_size[2];
  const size_t along = channels_last ? 1 : 4;
  // Columns that are neighbours must be so in the output.
  const bool joined = output.stride[along] == 1;
  int32_t count = joined ? kCopyBytes / element_bytes : 1;
  const auto fits = [&] {
    for (size_t axis = 0; axis < 5; ++axis) {
      if (axis != along && output.stride[axis] % count != 0) return false;
    }
    return neighbours % count == 0 && output.address % (count * element_bytes) == 0;
  };
  while (count > 1 && !fits()) count /= 2;
  return {output.stride[1] == 1 && output.stride[4] != 1, count};
}

int64_t count_blocks(const MatmulPlan& plan, const DeviceTraits& device) {
  const int32_t by_memory =
      static_cast<int32_t>((device.shared_bytes + kReservedBytes) / (plan.shared_bytes + kReservedBytes));
  return std::max(
      1, std::min({by_memory, matmul_blocks(plan.tile, plan.terms, plan.element_bytes), device.kernel_blocks}));
}

}  // namespace

MatmulLayout matmul_layout(const MatmulPlan& plan) {
  const auto [m, n, warps_m, warps_n] = plan.extent();
  const bool words = plan.element_bytes == 4;
  const int32_t k = kMatmulStageBytes / plan.element_bytes;
  MatmulLayout layout{};
  const bool by_channels = plan.rows == MatmulRows::kChannels;
  layout.input_pitch =
      by_channels ? matmul_pitch(kMatmulStageBytes, false) : matmul_pitch(m * plan.element_bytes, words);
  layout.input_bytes = layout.input_pitch * (by_channels ? m : k);
  layout.weight_pitch = matmul_pitch(n * plan.element_bytes, words);
  layout.weight_bytes = layout.weight_pitch * k;
  // Where lanes are neighbours along the positions, each reads one piece of a row: at these pitches from banks of its
  // own.
  const int32_t piece = plan.store.elements * plan.element_bytes;
  layout.output_pitch = n * plan.element_bytes + (plan.store.by_columns || piece == 16 ? 16 : piece == 8 ? 8 : 12);
  layout.weight = plan.buffers * layout.input_bytes;
  layout.output = layout.weight + (plan.resident ? plan.k_stages : plan.buffers) * layout.weight_bytes;
  layout.positions = static_cast<int32_t>(round_up(layout.output + m * layout.output_pitch, 16));
  layout.columns = layout.positions + m * 8;
  layout.bytes = layout.columns + n * (8 + 4);
  return layout;
}

std::vector<MatmulPlan> matmul_candidates(const Problem& problem, DataType dtype, int terms, const Operands& operands,
                                          const DeviceTraits& device) {
  std::vector<MatmulPlan> found;
  if (dtype == DataType::kFloat64 || !is_product(problem)) return found;
  const auto bytes = static_cast<int32_t>(element_size(dtype));
  const int64_t positions = problem.batch * problem.input_size[0] * problem.input_size[1] * problem.input_size[2];
  const int64_t columns = problem.out_channels_per_group() * problem.taps();
  const OperandTraits& weight = operands.second;
  const int32_t piece = kCopyBytes / bytes;
  // Tiles past the end have positions, too.
  if (positions == 0 || columns == 0 || positions > INT_MAX - 256 || columns > INT_MAX - 256) return found;
  if (problem.in_channels_per_group() > INT_MAX - 256 || problem.groups > INT_MAX) return found;
  if (columns % piece != 0 || weight.stride[0] % piece != 0 || weight.address % kCopyBytes != 0) return found;
  const auto read = reading(problem, operands.first, bytes);
  if (!read) return found;

  MatmulPlan plan{};
  plan.terms = terms;
  plan.element_bytes = bytes;
  plan.rows = read->first;
  plan.copied_bytes = read->second;
  plan.linear = plan.rows == MatmulRows::kChannels && is_linear(problem, operands.first);
  plan.size = problem.input_size;
  plan.taps = problem.kernel_size;
  plan.positions = positions;
  plan.groups = static_cast<int32_t>(problem.groups);
  plan.in_channels = static_cast<int32_t>(problem.in_channels_per_group());
  plan.out_channels = static_cast<int32_t>(problem.out_channels_per_group());
  plan.columns = static_cast<int32_t>(columns);
  plan.k_stages = static_cast<int32_t>(ceil_div(int64_t{plan.in_channels} * bytes, kMatmulStageBytes));
  // Of one tap or one channel both orders are the same: whichever stores more at once.
  std::optional<MatmulStore> store;
  for (const bool channels_last : {true, false}) {
    if (!has_columns(problem, weight, channels_last)) continue;
    const MatmulStore way = storing(problem, operands.result, channels_last, bytes);
    if (store && way.elements <= store->elements) continue;
    store = way;
    plan.channels_last = channels_last;
  }
  if (!store) return found;
  plan.store = *store;

  for (const MatmulTile tile : kMatmulTiles) {
    plan.tile = tile;
    const MatmulExtent extent = plan.extent();
    plan.m_tiles = static_cast<int32_t>(ceil_div(positions, extent.m));
    plan.n_tiles = static_cast<int32_t>(ceil_div(columns, extent.n));
    for (const bool resident : {true, false}) {
      for (int32_t buffers = 2; buffers <= kMostBuffers; ++buffers) {
        plan.resident = resident;
        plan.buffers = buffers;
        plan.shared_bytes = matmul_layout(plan).bytes;
        if (plan.shared_bytes > device.shared_bytes) continue;
        const int64_t fit = count_blocks(plan, device) * device.multiprocessors;
        const int64_t shares = int64_t{plan.groups} * plan.n_tiles;
        plan.walkers = static_cast<int32_t>(std::clamp<int64_t>(fit / shares, 1, plan.m_tiles));
        plan.cost_ms = matmul_cost_ms(plan, count_blocks(plan, device), device);
        found.push_back(plan);
      }
    }
  }
  return found;
}

std::optional<MatmulPlan> plan_matmul(const Problem& problem, DataType dtype, int terms, const Operands& operands,
                                      const DeviceTraits& device) {
  const std::vector<MatmulPlan> all = matmul_candidates(problem, dtype, terms, operands, device);
  if (all.empty()) return std::nullopt;
  return *std::min_element(all.begin(), all.end(),
                           [](const MatmulPlan& a, const MatmulPlan& b) { return a.cost_ms < b.cost_ms; });
}

std::string to_string(const MatmulPlan& plan) {
  const auto [m, n, warps_m, warps_n] = plan.extent();
  const auto number = [](int64_t value) { return std::to_string(value); };
  return "product tile=" + number(m) + "x" + number(n) + " terms=" + number(plan.terms) +
         " rows=" + (plan.rows == MatmulRows::kChannels ? "channels" : "positions") +
         " copied=" + number(plan.copied_bytes) +
         "B columns=" + (plan.channels_last ? "taps_channels" : "channels_taps") + " m=" + number(plan.positions) +
         " n=" + number(plan.columns) + " k=" + number(plan.in_channels) + " groups=" + number(plan.groups) +
         " weights=" + (plan.resident ? "stay" : "come") + " buffers=" + number(plan.buffers) +
         " blocks=" + number(plan.blocks()) + " shared=" + number(plan.shared_bytes) +
         " store=" + number(plan.store.elements) + (plan.store.by_columns ? " by_columns" : " by_positions");
}

}  // namespace convt3d
