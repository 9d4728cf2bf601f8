// The memory format of a result, by PyTorch's rule for cuDNN convolutions, and its allocation.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "ops/tensor_info.h"

namespace convt3d {

enum class MemoryFormat : int { kContiguous, kChannelsLast3d };

// Tensor.suggest_memory_format of a 5-D tensor.
MemoryFormat suggest_memory_format(const Int5& sizes, const Int5& strides);

// The format of an operator's results from its tensor operands: channels_last_3d if one of them has it, except in
// float64, which PyTorch keeps contiguous.
MemoryFormat result_format(std::initializer_list<const Tensor*> operands);

Int5 dense_strides(const Int5& sizes, MemoryFormat format);

}  // namespace convt3d
