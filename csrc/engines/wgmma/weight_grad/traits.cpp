#include "engines/wgmma/weight_grad/traits.h"

#include <string>

#include "core/trait_values.h"

namespace convt3d {
namespace {

constexpr const char* kPartNames[] = {"parts_d", "parts_h", "parts_w"};
constexpr const char* kRowNames[] = {"rows_d", "rows_h", "rows_w"};
constexpr const char* kTapNames[] = {"taps_d", "taps_h", "taps_w"};
constexpr const char* kTailNames[] = {"tail_d", "tail_h", "tail_w"};

// Whether some part has fewer taps than others.
bool differ(const WgmmaGradTaps& taps) { return taps.parts * taps.most != taps.taps; }

}  // namespace

Traits wgmma_weight_grad_traits(const Problem& problem, const WgmmaWeightGradPlan& plan,
                                const ForwardArguments& arguments) {
  Traits traits = engine_traits("halo_wgmma", "weight_grad", type_name(arguments.dtype, arguments.mode));
  traits.push_back({"n", std::to_string(plan.columns())});
  traits.push_back({"sets", std::to_string(plan.instruction.sets)});
  traits.push_back({"n_of", plan.taps_in_n() ? "taps" : "channels"});
  traits.push_back({"shares_columns", yes_no(plan.shares_columns())});
  traits.push_back(
      {"empty_set", yes_no(plan.shares_columns() &&
                           plan.columns_of_sets(plan.taps[0].most, plan.taps[1].most, plan.taps[2].most) % 2 != 0)});
  traits.push_back({"grad_panels", std::to_string(plan.grad.panels)});
  traits.push_back({"m_chunks", one_or_many(plan.m_chunks)});
  traits.push_back({"n_chunks", one_or_many(plan.n_chunks)});
  traits.push_back({"m_tail", yes_no(plan.m_channels() % plan.chunk_rows() != 0)});
  traits.push_back({"n_tail", yes_no(plan.n_channels() % plan.chunk_columns() != 0)});
  traits.push_back({"odd_channels", yes_no(plan.n_pitch() != plan.n_channels())});
  traits.push_back({"groups", one_or_many(plan.groups)});
  traits.push_back({"images", std::to_string(plan.images)});
  traits.push_back({"image_tail", yes_no(plan.batch % plan.images != 0)});
  if (plan.turned()) {
    traits.push_back({"widths", std::to_string(plan.instruction.widths)});
    traits.push_back({"blocks", one_or_many(plan.blocks_of_box())});
    traits.push_back({"block_tail", yes_no(plan.block_positions() < plan.block_steps() * kWgmmaTurnedStep)});
    traits.push_back({"pairs_of_rows", yes_no(plan.pairs_of_rows != 0)});
    for (int i = 0; i < 3; ++i) traits.push_back({kRowNames[i], plan.taps[i].rows == 1 ? "one" : "all"});
  } else {
    traits.push_back({"step_tail", yes_no(plan.steps % 4 != 0)});
  }
  traits.push_back({"stages", one_two_many(plan.stages)});
  traits.push_back({"splits", one_or_many(plan.splits)});
  traits.push_back({"split_boxes", one_or_many(plan.split_boxes)});
  traits.push_back({"segments", yes_no(plan.segment_boxes < plan.split_boxes)});
  for (int i = 0; i < 3; ++i) {
    traits.push_back({kPartNames[i], one_or_many(plan.taps[i].parts)});
    traits.push_back({kTapNames[i], plan.taps[i].most == 1 ? "1" : differ(plan.taps[i]) ? "some_fewer" : "many"});
    traits.push_back({kTailNames[i], yes_no(problem.input_size[static_cast<size_t>(i)] % plan.box[i] != 0)});
  }
  add_parameters(problem, traits);
  return traits;
}

}  // namespace convt3d
