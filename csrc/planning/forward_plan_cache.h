// Remembers the plans of forwards, so that a call which repeats an earlier one does not search again. Knows nothing of
// torch or CUDA.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "planning/forward_plan.h"

namespace convt3d {

// Everything that choose_forward looks at.
struct ForwardQuery {
  Problem problem;
  DataType dtype;
  Float32Mode mode;
  bool channels_last;
  DeviceTraits device;
};

// Safe to use from several threads. A plan lives as long as a caller holds it, in the cache or not.
class ForwardPlanCache {
 public:
  // Forgets the oldest plan where there would be more than `capacity`.
  explicit ForwardPlanCache(size_t capacity) : capacity_(capacity) {}

  std::shared_ptr<const ForwardPlan> get(const ForwardQuery& query);
  size_t size() const;

 private:
  // The problem's 22 numbers, then dtype, mode and layout, then the device's traits.
  using Key = std::array<int64_t, sizeof(Problem) / sizeof(int64_t) + 9>;
  struct Hash {
    size_t operator()(const Key& key) const;
  };
  static Key key_of(const ForwardQuery& query);

  const size_t capacity_;
  mutable std::mutex mutex_;
  std::unordered_map<Key, std::shared_ptr<const ForwardPlan>, Hash> plans_;
  std::deque<Key> oldest_first_;
};

}  // namespace convt3d
