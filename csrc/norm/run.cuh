// Turns a call into launches.
#pragma once

#include "core/integer.h"
#include "device/launch.cuh"
#include "device/ordered_sum.cuh"
#include "norm/collect.h"
#include "norm/finish_kernels.cuh"
#include "norm/map_kernel.cuh"
#include "norm/reduce_kernel.cuh"
#include "norm/run.h"

namespace convt3d::norm {

template <typename V>
View<V> make_view(const Size& size, V* data, const Size& stride, bool vector) {
  return {data, stride[0], stride[1], position_stride(size, stride), vector};
}

// All but the tensors.
template <typename T, typename R>
Params<T, R> make_params(const Shape& shape, const Plan& plan, const Arguments& arguments, const Statistics& statistics,
                         void* workspace, int planes) {
  Params<T, R> params{};
  params.shape = shape;
  params.plan = plan;
  params.weight = {arguments.weight.data, arguments.weight.stride, arguments.affine_is_float32};
  params.bias = {arguments.bias.data, arguments.bias.stride, arguments.affine_is_float32};
  params.slope = arguments.slope;
  params.eps = arguments.eps;
  params.partial = static_cast<double*>(workspace);
  double* const behind =
      params.partial + partial_bytes(shape, plan.splits, planes) / static_cast<int64_t>(sizeof(double));
  params.mean = statistics.mean != nullptr ? statistics.mean : behind;
  params.rstd = statistics.rstd != nullptr ? statistics.rstd : behind + shape.statistics();
  params.coefficients = behind;
  return params;
}

template <typename T, typename R>
Params<T, R> make_params(const Size& size, const Shape& shape, const Plan& plan, const Vectors& vectors, ConstTensor x,
                         const Arguments& arguments, const Statistics& statistics, void* workspace, int planes) {
  Params<T, R> params = make_params<T, R>(shape, plan, arguments, statistics, workspace, planes);
  params.phase = vectors.phase;
  params.x = make_view(size, static_cast<const T*>(x.data), x.stride, vectors.x);
  return params;
}

template <typename Sums, typename T, typename R>
void reduce(const char* name, const Params<T, R>& params, Stream stream) {
  const auto kernel =
      params.plan.channels_last ? convt3d_norm_reduce<T, R, true, Sums> : convt3d_norm_reduce<T, R, false, Sums>;
  launch(name, kernel, params.plan.blocks(), kThreads, stream, params);
}

template <typename Map, typename T, typename R>
void map(const char* name, const Params<T, R>& params, Stream stream) {
  const auto kernel =
      params.plan.channels_last ? convt3d_norm_map<T, R, true, Map> : convt3d_norm_map<T, R, false, Map>;
  launch(name, kernel, params.plan.blocks(), kThreads, stream, params);
}

// Of the partial sums of all images and splits, each channel's.
template <typename V>
void add_channels(const char* name, const Shape& shape, const Plan& plan, const double* partial, void* destination,
                  Stream stream) {
  if (destination == nullptr) return;
  OrderedSum<V, double> sums{};
  sums.partial = partial;
  sums.splits = plan.splits * shape.batch;
  sums.elements = shape.channels;
  sums.axis[0] = {shape.channels, shape.channels, 1};
  sums.destination = static_cast<V*>(destination);
  add_in_order<OrderedSumKernel<kOrderedSumThreads, 1>>(name, sums, plan.sum_shape(shape), stream);
}

// From moments that an epilogue has left, or by a pass over x; also the norm of each channel, unless `norms` is
// nullptr. Moments do not depend on the norm's result.
template <typename T>
Params<T, T> run_statistics(const Size& size, const Shape& shape, const Plan& plan, const Vectors& vectors,
                            ConstTensor x, const EpilogueMoments& moments, const Arguments& arguments,
                            const Statistics& statistics, ChannelNorm* norms, void* workspace, Stream stream) {
  Params<T, T> params{};
  if (moments.parts != nullptr) {
    const CollectPlan collecting = make_collect_plan(shape, moments.count);
    Plan splits_alone;
    splits_alone.splits = collecting.splits;
    params = make_params<T, T>(shape, splits_alone, arguments, statistics, workspace, kMomentPlanes);
    collect(shape, collecting, moments.parts, params.partial, stream);
  } else {
    params = make_params<T, T>(size, shape, plan, vectors, x, arguments, statistics, workspace, kMomentPlanes);
    reduce<MomentsOf<T, T>>("norm moments", params, stream);
  }
  params.norms = norms;
  launch("norm statistics", convt3d_norm_statistics<T, T>, shape.statistics(), kThreads, stream, params);
  return params;
}

template <typename T>
void channel_norms(const Size& size, const Shape& shape, const Plan& plan, const Vectors& vectors, ConstTensor x,
                   const EpilogueMoments& moments, const Arguments& arguments, const Statistics& statistics,
                   ChannelNorm* norms, void* workspace, Stream stream) {
  run_statistics<T>(size, shape, plan, vectors, x, moments, arguments, statistics, norms, workspace, stream);
}

template <typename T, typename R>
void forward(const Size& size, const Shape& shape, const Plan& plan, const Vectors& vectors, ConstTensor x,
             const EpilogueMoments& moments, const Arguments& arguments, MutableTensor result,
             const Statistics& statistics, void* workspace, Stream stream) {
  const bool takes_norms = plan.channels_last ? kTakesNorms<T, true> : kTakesNorms<T, false>;
  auto* const norms = static_cast<ChannelNorm*>(workspace);
  void* const behind = norms + shape.rows();
  const Params<T, T> gathering = run_statistics<T>(size, shape, plan, vectors, x, moments, arguments, statistics,
                                                   takes_norms ? norms : nullptr, behind, stream);
  Params<T, R> params = make_params<T, R>(size, shape, takes_norms ? plan.of_map() : plan, vectors, x, arguments,
                                          {gathering.mean, gathering.rstd}, behind, kMomentPlanes);
  params.norms = norms;
  params.result = make_view(size, static_cast<R*>(result.data), result.stride, vectors.result);
  map<Normalise<T, R>>("norm", params, stream);
}

template <typename T, typename R>
void backward(const Size& size, const Shape& shape, const Plan& plan, const Vectors& vectors, ConstTensor grad_result,
              ConstTensor x, const Statistics& statistics, const Arguments& arguments, bool relu, MutableTensor grad_x,
              void* grad_weight, void* grad_bias, void* workspace, Stream stream) {
  Params<T, R> params =
      make_params<T, R>(size, shape, plan, vectors, x, arguments, statistics, workspace, kGradientPlanes);
  params.grad_result =
      make_view(size, static_cast<const R*>(grad_result.data), grad_result.stride, vectors.grad_result);
  if (grad_x.data != nullptr) {
    params.grad_x = make_view(size, static_cast<T*>(grad_x.data), grad_x.stride, vectors.grad_x);
  }
  params.relu = relu;
  reduce<GradientSumsOf<T, R>>("norm gradient sums", params, stream);
  const auto add = arguments.affine_is_float32 ? add_channels<float> : add_channels<T>;
  add("norm bias gradient", shape, plan, params.partial, grad_bias, stream);
  add("norm weight gradient", shape, plan, params.partial + plan.splits * shape.rows(), grad_weight, stream);
  if (grad_x.data == nullptr) return;
  launch("norm coefficients", convt3d_norm_coefficients<T, R>, shape.statistics(), kThreads, stream, params);
  map<InputGradient<T, R>>("norm input gradient", params, stream);
}

}  // namespace convt3d::norm
