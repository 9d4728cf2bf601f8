#include "engines/depthwise/access.h"

#include <algorithm>

#include "core/access.h"

namespace convt3d {

DepthwiseAccess choose_access(const Problem& problem, const DepthwisePlan& plan, DataType dtype,
                              const ConstTensor& input, const MutableTensor& output) {
  const int64_t bytes = element_size(dtype);
  const OperandTraits read = operand_traits(input);
  const OperandTraits written = operand_traits(output);
  DepthwiseAccess access{};
  if (plan.channels) {
    access.source_vectors = plan.pure() && has_quads(read, bytes, problem.in_channels);
    access.destination_vectors = has_quads(written, bytes, problem.out_channels);
    access.regular = access.source_vectors && access.destination_vectors;
    return access;
  }
  const int64_t vector = depthwise_vector(static_cast<int>(bytes));
  const int64_t positions = std::max<int64_t>(1, vector / problem.stride[2]);
  access.source_vectors =
      plan.shift[2] % positions == 0 && has_row_pieces(read, bytes, problem.input_size[2], positions);
  access.destination_vectors = has_row_pieces(written, bytes, problem.output_size(2), vector);
  access.regular = input.stride[4] == 1 && output.stride[4] == 1;
  return access;
}

}  // namespace convt3d
