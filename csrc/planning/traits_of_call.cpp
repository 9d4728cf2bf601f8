// The traits of the plan that one call gets, as text; runs without a GPU.
#include <cstdio>

#include "planning/flat_call.h"
#include "planning/plan_traits.h"

// `bias`, `relu`: of a forward. Writes at most `capacity` characters, the terminating zero included, and returns how
// many the whole text has without it.
extern "C" __attribute__((visibility("default"))) int convt3d_plan_traits(const convt3d::FlatCall* call, int bias,
                                                                          int relu, char* text, int capacity) {
  using namespace convt3d;
  const PlanQuery query = flat_query(*call);
  const Traits traits = plan_traits(query, choose(query), bias != 0, relu != 0);
  return std::snprintf(text, static_cast<size_t>(capacity), "%s", to_string(traits).c_str());
}
