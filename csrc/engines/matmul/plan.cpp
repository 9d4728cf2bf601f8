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
constexpr int32_t kSectorBytes = 32;  // of L2, that are read at once
constexpr int32_t kMostBuffers = 4;
constexpr int32_t kMostSplits = 8;
constexpr int32_t kReservedBytes = 1024;  // of a block's shared memory, by the driver
constexpr int64_t kMostBytes = 1 << 23;   // of K: a block's columns of the weight would take 1.2 GB, in 32 bits

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

// Positions of an image are those of one axis, side by side.
bool is_one_axis(const OperandTraits& tensor, const Int3& size) {
  const auto& [depth, height, width] = size;
  return has_stride(tensor, 4, width, 1) && has_stride(tensor, 3, height, width) &&
         has_stride(tensor, 2, depth, height * width);
}

// The weight's columns are neighbours: by (tap, output channel) or by (output channel, tap).
bool has_columns(const Problem& problem, const OperandTraits& weight, bool channels_last) {
  const auto& [depth, height, width] = problem.kernel_size;
  const int64_t channels = problem.out_channels_per_group();
  const int64_t w = channels_last ? channels : 1;
  return has_stride(weight, 1, channels, channels_last ? 1 : problem.taps()) && has_stride(weight, 4, width, w) &&
         has_stride(weight, 3, height, width * w) && has_stride(weight, 2, depth, height * width * w);
}

// How the source is read.
struct Reading {
  MatmulRows rows;
  int32_t bytes;  // at once
  bool by_positions;
  int32_t spread = 1;
};

// Of the input. Positions of a channel are those of one axis; images and channels are as far apart as they like.
std::optional<Reading> reading(const Problem& problem, const OperandTraits& input, int32_t element_bytes) {
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
    return Reading{MatmulRows::kChannels, kCopyBytes, false};
  if (!is_one_axis(input, problem.input_size)) return std::nullopt;
  for (int32_t bytes = kCopyBytes; bytes >= 4; bytes /= 4) {
    const int32_t count = bytes / element_bytes;
    if (positions % count == 0 && aligned(count, {0, 1})) return Reading{MatmulRows::kPositions, bytes, true};
  }
  return Reading{MatmulRows::kPositions, element_bytes, true};
}

// Of grad_output, in an order of the weight's columns: as many as are neighbours there, too, 4 bytes at least.
std::optional<Reading> reading_gradient(const Problem& problem, const OperandTraits& grad, bool channels_last,
                                        int32_t element_bytes) {
  const int64_t channels = problem.out_channels_per_group();
  const int64_t width = problem.kernel_size[2];
  const Int3 size = problem.output_size();
  const bool by_channels = channels_last && has_stride(grad, 1, channels, 1);
  const bool by_width = grad.stride[4] == (by_channels ? channels : 1) && (by_channels || !channels_last);
  const int64_t run = (by_channels ? channels : 1) * (by_width ? width : 1);
  int64_t farthest = (channels - 1) * grad.stride[1];
  for (size_t i = 0; i < 3; ++i) farthest += (problem.kernel_size[i] - 1) * grad.stride[i + 2];
  if (farthest > INT_MAX) return std::nullopt;
  const auto fits = [&](int64_t count) {
    // What lies past the last image is not read, but has an address.
    if (run % count != 0 || grad.stride[0] % count != 0 || grad.address % (count * element_bytes) != 0) return false;
    if (by_channels ? problem.groups > 1 && channels % count != 0
                    : problem.out_channels > 1 && grad.stride[1] % count != 0)
      return false;
    for (size_t i = 0; i < (by_width ? 2 : 3); ++i) {
      if (size[i] > 1 && grad.stride[i + 2] % count != 0) return false;
    }
    return true;
  };
  constexpr int64_t kLineBytes = 64;  // of neighbours, that make lanes of one position read well
  for (int32_t bytes = kCopyBytes; bytes >= 4; bytes /= 2) {
    if (bytes < element_bytes || !fits(bytes / element_bytes)) continue;
    const MatmulRows rows = bytes == kCopyBytes ? MatmulRows::kChannels
                            : bytes == 8        ? MatmulRows::kPairs
                                                : MatmulRows::kWords;
    const bool by_positions = rows != MatmulRows::kChannels || run * element_bytes < kLineBytes;
    const int64_t step = size[2] > width ? width * grad.stride[4] * element_bytes : 0;  // to the next position
    const int64_t spread = by_positions ? std::clamp<int64_t>(step / bytes, 1, kSectorBytes / bytes) : 1;
    return Reading{rows, bytes, by_positions, static_cast<int32_t>(spread)};
  }
  return std::nullopt;
}

// Whether all positions are those of one axis, along the width's stride. Those past the last have addresses, too, that
// are multiples of a piece; a single position may have any stride.
bool is_linear(const Problem& problem, const OperandTraits& input, int32_t piece) {
  const auto& [depth, height, width] = problem.input_size;
  const int64_t w = input.stride[4];
  return w % piece == 0 && has_stride(input, 3, height, width * w) && has_stride(input, 2, depth, height * width * w) &&
         has_stride(input, 0, problem.batch, depth * height * width * w);
}

// The most elements of 16 bytes or fewer that are stored at once: `neighbours` is a multiple, and so is how far all
// that is not `along` them is apart.
int32_t stored_at_once(const OperandTraits& result, size_t along, int64_t neighbours, int32_t element_bytes) {
  int32_t count = result.stride[along] == 1 ? kCopyBytes / element_bytes : 1;
  const auto fits = [&] {
    for (size_t axis = 0; axis < 5; ++axis) {
      if (axis != along && result.stride[axis] % count != 0) return false;
    }
    return neighbours % count == 0 && result.address % (count * element_bytes) == 0;
  };
  while (count > 1 && !fits()) count /= 2;
  return count;
}

MatmulStore storing(const Problem& problem, const OperandTraits& output, bool channels_last, int32_t element_bytes) {
  const int64_t neighbours = channels_last ? problem.out_channels_per_group() : problem.kernel_size[2];
  return {output.stride[1] == 1 && output.stride[4] != 1, false,
          stored_at_once(output, channels_last ? 1 : 4, neighbours, element_bytes)};
}

// Positions of a channel are neighbours where they are those of one axis, channels where they lie side by side.
MatmulStore storing_gradient(const Problem& problem, const OperandTraits& grad_input, int32_t element_bytes) {
  const int32_t channels = stored_at_once(grad_input, 1, problem.in_channels_per_group(), element_bytes);
  if (is_one_axis(grad_input, problem.input_size)) {
    OperandTraits line = grad_input;  // an image's positions, as one axis
    line.stride[2] = line.stride[3] = 0;
    line.stride[4] = 1;
    const auto& [depth, height, width] = problem.input_size;
    const int32_t positions = stored_at_once(line, 4, depth * height * width, element_bytes);
    if (positions > channels || grad_input.stride[1] != 1) return {true, true, positions};
  }
  return {grad_input.stride[1] == 1, false, channels};
}

int64_t count_blocks(const MatmulPlan& plan, const DeviceTraits& device) {
  const int32_t by_memory =
      static_cast<int32_t>((device.shared_bytes + kReservedBytes) / (plan.shared_bytes + kReservedBytes));
  const int32_t by_registers =
      plan.teams > 1 ? matmul_teams(plan.terms) / plan.teams : matmul_blocks(plan.tile, plan.terms, plan.element_bytes);
  return std::max(1, std::min({by_memory, by_registers, device.kernel_blocks}));
}

}  // namespace

MatmulLayout matmul_layout(const MatmulPlan& plan) {
  const auto [m, n, warps] = plan.extent();
  const auto [warps_m, warps_n] = plan.warps();
  const bool is_gradient = plan.op == Operator::kInputGrad;
  MatmulLayout layout{};
  layout.source_bytes =
      matmul_source_pitch(plan.rows, m, plan.element_bytes) * matmul_source_rows(plan.rows, m, plan.element_bytes);
  layout.weight_bytes =
      matmul_weight_pitch(plan.op, n, plan.element_bytes) * matmul_weight_rows(plan.op, n, plan.element_bytes);
  const bool of_positions = plan.store.of_positions;
  const int32_t row_bytes = (of_positions ? m / warps_m : n / warps_n) * plan.element_bytes;
  layout.result_pitch = matmul_slab_pitch(row_bytes, plan.element_bytes, plan.store);
  const int32_t part = of_positions ? kMatmulPartColumns : kMatmulPartPositions;
  const int32_t parts = (of_positions ? n / warps_n : m / warps_m) / part;
  layout.slab_bytes = matmul_slab_parts(parts, plan.terms, plan.element_bytes) * part * layout.result_pitch;
  layout.weight = plan.teams * plan.buffers * layout.source_bytes;
  layout.result = layout.weight + (plan.resident ? plan.k_stages : plan.teams * plan.buffers) * layout.weight_bytes;
  const int32_t joined = plan.teams > 1 ? m * n * static_cast<int32_t>(sizeof(float)) : 0;
  layout.positions = static_cast<int32_t>(round_up(layout.result + std::max(joined, warps * layout.slab_bytes), 16));
  layout.columns = layout.positions + 2 * m * 8;  // of the tile that is stored, and of the next
  layout.places = layout.columns + n * (8 + (is_gradient ? 0 : 4)) + (plan.splits > 1 ? 16 : 0);
  layout.bytes = layout.places + (is_gradient ? plan.k_stages * (kMatmulStageBytes / plan.copied_bytes) * 4 : 0);
  return layout;
}

std::vector<MatmulPlan> matmul_candidates(Operator op, const Problem& problem, DataType dtype, int terms,
                                          const Operands& operands, const DeviceTraits& device) {
  std::vector<MatmulPlan> found;
  const bool is_gradient = op == Operator::kInputGrad;
  if (op != Operator::kForward && !is_gradient) return found;
  if (dtype == DataType::kFloat64 || !is_product(problem) || operands.mask.present) return found;
  const auto bytes = static_cast<int32_t>(element_size(dtype));
  const int64_t positions = problem.batch * problem.input_size[0] * problem.input_size[1] * problem.input_size[2];
  const int64_t columns = problem.out_channels_per_group() * problem.taps();  // of the weight
  const int64_t rows = problem.in_channels_per_group();
  const OperandTraits& weight = operands.second;
  const int32_t piece = kCopyBytes / bytes;
  // Tiles past the end have positions, too.
  constexpr int64_t kMost = INT_MAX - 256;
  if (positions == 0 || columns == 0 || rows == 0 || problem.groups > INT_MAX) return found;
  if (positions > kMost || columns > kMost || rows > kMost) return found;
  if ((is_gradient ? columns : rows) * bytes > kMostBytes) return found;
  if (!weight.present || columns % piece != 0 || weight.stride[0] % piece != 0 || weight.address % kCopyBytes != 0)
    return found;

  MatmulPlan plan{};
  plan.op = op;
  plan.terms = terms;
  plan.element_bytes = bytes;
  plan.size = problem.input_size;
  plan.taps = problem.kernel_size;
  plan.positions = positions;
  plan.groups = static_cast<int32_t>(problem.groups);
  plan.out_channels = static_cast<int32_t>(problem.out_channels_per_group());
  plan.k = static_cast<int32_t>(is_gradient ? columns : rows);
  plan.columns = static_cast<int32_t>(is_gradient ? rows : columns);
  plan.k_stages = static_cast<int32_t>(ceil_div(int64_t{plan.k} * bytes, kMatmulStageBytes));
  // Of one tap or one channel both orders are the same: whichever copies and stores more at once.
  std::optional<Reading> read;
  int32_t most = 0;
  for (const bool channels_last : {true, false}) {
    if (!has_columns(problem, weight, channels_last)) continue;
    const std::optional<Reading> way = is_gradient ? reading_gradient(problem, operands.first, channels_last, bytes)
                                                   : reading(problem, operands.first, bytes);
    if (!way) continue;
    const MatmulStore store = is_gradient ? storing_gradient(problem, operands.result, bytes)
                                          : storing(problem, operands.result, channels_last, bytes);
    if (way->bytes + store.elements <= most) continue;
    most = way->bytes + store.elements;
    read = way;
    plan.store = store;
    plan.channels_last = channels_last;
  }
  if (!read) return found;
  plan.rows = read->rows;
  plan.copied_bytes = read->bytes;
  plan.spread = read->spread;
  plan.by_positions = read->by_positions;
  plan.linear = !is_gradient && plan.rows == MatmulRows::kChannels && is_linear(problem, operands.first, piece);

  for (const MatmulTile tile : kMatmulTiles) {
    plan.tile = tile;
    const MatmulExtent extent = plan.extent();
    plan.m_tiles = static_cast<int32_t>(ceil_div(positions, extent.m));
    plan.n_tiles = static_cast<int32_t>(ceil_div(int64_t{plan.columns}, extent.n));
    for (plan.teams = 1; plan.teams <= (tile == MatmulTile::k64x64 ? matmul_teams(terms) : 1); plan.teams *= 2) {
      if (plan.teams > 1 && plan.k_stages < 2 * plan.teams) break;  // two stages each
      for (const bool resident : {true, false}) {
        for (int32_t buffers = 2; buffers <= kMostBuffers; ++buffers) {
          plan.resident = resident;
          plan.buffers = buffers;
          for (plan.splits = 1; plan.splits <= kMostSplits; ++plan.splits) {
            plan.shared_bytes = matmul_layout(plan).bytes;
            if (plan.shared_bytes > device.shared_bytes) break;
            const int64_t on_one = count_blocks(plan, device);
            const int64_t fit = on_one * device.multiprocessors;
            const int64_t shares = int64_t{plan.groups} * plan.n_tiles;
            plan.walkers = static_cast<int32_t>(std::clamp<int64_t>(fit / shares, 1, plan.m_tiles));
            if (plan.splits > 1) {
              if (!is_gradient || plan.resident || plan.walkers < plan.m_tiles || plan.blocks() > fit) break;
              if (plan.split_stages() < 2 * plan.teams) break;
              if (plan.last_split_stages() < plan.teams) continue;  // a team without a stage would not join the others
            }
            plan.cost_ms = matmul_cost_ms(plan, on_one, device);
            found.push_back(plan);
          }
        }
      }
    }
  }
  return found;
}

std::optional<MatmulPlan> plan_matmul(Operator op, const Problem& problem, DataType dtype, int terms,
                                      const Operands& operands, const DeviceTraits& device) {
  const std::vector<MatmulPlan> all = matmul_candidates(op, problem, dtype, terms, operands, device);
  if (all.empty()) return std::nullopt;
  return *std::min_element(all.begin(), all.end(),
                           [](const MatmulPlan& a, const MatmulPlan& b) { return a.cost_ms < b.cost_ms; });
}

const char* to_string(MatmulRows rows) {
  switch (rows) {
    case MatmulRows::kChannels:
      return "channels";
    case MatmulRows::kPositions:
      return "positions";
    case MatmulRows::kWords:
      return "words";
    case MatmulRows::kPairs:
      return "pairs";
  }
  return "";
}

std::string to_string(const MatmulPlan& plan) {
  const auto [m, n, warps] = plan.extent();
  const auto number = [](int64_t value) { return std::to_string(value); };
  return "product tile=" + number(m) + "x" + number(n) + " teams=" + number(plan.teams) +
         " terms=" + number(plan.terms) + " rows=" + to_string(plan.rows) + " copied=" + number(plan.copied_bytes) +
         "B columns=" + (plan.channels_last ? "taps_channels" : "channels_taps") + " m=" + number(plan.positions) +
         " n=" + number(plan.columns) + " k=" + number(plan.k) + " groups=" + number(plan.groups) +
         " weights=" + (plan.resident ? "stay" : "come") + " buffers=" + number(plan.buffers) +
         " blocks=" + number(plan.blocks()) + (plan.splits > 1 ? " splits=" + number(plan.splits) : "") +
         " shared=" + number(plan.shared_bytes) + " store=" + number(plan.store.elements) +
         (plan.store.of_positions ? " of_positions"
          : plan.store.by_pieces  ? " by_columns"
                                  : " by_positions");
}

}  // namespace convt3d
