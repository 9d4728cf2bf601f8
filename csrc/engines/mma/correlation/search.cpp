// The search of one correlation: shapes, boxes, split axes, chunks, phases of a block, splits of
// K, rings of slots, buffers.
#include "engines/mma/correlation/search.h"

#include <algorithm>
#include <tuple>

#include "core/integer.h"
#include "engines/mma/correlation/boxes.h"
#include "engines/mma/correlation/cost.h"
#include "engines/mma/correlation/memory.h"

namespace convt3d::mma {
namespace {

constexpr int32_t kMostTableSteps = 4096;
constexpr int32_t kMostStepsOfChunk = 8;
// Rings of slots for weights: how many, and their bytes, about. Large ones interrupt the products less often.
constexpr struct {
  int32_t slots;
  int32_t bytes;
} kRings[] = {{kMostSlots, 8 << 10}, {2, 20 << 10}, {2, 40 << 10}};
constexpr int64_t kSharedOfBlock = 1024;  // that a block takes beside its own
constexpr int64_t kMostPartialBytes = int64_t{64} << 20;

class Search {
 public:
  Search(const CorrelationPlan& base, const CorrelationQuery& query, std::vector<CorrelationPlan>& plans)
      : base_(base),
        destination_(query.tensors.destination),
        element_bytes_(query.element_bytes),
        source_bytes_(base.source_bytes),
        row_vector_(row_vector(query.tensors.destination, element_bytes_, base.residues[2].size)),
        rows_begin_(rows_begin(query.tensors.source, query.tensors.mask, source_bytes_, base.axis[2].src_size)),
        part_bytes_(copied_part(query.tensors.source, source_bytes_, base.k_channels)),
        device_(query.device),
        most_copied_(query.most_copied),
        keep_all_(query.keep_all),
        plans_(plans) {}

  void operator()() {
    for (const Shape shape : kShapes) {
      if (!has_shape(shape, base_.terms, has_channel_rows(base_.way), base_.reads_pairs())) continue;
      const ShapeExtent extent = shape_extent(shape, base_.terms);
      if (extent.n() > 8 && extent.n() >= 2 * round_up(base_.n_channels, 8)) continue;
      with_shape(shape, extent);
    }
  }

 private:
  void with_shape(Shape shape, const ShapeExtent& extent) {
    CorrelationPlan plan = base_;
    plan.shape = shape;
    if (plan.store != StoreWay::kPairs) {
      plan.channel_vector =
          channel_vector(destination_, element_bytes_, plan.n_channels, lane_channels(extent.warp_n, element_bytes_));
      plan.store = plan.channel_vector > 0 ? StoreWay::kChannels : StoreWay::kRows;
    }
    plan.n_blocks = static_cast<int32_t>(ceil_div(plan.n_channels, extent.n()));
    for (const BoxCandidate& box : likely_boxes(plan, element_bytes_, device_, kBoxes)) with_box(plan, box);
  }

  void with_box(CorrelationPlan plan, const BoxCandidate& candidate) {
    const std::array<int32_t, 3>& box = candidate.size;
    const int32_t images = candidate.images;
    plan.box = box;
    plan.boxes[0] = ceil_div(plan.batch, images);
    for (size_t i = 0; i < 3; ++i) plan.boxes[i + 1] = ceil_div(plan.residues[i].extent, box[i]);
    const auto steps = static_cast<int32_t>(ceil_div(plan.k_channels * source_bytes_, kStepBytes));
    if (!keep_all_ && !plans_.empty() && products_ms(plan, device_, steps) >= plans_[0].cost_ms) return;
    std::array<TileAxis, 3> axis;
    for (size_t i = 0; i < 3; ++i) {
      if (!make_tile_axis(plan.axis[i], box[i], static_cast<int>(i) < candidate.splits, axis[i])) return;
    }
    int32_t last = 0;
    bool first = true;
    for (int32_t chunks = 1; chunks <= steps; ++chunks) {
      const auto chunk_steps = static_cast<int32_t>(ceil_div(steps, chunks));
      if (chunk_steps == last || chunk_steps > kMostStepsOfChunk) continue;
      last = chunk_steps;
      plan.chunk_steps = chunk_steps;
      plan.chunks = static_cast<int32_t>(ceil_div(steps, chunk_steps));
      // The rows' padding depends on the box alone.
      if (first && has_channel_rows(plan.way)) {
        const int32_t elements = copied_elements(rows_begin_ == RowsBegin::kWhole, axis[2], plan.boxes[3]);
        plan.order = BoxOrder::kHeight;
        plan.tile =
            make_channel_rows(axis, images, 2 * chunk_steps, elements, elements_before(axis[2], elements), false);
        pad_lines(plan.tile, plan.order);
        first = false;
      } else if (first) {
        plan.tile = make_tile(axis, images, 2 * chunk_steps);
        plan.order = BoxOrder::kHeight;
        for (const BoxOrder order : {BoxOrder::kDepth, BoxOrder::kImages}) {
          if (order == BoxOrder::kDepth ? box[0] == 1 || box[1] == 1 : images == 1) continue;
          const StagedTile tile = make_tile(axis, images, 2 * chunk_steps, order);
          if (std::tie(tile.conflicts, tile.rows) >= std::tie(plan.tile.conflicts, plan.tile.rows)) continue;
          plan.tile = tile;
          plan.order = order;
        }
        first = false;
      } else {
        set_pieces(plan.tile, 2 * chunk_steps);
      }
      with_tile(plan);
    }
  }

  void with_tile(CorrelationPlan plan) {
    if (plan.copy.exists) {
      plan.copy.reach = depth_reach(plan.tile.axis[0]);
      if (!choose_portions(plan.portions, {&plan.copy}, {plan.boxes, plan.batch, plan.tile.images, plan.box[0]},
                           most_copied_))
        return;
    }
    plan.load = make_load_shape(
        plan.tile, plan.way, source_bytes_,
        {rows_begin_, plan.boxes[3] == 1 ? 0 : plan.box[2] * plan.axis[2].src_step, part_bytes_}, kSourceThreads);
    const int32_t width = plan.residues[2].count;
    const int32_t plane = width * plan.residues[1].count;
    int32_t last = 0;
    for (const int64_t phases : {int64_t{1}, int64_t{width}, int64_t{plane}, plan.phases()}) {
      if (phases == last) continue;
      last = static_cast<int32_t>(phases);
      plan.block_phases = last;
      if (phases > width && plan.stages() > 1) break;
      plan.k_splits = 1;
      plan.split_stages = plan.stages();
      if (!set_tables(plan, element_bytes_, kMostTableSteps, row_vector_)) continue;
      with_phases(plan);
      with_splits(plan);
    }
  }

  // On a multiprocessor, by registers.
  int32_t most_blocks(const CorrelationPlan& plan) const {
    return std::min(shape_extent(plan.shape, plan.terms).blocks, device_.kernel_blocks);
  }

  // As long as boxes and shares leave multiprocessors idle. The batch fills them sooner or later.
  void with_splits(CorrelationPlan plan) {
    if (plan.block_phases > 1) return;
    const int64_t room = int64_t{device_.multiprocessors} * most_blocks(plan);
    const int64_t tiles = plan.shares() * plan.box_count();
    for (int32_t splits = 2; splits <= plan.stages(); splits += splits / 2) {
      const int32_t before = plan.k_splits;
      plan.split_stages = static_cast<int32_t>(ceil_div(plan.stages(), splits));
      plan.k_splits = static_cast<int32_t>(ceil_div(plan.stages(), plan.split_stages));
      if (plan.k_splits == before) continue;
      if (tiles * plan.k_splits > room || plan.partial_bytes() > kMostPartialBytes) return;
      set_weight_steps(plan);
      with_phases(plan);
    }
  }

  // Weights that stay need the room of all of them, others that of a few slots.
  void with_phases(CorrelationPlan plan) {
    const ShapeExtent extent = shape_extent(plan.shape, plan.terms);
    plan.weights_stay = true;
    plan.slots = 1;
    plan.slot_steps = plan.weight_steps;
    with_weights(plan);
    plan.weights_stay = false;
    const int32_t of_stage = plan.table_steps / (plan.stages() / plan.chunks);  // the largest phase's
    int32_t last = 0;
    for (const auto& ring : kRings) {
      const int32_t most = std::max(1, ring.bytes / step_bytes(extent, plan.terms));
      // Slots end where stages do.
      plan.slots = ring.slots;
      plan.slot_steps = most < of_stage ? ceil_div(of_stage, ceil_div(of_stage, most)) : most / of_stage * of_stage;
      if (plan.weight_steps <= plan.slot_steps) return;
      if (plan.slots * plan.slot_steps == last) continue;  // as much room as the ring before, in other slots
      last = plan.slots * plan.slot_steps;
      with_weights(plan);
    }
  }

  // As many buffers as leave room for so many blocks on a multiprocessor.
  void with_weights(CorrelationPlan plan) {
    const bool rows = plan.way == LoadWay::kRows;
    plan.buffers = plan.ahead = 1;
    if (!set_memory(plan, device_.shared_bytes)) return;
    int32_t last = 0;
    for (int32_t blocks = most_blocks(plan); blocks > 0; --blocks) {
      const int64_t room = (device_.shared_bytes + kSharedOfBlock) / blocks - kSharedOfBlock;
      // Raw rows that are on their way wait for no buffer; of these two are enough.
      int32_t buffers = rows ? 2 : kMostBuffers;
      int32_t ahead = kMostBuffers - 1;
      // What goes through registers has arrived when it is written.
      const auto fits = [&] {
        plan.buffers = buffers;
        plan.ahead = copies(plan.way) ? std::max(ahead, 1) : 1;
        return set_memory(plan, room);
      };
      while (!fits() && (rows ? ahead : buffers) > 1) {
        --ahead;
        if (!rows) --buffers;
      }
      if (!fits() && rows) buffers = 1;
      if (!fits() || buffers + ahead == last) continue;
      last = buffers + ahead;
      plan.blocks_at_once = blocks;
      set_cost(plan, element_bytes_, device_);
      plan.cost_ms *= transposed(plan);
      if (keep_all_ || plans_.empty()) {
        plans_.push_back(plan);
      } else if (plan.cost_ms < plans_[0].cost_ms) {
        plans_[0] = plan;
      }
    }
  }

  static constexpr size_t kBoxes = 24;
  const CorrelationPlan base_;
  const OperandTraits& destination_;
  const int32_t element_bytes_;  // of the destination
  const int32_t source_bytes_;
  const int32_t row_vector_;
  const RowsBegin rows_begin_;
  const int32_t part_bytes_;  // of channels that are copied at once
  const DeviceTraits& device_;
  const int64_t most_copied_;
  const bool keep_all_;
  std::vector<CorrelationPlan>& plans_;
};

}  // namespace

void search_correlation(const CorrelationPlan& base, const CorrelationQuery& query,
                        std::vector<CorrelationPlan>& plans) {
  Search(base, query, plans)();
}

}  // namespace convt3d::mma
