// What is computed of one element, and what a thread must know of a channel for that.
#pragma once

#include "epilogue/apply.cuh"
#include "norm/params.cuh"

namespace convt3d::norm {

// What normalises a channel of an image: (x - mean) * rstd * weight + bias, which is (x - center) * scale + shift.
// `center` is the mean rounded, and `shift` has what was rounded off: nothing is lost where the mean is large.
template <typename T>
struct Channel {
  using A = Accumulator<T>;
  A center, scale, shift;

  __device__ __forceinline__ A normalised(A x) const { return convt3d::normalised(x, center, scale, shift); }
};

// The statistics of a channel and those behind it: one division, however many there are.
class StatisticWalk {
 public:
  __device__ __forceinline__ StatisticWalk(const Shape& shape, int64_t n, int64_t c)
      : channels_(shape.channels_per_group()) {
    const int64_t group = c / channels_;
    index_ = n * shape.groups + group;
    left_ = (group + 1) * channels_ - c;
  }
  __device__ __forceinline__ int64_t index() const { return index_; }
  __device__ __forceinline__ void next() {
    if (--left_ > 0) return;
    ++index_;
    left_ = channels_;
  }

 private:
  int64_t channels_, index_, left_;
};

template <typename T, typename R>
__device__ __forceinline__ Channel<T> channel_at(const Params<T, R>& params, int64_t statistic, int64_t c) {
  const double mean = params.mean[statistic];
  const double scale = params.rstd[statistic] * params.weight.template at<T>(c, 1);
  Channel<T> channel;
  channel.center = static_cast<Accumulator<T>>(mean);
  channel.scale = static_cast<Accumulator<T>>(scale);
  channel.shift = static_cast<Accumulator<T>>(params.bias.template at<T>(c, 0) - (mean - channel.center) * scale);
  return channel;
}

// The gradient before the activation behind the norm (sloped() in epilogue/apply.cuh), of a gradient behind it.
template <typename A>
__device__ __forceinline__ A activation_grad(A grad, A value, A slope) {
  if (!(value <= 0)) return grad;
  return slope == 0 ? A(0) : grad * slope;
}

}  // namespace convt3d::norm
