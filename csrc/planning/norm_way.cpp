#include "planning/norm_way.h"

#include <algorithm>

#include "epilogue/epilogue.h"

namespace convt3d {
namespace {

// A second forward has to save as much of the whole: its costs are a model's.
constexpr double kWorthTwice = 0.95;
// Clocks of a multiprocessor for an output whose moments an epilogue gathers.
constexpr double kGatherClocks = 0.15;
// What a pass that gathers them takes, by the time in which memory moves as many bytes: where the L2 still has them,
// and where it has not.
constexpr double kMomentsOfL2 = 0.9;
constexpr double kMomentsOfMemory = 1.8;
constexpr double kMomentsOfChannel = 5000;  // clocks more for each channel of 16 bytes, where these are contiguous

// `keeps_input`: the convolution's output is wanted, too.
bool can(NormWay way, const OperatorPlan& forward, const NormTask& task, bool keeps_input) {
  if (way == NormWay::kPasses) return true;
  if (moment_parts(forward) == 0) return false;
  return way == NormWay::kEpilogue || (!keeps_input && task.result_bytes == task.element_bytes);
}

// Beside the forward that stores.
double expected_ms(NormWay way, const OperatorPlan& forward, const NormTask& task, const DeviceTraits& device) {
  const auto moved = [&](double bytes) { return bytes / (device.memory.ahead * device.bytes_per_ms); };
  const double outputs = static_cast<double>(task.rows) * static_cast<double>(task.positions);
  const double applied = moved(outputs * (task.element_bytes + task.result_bytes));
  const double output_bytes = outputs * task.element_bytes;
  const double kept = std::min(output_bytes, static_cast<double>(device.l2_bytes));
  // Each part's moments are written once and read once.
  const double parts = static_cast<double>(task.rows) * static_cast<double>(moment_parts(forward));
  const double collected = moved(2.0 * sizeof(PartMoments) * parts);
  switch (way) {  // each has three launches beside the forward's own
    case NormWay::kPasses:
      return 3 * device.launches.next + moved(kMomentsOfL2 * kept + kMomentsOfMemory * (output_bytes - kept)) +
             (task.channels_last ? 16.0 / task.element_bytes * kMomentsOfChannel / device.clocks_per_ms : 0) + applied;
    case NormWay::kEpilogue:
      return 3 * device.launches.next + outputs * kGatherClocks / (device.multiprocessors * device.clocks_per_ms) +
             collected + applied;
    case NormWay::kTwice:
      return 3 * device.launches.next + forward.unstored_ms + collected;
  }
  return 0;
}

}  // namespace

const char* to_string(NormWay way) {
  switch (way) {
    case NormWay::kPasses:
      return "passes";
    case NormWay::kEpilogue:
      return "epilogue";
    case NormWay::kTwice:
      return "twice";
  }
  return "unknown";
}

NormChoice choose_norm(const OperatorPlan& forward, const NormTask& task, const DeviceTraits& device,
                       std::optional<NormWay> asked) {
  const auto choice = [&](NormWay way) { return NormChoice{way, expected_ms(way, forward, task, device)}; };
  if (asked && can(*asked, forward, task, task.keeps_input)) return choice(*asked);
  if (!can(NormWay::kEpilogue, forward, task, task.keeps_input)) return choice(NormWay::kPasses);
  const NormChoice passes = choice(NormWay::kPasses);
  const NormChoice gathered = choice(NormWay::kEpilogue);
  const NormChoice once = passes.ms < gathered.ms ? passes : gathered;
  if (!can(NormWay::kTwice, forward, task, false)) return once;
  const NormChoice twice = choice(NormWay::kTwice);
  if (forward.cost.ms + twice.ms >= kWorthTwice * (forward.cost.ms + once.ms)) return once;
  // With derivatives a call has the bits that it has without.
  return task.keeps_input ? gathered : twice;
}

}  // namespace convt3d
