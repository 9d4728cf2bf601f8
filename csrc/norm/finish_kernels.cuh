// Small kernels between the passes: partial sums become the statistics of each image and norm group, or what the
// gradients of these add to an element's gradient.
#pragma once

#include "device/ptx/shared_memory.cuh"
#include "norm/reduce_kernel.cuh"

namespace convt3d::norm {

// The sum over the block, in the first thread's place.
template <typename Sums>
__device__ __forceinline__ void merge_block(Sums (&shared)[1][kThreads], const Sums& own) {
  shared[0][threadIdx.x] = own;
  merge_threads(shared, true, static_cast<int>(threadIdx.x), kThreads, 1);
}

constexpr int kPartialsAtOnce = 8;  // of a thread, on their way from memory

// Hands `use(c, values)` the block's partial results of one image and norm group, of the first kPlanes planes; numbered
// channels fastest, fewer than 2^32, as they have memory.
template <int kPlanes, typename T, typename R, typename Use>
__device__ __forceinline__ void visit_partials(const Params<T, R>& params, int64_t statistic, Use&& use) {
  const Shape& shape = params.shape;
  const auto channels = static_cast<uint32_t>(shape.channels_per_group());
  const int64_t n = statistic / shape.groups;
  const int64_t first = statistic % shape.groups * channels;
  const int64_t plane = params.plan.splits * shape.rows();
  const auto count = static_cast<uint32_t>(channels * params.plan.splits);
#pragma unroll 1
  for (uint32_t begin = threadIdx.x; begin < count; begin += kThreads * kPartialsAtOnce) {
    double values[kPartialsAtOnce][kPlanes] = {};
#pragma unroll
    for (uint32_t k = 0; k < kPartialsAtOnce; ++k) {
      const uint32_t i = begin + k * kThreads;
      const uint32_t split = i / channels;
      const double* const at =
          params.partial + (split * shape.batch + n) * shape.channels + first + (i - split * channels);
#pragma unroll
      for (int j = 0; j < kPlanes; ++j) {
        if (i < count) values[k][j] = at[j * plane];
      }
    }
#pragma unroll
    for (uint32_t k = 0; k < kPartialsAtOnce; ++k) {
      const uint32_t i = begin + k * kThreads;
      if (i < count) use(first + i % channels, values[k]);
    }
  }
}

// The norm of each channel of an image and norm group, as an epilogue applies it.
template <typename T, typename R>
__device__ __forceinline__ void store_channel_norms(const Params<T, R>& params, int64_t statistic) {
  const int64_t channels = params.shape.channels_per_group();
#pragma unroll 1
  for (int64_t i = threadIdx.x; i < channels; i += kThreads) {
    const int64_t c = statistic % params.shape.groups * channels + i;
    const Channel<T> channel = channel_at(params, statistic, c);
    params.norms[statistic / params.shape.groups * params.shape.channels + c] = {
        static_cast<float>(channel.center), static_cast<float>(channel.scale), static_cast<float>(channel.shift),
        static_cast<float>(params.slope)};
  }
}

template <typename T, typename R>
__global__ void __launch_bounds__(kThreads) convt3d_norm_statistics(const __grid_constant__ Params<T, R> params) {
  auto& shared = static_shared_memory<PivotSums[1][kThreads]>();
#pragma unroll 1
  for (int64_t statistic = blockIdx.x; statistic < params.shape.statistics(); statistic += gridDim.x) {
    PivotSums sums{};
    visit_partials<2>(params, statistic, [&](int64_t, const double (&partial)[2]) {
      sums.merge(PivotSums::of_mean({partial[0], partial[1], 0}));
    });
    merge_block(shared, sums);
    const double pivot = shared[0][0].mean();
    __syncthreads();
    sums = {};
    visit_partials<3>(params, statistic, [&](int64_t, const double (&partial)[3]) {
      sums.merge(PivotSums::of({partial[0], partial[1], partial[2]}, pivot));
    });
    merge_block(shared, sums);
    if (threadIdx.x == 0) {
      const Moments moments = shared[0][0].moments(pivot);
      params.mean[statistic] = moments.mean;
      params.rstd[statistic] = 1 / sqrt(moments.squares / moments.count + params.eps);
    }
    __syncthreads();
    if (params.norms != nullptr) store_channel_norms(params, statistic);
  }
}

// With M elements of an image and norm group, g the gradient of what the norm makes of an element, and x' the
// normalised x before weight and bias:
//   grad_x = rstd * weight * g - rstd / M * sum(weight * g) - rstd * x' / M * sum(weight * g * x'),
// of which the last two terms are slope * (x - mean) + offset.
template <typename T, typename R>
__global__ void __launch_bounds__(kThreads) convt3d_norm_coefficients(const __grid_constant__ Params<T, R> params) {
  auto& shared = static_shared_memory<GradientSums[1][kThreads]>();
  const double elements = static_cast<double>(params.shape.channels_per_group()) * params.shape.positions;
#pragma unroll 1
  for (int64_t statistic = blockIdx.x; statistic < params.shape.statistics(); statistic += gridDim.x) {
    GradientSums sums{};
    visit_partials<2>(params, statistic, [&](int64_t c, const double (&partial)[2]) {
      const double weight = params.weight.template at<T>(c, 1);
      sums.merge({weight * partial[0], weight * partial[1]});
    });
    merge_block(shared, sums);
    if (threadIdx.x == 0) {
      const double rstd = params.rstd[statistic];
      params.coefficients[2 * statistic] = -rstd * rstd * shared[0][0].product / elements;
      params.coefficients[2 * statistic + 1] = -rstd * shared[0][0].grad / elements;
    }
    __syncthreads();
  }
}

}  // namespace convt3d::norm
