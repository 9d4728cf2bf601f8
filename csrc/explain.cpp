// Which engine and plan a forward gets, as text, for benchmarks and bug reports; runs without a GPU.
#include <cstdio>

#include "forward_plan.h"

// `sizes`: N, C_in, C_out, groups, then D H W of input, kernel, stride, padding, output_padding and dilation.
// `element_bytes`: 2, 4 or
// 8. Writes at most `capacity` characters, the terminating zero included, and returns how many the whole text has
// without it.
extern "C" __attribute__((visibility("default"))) int convt3d_explain_forward(const int64_t* sizes, int element_bytes,
                                                                              int allow_tf32, int channels_last,
                                                                              int has_wgmma, char* text, int capacity) {
  using namespace convt3d;
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
  const DataType dtype = element_bytes == 8   ? DataType::kFloat64
                         : element_bytes == 4 ? DataType::kFloat32
                                              : DataType::kFloat16;
  const Float32Mode mode = allow_tf32 != 0 ? Float32Mode::kTf32 : Float32Mode::kIeee;
  const ForwardPlan plan = choose_forward(problem, dtype, mode, channels_last != 0, {has_wgmma != 0});
  return std::snprintf(text, static_cast<size_t>(capacity), "%s", to_string(plan).c_str());
}
