// A problem as the package's Python hands it over.
#pragma once

#include "problem.h"

namespace convt3d {

// `sizes`: N, C_in, C_out, groups, then D H W of input, kernel, stride, padding, output_padding and dilation.
inline Problem flat_problem(const int64_t* sizes) {
  Problem problem;
  problem.batch = sizes[0];
  problem.in_channels = sizes[1];
  problem.out_channels = sizes[2];
  problem.groups = sizes[3];
  Int3* const triples[] = {&problem.input_size, &problem.kernel_size,    &problem.stride,
                           &problem.padding,    &problem.output_padding, &problem.dilation};
  const int64_t* next = sizes + 4;
  for (Int3* triple : triples) {
    for (int64_t& value : *triple) value = *next++;
  }
  return problem;
}

}  // namespace convt3d
