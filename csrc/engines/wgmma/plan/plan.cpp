#include "engines/wgmma/plan/plan.h"

#include <sstream>

#include "engines/wgmma/plan/boxes.h"
#include "engines/wgmma/plan/cost.h"
#include "engines/wgmma/plan/search.h"

namespace convt3d {
namespace {

bool is_channels_last(const Operands& operands) { return operands.result.stride[1] == 1; }

// The plan of these operands, made from the parts that were searched for. Its memory is that of the searched load.
WgmmaPlan plan_of_operands(const WgmmaProblem& problem, WgmmaElement element, const Operands& operands,
                           const DeviceTraits& device, bool copies, const WgmmaPlanParts& searched) {
  const WgmmaStore store = store_of_operand(problem, searched, element.bytes, operands.result);
  const auto reading = [&](const OperandCopy& copy) {
    const WgmmaLoad load =
        load_of_operand(problem, searched, element.bytes, copy.exists ? copied_operand(copy) : operands.first);
    const WgmmaPlanParts parts{searched.product,
                               searched.arrangement,
                               searched.tile,
                               load,
                               searched.panels,
                               searched.loops,
                               searched.pipelines,
                               store,
                               searched.memory,
                               searched.grid,
                               copy};
    return WgmmaPlan{parts, expected_clocks(problem, element.bytes, device, parts),
                     expected_clocks(problem, element.bytes, device, parts, false)};
  };
  const WgmmaPlan as_it_is = reading({});
  if (as_it_is.load.boxes() || !copies || searched.load.n_major() || !can_copy(problem, element)) return as_it_is;
  // What threads would load may be faster to copy, for TMA to read.
  WgmmaPlan copied = reading(input_copy(problem, element.bytes, operands.first));
  copied.source_beside = true;
  return copied.cost < as_it_is.cost ? copied : as_it_is;
}

}  // namespace

bool can_copy(const WgmmaProblem& problem, WgmmaElement element) {
  const Int3& size = problem.input_size;
  const int64_t bytes = problem.batch * problem.in_channels * size[0] * size[1] * size[2] * element.bytes;
  return problem.in_channels_per_group() * element.bytes % kCopiedPiece == 0 && bytes <= kMostCopiedBytes;
}

OperandCopy input_copy(const WgmmaProblem& problem, int element_bytes, const OperandTraits& input) {
  OperandCopy copy =
      operand_copy(input, {}, problem.input_size, problem.groups, problem.in_channels_per_group(), element_bytes);
  copy_whole(copy, problem.batch);
  return copy;
}

std::vector<WgmmaPlan> wgmma_candidates(const WgmmaProblem& problem, WgmmaElement element, const Operands& operands,
                                        const DeviceTraits& device, bool copies) {
  std::vector<WgmmaPlan> candidates;
  visit_plans(problem, element, is_channels_last(operands), copies, device, [&](const WgmmaPlanParts& parts, double) {
    candidates.push_back(plan_of_operands(problem, element, operands, device, copies, parts));
  });
  return candidates;
}

std::optional<WgmmaPlan> plan_wgmma(const WgmmaProblem& problem, WgmmaElement element, const Operands& operands,
                                    const DeviceTraits& device, bool copies) {
  std::optional<WgmmaPlanParts> best;
  double least = 0;  // clocks
  visit_plans(problem, element, is_channels_last(operands), copies, device,
              [&](const WgmmaPlanParts& parts, double clocks) {
                if (best && clocks >= least) return;
                best = parts;
                least = clocks;
              });
  if (!best) return std::nullopt;
  return plan_of_operands(problem, element, operands, device, copies, *best);
}

std::string to_string(const WgmmaPlan& plan) {
  const WgmmaArrangement& arrangement = plan.arrangement;
  const WgmmaTile& tile = plan.tile;
  const WgmmaPanels& panels = plan.panels;
  const WgmmaStore& store = plan.store;
  std::ostringstream out;
  out << "halo terms=" << plan.product.terms << " joined=" << plan.product.joined << " n=" << tile.instruction.n
      << " sets=" << arrangement.sets() << " slab_channels=" << arrangement.slab_channels()
      << " width_pairs=" << arrangement.width_pairs() << " m_tiles=" << arrangement.m_tiles
      << " slabs=" << arrangement.slabs << " phases=" << arrangement.phases << " folds=" << arrangement.axis[0].fold
      << 'x' << arrangement.axis[1].fold << (arrangement.axis[2].fold.is_two() ? "x2" : "")
      << (arrangement.folds_apart ? "_apart" : "") << " splits=" << tile.splits
      << " phase_halos=" << arrangement.phase_halos << " images=" << tile.images() << " tile=" << tile.size[0] << 'x'
      << tile.size[1] << 'x' << tile.size[2] << " halo=" << tile.halo[0] << 'x' << tile.halo[1] << 'x' << tile.halo[2]
      << " second=" << tile.second_start << " columns=" << tile.columns << " panels=" << panels.count << '/'
      << panels.in_chunk << "x" << panels.position_bytes
      << " n_major=" << (plan.load.n_major() ? 1 << plan.load.as_n_major().line_log : 0)
      << " tile_stages=" << plan.pipelines.tile_stages << " weight_stages=" << plan.pipelines.weight_stages
      << " staging=" << to_string(store.way()) << ' ' << store.segments[0] << '+' << store.segments[1] << 'x'
      << store.columns << " burst=" << store.halves << 'x' << store.burst << " warp=" << store.warp_bytes
      << " resident=" << plan.pipelines.resident_weights << " ping_pong=" << plan.pipelines.ping_pong
      << " skips=" << plan.pipelines.skips_unread << " stages=" << plan.loops.stages()
      << " shared=" << plan.memory.bytes << " packed=" << plan.packed_bytes() << " work_tiles=" << plan.grid.work_tiles
      << (plan.copy.exists ? " copied" : "") << " clocks=" << plan.cost;
  return out.str();
}

}  // namespace convt3d
