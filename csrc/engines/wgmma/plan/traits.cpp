#include "engines/wgmma/plan/traits.h"

#include <algorithm>
#include <climits>

#include "core/trait_values.h"

namespace convt3d {
namespace {

std::string weight_stages_name(int32_t stages) {
  return stages <= 4 ? std::to_string(stages) : stages < kWgmmaMaxWeightStages ? "5-11" : "12";
}

std::string load_name(const WgmmaLoad& load) {
  switch (load.way()) {
    case WgmmaLoadWay::kElements:
      return "threads";
    case WgmmaLoadWay::kPieces:
      return "threads_pieces";
    case WgmmaLoadWay::kChannelBoxes:
      return "copy";
    case WgmmaLoadWay::kNMajorBoxes:
      return "copy_n_major";
    case WgmmaLoadWay::kLineBoxes:
      return "transpose";
    case WgmmaLoadWay::kPlaneBoxes:
      return "transpose_planes";
  }
  return "unknown";
}

const char* sets_name(WgmmaSlabForm form) {
  switch (form) {
    case WgmmaSlabForm::kChannels:
    case WgmmaSlabForm::kWidthPairs:
      return "none";
    case WgmmaSlabForm::kWidthPairsHeightSets:
      return "height";
    case WgmmaSlabForm::kWidthSets:
      return "width";
    case WgmmaSlabForm::kChannelSets:
      return "channels";
  }
  return "unknown";
}

void add_rows(const WgmmaPlan& plan, Traits& traits) {
  const WgmmaArrangement& arrangement = plan.arrangement;
  const auto& axis = arrangement.axis;
  traits.push_back({"sets", sets_name(arrangement.form)});
  traits.push_back({"width_pairs", yes_no(arrangement.width_pairs())});
  traits.push_back({"phase_pairs", yes_no(plan.store.phase_pairs)});
  traits.push_back(
      {"folds", count_name(axis[0].fold, 2) + "x" + count_name(axis[1].fold, 2) + "x" + count_name(axis[2].fold, 2)});
  traits.push_back({"folds_apart", yes_no(plan.arrangement.folds_apart)});
  traits.push_back(
      {"in_m", std::to_string(axis[0].in_m) + "x" + std::to_string(axis[1].in_m) + "x" + std::to_string(axis[2].in_m)});
  traits.push_back({"joined", std::to_string(plan.product.joined)});
  traits.push_back({"groups", one_or_many(plan.product.groups)});
  traits.push_back({"m_tiles", one_or_many(arrangement.m_tiles)});
  traits.push_back({"empty_slabs", yes_no(arrangement.m_tiles * kWgmmaTileSlabs > arrangement.slabs)});
  traits.push_back({"channel_tail", yes_no(plan.product.out_channels % arrangement.slab_channels() != 0)});
  traits.push_back({"phases", std::to_string(arrangement.phases)});
  traits.push_back({"splits", one_or_many(plan.tile.splits)});
  traits.push_back({"passes", one_two_many(plan.split_passes())});
  const int32_t* steps = plan.loops.steps;
  traits.push_back({"no_tap", yes_no(std::count(steps, steps + plan.loops.count(), 0) > 0)});
}

void add_tile(const WgmmaPlan& plan, Traits& traits) {
  constexpr const char* kTiles[] = {"tiles_d", "tiles_h", "tiles_w"};
  constexpr const char* kTails[] = {"tail_d", "tail_h", "tail_w"};
  constexpr const char* kLows[] = {"low_d", "low_h", "low_w"};
  constexpr const char* kReaches[] = {"reach_d", "reach_h", "reach_w"};
  const WgmmaTile& tile = plan.tile;
  const int64_t images = plan.product.images;
  traits.push_back({"n", std::to_string(tile.instruction.n)});
  traits.push_back({"images", std::to_string(tile.images())});
  traits.push_back({"image_tail", yes_no(images % tile.images() != 0)});
  traits.push_back({"batch", one_or_many(images)});
  traits.push_back({"phase_halos", yes_no(plan.arrangement.phase_halos)});
  bool differ = false;
  for (int i = 0; i < 3; ++i) {
    const WgmmaAxis& axis = plan.arrangement.axis[i];
    int32_t least = INT_MAX;
    int32_t most = INT_MIN;
    for (int outer = 0; outer < axis.outer; ++outer) {
      least = std::min(least, axis.taps[outer].low);
      most = std::max(most, axis.taps[outer].low);
    }
    differ = differ || least != most;
    traits.push_back({kLows[i], sign_name(least, most)});
    traits.push_back({kReaches[i], count_name(axis.reach, 1)});
    traits.push_back({kTiles[i], one_or_many(tile.count[i])});
    traits.push_back({kTails[i], yes_no(axis.positions % tile.size[i] != 0)});
  }
  traits.push_back({"lows_differ", yes_no(differ)});
  traits.push_back({"depths", one_or_many(tile.size[0])});
  traits.push_back({"cut", tile.second_start == tile.instruction.n                                    ? "none"
                           : tile.second_start % (tile.halo[1] * tile.halo[2] << tile.image_log) == 0 ? "depth"
                                                                                                      : "height"});
  traits.push_back({"odd_halo", yes_no(tile.halo[2] > tile.size[2] + plan.arrangement.axis[2].reach)});
  traits.push_back({"shared_zeros", yes_no(tile.zeros > 0)});
}

void add_memory(const WgmmaPlan& plan, const ForwardArguments& arguments, Traits& traits) {
  const WgmmaPanels& panels = plan.panels;
  const int64_t channel_bytes = int64_t{plan.product.in_channels} * element_size(arguments.dtype);
  traits.push_back({"position_bytes", std::to_string(panels.position_bytes)});
  traits.push_back({"chunks", one_two_many(panels.chunks())});
  traits.push_back({"chunk_panels", one_or_many(panels.in_chunk)});
  traits.push_back({"k_tail", yes_no(channel_bytes % panels.position_bytes != 0)});
  traits.push_back({"pass_loads", yes_no(plan.loads_each_pass())});
  traits.push_back({"tile_stages", std::to_string(plan.pipelines.tile_stages)});
  traits.push_back({"weight_stages", weight_stages_name(plan.pipelines.weight_stages)});
  traits.push_back({"resident", yes_no(plan.pipelines.resident_weights)});
  traits.push_back({"ping_pong", yes_no(plan.pipelines.ping_pong)});
  traits.push_back({"skips_unread", yes_no(plan.pipelines.skips_unread)});
  traits.push_back({"keeps_weights", yes_no(plan.grid.weight_classes > 0)});
  traits.push_back({"work_tiles", plan.grid.work_tiles > 4 * plan.grid.blocks ? "claimed"
                                  : plan.grid.work_tiles > plan.grid.blocks   ? "many"
                                                                              : "1"});
}

void add_boxes(const WgmmaLoad& load, Traits& traits) {
  const WgmmaLineBoxes* lines = load.line_boxes() ? &load.as_line_boxes() : nullptr;
  traits.push_back({"box_depths", lines ? one_or_many(lines->depths) : "none"});
  traits.push_back({"height_boxes", lines ? one_or_many(lines->in_height) : "none"});
  traits.push_back({"depth_boxes", lines ? one_or_many(lines->in_depth) : "none"});
  traits.push_back({"box_images", std::to_string(load.plane_boxes() ? load.as_plane_boxes().images : 0)});
}

void add_store(const WgmmaStore& store, Traits& traits) {
  traits.push_back({"staged_halves", std::to_string(store.halves)});
  traits.push_back({"staged_burst", one_or_many(store.burst)});
  traits.push_back({"line_segments", one_or_many(store.line_segments)});
  traits.push_back({"box_lines", one_or_many(store.in_boxes() ? store.box_lines() : 1)});
  traits.push_back({"part", yes_no(store.part[0] >= 0 || store.part[1] >= 0)});
  traits.push_back({"joined_lines", yes_no(store.runs() && store.as_runs().joined_lines)});
  traits.push_back({"swizzle", std::to_string(store.swizzle)});
  traits.push_back({"second_empty", yes_no(store.segments[1] == 0)});
}

}  // namespace

Traits wgmma_traits(const WgmmaPlan& plan, const ForwardArguments& arguments) {
  const WgmmaLoad& load = plan.load;
  Traits traits = {{"engine", "halo_wgmma"},
                   {"operator", "forward"},
                   {"type", type_name(arguments.dtype, arguments.mode)},
                   {"bias", yes_no(arguments.bias)},
                   {"relu", yes_no(arguments.relu)},
                   {"output", plan.store.channels_contiguous ? "channels" : "width"},
                   {"load", load_name(load)},
                   {"copied", yes_no(plan.copy.exists)},
                   {"store", to_string(plan.store.way())},
                   {"n_major", std::to_string(load.n_major() ? 1 << load.as_n_major().line_log : 0)},
                   {"n_major_crosses", yes_no(load.n_major() && load.as_n_major().crosses_widths)}};
  add_rows(plan, traits);
  add_tile(plan, traits);
  add_memory(plan, arguments, traits);
  add_boxes(load, traits);
  add_store(plan.store, traits);
  return traits;
}

Traits wgmma_input_grad_traits(const WgmmaPlan& plan, const ForwardArguments& arguments) {
  const auto& axis = plan.arrangement.axis;
  return {{"engine", "halo_wgmma"},
          {"operator", "input_grad"},
          {"type", type_name(arguments.dtype, arguments.mode)},
          {"output", plan.store.channels_contiguous ? "channels" : "width"},
          {"load", load_name(plan.load)},
          {"store", to_string(plan.store.way())},
          {"batch", one_or_many(plan.product.images)},
          {"reach_d", count_name(axis[0].reach, 1)},
          {"reach_h", count_name(axis[1].reach, 1)},
          {"reach_w", count_name(axis[2].reach, 1)}};
}

}  // namespace convt3d
