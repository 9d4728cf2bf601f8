// Which engine and plan a call gets, and what it is expected to take, as text; runs without a GPU.
#include <cstdio>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <variant>
#include <vector>

#include "core/devices.h"
#include "planning/flat_call.h"
#include "planning/norm_way.h"
#include "planning/plan_cache.h"

namespace convt3d {
namespace {

std::string explain(const FlatCall& call) {
  const PlanQuery query = flat_query(call);
  static auto* const candidates = new PlanCache(1);  // not destroyed at exit, as in api.cu
  const OperatorPlan plan = query.candidate > 0 ? *candidates->get(query) : choose(query);
  const std::string text = to_string(plan);  // "engine: plan"
  const size_t colon = text.find(": ");
  std::ostringstream out;
  out << "engine=" << text.substr(0, colon) << "\nplan=" << text.substr(colon + 2)
      << "\nworkspace_bytes=" << plan.workspace_bytes << "\nexpected_ms=" << plan.cost.ms
      << "\nfitted=" << plan.cost.fitted;
  if (const auto* const separate = std::get_if<SeparatePlan>(&plan.plan)) {
    const auto part = [&](const char* name, const std::shared_ptr<const OperatorPlan>& of_gradient) {
      if (of_gradient) out << '\n' << name << '=' << to_string(*of_gradient);
    };
    part("input_grad", separate->input_grad);
    part("weight_grad", separate->weight_grad);
    part("bias_grad", separate->bias_grad);
  }
  if (call.norm_result_bytes > 0) {
    const NormChoice norm = choose_norm(plan, flat_norm(call), query.device);
    out << "\nnorm_way=" << to_string(norm.way) << "\nnorm_ms=" << norm.ms;
  }
  return out.str();
}

int write(const std::string& all, char* text, int capacity) {
  return std::snprintf(text, static_cast<size_t>(capacity), "%s", all.c_str());
}

}  // namespace
}  // namespace convt3d

// Writes "key=value" lines of at most `capacity` characters, the terminating zero included, and returns how many the
// whole text has without it; "error=" and the reason where the only engine that is asked has no plan.
extern "C" __attribute__((visibility("default"))) int convt3d_explain(const convt3d::FlatCall* call, char* text,
                                                                      int capacity) {
  try {
    return convt3d::write(convt3d::explain(*call), text, capacity);
  } catch (const std::invalid_argument& error) {
    return convt3d::write(std::string("error=") + error.what(), text, capacity);
  }
}

// What the candidates of the only engine that is asked are expected to take, in milliseconds and in their order: at
// most `capacity` numbers. Returns how many candidates there are.
extern "C" __attribute__((visibility("default"))) int convt3d_candidates(const convt3d::FlatCall* call, double* ms,
                                                                         int capacity) {
  const std::vector<convt3d::OperatorPlan> all = convt3d::candidates(convt3d::flat_query(*call));
  for (size_t i = 0; i < all.size() && i < static_cast<size_t>(capacity); ++i) ms[i] = all[i].cost.ms;
  return static_cast<int>(all.size());
}

// Which of a library's architectures a GPU runs: image_for() in core/device_traits.h.
extern "C" __attribute__((visibility("default"))) int convt3d_image_for(int major, int minor, const char* architectures,
                                                                        char* image, int capacity) {
  return convt3d::write(convt3d::image_for(major, minor, architectures), image, capacity);
}

// Of the table of devices, the one that stands for a compute capability: its traits (kDeviceNumbers), its name, and
// whether it was measured.
extern "C" __attribute__((visibility("default"))) int convt3d_known_device(int major, int minor, double* numbers,
                                                                           char* name, int capacity) {
  const convt3d::KnownDevice& known = convt3d::device_of_capability(major, minor);
  convt3d::flatten(known.traits, numbers);
  convt3d::write(known.name, name, capacity);
  return known.measured ? 1 : 0;
}

// The same of the device with a driver's name. Where the table has none: a negative number, and all names of the table.
extern "C" __attribute__((visibility("default"))) int convt3d_named_device(const char* driver_name, double* numbers,
                                                                           char* name, int capacity) {
  const convt3d::KnownDevice* known = convt3d::find_device(driver_name);
  convt3d::write(known == nullptr ? convt3d::known_names() : known->name, name, capacity);
  if (known == nullptr) return -1;
  convt3d::flatten(known->traits, numbers);
  return known->measured ? 1 : 0;
}

// imposed_on() in core/device_traits.h. Returns a negative number, and the reason, where the device at hand cannot run
// the other's plans.
extern "C" __attribute__((visibility("default"))) int convt3d_imposed_device(const double* at_hand, const double* other,
                                                                             double* numbers, char* reason,
                                                                             int capacity) {
  try {
    convt3d::flatten(convt3d::imposed_on(convt3d::flat_device(at_hand), convt3d::flat_device(other)), numbers);
    return 0;
  } catch (const std::invalid_argument& error) {
    convt3d::write(error.what(), reason, capacity);
    return -1;
  }
}
