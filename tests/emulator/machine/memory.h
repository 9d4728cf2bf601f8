// Global memory that kernels may use: what lies outside is a failure.
#pragma once

#include <cstddef>
#include <string>

namespace emulator {

struct Region {
  const unsigned char* begin;
  const unsigned char* end;
  bool writable;
  std::string name;
};

void clear_regions();
void add_region(const Region& region);
// Where an address lies: "12 bytes past the end of input".
std::string place_of(const void* pointer);

}  // namespace emulator
