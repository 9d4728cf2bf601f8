// Barriers of shared memory. Their state is kept beside it: what the program writes over one goes unnoticed, but that a
// barrier is used before it is initialized does not.
#include <unordered_map>

#include "machine/block.h"

namespace emulator {
namespace {

struct Barrier {
  uint64_t phase = 0;
  int arrivals = 0;  // of a phase
  int pending = 0;
  int64_t bytes = 0;  // that are expected
};

std::unordered_map<uint32_t, Barrier> barriers;

Barrier& find(uint32_t address) {
  const auto found = barriers.find(address);
  if (found == barriers.end()) fail("the barrier at %u of shared memory is used before it is initialized", address);
  return found->second;
}

void settle(Barrier& barrier) {
  if (barrier.pending > 0 || barrier.bytes > 0) return;
  ++barrier.phase;
  barrier.pending = barrier.arrivals;
}

uint32_t address_of(const uint64_t* barrier) {
  const uint32_t address = shared_address(barrier);
  if (address % sizeof(uint64_t) != 0) fail("a barrier at %u of shared memory, which is not aligned to 8", address);
  return address;
}

}  // namespace

void begin_barriers() { barriers.clear(); }

void init_barrier(const uint64_t* barrier, int arrivals) {
  Barrier state;
  state.arrivals = state.pending = arrivals;
  if (!barriers.emplace(address_of(barrier), state).second) fail("a barrier is initialized twice");
}

void arrive(const uint64_t* barrier, uint32_t expected_bytes) {
  Barrier& state = find(address_of(barrier));
  if (state.pending == 0) fail("more threads arrive at the barrier at %u than it expects", shared_address(barrier));
  state.bytes += expected_bytes;
  --state.pending;
  settle(state);
}

void complete_bytes(uint32_t address, uint32_t bytes) {
  Barrier& state = find(address);
  if (state.bytes < bytes) fail("more bytes arrive at the barrier at %u than it expects", address);
  state.bytes -= bytes;
  settle(state);
}

void wait(const uint64_t* barrier, uint32_t parity) {
  const Barrier& state = find(address_of(barrier));
  if (parity > 1) fail("a barrier's parity of %u", parity);
  // Every lane looks for itself: where one hands back what another still waits for, the other misses it.
  const uint64_t phase = state.phase;
  if (phase % 2 == parity) wait_while(state.phase, phase, "a barrier of shared memory");
}

}  // namespace emulator
