// A norm behind a forward, and the ways to compute it. Knows nothing of torch or CUDA.
#pragma once

#include <cstdint>

#include "core/operands.h"
#include "core/problem.h"

namespace convt3d {

enum class NormWay : int {
  kPasses,    // a pass of the norm's own gathers them, another applies it
  kEpilogue,  // the forward's epilogue gathers them, a pass applies it
  kTwice,     // the epilogue gathers them and stores nothing; a second forward applies the norm in its epilogue
};
const char* to_string(NormWay way);

// What is asked of a norm.
struct NormTask {
  int64_t rows = 0;            // images times channels of the forward's output
  int64_t positions = 0;       // positions of each row
  int32_t element_bytes = 0;   // bytes of an element of the forward's output
  int32_t result_bytes = 0;    // bytes of an element of the norm's result
  bool channels_last = false;  // of the forward's output
  bool keeps_input = false;    // the forward's output is a result, too, as derivatives need it
};

// Behind a forward whose output is `output`.
inline NormTask norm_task(const Problem& problem, DataType dtype, const OperandTraits& output, int32_t result_bytes) {
  const Int3 size = problem.output_size();
  NormTask task;
  task.rows = problem.batch * problem.out_channels;
  task.positions = size[0] * size[1] * size[2];
  task.element_bytes = static_cast<int32_t>(element_size(dtype));
  task.result_bytes = result_bytes;
  task.channels_last = output.stride[1] == 1 && problem.out_channels > 1;
  return task;
}

}  // namespace convt3d
