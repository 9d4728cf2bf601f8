#include "planning/margin.h"

namespace convt3d {

double margin(Operator op, Engine first, Engine other) {
  constexpr double kFittedApart = 1.16;
  constexpr double kCompared = 1.1;
  constexpr double kFilledUp = 4;
  if (first == Engine::kDepthwise) return kFilledUp;
  if (first == Engine::kMatmul && op == Operator::kInputGrad) return kCompared;
  if (first == Engine::kMatmul) return other == Engine::kWgmma ? kFittedApart : kFittedApart * kFittedApart;
  const bool wgmma = first == Engine::kWgmma && (op == Operator::kForward || other != Engine::kMma);
  return wgmma ? kFittedApart : 1;
}

}  // namespace convt3d
