// What a pass over the tensor sums for each channel: in the type of the accumulators by each thread, in float64 over
// threads, splits, channels and images, all in an order that sizes alone decide.
#pragma once

#include "norm/slots.cuh"
#include "norm/values.cuh"

namespace convt3d::norm {

// One thread's, or several threads' together.
struct Moments {
  double count, mean, squares;  // squares: the sum of squared deviations from the mean
};

// Sums of deviations from a pivot, which add up without a division. With all that belongs together the pivot is first
// 0, for their mean, and then that: of another pivot an outlier would take digits of the others' spread.
struct PivotSums {
  double count, sum, squares;

  static __device__ __forceinline__ PivotSums of_mean(const Moments& moments) {
    return {moments.count, moments.count * moments.mean, 0};
  }
  static __device__ __forceinline__ PivotSums of(const Moments& moments, double pivot) {
    const double distance = moments.mean - pivot;
    const double moved = moments.count * distance;
    return {moments.count, moved, moments.squares + distance * moved};
  }
  __device__ __forceinline__ void merge(const PivotSums& other) {
    count += other.count;
    sum += other.sum;
    squares += other.squares;
  }
  __device__ __forceinline__ double mean() const { return count == 0 ? 0 : sum / count; }
  __device__ __forceinline__ Moments moments(double pivot) const {
    const double distance = mean();
    const double left = squares - sum * distance;
    return {count, pivot + distance, left < 0 ? 0 : left};  // a NaN stays
  }
};

struct GradientSums {
  double grad, product;  // of g, and of g times the normalised value

  __device__ __forceinline__ void merge(const GradientSums& other) {
    grad += other.grad;
    product += other.product;
  }
};

// A chunk of kElements of one channel, of which [first, last) exist, and how far the thread has come with the channel.
template <typename A>
struct Chunk {
  int first, last;
  A count;   // of elements before
  A weight;  // of the chunk's elements among all with it
};

// Deviations are taken from the mean of what the thread had before, of its first element at first. A chunk that is far
// from that mean loses digits of its own spread, but adds the square of that distance. So no value hurts, an outlier
// that comes first included, and an element costs three operations.
template <typename T, typename R>
struct MomentsOf {
  using A = Accumulator<T>;
  using Result = Moments;
  using Shared = PivotSums;  // by which threads' results are merged
  using Slot = InputSlot<T, R>;
  static constexpr int kUnroll = kMostUnroll;
  struct Channel {};

  A mean = 0;
  A low = 0;  // of the mean, past its last digit
  A squares = 0;

  static __device__ __forceinline__ Channel channel(const Params<T, R>&, int64_t, int64_t) { return {}; }

  template <int kElements, typename Element>
  __device__ __forceinline__ void add(const Params<T, R>&, const Channel&, const Chunk<A>& chunk, Element&& element) {
    A sum = 0;
    A square = 0;
    if (chunk.count == 0) {
#pragma unroll
      for (int i = kElements - 1; i >= 0; --i) {
        if (i >= chunk.first && i < chunk.last) mean = element(i).x;
      }
    }
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      const A deviation = i >= chunk.first && i < chunk.last ? element(i).x - mean : A(0);
      sum += deviation;
      square += deviation * deviation;
    }
    const A chunk_mean = sum / static_cast<A>(chunk.last - chunk.first);
    const A difference = chunk_mean - low;
    squares += square - sum * chunk_mean + difference * difference * (chunk.count * chunk.weight);
    const A moved = low + difference * chunk.weight;
    const A before = mean;
    mean = before + moved;
    low = moved - (mean - before);
  }
  __device__ __forceinline__ Result result(const Params<T, R>&, int64_t, A count) const {
    return {static_cast<double>(count), static_cast<double>(mean) + low, static_cast<double>(squares)};
  }
  static __device__ __forceinline__ void store(double* at, int64_t plane, const Result& result) {
    at[0] = result.count;
    at[plane] = result.mean;
    at[2 * plane] = result.squares;
  }
};

// A thread has few chunks (kMostSteps in norm/plan.cpp): their sums may be added as they are.
template <typename T, typename R>
struct GradientSumsOf {
  using A = Accumulator<T>;
  using Result = GradientSums;
  using Shared = GradientSums;
  using Slot = GradientSlot<T, R>;
  static constexpr int kUnroll = kMostUnroll / 2;  // of two tensors
  using Channel = norm::Channel<T>;

  A grads = 0;
  A products = 0;  // of g and x - center

  static __device__ __forceinline__ Channel channel(const Params<T, R>& params, int64_t statistic, int64_t c) {
    return channel_at(params, statistic, c);
  }

  template <int kElements, typename Element>
  __device__ __forceinline__ void add(const Params<T, R>& params, const Channel& channel, const Chunk<A>& chunk,
                                      Element&& element) {
    A sum = 0;
    A product = 0;
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      if (i < chunk.first || i >= chunk.last) continue;
      const auto values = element(i);
      const A grad = activation_grad(values.grad, channel.normalised(values.x), static_cast<A>(params.slope));
      sum += grad;
      product += grad * (values.x - channel.center);
    }
    grads += sum;
    products += product;
  }
  __device__ __forceinline__ Result result(const Params<T, R>& params, int64_t statistic, A) const {
    const double mean = params.mean[statistic];
    const double rounded_off = mean - static_cast<A>(mean);
    const double grad = grads;
    return {grad, params.rstd[statistic] * (products - rounded_off * grad)};
  }
  static __device__ __forceinline__ void store(double* at, int64_t plane, const Result& result) {
    at[0] = result.grad;
    at[plane] = result.product;
  }
};

}  // namespace convt3d::norm
