// The traits of every plan that the tensor-core engine has for one forward: a library that tests/candidates.py builds.
#include <cstdio>
#include <string>

#include "planning/flat_call.h"
#include "planning/plan_traits.h"

// As convt3d_plan_traits in csrc/planning/traits_of_call.cpp; a line for each plan, none where another engine takes the
// forward.
extern "C" int convt3d_candidate_traits(const convt3d::FlatCall* call, int bias, int relu, char* text, int capacity) {
  using namespace convt3d;
  const PlanQuery query = flat_query(*call);
  std::string lines;
  if (query.op == Operator::kForward && choose(query).engine() == Engine::kWgmma) {
    PlanQuery asked = query;
    asked.engine = Engine::kWgmma;
    for (const OperatorPlan& plan : candidates(asked)) {
      lines += to_string(plan_traits(query, plan, bias != 0, relu != 0)) + "\n";
    }
  }
  return std::snprintf(text, static_cast<size_t>(capacity), "%s", lines.c_str());
}
