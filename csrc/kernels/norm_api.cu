#include "kernels/norm_api.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

namespace convt3d {
namespace {

template <typename X, typename R>
struct TypeTags {
  using T = X;
  using Result = R;
};

template <typename T, typename Function>
void with_result(bool float32, Function&& function) {
  if constexpr (sizeof(T) == 2) {
    if (float32) return function(TypeTags<T, float>());
  }
  function(TypeTags<T, T>());
}

template <typename Function>
void with_types(DataType dtype, DataType result_dtype, Function&& function) {
  const bool float32 = result_dtype == DataType::kFloat32;
  switch (dtype) {
    case DataType::kFloat32:
      return with_result<float>(float32, function);
    case DataType::kFloat64:
      return with_result<double>(float32, function);
    case DataType::kFloat16:
      return with_result<__half>(float32, function);
    case DataType::kBFloat16:
      return with_result<__nv_bfloat16>(float32, function);
  }
}

}  // namespace

void group_norm(const norm::Size& size, int64_t groups, const norm::Plan& plan, const norm::Vectors& vectors,
                DataType dtype, DataType result_dtype, ConstTensor x, const EpilogueMoments& moments,
                const norm::Arguments& arguments, MutableTensor result, const norm::Statistics& statistics,
                void* workspace, Stream stream) {
  with_types(dtype, result_dtype, [&](auto types) {
    using Types = decltype(types);
    norm::forward<typename Types::T, typename Types::Result>(size, norm::Shape::of(size, groups), plan, vectors, x,
                                                             moments, arguments, result, statistics, workspace, stream);
  });
}

void group_norm_of_channels(const norm::Size& size, int64_t groups, const norm::Plan& plan,
                            const norm::Vectors& vectors, DataType dtype, ConstTensor x, const EpilogueMoments& moments,
                            const norm::Arguments& arguments, const norm::Statistics& statistics, ChannelNorm* norms,
                            void* workspace, Stream stream) {
  with_types(dtype, dtype, [&](auto types) {
    using T = typename decltype(types)::T;
    if constexpr (!std::is_same_v<T, double>) {
      norm::channel_norms<T>(size, norm::Shape::of(size, groups), plan, vectors, x, moments, arguments, statistics,
                             norms, workspace, stream);
    }
  });
}

void group_norm_backward(const norm::Size& size, int64_t groups, const norm::Plan& plan, const norm::Vectors& vectors,
                         DataType dtype, DataType result_dtype, ConstTensor grad_result, ConstTensor x,
                         const norm::Statistics& statistics, const norm::Arguments& arguments, bool relu,
                         MutableTensor grad_x, void* grad_weight, void* grad_bias, void* workspace, Stream stream) {
  with_types(dtype, result_dtype, [&](auto types) {
    using Types = decltype(types);
    norm::backward<typename Types::T, typename Types::Result>(size, norm::Shape::of(size, groups), plan, vectors,
                                                              grad_result, x, statistics, arguments, relu, grad_x,
                                                              grad_weight, grad_bias, workspace, stream);
  });
}

}  // namespace convt3d
