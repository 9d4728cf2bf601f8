#include "planning/plan_cache.h"

#include <cstring>
#include <tuple>
#include <utility>

namespace convt3d {
namespace {

int64_t bits_of(double value) {
  int64_t bits = 0;
  static_assert(sizeof(bits) == sizeof(value));
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

}  // namespace

static_assert(sizeof(Problem) == 22 * sizeof(int64_t), "a problem is 22 numbers without gaps: its bytes are its value");
static_assert(sizeof(DeviceTraits) == (4 + kDeviceMeasures) * sizeof(int64_t), "the key holds every trait of a device");

PlanCache::Key PlanCache::key_of(const PlanQuery& query) {
  Key key;
  const int64_t engine = query.engine ? 1 + static_cast<int64_t>(*query.engine) : 0;
  key[0] = static_cast<int64_t>(query.op) | static_cast<int64_t>(query.dtype) << 8 |
           static_cast<int64_t>(query.mode) << 16 | engine << 24 | int64_t{query.candidate} << 32;
  std::memcpy(key.data() + 1, &query.problem, sizeof(Problem));
  int64_t* next = key.data() + 1 + kProblemNumbers;
  const Operands& operands = query.operands;
  for (const OperandTraits* operand :
       {&operands.first, &operands.second, &operands.mask, &operands.result, &operands.weight}) {
    for (const int64_t stride : operand->stride) *next++ = stride;
    *next++ = operand->address * 2 + (operand->present ? 1 : 0);
  }
  const DeviceTraits& device = query.device;
  *next++ = int64_t{device.capability_major} << 32 | device.capability_minor;
  *next++ = int64_t{device.multiprocessors} << 32 | device.shared_bytes;
  *next++ = device.l2_bytes;
  visit_measures(device, [&](double value) { *next++ = bits_of(value); });
  *next++ = int64_t{device.kernel_blocks} << 32 | device.engines;
  *next++ = query.most_copied | (query.norm ? int64_t{1 + query.norm->result_bytes} << 56 : 0);
  return key;
}

// FNV-1a, a number at a time, in chains that need not wait for one another.
size_t PlanCache::Hash::operator()(const Key& key) const {
  constexpr uint64_t kPrime = 1099511628211u;
  constexpr size_t kChains = 4;
  static_assert(kHashedNumbers % kChains == 0 && kHashedNumbers <= std::tuple_size_v<Key>);
  uint64_t chain[kChains] = {14695981039346656037u, 1, 2, 3};
  for (size_t first = 0; first < kHashedNumbers; first += kChains) {
    for (size_t i = 0; i < kChains; ++i) {
      chain[i] = (chain[i] ^ static_cast<uint64_t>(key[first + i])) * kPrime;
    }
  }
  uint64_t hash = 0;
  for (const uint64_t value : chain) hash = (hash ^ value) * kPrime;
  return static_cast<size_t>(hash ^ (hash >> 32));
}

std::shared_ptr<const OperatorPlan> PlanCache::get(const PlanQuery& query) {
  const Key key = key_of(query);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = plans_.find(key);
    if (found != plans_.end()) return found->second;
  }
  // Searched without the lock; of two threads that search the same, both get the plan that the first one kept.
  auto plan = query.candidate > 0 ? candidate(query) : std::make_shared<const OperatorPlan>(choose(query));
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto [place, is_new] = plans_.emplace(key, std::move(plan));
  std::shared_ptr<const OperatorPlan> kept = place->second;
  if (!is_new) return kept;
  oldest_first_.push_back(key);
  if (oldest_first_.size() > capacity_) {
    plans_.erase(oldest_first_.front());
    oldest_first_.pop_front();
  }
  return kept;
}

std::shared_ptr<const OperatorPlan> PlanCache::candidate(const PlanQuery& query) {
  PlanQuery of_all = query;
  of_all.candidate = 0;
  const Key key = key_of(of_all);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (candidates_.empty() || key != candidates_of_) {
    candidates_ = candidates(of_all);
    candidates_of_ = key;
  }
  const auto number = static_cast<size_t>(query.candidate);
  return std::make_shared<const OperatorPlan>(number < candidates_.size() ? candidates_[number] : choose(query));
}

size_t PlanCache::size() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return plans_.size();
}

}  // namespace convt3d
