#include "planning/forward_plan_cache.h"

#include <cstring>

namespace convt3d {

static_assert(sizeof(Problem) == 22 * sizeof(int64_t), "a problem is 22 numbers without gaps: its bytes are its value");
static_assert(sizeof(DeviceTraits) == 6 * sizeof(int64_t), "the key holds every trait of a device");

ForwardPlanCache::Key ForwardPlanCache::key_of(const ForwardQuery& query) {
  Key key{};
  std::memcpy(key.data(), &query.problem, sizeof(Problem));
  int64_t* next = key.data() + sizeof(Problem) / sizeof(int64_t);
  *next++ = static_cast<int64_t>(query.dtype);
  *next++ = static_cast<int64_t>(query.mode);
  *next++ = query.channels_last ? 1 : 0;
  const DeviceTraits& device = query.device;
  *next++ = int64_t{device.capability_major} << 32 | device.capability_minor;
  *next++ = int64_t{device.multiprocessors} << 32 | device.shared_bytes;
  *next++ = device.l2_bytes;
  std::memcpy(next++, &device.bytes_per_ms, sizeof(int64_t));
  std::memcpy(next++, &device.clocks_per_ms, sizeof(int64_t));
  *next++ = device.engines;
  return key;
}

size_t ForwardPlanCache::Hash::operator()(const Key& key) const {
  uint64_t hash = 14695981039346656037u;  // FNV-1a, a number at a time
  for (const int64_t value : key) hash = (hash ^ static_cast<uint64_t>(value)) * 1099511628211u;
  return static_cast<size_t>(hash ^ (hash >> 32));
}

std::shared_ptr<const ForwardPlan> ForwardPlanCache::get(const ForwardQuery& query) {
  const Key key = key_of(query);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = plans_.find(key);
    if (found != plans_.end()) return found->second;
  }
  // Searched without the lock; of two threads that search the same, both get the plan that the first one kept.
  auto plan = std::make_shared<const ForwardPlan>(
      choose_forward(query.problem, query.dtype, query.mode, query.channels_last, query.device));
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto [place, is_new] = plans_.emplace(key, std::move(plan));
  std::shared_ptr<const ForwardPlan> kept = place->second;
  if (!is_new) return kept;
  oldest_first_.push_back(key);
  if (oldest_first_.size() > capacity_) {
    plans_.erase(oldest_first_.front());
    oldest_first_.pop_front();
  }
  return kept;
}

size_t ForwardPlanCache::size() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return plans_.size();
}

}  // namespace convt3d
