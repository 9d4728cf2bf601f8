// Random cases, of kinds that together reach the plans of every engine.
#pragma once

#include <optional>
#include <unordered_map>

#include "check/case.h"
#include "check/tensor.h"

namespace check {

// What the caller fixes.
struct Wanted {
  std::optional<Operator> op;
  std::optional<Type> type;
  std::optional<Engine> engine;
};

class Draw {
 public:
  Draw(uint64_t seed, const Wanted& wanted) : random_(seed), wanted_(wanted) {}

  Case next();

 private:
  Case next_of_any_plan();
  void choose_plan(Case& item);

  Random random_;
  Wanted wanted_;
  std::unordered_map<uint64_t, int> seen_;  // traits of plans of the tensor-core engine
  int rarity_ = 0;                          // how often the rarest trait of the plan that was chosen last was seen
};

}  // namespace check
