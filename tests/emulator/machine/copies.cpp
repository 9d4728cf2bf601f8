// The copy engine, and threads' own copies past their registers: copies arrive late, in any order. What they will write
// is poisoned when they begin, as nothing may be read from there any more.
#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include "machine/block.h"
#include "machine/tensor_map.h"

namespace emulator {
namespace {

constexpr int kPieceBytes = 16;  // what the swizzle moves

struct Arrival {
  uint32_t destination;
  uint32_t bytes;
  uint32_t barrier;
  const unsigned char* source;  // of contiguous bytes
  TensorMap map;                // of a box
  std::array<int32_t, 5> origin;
  bool is_box;
};
struct Departure {
  uint32_t source;
  TensorMap map;
  std::array<int32_t, 5> origin;
};
using Group = std::vector<Departure>;

// A thread's own, in the order of its groups; those that have arrived are no longer there.
struct OwnCopy {
  uint32_t destination;
  uint32_t bytes;
  uint32_t exist;
  const unsigned char* source;
  uint64_t number;  // of the thread's copies
};
using OwnGroup = std::vector<OwnCopy>;
// At a barrier, once the copies before this number have arrived.
struct OwnArrival {
  const uint64_t* barrier;
  uint64_t before;
};

std::vector<Arrival> arrivals;
std::vector<OwnGroup> own_open;
std::vector<std::deque<OwnGroup>> own_groups;
std::vector<std::vector<OwnArrival>> own_arrivals;
std::vector<uint64_t> own_begun;
std::vector<int> own_left;  // those that have not arrived
int all_own_left = 0;
std::vector<Group> open_groups;
std::vector<std::deque<Group>> groups;

// Calls `visit` with every piece of a box, in order: its place in the box in bytes, and where it is in memory: element
// by element, null where the tensor has none.
template <typename Visit>
void for_each_element(const TensorMap& map, const std::array<int32_t, 5>& origin, Visit&& visit) {
  uint32_t place = 0;
  std::array<int32_t, 5> at{};
  for (at[4] = 0; at[4] < map.count(4); ++at[4]) {
    for (at[3] = 0; at[3] < map.count(3); ++at[3]) {
      for (at[2] = 0; at[2] < map.count(2); ++at[2]) {
        for (at[1] = 0; at[1] < map.count(1); ++at[1]) {
          for (at[0] = 0; at[0] < map.count(0); ++at[0], place += map.element_bytes) {
            visit(place, map.element(origin, at));
          }
        }
      }
    }
  }
}

void round_to_tf32(unsigned char* element) {
  uint32_t bits;
  std::memcpy(&bits, element, sizeof(bits));
  if ((bits & 0x7F800000) != 0x7F800000) bits = (bits + 0x1000) & 0xFFFFE000;
  std::memcpy(element, &bits, sizeof(bits));
}

void deliver(const Arrival& copy) {
  if (!copy.is_box) {
    std::memcpy(shared(copy.destination, static_cast<int>(copy.bytes), kPieceBytes, "a copy"), copy.source, copy.bytes);
  } else {
    const int bytes = copy.map.element_bytes;
    for_each_element(copy.map, copy.origin, [&](uint32_t place, unsigned char* element) {
      unsigned char* to = shared(swizzled(copy.destination + place, copy.map.swizzle_bytes), bytes, bytes, "a box");
      if (element == nullptr) {
        std::memset(to, 0, static_cast<std::size_t>(bytes));
      } else {
        std::memcpy(to, element, static_cast<std::size_t>(bytes));
        if (copy.map.rounds_to_tf32) round_to_tf32(to);
      }
    });
  }
  complete_bytes(copy.barrier, copy.bytes);
}

void depart(const Departure& copy) {
  const int bytes = copy.map.element_bytes;
  for_each_element(copy.map, copy.origin, [&](uint32_t place, unsigned char* element) {
    if (element == nullptr) return;
    check_write(element, static_cast<std::size_t>(bytes), 1);
    const uint32_t from = swizzled(copy.source + place, copy.map.swizzle_bytes);
    std::memcpy(element, shared(from, bytes, bytes, "a box that is stored"), static_cast<std::size_t>(bytes));
  });
}

void deliver(const OwnCopy& copy) {
  unsigned char* to = shared(copy.destination, static_cast<int>(copy.bytes), static_cast<int>(copy.bytes), "a copy");
  if (copy.exist > 0) std::memcpy(to, copy.source, copy.exist);
  std::memset(to + copy.exist, 0, copy.bytes - copy.exist);
}

void count_own(std::size_t thread, int more) {
  own_left[thread] += more;
  all_own_left += more;
}

// After one or several copies of a thread have arrived.
void arrive_where_copied(std::size_t thread) {
  if (own_arrivals[thread].empty()) return;
  uint64_t least = own_begun[thread];
  const auto look_at = [&](const OwnGroup& group) {
    for (const OwnCopy& copy : group) least = std::min(least, copy.number);
  };
  look_at(own_open[thread]);
  for (const OwnGroup& group : own_groups[thread]) look_at(group);
  std::vector<OwnArrival>& waiting = own_arrivals[thread];
  for (std::size_t i = 0; i < waiting.size();) {
    if (waiting[i].before > least) {
      ++i;
      continue;
    }
    arrive(waiting[i].barrier, 0);
    waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

// One of the copies of a thread that has some; false if it has none.
bool deliver_own_copy(std::size_t thread) {
  std::deque<OwnGroup>& of_thread = own_groups[thread];
  const std::size_t first = schedule.random();
  if (own_left[thread] == 0) return false;
  for (std::size_t i = 0; i <= of_thread.size(); ++i) {
    const std::size_t index = (first + i) % (of_thread.size() + 1);
    OwnGroup& group = index < of_thread.size() ? of_thread[index] : own_open[thread];
    if (group.empty()) continue;
    std::swap(group[schedule.random.below(static_cast<uint32_t>(group.size()))], group.back());
    deliver(group.back());
    group.pop_back();
    count_own(thread, -1);
    arrive_where_copied(thread);
    return true;
  }
  return false;
}

void store_groups(std::deque<Group>& of_thread, int left) {
  while (static_cast<int>(of_thread.size()) > left) {
    for (const Departure& copy : of_thread.front()) depart(copy);
    of_thread.pop_front();
  }
}

std::array<int32_t, 5> to_array(const int32_t (&origin)[5]) {
  return {origin[0], origin[1], origin[2], origin[3], origin[4]};
}

}  // namespace

void begin_copies(int threads) {
  arrivals.clear();
  open_groups.assign(static_cast<std::size_t>(threads), {});
  groups.assign(static_cast<std::size_t>(threads), {});
  own_open.assign(static_cast<std::size_t>(threads), {});
  own_groups.assign(static_cast<std::size_t>(threads), {});
  own_arrivals.assign(static_cast<std::size_t>(threads), {});
  own_begun.assign(static_cast<std::size_t>(threads), 0);
  own_left.assign(static_cast<std::size_t>(threads), 0);
  all_own_left = 0;
}

void end_copies(int threads) {
  if (!arrivals.empty()) fail("the block ends before all copies to its shared memory have arrived");
  for (int i = 0; i < threads; ++i) {
    if (!open_groups[static_cast<std::size_t>(i)].empty()) fail("boxes are stored without a commit");
    if (!groups[static_cast<std::size_t>(i)].empty()) fail("the block ends before its boxes have been read");
    const auto holds = [](const OwnGroup& group) { return !group.empty(); };
    const std::deque<OwnGroup>& own = own_groups[static_cast<std::size_t>(i)];
    if (holds(own_open[static_cast<std::size_t>(i)]) || std::any_of(own.begin(), own.end(), holds)) {
      fail("the block ends before thread %d has waited for its copies", i);
    }
  }
}

bool deliver_copy() {
  const std::size_t first = schedule.random.below(static_cast<uint32_t>(own_groups.size()));
  if (deliver_own_copy(first)) return true;
  if (arrivals.empty()) {
    // Somebody may wait for copies that other threads have begun.
    for (std::size_t i = 1; all_own_left > 0 && i < own_groups.size(); ++i) {
      if (deliver_own_copy((first + i) % own_groups.size())) return true;
    }
    return false;
  }
  const std::size_t index = schedule.random.below(static_cast<uint32_t>(arrivals.size()));
  std::swap(arrivals[index], arrivals.back());
  const Arrival copy = arrivals.back();
  arrivals.pop_back();
  deliver(copy);
  return true;
}

void copy_of_thread(uint32_t destination, const void* source, uint32_t bytes, uint32_t exist) {
  if (exist > bytes) fail("a copy of %u bytes, of which %u exist", bytes, exist);
  if (reinterpret_cast<uintptr_t>(source) % bytes != 0) fail("a copy of %u bytes from an address between", bytes);
  if (exist > 0) check_read(source, exist, 1);
  std::memset(shared(destination, static_cast<int>(bytes), static_cast<int>(bytes), "a copy"), 0xFF, bytes);
  const auto thread = static_cast<std::size_t>(thread_index());
  own_open[thread].push_back(
      {destination, bytes, exist, static_cast<const unsigned char*>(source), own_begun[thread]++});
  count_own(thread, 1);
}

void commit_copies_of_thread() {
  const auto thread = static_cast<std::size_t>(thread_index());
  own_groups[thread].push_back(std::move(own_open[thread]));
  own_open[thread].clear();
}

void wait_for_copies_of_thread(int pending) {
  std::deque<OwnGroup>& of_thread = own_groups[static_cast<std::size_t>(thread_index())];
  while (static_cast<int>(of_thread.size()) > pending) {
    for (const OwnCopy& copy : of_thread.front()) deliver(copy);
    count_own(static_cast<std::size_t>(thread_index()), -static_cast<int>(of_thread.front().size()));
    of_thread.pop_front();
  }
  arrive_where_copied(static_cast<std::size_t>(thread_index()));
}

void arrive_when_copied(const uint64_t* barrier) {
  const auto thread = static_cast<std::size_t>(thread_index());
  own_arrivals[thread].push_back({barrier, own_begun[thread]});
  arrive_where_copied(thread);
}

void copy_to_shared(void* destination, const void* source, uint32_t bytes, const uint64_t* barrier) {
  if (bytes % kPieceBytes != 0) fail("a copy of %u bytes, which is no multiple of 16", bytes);
  check_read(source, bytes, kPieceBytes);
  Arrival copy{};
  copy.destination = shared_address(destination);
  copy.bytes = bytes;
  copy.barrier = shared_address(barrier);
  copy.source = static_cast<const unsigned char*>(source);
  std::memset(shared(copy.destination, static_cast<int>(bytes), kPieceBytes, "a copy"), 0xFF, bytes);
  arrivals.push_back(copy);
}

// Seen on an H100: a box that begins elsewhere is an illegal instruction.
void check_origin(const TensorMap& map, const int32_t (&origin)[5]) {
  if (origin[0] * map.element_bytes % kPieceBytes != 0) fail("a box begins at element %d of its rows", origin[0]);
}

void copy_box_to_shared(void* destination, const void* map, const int32_t (&origin)[5], const uint64_t* barrier) {
  Arrival copy{};
  copy.is_box = true;
  copy.map = tensor_map(map);
  check_origin(copy.map, origin);
  copy.origin = to_array(origin);
  copy.destination = shared_address(destination);
  copy.barrier = shared_address(barrier);
  copy.bytes = copy.map.box_bytes();
  std::memset(shared(copy.destination, static_cast<int>(copy.bytes), 128, "a box"), 0xFF, copy.bytes);
  for_each_element(copy.map, copy.origin, [&](uint32_t, const unsigned char* element) {
    if (element != nullptr) check_read(element, copy.map.element_bytes, 1);
  });
  arrivals.push_back(copy);
}

void copy_box_to_global(const void* map, const void* source, const int32_t (&origin)[5]) {
  Departure copy{};
  copy.map = tensor_map(map);
  check_origin(copy.map, origin);
  copy.origin = to_array(origin);
  copy.source = shared_address(source);
  shared(copy.source, static_cast<int>(copy.map.box_bytes()), 128, "a box that is stored");
  open_groups[static_cast<std::size_t>(thread_index())].push_back(copy);
}

void commit_copies() {
  const auto thread = static_cast<std::size_t>(thread_index());
  groups[thread].push_back(open_groups[thread]);
  open_groups[thread].clear();
  if (!schedule.late_stores) store_groups(groups[thread], 0);
}

void wait_until_read(int pending) { store_groups(groups[static_cast<std::size_t>(thread_index())], pending); }

}  // namespace emulator
