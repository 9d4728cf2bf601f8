// Allocation of results and workspaces through PyTorch's allocator of the device.
#pragma once

#include <cstdint>
#include <string>

#include "ops/memory_format.h"
#include "ops/tensor_info.h"

namespace convt3d {

// An uninitialized 5-D tensor of the dtype and device of `like`. An allocation that fails throws std::runtime_error;
// on a CUDA device its text contains "CUDA out of memory", which the Python package turns into torch.OutOfMemoryError.
Tensor allocate(const char* op, const Int5& sizes, MemoryFormat format, const Tensor& like);

// The same of a dtype of its own.
Tensor allocate(const char* op, const Int5& sizes, const Int5& strides, int32_t dtype, const Device& device);

// Contiguous ones.
Tensor allocate_vector(const char* op, int64_t size, int32_t dtype, const Device& device);
Tensor allocate_matrix(const char* op, int64_t rows, int64_t columns, int32_t dtype, const Device& device);

// A vector of the dtype and device of `like`.
Tensor allocate_vector(const char* op, int64_t size, const Tensor& like);

// `bytes` of uninitialized memory on the device of `like`, aligned to 256 bytes on a CUDA device.
Tensor allocate_workspace(const char* op, int64_t bytes, const Tensor& like);

[[noreturn]] void throw_out_of_memory(const char* op, int64_t bytes, const Device& device, const std::string& details);

}  // namespace convt3d
