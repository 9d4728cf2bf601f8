// Small kernels between the passes: partial sums become the statistics of each image and norm group, or what the
// gradients of these add to an element's gradient.
#pragma once

#include "device/ptx/shared_memory.cuh"
#include "norm/reduce_kernel.cuh"

namespace convt3d::norm {

// A block's partial results of one image and norm group, numbered channels fastest.
template <typename T, typename R, typename Visit>
__device__ __forceinline__ void visit_partials(const Params<T, R>& params, int64_t statistic, Visit&& visit) {
  const Shape& shape = params.shape;
  const int64_t channels = shape.channels_per_group();
  const int64_t n = statistic / shape.groups;
  const int64_t first = statistic % shape.groups * channels;
#pragma unroll 1
  for (int64_t i = threadIdx.x; i < channels * params.plan.splits; i += kThreads) {
    const int64_t c = first + i % channels;
    visit(c, params.partial + (i / channels * shape.batch + n) * shape.channels + c);
  }
}

template <typename T, typename R>
__global__ void __launch_bounds__(kThreads) convt3d_norm_statistics(const __grid_constant__ Params<T, R> params) {
  auto& shared = static_shared_memory<Moments[kThreads]>();
  const int64_t plane = params.plan.splits * params.shape.rows();
#pragma unroll 1
  for (int64_t statistic = blockIdx.x; statistic < params.shape.statistics(); statistic += gridDim.x) {
    Moments moments{};
    visit_partials(params, statistic, [&](int64_t, const double* partial) {
      moments.merge({partial[0], partial[plane], partial[2 * plane]});
    });
    shared[threadIdx.x] = moments;
    merge_threads(shared, true, static_cast<int>(threadIdx.x), kThreads, 1);
    if (threadIdx.x == 0) {
      params.mean[statistic] = shared[0].mean;
      params.rstd[statistic] = 1 / sqrt(shared[0].squares / shared[0].count + params.eps);
    }
    __syncthreads();
  }
}

// The norm of each channel of each image, as an epilogue applies it.
template <typename T>
__global__ void __launch_bounds__(kThreads) convt3d_norm_channels(const __grid_constant__ Params<T, T> params) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
#pragma unroll 1
  for (int64_t row = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; row < params.shape.rows();
       row += step) {
    const int64_t n = row / params.shape.channels;
    const int64_t c = row - n * params.shape.channels;
    const Channel<T> channel = channel_at(params, StatisticWalk(params.shape, n, c).index(), c);
    params.norms[row] = {channel.center, channel.scale, channel.shift, static_cast<float>(params.slope)};
  }
}

// With M elements of an image and norm group, g the gradient of what the norm makes of an element, and x' the
// normalised x before weight and bias:
//   grad_x = rstd * weight * g - rstd / M * sum(weight * g) - rstd * x' / M * sum(weight * g * x'),
// of which the last two terms are slope * (x - mean) + offset.
template <typename T, typename R>
__global__ void __launch_bounds__(kThreads) convt3d_norm_coefficients(const __grid_constant__ Params<T, R> params) {
  auto& shared = static_shared_memory<GradientSums[kThreads]>();
  const int64_t plane = params.plan.splits * params.shape.rows();
  const double elements = static_cast<double>(params.shape.channels_per_group()) * params.shape.positions;
#pragma unroll 1
  for (int64_t statistic = blockIdx.x; statistic < params.shape.statistics(); statistic += gridDim.x) {
    GradientSums sums{};
    visit_partials(params, statistic, [&](int64_t c, const double* partial) {
      const double weight = params.weight.template at<T>(c, 1);
      sums.merge({weight * partial[0], weight * partial[plane]});
    });
    shared[threadIdx.x] = sums;
    merge_threads(shared, true, static_cast<int>(threadIdx.x), kThreads, 1);
    if (threadIdx.x == 0) {
      const double rstd = params.rstd[statistic];
      params.coefficients[2 * statistic] = -rstd * rstd * shared[0].product / elements;
      params.coefficients[2 * statistic + 1] = -rstd * shared[0].grad / elements;
    }
    __syncthreads();
  }
}

}  // namespace convt3d::norm
