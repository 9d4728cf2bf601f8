#include "ops/allocation.h"

#include <array>
#include <stdexcept>
#include <string>

#include "ops/torch_error.h"

namespace convt3d {
namespace {

bool is_out_of_memory(const std::string& reason) {
  // The allocators' words on CUDA and on the CPU.
  return reason.find("out of memory") != std::string::npos || reason.find("allocate memory") != std::string::npos;
}

template <typename Sizes>
Tensor empty_strided(const char* op, const Sizes& sizes, const Sizes& strides, int32_t dtype, const Device& device) {
  AtenTensorHandle handle = nullptr;
  const auto rank = static_cast<int64_t>(sizes.size());
  if (aoti_torch_empty_strided(rank, sizes.data(), strides.data(), dtype, device.type, device.index, &handle) !=
      TORCH_SUCCESS) {
    const std::string reason = torch_error();
    if (!reason.empty() && !is_out_of_memory(reason)) throw std::runtime_error(std::string(op) + ": " + reason);
    auto bytes = static_cast<int64_t>(aoti_torch_dtype_element_size(dtype));
    for (int64_t size : sizes) bytes *= size;
    throw_out_of_memory(op, bytes, device, reason);
  }
  return Tensor(handle);
}

}  // namespace

void throw_out_of_memory(const char* op, int64_t bytes, const Device& device, const std::string& details) {
  const std::string what = device.type == aoti_torch_device_type_cuda() ? "CUDA out of memory" : "out of memory";
  throw std::runtime_error(std::string(op) + ": " + what + ": tried to allocate " + std::to_string(bytes) +
                           " bytes on " + device_name(device) + (details.empty() ? "" : ": " + details));
}

Tensor allocate(const char* op, const Int5& sizes, MemoryFormat format, const Tensor& like) {
  return empty_strided(op, sizes, dense_strides(sizes, format), dtype_of(like), device_of(like));
}

Tensor allocate(const char* op, const Int5& sizes, const Int5& strides, int32_t dtype, const Device& device) {
  return empty_strided(op, sizes, strides, dtype, device);
}

Tensor allocate_matrix(const char* op, int64_t rows, int64_t columns, int32_t dtype, const Device& device) {
  using Int2 = std::array<int64_t, 2>;
  return empty_strided(op, Int2{rows, columns}, Int2{columns, 1}, dtype, device);
}

Tensor allocate_vector(const char* op, int64_t size, int32_t dtype, const Device& device) {
  using Int1 = std::array<int64_t, 1>;
  return empty_strided(op, Int1{size}, Int1{1}, dtype, device);
}

Tensor allocate_vector(const char* op, int64_t size, const Tensor& like) {
  return allocate_vector(op, size, dtype_of(like), device_of(like));
}

Tensor allocate_workspace(const char* op, int64_t bytes, const Tensor& like) {
  using Int1 = std::array<int64_t, 1>;
  return empty_strided(op, Int1{bytes}, Int1{1}, aoti_torch_dtype_uint8(), device_of(like));
}

}  // namespace convt3d
