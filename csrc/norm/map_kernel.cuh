// A pass that writes an element for each that it reads: what is normalised, or the gradient of the norm's input.
#pragma once

#include "device/mask.cuh"
#include "norm/slots.cuh"
#include "norm/values.cuh"

namespace convt3d::norm {

// The norm and the activation behind it. The result may take the place of the convolution's output.
template <typename T, typename R>
struct Normalise {
  using A = Accumulator<T>;
  using Slot = InputSlot<T, R>;
  using Output = R;
  static constexpr int kUnroll = kMostUnroll;
  template <bool kChannels>
  static constexpr bool kAhead = !kChannels && sizeof(R) > sizeof(T);
  template <bool kChannels>
  static constexpr int kBlocks = kBlocksPerMultiprocessor + (kChannels || sizeof(R) > sizeof(T) ? 0 : 1);
  using Channel = norm::Channel<T>;

  static __device__ __forceinline__ const View<R>& output(const Params<T, R>& params) { return params.result; }
  template <bool kChannels>
  static __device__ __forceinline__ Channel channel(const Params<T, R>& params, int64_t statistic, int64_t n,
                                                    int64_t c) {
    if constexpr (kTakesNorms<T, kChannels>) {
      const ChannelNorm norm = params.norms[n * params.shape.channels + c];
      return {norm.center, norm.scale, norm.shift};
    }
    return channel_at(params, statistic, c);
  }
  static __device__ __forceinline__ A value(const Params<T, R>& params, const Channel& channel,
                                            const Element<A>& element) {
    return sloped(channel.normalised(element.x), static_cast<A>(params.slope));
  }
};

// The gradient of the convolution's output or, where that is a ReLU's, of the ReLU's argument.
template <typename T, typename R>
struct InputGradient {
  using A = Accumulator<T>;
  using Slot = GradientSlot<T, R>;
  using Output = T;
  static constexpr int kUnroll = kMostUnroll / 2;  // of two tensors
  template <bool>
  static constexpr bool kAhead = false;
  template <bool>
  static constexpr int kBlocks = kBlocksPerMultiprocessor;
  struct Channel {
    norm::Channel<T> norm;
    A slope, offset;  // of what the gradients of mean and deviation add, over x - center
  };

  static __device__ __forceinline__ const View<T>& output(const Params<T, R>& params) { return params.grad_x; }
  template <bool>
  static __device__ __forceinline__ Channel channel(const Params<T, R>& params, int64_t statistic, int64_t, int64_t c) {
    const double slope = params.coefficients[2 * statistic];
    const norm::Channel<T> norm = channel_at(params, statistic, c);
    const double rounded_off = params.mean[statistic] - norm.center;
    return {norm, static_cast<A>(slope), static_cast<A>(params.coefficients[2 * statistic + 1] - slope * rounded_off)};
  }
  static __device__ __forceinline__ A value(const Params<T, R>& params, const Channel& channel,
                                            const Element<A>& element) {
    const A grad = activation_grad(element.grad, channel.norm.normalised(element.x), static_cast<A>(params.slope));
    const A added = channel.slope * (element.x - channel.norm.center) + channel.offset;
    return params.relu && is_masked(element.x) ? A(0) : channel.norm.scale * grad + added;
  }
};

template <bool kChannels, typename Map, typename T, typename R>
struct Mapper {
  using Slot = typename Map::Slot;
  static constexpr int kCount = Slot::kCount;
  static constexpr int kChannelsOfThread = kChannels ? kCount : 1;
  static constexpr int kUnroll = Map::kUnroll;
  static constexpr bool kAhead = Map::template kAhead<kChannels>;
  using Batch = SlotBatch<Slot, kUnroll>;

  const Params<T, R>& params;
  const Place& place;
  typename Map::Channel channel[kChannelsOfThread];

  __device__ __forceinline__ Mapper(const Params<T, R>& params, const Place& place) : params(params), place(place) {
    StatisticWalk walk(params.shape, place.n, place.c);
#pragma unroll
    for (int i = 0; i < kChannelsOfThread; ++i, walk.next()) {
      if (place.c + i < params.shape.channels)
        channel[i] = Map::template channel<kChannels>(params, walk.index(), place.n, place.c + i);
    }
  }

  __device__ __forceinline__ void write(const Slot& slot, int64_t position, int first, int last) {
    Pack<typename Map::Output, kCount> pack;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      pack.value[i] =
          from_accumulator<typename Map::Output>(Map::value(params, channel[kChannels ? i : 0], slot.element(i)));
    }
    store_slot<kChannels>(Map::output(params), place.n, place.c, position, pack, first, last);
  }

  __device__ __forceinline__ void load(Batch& batch, int64_t position, int64_t step) const {
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      batch.slot[i].template load<kChannels>(params, place.n, place.c, position + i * step, 0, kCount);
    }
  }

  __device__ __forceinline__ void use(const Batch& batch, int64_t position, int64_t step) {
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) write(batch.slot[i], position + i * step, 0, kCount);
  }

  __device__ __forceinline__ void part(int64_t position, int first, int last) {
    Slot slot;
    slot.template load<kChannels>(params, place.n, place.c, position, first, last);
    write(slot, position, first, last);
  }
};

template <typename Map, bool kChannels>
constexpr int kMapBlocks = Map::template kBlocks<kChannels>;  // nvcc does not take it as it is

template <typename T, typename R, bool kChannels, typename Map>
__global__ void __launch_bounds__(kThreads, (kMapBlocks<Map, kChannels>))
    convt3d_norm_map(const __grid_constant__ Params<T, R> params) {
  const int64_t blocks = params.plan.blocks();
#pragma unroll 1
  for (int64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
    const Place place = place_of<kChannels>(params.shape, params.plan, block);
    if (!place.exists) continue;
    Mapper<kChannels, Map, T, R> mapper(params, place);
    const int64_t phase = params.phase + place.n * params.x.n + place.c * params.x.c;
    const bool vector = Map::Slot::vector(params) && Map::output(params).vector;
    visit_slots<kChannels, Map::Slot::kCount>(params.shape, params.plan, phase, place, vector, mapper);
  }
}

}  // namespace convt3d::norm
