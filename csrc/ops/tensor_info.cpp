#include "ops/tensor_info.h"

#include <algorithm>

namespace convt3d {

int32_t dtype_of(const Tensor& tensor) {
  int32_t dtype = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(tensor.get(), &dtype));
  return dtype;
}

Device device_of(const Tensor& tensor) {
  Device device;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(tensor.get(), &device.type));
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_index(tensor.get(), &device.index));
  return device;
}

bool is_strided(const Tensor& tensor) {
  int32_t layout = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_layout(tensor.get(), &layout));
  return layout == aoti_torch_layout_strided();
}

Int5 sizes_of(const Tensor& tensor) {
  Int5 sizes{};
  std::copy_n(tensor.sizes().data(), sizes.size(), sizes.begin());
  return sizes;
}

Int5 strides_of(const Tensor& tensor) {
  Int5 strides{};
  std::copy_n(tensor.strides().data(), strides.size(), strides.begin());
  return strides;
}

std::optional<DataType> data_type(int32_t dtype) {
  if (dtype == aoti_torch_dtype_float32()) return DataType::kFloat32;
  if (dtype == aoti_torch_dtype_float64()) return DataType::kFloat64;
  if (dtype == aoti_torch_dtype_float16()) return DataType::kFloat16;
  if (dtype == aoti_torch_dtype_bfloat16()) return DataType::kBFloat16;
  return std::nullopt;
}

std::string dtype_name(int32_t dtype) {
  struct Name {
    int32_t dtype;
    const char* name;
  };
  const Name names[] = {
      {aoti_torch_dtype_float32(), "float32"},
      {aoti_torch_dtype_float64(), "float64"},
      {aoti_torch_dtype_float16(), "float16"},
      {aoti_torch_dtype_bfloat16(), "bfloat16"},
      {aoti_torch_dtype_complex32(), "complex32"},
      {aoti_torch_dtype_complex64(), "complex64"},
      {aoti_torch_dtype_complex128(), "complex128"},
      {aoti_torch_dtype_uint8(), "uint8"},
      {aoti_torch_dtype_int8(), "int8"},
      {aoti_torch_dtype_int16(), "int16"},
      {aoti_torch_dtype_int32(), "int32"},
      {aoti_torch_dtype_int64(), "int64"},
      {aoti_torch_dtype_bool(), "bool"},
      {aoti_torch_dtype_float8_e5m2(), "float8_e5m2"},
      {aoti_torch_dtype_float8_e4m3fn(), "float8_e4m3fn"},
  };
  for (const Name& entry : names) {
    if (entry.dtype == dtype) return entry.name;
  }
  return "number " + std::to_string(dtype) + " of PyTorch's ScalarType";
}

std::string device_name(const Device& device) {
  if (device.type == aoti_torch_device_type_cpu()) return "cpu";
  const std::string type = device.type == aoti_torch_device_type_cuda()   ? "cuda"
                           : device.type == aoti_torch_device_type_meta() ? "meta"
                           : device.type == aoti_torch_device_type_xpu()  ? "xpu"
                           : device.type == aoti_torch_device_type_mps() ? "mps"
                                                                         : "device type " + std::to_string(device.type);
  return type + ":" + std::to_string(device.index);
}

}  // namespace convt3d
