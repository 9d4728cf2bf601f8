// How an operand lies in memory where it is not dense; the names are those of tests/cases.py.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace check {

using Size5 = std::array<int64_t, 5>;

enum class Layout { kNcdhw, kNdhwc };

struct Arrangement {
  const char* name;
  Size5 before;                       // elements of the memory before the operand, along each dimension
  Size5 after;                        // ... and after it
  int64_t offset;                     // elements from an aligned address to the memory's first
  std::vector<std::size_t> expanded;  // dimensions of stride 0
  std::vector<std::size_t> order;     // dimensions from the outermost to the innermost; empty: the layout's
};

// The first is dense.
const std::vector<Arrangement>& arrangements();
const Arrangement& arrangement_of(const std::string& name);

struct Place {
  Size5 stride;
  int64_t first;  // element of the memory, which begins at an aligned address
};
Place place_of(const Size5& size, Layout layout, const Arrangement& arrangement);

// What PyTorch takes for channels_last_3d.
bool has_channels_last_strides(const Size5& size, const Size5& stride);

}  // namespace check
