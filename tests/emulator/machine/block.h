// The parts of the machine, as they know each other.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <random>
#include <string>

#include "machine/fiber.h"
#include "machine/machine.h"

namespace emulator {

// Random bits, drawn for every step of a warp: xorshift64* (Vigna, "An experimental exploration of Marsaglia's xorshift
// generators, scrambled", 2016), of which the upper bits are the better ones.
class RandomBits {
 public:
  using result_type = uint32_t;
  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return UINT32_MAX; }

  void seed(uint64_t seed) { state_ = std::mt19937_64(seed)() | 1; }
  result_type operator()() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return static_cast<uint32_t>(state_ * 0x2545F4914F6CDD1D >> 32);
  }
  // One of so many.
  uint32_t below(uint32_t count) { return static_cast<uint32_t>(uint64_t{(*this)()} * count >> 32); }

 private:
  uint64_t state_ = 1;
};

// How late things happen, drawn anew for each launch.
struct Schedule {
  RandomBits random;
  bool late_products = true;  // as late as the wait allows, else at the commit
  bool late_stores = true;    // boxes are read from shared memory as late as the wait allows
  int rest = 4;               // a warp rests in one of so many rounds
  int arrival = 4;            // a copy arrives in one of so many rounds
};
extern Schedule schedule;
inline bool one_of(int count) { return schedule.random.below(static_cast<uint32_t>(count)) == 0; }

// Runs a block's threads to their end. False where it failed: see `report`.
bool run_block(const std::function<void()>& kernel, int threads);
const std::string& report();
void clear_report();

// What a thread waits for: until the word is no longer what it was. `what` is for reports.
void wait_while(const uint64_t& word, uint64_t value, const char* what);

// Each part of the machine at the beginning of a block, and what must be settled at its end.
void begin_barriers();
void begin_copies(int threads);
void end_copies(int threads);
void begin_matrices(int warps);
void end_matrices(int warps);
void poison_shared();
void check_shared();

// One of the copies that are on their way arrives; false if there is none.
bool deliver_copy();
void complete_bytes(uint32_t barrier, uint32_t bytes);

// Of a launch.
void begin_shared(int64_t dynamic_bytes);

}  // namespace emulator
