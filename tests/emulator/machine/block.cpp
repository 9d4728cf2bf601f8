#include "machine/block.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "cuda_runtime.h"

// Of the thread that runs, and of its block; see cuda_runtime.h.
Index3 threadIdx;
Index3 blockIdx;
Index3 blockDim;
Index3 gridDim;

namespace emulator {
namespace {

constexpr std::size_t kStackBytes = 512 * 1024;
constexpr int kThreadBarriers = 16;
constexpr const char* kThreadBarrier = "a barrier of threads";

struct Thread {
  Fiber fiber;
  bool done;
  const uint64_t* word;  // null: runs
  uint64_t value;
  const char* at;  // what it waits for

  bool waits() const { return word != nullptr && *word == value; }
};

// What all of a warp's threads wait for that have not ended, as long as they do: then nobody needs to look at each.
struct Sleep {
  static constexpr int kMostWaits = 4;
  struct Wait {
    const uint64_t* word;
    uint64_t value;
  };
  bool asleep = false;
  int count = 0;
  Wait waits[kMostWaits];

  bool lasts() const {
    if (!asleep) return false;
    for (int i = 0; i < count; ++i) {
      if (*waits[i].word != waits[i].value) return false;
    }
    return true;
  }
  // Of threads that all wait, or have ended. They stay awake if they wait for more than it has room for.
  void begin(const Thread* first, int lanes) {
    asleep = false;
    count = 0;
    for (int lane = 0; lane < lanes; ++lane) {
      const Thread& thread = first[lane];
      if (thread.done) continue;
      const Wait* const known = waits;
      if (std::any_of(known, known + count, [&](const Wait& wait) { return wait.word == thread.word; })) continue;
      if (count == kMostWaits) return;
      waits[count++] = {thread.word, thread.value};
    }
    asleep = true;
  }
};

// Those who have come to a meeting, and how many meetings there were.
struct Meeting {
  int arrived = 0;
  int expected = 0;
  uint64_t count = 0;
  const char* operation = nullptr;
};

Fiber scheduler;
Thread threads[kMostThreads];
Sleep sleeps[kMostThreads / kWarpThreads];
Thread* running = nullptr;
Meeting warp_meetings[kMostThreads / kWarpThreads];
Meeting thread_meetings[kThreadBarriers];
uint32_t exchanged[kMostThreads];
const std::function<void()>* body = nullptr;
bool failed = false;
std::string text;

unsigned char* stack_of(int thread) {
  static auto* const stacks = [] {
    void* memory = mmap(nullptr, kStackBytes * kMostThreads, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::runtime_error("no memory for the stacks of a block's threads");
    return static_cast<unsigned char*>(memory);
  }();
  return stacks + kStackBytes * static_cast<std::size_t>(thread);
}

void hand_over() { switch_to(running->fiber, scheduler); }

void run_thread() {
  (*body)();
  running->done = true;
  hand_over();
}

void resume(int thread) {
  running = &threads[thread];
  thread_here = thread;
  threadIdx.x = static_cast<unsigned>(thread);
  running->word = nullptr;
  switch_to(scheduler, running->fiber);
  running = nullptr;
}

// True for the last one, with whom the next meeting begins.
bool arrive(Meeting& meeting, int expected, const char* operation) {
  if (meeting.arrived == 0) {
    meeting.operation = operation;
    meeting.expected = expected;
  } else if (meeting.operation != operation || meeting.expected != expected) {
    fail("divergence: some threads are at %s (%d threads), others at %s (%d)", meeting.operation, meeting.expected,
         operation, expected);
  }
  if (++meeting.arrived < expected) return false;
  meeting.arrived = 0;
  ++meeting.count;
  return true;
}

void meet(Meeting& meeting, int expected, const char* operation) {
  if (!arrive(meeting, expected, operation)) wait_while(meeting.count, meeting.count, operation);
}

void begin_threads(int count) {
  for (Meeting& meeting : warp_meetings) meeting = Meeting();
  for (Meeting& meeting : thread_meetings) meeting = Meeting();
  for (Sleep& sleep : sleeps) sleep.asleep = false;
  for (int i = 0; i < count; ++i) {
    threads[i].done = false;
    threads[i].word = nullptr;
    begin(threads[i].fiber, stack_of(i), kStackBytes, run_thread);
  }
}

// Lets each lane of a warp run that can; returns how many ended. Their order is any.
int run_warp(int warp, int count, bool& progress) {
  const int first = warp * kWarpThreads;
  const int lanes = std::min(kWarpThreads, count - first);
  const uint32_t bits = schedule.random();
  Sleep& sleep = sleeps[warp];
  if (sleep.lasts()) return 0;
  const int begin = static_cast<int>(bits >> 1) % lanes;
  int ended = 0;
  bool ran = false;
  for (int i = 0; i < lanes && !failed; ++i) {
    const int place = begin + i < lanes ? begin + i : begin + i - lanes;
    const int thread = first + (bits % 2 != 0 ? place : lanes - 1 - place);
    if (threads[thread].done || threads[thread].waits()) continue;
    resume(thread);
    ran = true;
    if (threads[thread].done) ++ended;
  }
  if (ran) {
    progress = true;
    sleep.asleep = false;
  } else {
    sleep.begin(threads + first, lanes);
  }
  return ended;
}

std::string waiting_threads(int count) {
  std::string list;
  for (int first = 0; first < count;) {
    int end = first + 1;
    while (end < count && threads[end].done == threads[first].done && threads[end].at == threads[first].at) ++end;
    if (!threads[first].done) {
      list += (list.empty() ? "" : ", ") + std::to_string(first) + " to " + std::to_string(end - 1) + " at " +
              threads[first].at;
    }
    first = end;
  }
  return list;
}

}  // namespace

Schedule schedule;
int thread_here = -1;

const std::string& report() { return text; }
void clear_report() { text.clear(); }

void fail(const char* format, ...) {
  char message[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(message, sizeof(message), format, arguments);
  va_end(arguments);
  failed = true;
  if (text.empty()) {
    text = message;
    if (running != nullptr) {
      text += " (block " + std::to_string(blockIdx.x) + ", thread " + std::to_string(thread_index()) + ")";
    }
  }
  if (running == nullptr) throw std::runtime_error(text);
  hand_over();  // for good
  __builtin_unreachable();
}

void wait_while(const uint64_t& word, uint64_t value, const char* what) {
  running->at = what;
  running->word = &word;
  running->value = value;
  hand_over();
}

void meet_warp(const char* operation) { meet(warp_meetings[warp()], kWarpThreads, operation); }
void meet_threads(int barrier, int count) { meet(thread_meetings[barrier], count, kThreadBarrier); }
void arrive_at_threads(int barrier, int count) { arrive(thread_meetings[barrier], count, kThreadBarrier); }
void meet_block() { meet_threads(0, static_cast<int>(blockDim.x)); }

uint32_t exchange(uint32_t value, int from) {
  exchanged[thread_index()] = value;
  meet_warp("a shuffle");
  const uint32_t result = exchanged[warp() * kWarpThreads + from];
  meet_warp("the end of a shuffle");
  return result;
}

uint32_t vote(bool of_lane) {
  exchanged[thread_index()] = of_lane ? 1 : 0;
  meet_warp("a vote");
  uint32_t result = 0;
  for (int lane = 0; lane < kWarpThreads; ++lane) result |= exchanged[warp() * kWarpThreads + lane] << lane;
  meet_warp("the end of a vote");
  return result;
}

bool run_block(const std::function<void()>& kernel, int count) {
  body = &kernel;
  failed = false;
  const int warps = (count + kWarpThreads - 1) / kWarpThreads;
  begin_threads(count);
  begin_barriers();
  begin_copies(count);
  begin_matrices(warps);
  poison_shared();
  std::vector<int> order(static_cast<std::size_t>(warps));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), schedule.random);
  try {
    for (int left = count; left > 0;) {
      bool progress = false;
      bool rested = false;
      for (const int warp : order) {
        if (warps > 1 && one_of(schedule.rest)) {
          rested = true;
          continue;
        }
        left -= run_warp(warp, count, progress);
        if (failed) return false;
      }
      if (one_of(schedule.arrival) && deliver_copy()) progress = true;
      if (progress || rested || deliver_copy()) continue;
      fail("deadlock: nothing is on its way, and threads wait: %s", waiting_threads(count).c_str());
    }
    end_copies(count);
    end_matrices(warps);
    check_shared();
  } catch (const std::runtime_error&) {
    return false;
  }
  return true;
}

}  // namespace emulator
