// A norm behind a forward, and the ways to compute it. Knows nothing of torch or CUDA.
#pragma once

#include <cstdint>

namespace convt3d {

enum class NormWay : int {
  kPasses,    // a pass of the norm's own gathers them, another applies it
  kEpilogue,  // the forward's epilogue gathers them, a pass applies it
  kTwice,     // the epilogue gathers them and stores nothing; a second forward applies the norm in its epilogue
};
const char* to_string(NormWay way);

// What is asked of a norm.
struct NormTask {
  int64_t rows = 0;           // of the forward: images times channels
  int64_t positions = 0;      // ... of each
  int32_t element_bytes = 0;  // of one
  int32_t result_bytes = 0;   // of one of the norm's result
  bool keeps_input = false;   // the forward's output is a result, too, as derivatives need it
};

}  // namespace convt3d
