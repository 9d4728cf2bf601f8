#include "engines/wgmma/plan/traits.h"

#include <algorithm>
#include <climits>

#include "core/trait_values.h"
#include "engines/wgmma/plan/boxes.h"

namespace convt3d {
namespace {

std::string ring_name(const HaloPlan& plan) {
  return plan.ring <= 4 ? std::to_string(plan.ring) : plan.ring < kHaloMaxRing ? "5-11" : "12";
}

std::string load_name(const Problem& problem, const HaloPlan& plan, const ForwardArguments& arguments,
                      const ConstTensor& input) {
  TensorBox box{};
  switch (choose_load(problem, plan, arguments.dtype, input, box)) {
    case HaloLoad::kThreads:
      return has_channel_pieces(plan, arguments.dtype, input) ? "threads_pieces" : "threads";
    case HaloLoad::kCopy:
      return "copy";
    case HaloLoad::kCopyRows:
      return "copy_rows";
    case HaloLoad::kTranspose:
      return plan.box_images > 0 ? "transpose_planes" : "transpose";
  }
  return "unknown";
}

std::string store_name(const Problem& problem, const HaloPlan& plan, const ForwardArguments& arguments,
                       const MutableTensor& output) {
  if (plan.staging.boxes() && !stores_boxes(problem, plan, arguments.dtype, output)) return "threads_for_boxes";
  return to_string(plan.staging.way);
}

void add_rows(const HaloPlan& plan, Traits& traits) {
  traits.push_back({"sets", plan.sets == 1        ? "none"
                            : plan.height_sets()  ? "height"
                            : plan.channel_sets() ? "channels"
                                                  : "width"});
  traits.push_back({"pair_rows", yes_no(plan.pair_rows)});
  traits.push_back({"phase_pairs", yes_no(plan.phase_pairs)});
  traits.push_back({"folds", count_name(plan.axis[0].fold, 2) + "x" + count_name(plan.axis[1].fold, 2)});
  traits.push_back({"in_m", std::to_string(plan.axis[0].in_m) + "x" + std::to_string(plan.axis[1].in_m) + "x" +
                                std::to_string(plan.axis[2].in_m)});
  traits.push_back({"joined", std::to_string(plan.joined)});
  traits.push_back({"groups", one_or_many(plan.groups)});
  traits.push_back({"m_tiles", one_or_many(plan.m_tiles)});
  traits.push_back({"empty_slabs", yes_no(plan.m_tiles * 4 > plan.slabs)});
  traits.push_back({"channel_tail", yes_no(plan.out_channels % plan.slab_channels != 0)});
  traits.push_back({"phases", std::to_string(plan.phases)});
  traits.push_back({"splits", one_or_many(plan.splits)});
  traits.push_back({"units", one_two_many(plan.units() / plan.splits)});
  bool no_tap = false;
  for (int segment = 0; segment < plan.phases * plan.sets; ++segment) {
    no_tap = no_tap || plan.segment_steps[segment] == 0;
  }
  traits.push_back({"no_tap", yes_no(no_tap)});
}

void add_tile(const HaloPlan& plan, Traits& traits) {
  constexpr const char* kTiles[] = {"tiles_d", "tiles_h", "tiles_w"};
  constexpr const char* kTails[] = {"tail_d", "tail_h", "tail_w"};
  constexpr const char* kLows[] = {"low_d", "low_h", "low_w"};
  constexpr const char* kReaches[] = {"reach_d", "reach_h", "reach_w"};
  traits.push_back({"n", std::to_string(plan.n)});
  traits.push_back({"images", std::to_string(1 << plan.image_log)});
  traits.push_back({"image_tail", yes_no(plan.batch % (1 << plan.image_log) != 0)});
  traits.push_back({"batch", one_or_many(plan.batch)});
  traits.push_back({"phase_halos", yes_no(plan.phase_halos)});
  bool differ = false;
  for (int i = 0; i < 3; ++i) {
    const HaloAxis& axis = plan.axis[i];
    int32_t least = INT_MAX;
    int32_t most = INT_MIN;
    for (int outer = 0; outer < axis.outer; ++outer) {
      least = std::min(least, axis.taps[outer].low);
      most = std::max(most, axis.taps[outer].low);
    }
    differ = differ || least != most;
    traits.push_back({kLows[i], sign_name(least, most)});
    traits.push_back({kReaches[i], count_name(axis.reach, 1)});
    traits.push_back({kTiles[i], one_or_many(plan.tiles[i])});
    traits.push_back({kTails[i], yes_no(axis.positions % plan.tile[i] != 0)});
  }
  traits.push_back({"lows_differ", yes_no(differ)});
  traits.push_back({"depths", one_or_many(plan.tile[0])});
  traits.push_back({"cut", plan.second_start == plan.n                                                ? "none"
                           : plan.second_start % (plan.halo[1] * plan.halo[2] << plan.image_log) == 0 ? "depth"
                                                                                                      : "height"});
  traits.push_back({"odd_halo", yes_no(plan.halo[2] != plan.tile[2] + plan.axis[2].reach)});
}

void add_memory(const HaloPlan& plan, const ForwardArguments& arguments, const DeviceTraits& device, Traits& traits) {
  const int64_t channel_bytes = int64_t{plan.in_channels} * element_size(arguments.dtype);
  traits.push_back({"row_bytes", std::to_string(plan.row_bytes)});
  traits.push_back({"chunks", one_two_many(plan.chunks())});
  traits.push_back({"chunk_panels", one_or_many(plan.chunk_panels)});
  traits.push_back({"k_tail", yes_no(channel_bytes % plan.row_bytes != 0)});
  traits.push_back({"unit_loads", yes_no(plan.unit_loads())});
  traits.push_back({"slots", std::to_string(plan.slots)});
  traits.push_back({"ring", ring_name(plan)});
  traits.push_back({"resident", yes_no(plan.resident_weights)});
  traits.push_back({"turns", yes_no(plan.alternate)});
  const HaloGrid grid = halo_grid(plan, device.multiprocessors);
  traits.push_back({"keeps_weights", yes_no(grid.weight_classes > 0)});
  traits.push_back({"items", plan.items() > 4 * grid.blocks ? "claimed" : plan.items() > grid.blocks ? "many" : "1"});
}

}  // namespace

Traits halo_traits(const Problem& problem, const HaloPlan& plan, const ForwardArguments& arguments,
                   const DeviceTraits& device, const ConstTensor& input, const MutableTensor& output) {
  const HaloStaging& staging = plan.staging;
  Traits traits = {{"engine", "halo_wgmma"},
                   {"operator", "forward"},
                   {"type", type_name(arguments.dtype, arguments.mode)},
                   {"bias", yes_no(arguments.bias)},
                   {"relu", yes_no(arguments.relu)},
                   {"output", output.stride[1] == 1 ? "channels" : "width"},
                   {"load", load_name(problem, plan, arguments, input)},
                   {"store", store_name(problem, plan, arguments, output)},
                   {"rows", std::to_string(plan.row_log > 0 ? 1 << plan.row_log : 0)},
                   {"rows_cross", yes_no(plan.row_log > 0 && plan.rows_cross_widths())}};
  add_rows(plan, traits);
  add_tile(plan, traits);
  add_memory(plan, arguments, device, traits);
  const bool boxes = plan.box_width > 0;
  traits.push_back({"box_depths", boxes ? one_or_many(plan.box_depths) : "none"});
  traits.push_back({"row_boxes", boxes ? one_or_many(plan.row_boxes) : "none"});
  traits.push_back({"depth_boxes", boxes ? one_or_many(plan.depth_boxes) : "none"});
  traits.push_back({"box_images", std::to_string(plan.box_images)});
  traits.push_back({"staged_halves", std::to_string(staging.halves)});
  traits.push_back({"staged_batch", one_or_many(staging.batch)});
  traits.push_back({"row_segments", one_or_many(staging.row_segments)});
  traits.push_back({"box_rows", one_or_many(staging.box_rows)});
  traits.push_back({"part", yes_no(staging.part[0] >= 0 || staging.part[1] >= 0)});
  traits.push_back({"joined_rows", yes_no(staging.joined_rows)});
  traits.push_back({"swizzle", std::to_string(staging.swizzle)});
  traits.push_back({"second_empty", yes_no(staging.segments[1] == 0)});
  return traits;
}

}  // namespace convt3d
