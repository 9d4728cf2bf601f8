// Random cases, of kinds that together reach the plans of every engine.
#pragma once

#include <map>
#include <optional>
#include <string>

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
  void choose_plan(Case& item);

  Random random_;
  Wanted wanted_;
  std::map<std::string, int> seen_;  // plans of the tensor-core engine, by what they have and have not
};

}  // namespace check
