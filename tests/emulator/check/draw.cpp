#include "check/draw.h"

#include <algorithm>
#include <iterator>

#include "check/kinds.h"
#include "check/mma.h"
#include "check/plans.h"
#include "check/run.h"
#include "check/traits.h"

namespace check {
namespace {

constexpr int64_t kMostItems = 64;  // of a plan of the tensor-core engine
constexpr int kNeverDrawn = 1 << 30;

constexpr Kind kCoreKinds[] = {any,           any,   kernel_is_stride, many_images, long_rows, many_channels,
                               several_tiles, folds, long_kernels};
constexpr Kind kOtherKinds[] = {depthwise, general};

}  // namespace

// The cheapest plan in a quarter of the cases, else the one whose rarest traits were seen least, of some of the plans.
void Draw::choose_plan(Case& item) {
  const std::vector<convt3d::WgmmaPlan> plans = candidates(item);
  if (plans.empty()) return;
  constexpr int kTries = 150;
  rarity_ = kNeverDrawn;
  for (int i = 0; i < kTries; ++i) {
    const auto index = static_cast<int>(between(random_, 0, static_cast<int64_t>(plans.size()) - 1));
    const convt3d::WgmmaPlan& plan = plans[static_cast<std::size_t>(index)];
    if (plan.grid.work_tiles > kMostItems) continue;
    int least = kNeverDrawn;
    for (const uint64_t trait : traits_of(item, plan)) least = std::min(least, seen_[trait]);
    if (least >= rarity_) continue;
    rarity_ = least;
    item.plan = index;
  }
}

// Of a few cases the one with the rarest plan.
Case Draw::next() {
  constexpr int kCases = 5;
  Case rarest = next_of_any_plan();
  const auto has_rarity = [](const Case& item) {
    return item.engine == Engine::kWgmma && item.op != Operator::kWeightGrad;
  };
  if (!has_rarity(rarest)) return rarest;
  if (chance(random_, 25)) {
    rarest.plan = kBestPlan;
    return rarest;
  }
  int rarity = rarity_;
  for (int i = 1; i < kCases; ++i) {
    const Case item = next_of_any_plan();
    if (!has_rarity(item) || rarity_ >= rarity) continue;
    rarity = rarity_;
    rarest = item;
  }
  if (rarest.plan >= 0) {
    for (const uint64_t trait : traits_of(rarest, candidates(rarest)[static_cast<std::size_t>(rarest.plan)])) {
      ++seen_[trait];
    }
  }
  return rarest;
}

Case Draw::next_of_any_plan() {
  while (true) {
    Case item;
    Drawing drawing{random_, item.problem};
    const bool product = wanted_.engine ? *wanted_.engine == Engine::kMatmul : !wanted_.op && drawing.coin(6);
    const bool mma = wanted_.engine ? *wanted_.engine == Engine::kMma : drawing.coin(30);
    const bool cores = mma || product || (wanted_.engine ? *wanted_.engine == Engine::kWgmma : drawing.coin(50));
    const bool only_depthwise = wanted_.engine && *wanted_.engine == Engine::kDepthwise;
    const bool forward = product          ? drawing.coin(50)
                         : mma            ? drawing.coin(33)
                         : only_depthwise ? drawing.coin(60)
                                          : cores || wanted_.engine || drawing.coin(50);
    item.op = wanted_.op              ? *wanted_.op
              : forward               ? Operator::kForward
              : product               ? Operator::kInputGrad
              : mma || only_depthwise ? (drawing.coin(50) ? Operator::kInputGrad : Operator::kWeightGrad)
                                      : static_cast<Operator>(drawing.draw(1, 4));
    if (mma && !wanted_.op && drawing.coin(25)) item.op = Operator::kBackward;
    if (cores && !mma && !product && !wanted_.op && drawing.coin(20)) item.op = Operator::kInputGrad;
    if (cores && !mma && !product && !wanted_.op && drawing.coin(10)) item.op = Operator::kWeightGrad;
    const bool wgmma_weights = cores && !mma && item.op == Operator::kWeightGrad;
    const bool gradient_in_cores = wgmma_weights || (cores && !mma && item.op == Operator::kInputGrad);
    item.type = wanted_.type ? *wanted_.type : static_cast<Type>(drawing.draw(cores ? 1 : 0, 4));
    if (cores && !wanted_.type && drawing.coin(40)) item.type = Type::kBFloat16;
    item.layout = drawing.coin(55) ? Layout::kNcdhw : Layout::kNdhwc;
    bool rows_of_positions = false;
    // By Hopper's matrix units, of copies (planning/copied_gradient.h).
    const bool one_gradient = item.op == Operator::kInputGrad || item.op == Operator::kWeightGrad;
    const bool copied = one_gradient && !cores && !mma && !product && !only_depthwise && drawing.coin(30);
    const bool wide = copied || wgmma_weights || (item.op == Operator::kBackward && !mma && drawing.coin(40));
    if (wide) {
      wide_channels(drawing);
      if (!wanted_.type) item.type = static_cast<Type>(drawing.draw(1, 4));  // all but float64
      if (!copied && (wgmma_weights || drawing.coin(50))) item.layout = Layout::kNdhwc;
    } else if (product || (mma && item.op == Operator::kBackward)) {
      whole_strides(drawing);
      if (product) item.problem.padding = {0, 0, 0};
    } else if (mma && drawing.coin(40)) {
      kOtherKinds[drawing.draw(0, std::size(kOtherKinds) - 1)](drawing);
    } else if (cores) {
      const Kind kind = kCoreKinds[drawing.draw(0, std::size(kCoreKinds) - 1)];
      kind(drawing);
      rows_of_positions = kind == kernel_is_stride && drawing.coin(75);
    } else {
      kOtherKinds[only_depthwise ? 0 : drawing.draw(0, std::size(kOtherKinds) - 1)](drawing);
    }

    const bool in_rounds = (copied || (item.op == Operator::kBackward && !mma)) && drawing.coin(50);
    if (in_rounds) {
      item.problem.batch = drawing.draw(2, 4);
      item.layout = Layout::kNcdhw;
    }
    if (!is_affordable(item.problem)) continue;
    item.bias = drawing.coin(60);
    item.relu = drawing.coin(40) && !gradient_in_cores;
    const auto arrangement = [&](int dense) {
      const auto last = static_cast<int64_t>(arrangements().size()) - 1;
      return &arrangements()[static_cast<std::size_t>(drawing.coin(dense) ? 0 : drawing.draw(1, last))];
    };
    item.first = arrangement(50);
    item.second = arrangement(75);
    item.mask = arrangement(50);
    if (in_rounds) item.first = item.second = &arrangements()[0];
    if (rows_of_positions) {  // 16 bits and a contiguous width
      if (!wanted_.type) item.type = drawing.coin(50) ? Type::kFloat16 : Type::kBFloat16;
      item.layout = Layout::kNcdhw;
      item.first = item.second = &arrangements()[0];
    }
    if (drawing.coin(10)) item.result = &arrangement_of("offset");
    item.wgmma = !drawing.coin(10);
    item.seed = static_cast<uint64_t>(drawing.draw(1, 1 << 30));
    if (mma && item.op != Operator::kBiasGrad) {
      item.engine = Engine::kMma;
      if (!may_have_mma_plan(item)) continue;
      if (drawing.coin(75)) item.plan = static_cast<int>(drawing.draw(0, 1 << 20));
      return item;
    }
    if (product) {
      item.engine = Engine::kMatmul;
      if (!has_plan(item)) continue;
      item.plan = static_cast<int>(drawing.draw(0, 1 << 20));
      return item;
    }
    if (only_depthwise && item.op != Operator::kBiasGrad) {
      item.engine = Engine::kDepthwise;
      if (!has_plan(item)) continue;
      return item;
    }
    if (copied) {
      item.wgmma = true;
      item.engine = Engine::kAuto;
      item.plan = 1;
      if (!is_of_copies(item)) continue;
      return item;
    }
    if (item.op == Operator::kBackward && drawing.coin(75)) item.plan = static_cast<int>(drawing.draw(0, 1 << 20));
    if (wgmma_weights) {
      item.engine = Engine::kWgmma;
      if (!has_plan(item)) continue;
      if (drawing.coin(75)) item.plan = static_cast<int>(drawing.draw(0, 1 << 20));
      return item;
    }
    if (item.op != Operator::kForward && !gradient_in_cores) return item;
    item.engine = wanted_.engine ? *wanted_.engine : cores ? Engine::kWgmma : Engine::kAuto;
    if (!wanted_.engine && !cores && drawing.coin(50)) item.engine = Engine::kSimt;
    if (item.engine == Engine::kWgmma) {
      rarity_ = -1;
      choose_plan(item);
      if (rarity_ < 0) continue;
    }
    return item;
  }
}

}  // namespace check
