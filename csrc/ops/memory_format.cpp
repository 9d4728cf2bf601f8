#include "ops/memory_format.h"

#include <algorithm>

namespace convt3d {

// The same decision as c10's is_channels_last_strides_3d, ambiguous strides (size-1 dimensions) included: a result's
// format must be predictable from the operands by the fake kernels, which ask PyTorch itself.
MemoryFormat suggest_memory_format(const Int5& sizes, const Int5& strides) {
  if (strides[1] == 0) return MemoryFormat::kContiguous;
  int64_t minimum = 0;
  for (int dim : {1, 4, 3, 2, 0}) {
    if (sizes[dim] == 0 || strides[dim] < minimum) return MemoryFormat::kContiguous;
    // A tensor with N the only dimension above 1 in size has the strides of both formats: NCDHW wins.
    if (dim == 0 && minimum == strides[1]) return MemoryFormat::kContiguous;
    minimum = strides[dim] * std::max<int64_t>(sizes[dim], 1);
  }
  return MemoryFormat::kChannelsLast3d;
}

MemoryFormat result_format(std::initializer_list<const Tensor*> operands) {
  for (const Tensor* operand : operands) {
    if (dtype_of(*operand) == aoti_torch_dtype_float64()) return MemoryFormat::kContiguous;
    if (suggest_memory_format(sizes_of(*operand), strides_of(*operand)) == MemoryFormat::kChannelsLast3d) {
      return MemoryFormat::kChannelsLast3d;
    }
  }
  return MemoryFormat::kContiguous;
}

Int5 dense_strides(const Int5& sizes, MemoryFormat format) {
  Int5 strides{};
  int64_t stride = 1;
  if (format == MemoryFormat::kChannelsLast3d) {
    for (int dim : {1, 4, 3, 2, 0}) {
      strides[dim] = stride;
      stride *= sizes[dim];
    }
  } else {
    for (int dim : {4, 3, 2, 1, 0}) {
      strides[dim] = stride;
      stride *= std::max<int64_t>(sizes[dim], 1);
    }
  }
  return strides;
}

}  // namespace convt3d
