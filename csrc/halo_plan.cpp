#include "halo_plan.h"

#include <algorithm>
#include <climits>
#include <set>
#include <sstream>
#include <vector>

namespace convt3d {
namespace {

constexpr int kMultiprocessors = 132;             // of the device that the costs were measured on
constexpr int64_t kSharedBytes = 227 * 1024;      // of one block, at most
constexpr int64_t kHalfSharedBytes = 113 * 1024;  // two blocks an SM
constexpr int64_t kReserved = 26 * 1024;          // barriers and the epilogue's staging

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

struct TapAt {
  int offset;
  int tap;
};

std::vector<TapAt> taps_of_residue(const AxisMap& map, int residue) {
  std::vector<TapAt> taps;
  for (int index = 0; index < map.phases; ++index) {
    const AxisPhase phase = axis_phase(map, index);
    if (phase.residue != residue) continue;
    for (int j = 0; j < phase.tap_count; ++j) {
      taps.push_back({phase.first_offset + j * map.offset_step, phase.first_tap + j * map.tap_step});
    }
  }
  return taps;
}

// False where the table is too small for the taps.
bool fill_axis(const AxisMap& map, bool in_m, HaloAxis& axis) {
  axis = {};
  axis.stride = map.dst_step;
  axis.in_m = in_m ? axis.stride : 1;
  axis.outer = axis.stride / axis.in_m;
  axis.src_size = map.src_size;
  axis.dst_size = map.dst_size;
  axis.positions = static_cast<int32_t>(ceil_div(map.dst_size, map.dst_step));
  axis.low = INT_MAX;
  axis.high = INT_MIN;
  for (int outer = 0; outer < axis.outer; ++outer) {
    HaloTaps& table = axis.taps[outer];
    std::set<int> offsets;
    for (int m = 0; m < axis.in_m; ++m) {
      for (const TapAt& at : taps_of_residue(map, in_m ? m : outer)) offsets.insert(at.offset);
    }
    if (offsets.size() > kHaloMaxOffsets) return false;
    for (const int offset : offsets) {
      table.offset[table.count] = offset;
      for (int m = 0; m < kHaloMaxStride; ++m) {
        table.tap[table.count][m] = -1;
        if (m >= axis.in_m) continue;
        for (const TapAt& at : taps_of_residue(map, in_m ? m : outer)) {
          if (at.offset == offset) table.tap[table.count][m] = at.tap;
        }
      }
      axis.low = std::min(axis.low, offset);
      axis.high = std::max(axis.high, offset);
      ++table.count;
    }
  }
  if (axis.low > axis.high) axis.low = axis.high = 0;
  return true;
}

}  // namespace

std::vector<HaloPlan> halo_candidates(const Problem& problem, int element_bytes, bool channels_last) {
  std::vector<HaloPlan> candidates;
  HaloPlan plan{};
  plan.batch = problem.batch;
  plan.groups = problem.groups;
  plan.in_channels = static_cast<int32_t>(problem.in_channels_per_group());
  plan.out_channels = static_cast<int32_t>(problem.out_channels_per_group());
  for (int i = 0; i < 3; ++i) {
    if (problem.stride[i] > kHaloMaxStride) return {};
  }

  plan.pair_width = problem.stride[2] == 2 && !channels_last;
  plan.slab_channels = plan.pair_width ? 8 : 16;
  plan.channel_slabs = static_cast<int32_t>(ceil_div(plan.out_channels, plan.slab_channels));
  plan.slabs = plan.channel_slabs * (plan.pair_width ? 1 : static_cast<int32_t>(problem.stride[2]));
  bool in_m[3] = {false, false, true};
  for (const int i : {1, 0}) {
    if (problem.stride[i] == 2 && plan.slabs * 2 <= 4) {
      in_m[i] = true;
      plan.slabs *= 2;
    }
  }
  plan.m_tiles = static_cast<int32_t>(ceil_div(plan.slabs, 4));
  plan.block_m_tiles = plan.m_tiles % 2 == 0 ? 2 : 1;

  plan.entries = 1;
  for (int i = 0; i < 3; ++i) {
    if (!fill_axis(forward_axis(problem, i), in_m[i], plan.axis[i])) return {};
    int count = 0;
    for (int outer = 0; outer < plan.axis[i].outer; ++outer) count += plan.axis[i].taps[outer].count;
    plan.entries *= count;
  }

  plan.planes = static_cast<int32_t>(round_up(ceil_div(plan.in_channels * element_bytes, 16), 2));
  const int32_t channel_planes = plan.planes;
  plan.step_bytes = int64_t{2} * 16 * 64 * plan.block_m_tiles;

  for (const int n_tiles : {2, 4}) {
    const int block_n_tiles = n_tiles * (plan.block_m_tiles == 2 ? 1 : 2);
    for (int td = 1; td <= block_n_tiles; td *= 2) {
      for (const int64_t stage_bytes : {8 * 1024, 16 * 1024}) {
        const int tile[3] = {td, kHaloRows, 8 * block_n_tiles / td};
        int64_t halo_positions = 1;
        for (int i = 0; i < 3; ++i) {
          halo_positions *= tile[i] + plan.axis[i].high - plan.axis[i].low;
        }
        const int64_t plane_positions = halo_positions | 1;
        const int64_t stage_steps = std::max<int64_t>(1, stage_bytes / plan.step_bytes);
        const int64_t ring = kHaloRing * stage_steps * plan.step_bytes + kReserved;
        const int64_t plane_bytes = plane_positions * 16;
        const int64_t budget = (halo_blocks_per_sm(n_tiles) == 2 ? kHalfSharedBytes : kSharedBytes) - ring;
        const int64_t most = budget / plane_bytes / 2 * 2;
        if (most <= 0) continue;
        const int64_t chunk = round_up(ceil_div(channel_planes, ceil_div(channel_planes, most)), 2);
        const int64_t planes = round_up(channel_planes, chunk);
        // In clocks: what a block spends on reading (a fixed latency for each chunk, then 16-byte pieces), multiplying
        // (a fixed cost for each run of steps, then the instructions) and writing. Measured on an H200; blocks that
        // share an SM overlap.
        const double outer = static_cast<double>(plan.axis[0].outer) * plan.axis[1].outer;
        const double chunks = static_cast<double>(planes) / chunk;
        const double loads = chunks > 1 ? chunks * outer : 1;
        const double load = loads * (3000 + 250.0 * halo_positions * chunk / 256);
        const double runs = plan.entries * chunks * std::max<double>(1, chunk / 2.0 / stage_steps);
        const double products = plan.entries * planes / 2.0 * n_tiles * 2 * 36.0;
        const double multiply = runs * 150 + products;
        const double store = outer * n_tiles * 2500;
        const int64_t blocks = plan.batch * plan.groups * (plan.m_tiles / plan.block_m_tiles) *
                               ceil_div(plan.axis[0].positions, tile[0]) * ceil_div(plan.axis[1].positions, tile[1]) *
                               ceil_div(plan.axis[2].positions, tile[2]);
        if (blocks > INT_MAX) continue;
        const int sharing = halo_blocks_per_sm(n_tiles);
        const double one = load + multiply + store;
        const double waves = std::max(1.0, static_cast<double>(blocks) / (kMultiprocessors * sharing));
        plan.usable = true;
        plan.cost = waves * std::max(one * (sharing == 2 ? 1.15 : 1.0), products * sharing);
        plan.warpgroup_n_tiles = n_tiles;
        for (int i = 0; i < 3; ++i) {
          plan.tile[i] = tile[i];
          plan.halo[i] = tile[i] + plan.axis[i].high - plan.axis[i].low;
          plan.tiles[i] = static_cast<int32_t>(ceil_div(plan.axis[i].positions, tile[i]));
        }
        plan.plane_positions = static_cast<int32_t>(plane_positions);
        plan.stage_steps = static_cast<int32_t>(stage_steps);
        plan.chunk_planes = static_cast<int32_t>(chunk);
        plan.planes = static_cast<int32_t>(planes);
        plan.steps = plan.entries * plan.planes / 2;
        plan.shared_bytes = ring + chunk * plane_bytes;
        plan.packed_bytes = plan.groups * plan.m_tiles / plan.block_m_tiles * plan.steps * plan.step_bytes;
        candidates.push_back(plan);
      }
    }
  }
  return candidates;
}

HaloPlan plan_halo_forward(const Problem& problem, int element_bytes, bool channels_last) {
  const std::vector<HaloPlan> candidates = halo_candidates(problem, element_bytes, channels_last);
  const auto best = std::min_element(candidates.begin(), candidates.end(),
                                     [](const HaloPlan& a, const HaloPlan& b) { return a.cost < b.cost; });
  return best == candidates.end() ? HaloPlan{} : *best;
}

std::string to_string(const HaloPlan& plan) {
  std::ostringstream out;
  out << "halo usable=" << plan.usable << " m_tiles=" << plan.m_tiles << '/' << plan.block_m_tiles
      << " slabs=" << plan.slabs << " tile=" << plan.tile[0] << 'x' << plan.tile[1] << 'x' << plan.tile[2]
      << " halo=" << plan.halo[0] << 'x' << plan.halo[1] << 'x' << plan.halo[2] << " planes=" << plan.planes << '/'
      << plan.chunk_planes << " stage_steps=" << plan.stage_steps << " entries=" << plan.entries
      << " outer=" << plan.axis[0].outer * plan.axis[1].outer << " n_tiles=" << plan.warpgroup_n_tiles
      << " shared=" << plan.shared_bytes << " packed=" << plan.packed_bytes << " blocks=" << plan.blocks();
  return out.str();
}

}  // namespace convt3d
