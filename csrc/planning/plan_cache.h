// Remembers the plans of calls, so that a call which repeats an earlier one does not search again. Knows nothing of
// torch or CUDA.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "planning/choose.h"

namespace convt3d {

// Safe to use from several threads. A plan lives as long as a caller holds it, in the cache or not.
class PlanCache {
 public:
  // Forgets the oldest plan where there would be more than `capacity`.
  explicit PlanCache(size_t capacity) : capacity_(capacity) {}

  std::shared_ptr<const OperatorPlan> get(const PlanQuery& query);
  size_t size() const;

 private:
  static constexpr size_t kProblemNumbers = sizeof(Problem) / sizeof(int64_t);
  static constexpr size_t kOperandNumbers = 6;  // strides; address and presence
  static constexpr size_t kDeviceNumbers = sizeof(DeviceTraits) / sizeof(int64_t);
  // Operator, type, mode, engine and candidate in one; problem, operands, device, bytes that are copied.
  using Key = std::array<int64_t, 2 + kProblemNumbers + 5 * kOperandNumbers + kDeviceNumbers>;
  // Those that queries differ in most, up to the first operand's, in whole steps of the hash.
  static constexpr size_t kHashedNumbers = 32;
  struct Hash {
    size_t operator()(const Key& key) const;
  };
  static Key key_of(const PlanQuery& query);
  // Who measures asks for one candidate after another: those of the last query are kept together.
  std::shared_ptr<const OperatorPlan> candidate(const PlanQuery& query);

  const size_t capacity_;
  mutable std::mutex mutex_;
  std::unordered_map<Key, std::shared_ptr<const OperatorPlan>, Hash> plans_;
  std::deque<Key> oldest_first_;
  std::vector<OperatorPlan> candidates_;
  Key candidates_of_{};
};

}  // namespace convt3d
