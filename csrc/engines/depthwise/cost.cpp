#include "engines/depthwise/cost.h"

namespace convt3d {

Cost depthwise_cost(const Problem& problem, DataType dtype, const DeviceTraits& device) {
  constexpr double kMemoryFraction = 0.708;  // of the peak, that its kernels reach on an H200: memory is their limit
  const auto positions = [](const Int3& size) { return static_cast<double>(size[0]) * size[1] * size[2]; };
  const double elements = static_cast<double>(problem.batch * problem.in_channels) * positions(problem.input_size) +
                          static_cast<double>(problem.in_channels * problem.out_channels_per_group() * problem.taps()) +
                          static_cast<double>(problem.batch * problem.out_channels) * positions(problem.output_size());
  return {elements * element_size(dtype) / (kMemoryFraction * device.bytes_per_ms), true};
}

}  // namespace convt3d
