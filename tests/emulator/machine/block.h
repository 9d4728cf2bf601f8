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

// How late things happen, drawn anew for each launch.
struct Schedule {
  std::mt19937 random;
  bool late_products = true;  // as late as the wait allows, else at the commit
  bool late_stores = true;    // boxes are read from shared memory as late as the wait allows
  int rest = 4;               // a warp rests in one of so many rounds
  int arrival = 4;            // a copy arrives in one of so many rounds
};
Schedule& schedule();
bool one_of(int count);

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
