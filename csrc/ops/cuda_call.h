// What a call of an operator needs of PyTorch on a CUDA device: the current stream, views of tensors, memory.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>

#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/tensor.h>

#include "kernels/api.h"
#include "ops/allocation.h"
#include "ops/tensor_info.h"

// Absent from CPU builds of PyTorch. A weak reference lets this library load there too, where nothing calls it.
#pragma weak aoti_torch_get_current_cuda_stream

namespace convt3d {

using torch::stable::accelerator::DeviceGuard;

inline Stream current_stream(const Tensor& tensor) {
  void* stream = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(device_of(tensor).index, &stream));
  return stream;
}

inline ConstTensor view(const Tensor& tensor) { return {tensor.const_data_ptr(), strides_of(tensor)}; }
inline ConstTensor view(const std::optional<Tensor>& tensor) { return tensor ? view(*tensor) : ConstTensor{}; }
inline ConstVector view_vector(const std::optional<Tensor>& tensor) {
  return tensor ? ConstVector{tensor->const_data_ptr(), tensor->stride(0)} : ConstVector{};
}
inline MutableTensor mutable_view(const Tensor& tensor) { return {tensor.mutable_data_ptr(), strides_of(tensor)}; }

inline DataType kernel_dtype(const Tensor& tensor) { return *data_type(dtype_of(tensor)); }

// Before torch 2.13, PyTorch prints a backtrace when its allocator fails under the stable ABI. What can never fit is
// refused here instead, in silence; asking the driver is left to requests large enough to be in doubt.
inline void check_fits_device(const char* op, int64_t bytes, const Tensor& like) {
  constexpr int64_t kAlwaysFits = int64_t{1} << 30;
  if (bytes <= kAlwaysFits) return;
  const int64_t total = device_total_memory();
  if (bytes > total) {
    throw_out_of_memory(op, bytes, device_of(like), "the device has " + std::to_string(total) + " bytes");
  }
}

// A failed allocation can also be the first sign of an earlier kernel's fault: then the driver, asked anything, names
// it.
template <typename Allocate>
inline Tensor allocate_or_explain(Allocate&& allocate_tensor) {
  try {
    return allocate_tensor();
  } catch (const std::runtime_error&) {
    device_total_memory();
    throw;
  }
}

inline Tensor allocate_result(const char* op, const Int5& sizes, MemoryFormat format, const Tensor& like) {
  int64_t bytes = element_size(kernel_dtype(like));
  for (int64_t size : sizes) bytes *= size;
  check_fits_device(op, bytes, like);
  return allocate_or_explain([&] { return allocate(op, sizes, format, like); });
}

// Freed on return: PyTorch reuses the memory only for work that comes later on the same stream.
class Scratch {
 public:
  Scratch(const char* op, int64_t bytes, const Tensor& like) {
    if (bytes == 0) return;  // asking the allocator for nothing takes its time too
    check_fits_device(op, bytes, like);
    tensor_ = allocate_or_explain([&] { return allocate_workspace(op, bytes, like); });
  }
  void* data() const { return tensor_ ? tensor_->mutable_data_ptr() : nullptr; }

 private:
  std::optional<Tensor> tensor_;
};

}  // namespace convt3d
