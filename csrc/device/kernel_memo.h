// What the driver was asked or told of a kernel on a device: it takes its time with each, and launches repeat. Launches
// of other threads wait for none that looks. Knows nothing of CUDA.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace convt3d {

// A number for each kernel and device, 0 at first. Entries stay for the life of the process, and nothing is destroyed
// at its exit, which other threads may outlive.
class KernelMemo {
 public:
  std::atomic<int64_t>& of(const void* kernel, int device) {
    std::atomic<Entry*>& bucket =
        buckets_[(reinterpret_cast<uintptr_t>(kernel) / 16 + static_cast<size_t>(device)) % kBuckets];
    Entry* first = bucket.load(std::memory_order_acquire);
    if (Entry* found = find(first, nullptr, kernel, device)) return found->number;
    auto* entry = new Entry{kernel, device, {0}, first};
    while (!bucket.compare_exchange_weak(entry->next, entry, std::memory_order_acq_rel)) {
      // Another thread was faster, perhaps with the same entry.
      if (Entry* found = find(entry->next, first, kernel, device)) {
        delete entry;
        return found->number;
      }
      first = entry->next;
    }
    return entry->number;
  }

 private:
  struct Entry {
    const void* kernel;
    int device;
    std::atomic<int64_t> number;
    Entry* next;
  };
  static constexpr size_t kBuckets = 256;

  static Entry* find(Entry* entry, const Entry* end, const void* kernel, int device) {
    while (entry != end && (entry->kernel != kernel || entry->device != device)) entry = entry->next;
    return entry == end ? nullptr : entry;
  }

  std::array<std::atomic<Entry*>, kBuckets> buckets_{};
};

}  // namespace convt3d
