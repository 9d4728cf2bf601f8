// The plan and its costs as a library for costs.py, built with the constants of csrc/engines/wgmma/plan/cost.cpp as
// variables.
#include <cstring>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "cases.h"
#include "core/devices.h"
#include "engines/wgmma/plan/cost.h"

namespace {

struct Measured {
  Case value;
  std::vector<convt3d::WgmmaPlan> plans;
};
std::vector<Measured> measured;
std::string answer;

// A plan without what it is expected to cost, which follows from the constants.
std::string identity(const convt3d::WgmmaPlan& plan) {
  const std::string text = to_string(plan);
  return text.substr(0, text.rfind(" clocks="));
}

}  // namespace

extern "C" {

// A case (a line of cases.h), and the plans of it that were measured, a line each: returns how many of those the plan
// knows, and sets `known` for each.
int add_case(const char* line, const char* plans, unsigned char* known) {
  Measured result;
  std::istringstream(line) >> result.value;
  const Case& value = result.value;
  std::map<std::string, convt3d::WgmmaPlan> candidates;
  for (const convt3d::WgmmaPlan& plan : convt3d::wgmma_candidates(wgmma_forward(value.problem), value.element(),
                                                                  value.operands(), convt3d::fitted_device())) {
    candidates.emplace(identity(plan), plan);
  }
  std::istringstream lines(plans);
  int count = 0;
  for (std::string plan; std::getline(lines, plan); ++count) {
    const auto found = candidates.find(plan);
    known[count] = found != candidates.end();
    if (known[count]) result.plans.push_back(found->second);
  }
  measured.push_back(result);
  return static_cast<int>(result.plans.size());
}

// Of all known plans of all cases, one after another.
void predict(double* clocks) {
  for (const Measured& one : measured) {
    for (const convt3d::WgmmaPlan& plan : one.plans) {
      *clocks++ =
          expected_clocks(wgmma_forward(one.value.problem), one.value.element().bytes, convt3d::fitted_device(), plan);
    }
  }
}

// What the present constants choose for a case; valid until the next call.
const char* choice(int index) {
  const Case& value = measured[index].value;
  answer =
      identity(*plan_wgmma(wgmma_forward(value.problem), value.element(), value.operands(), convt3d::fitted_device()));
  return answer.c_str();
}
}
