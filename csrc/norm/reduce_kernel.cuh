// A pass that sums over a tensor, for each channel of each image: partial sums of every split, which the kernels of
// norm/finish_kernels.cuh add.
#pragma once

#include "device/ptx/shared_memory.cuh"
#include "norm/sums.cuh"

namespace convt3d::norm {

template <bool kChannels, typename Sums, typename T, typename R>
struct Reducer {
  using A = Accumulator<T>;
  using Slot = typename Sums::Slot;
  static constexpr int kCount = Slot::kCount;
  static constexpr int kSums = kChannels ? kCount : 1;  // channels of a thread
  static constexpr int kUnroll = Sums::kUnroll;
  static constexpr bool kAhead = false;
  using Batch = SlotBatch<Slot, kUnroll>;

  const Params<T, R>& params;
  const Place& place;
  Sums sums[kSums];
  typename Sums::Channel channel[kSums];
  A count = 0;  // of elements of each channel

  __device__ __forceinline__ Reducer(const Params<T, R>& params, const Place& place) : params(params), place(place) {
    StatisticWalk walk(params.shape, place.n, place.c);
#pragma unroll
    for (int i = 0; i < kSums; ++i, walk.next()) {
      if (place.exists && place.c + i < params.shape.channels) {
        channel[i] = Sums::channel(params, walk.index(), place.c + i);
      }
    }
  }

  __device__ __forceinline__ Chunk<A> next_chunk(int first, int last) {
    const A before = count;
    const A elements = static_cast<A>(last - first);
    count += elements;
    return {first, last, before, elements / count};
  }

  __device__ __forceinline__ void load(Batch& batch, int64_t position, int64_t step) const {
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      batch.slot[i].template load<kChannels>(params, place.n, place.c, position + i * step, 0, kCount);
    }
  }

  __device__ __forceinline__ void use(const Batch& batch, int64_t, int64_t) {
    if constexpr (kChannels) {
      const Chunk<A> chunk = next_chunk(0, kUnroll);
#pragma unroll
      for (int c = 0; c < kSums; ++c) {
        sums[c].template add<kUnroll>(params, channel[c], {0, kUnroll, chunk.count, chunk.weight},
                                      [&](int i) { return batch.slot[i].element(c); });
      }
    } else {
#pragma unroll
      for (int s = 0; s < kUnroll; ++s) {
        const Chunk<A> chunk = next_chunk(0, kCount);
        sums[0].template add<kCount>(params, channel[0], {0, kCount, chunk.count, chunk.weight},
                                     [&](int i) { return batch.slot[s].element(i); });
      }
    }
  }

  __device__ __forceinline__ void part(int64_t position, int first, int last) {
    Slot slot;
    slot.template load<kChannels>(params, place.n, place.c, position, first, last);
    if constexpr (kChannels) {
      const Chunk<A> chunk = next_chunk(0, 1);
#pragma unroll
      for (int c = 0; c < kSums; ++c) {
        sums[c].template add<1>(params, channel[c], {0, 1, chunk.count, chunk.weight},
                                [&](int) { return slot.element(c); });
      }
    } else if (first < last) {
      const Chunk<A> chunk = next_chunk(first, last);
      sums[0].template add<kCount>(params, channel[0], chunk, [&](int i) { return slot.element(i); });
    }
  }
};

// Sums over `count` threads whose numbers are `step` apart, in the first of them. All threads of the block call it.
template <typename Sums, int kCount>
__device__ __forceinline__ void merge_threads(Sums (&shared)[kCount][kThreads], bool takes_part, int index, int count,
                                              int step) {
  __syncthreads();
#pragma unroll 1
  for (int left = count; left > 1;) {
    const int half = (left + 1) / 2;
    if (takes_part && index + half < left) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) shared[i][threadIdx.x].merge(shared[i][threadIdx.x + half * step]);
    }
    left = half;
    __syncthreads();
  }
}
// The same of what each of them has: the first one's `own` is the result.
template <int kCount>
__device__ __forceinline__ void merge_threads(GradientSums (&shared)[kCount][kThreads], GradientSums (&own)[kCount],
                                              bool takes_part, int index, int count, int step) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) shared[i][threadIdx.x] = own[i];
  merge_threads(shared, takes_part, index, count, step);
#pragma unroll
  for (int i = 0; i < kCount; ++i) own[i] = shared[i][threadIdx.x];
}
template <int kCount>
__device__ __forceinline__ void merge_threads(PivotSums (&shared)[kCount][kThreads], Moments (&own)[kCount],
                                              bool takes_part, int index, int count, int step) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) shared[i][threadIdx.x] = PivotSums::of_mean(own[i]);
  merge_threads(shared, takes_part, index, count, step);
  double pivot[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i)
    pivot[i] = takes_part ? shared[i][static_cast<int>(threadIdx.x) - index * step].mean() : 0;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kCount; ++i) shared[i][threadIdx.x] = PivotSums::of(own[i], pivot[i]);
  merge_threads(shared, takes_part, index, count, step);
#pragma unroll
  for (int i = 0; i < kCount; ++i) own[i] = shared[i][threadIdx.x].moments(pivot[i]);
}

// The last blocks first: what the kernel before wrote last, and what the kernel behind reads first, may still be in the
// L2 cache.
template <typename T, typename R, bool kChannels, typename Sums>
__global__ void __launch_bounds__(kThreads, kBlocksPerMultiprocessor)
    convt3d_norm_reduce(const __grid_constant__ Params<T, R> params) {
  using Result = typename Sums::Result;
  constexpr int kSums = Reducer<kChannels, Sums, T, R>::kSums;
  auto& shared = static_shared_memory<typename Sums::Shared[kSums][kThreads]>();
  const Plan& plan = params.plan;
  const int64_t plane = plan.splits * params.shape.rows();
  const int64_t blocks = plan.blocks();
#pragma unroll 1
  for (int64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
    const Place place = place_of<kChannels>(params.shape, plan, blocks - 1 - block);
    Reducer<kChannels, Sums, T, R> reducer(params, place);
    if (place.exists) {
      const int64_t phase = params.phase + place.n * params.x.n + place.c * params.x.c;
      visit_slots<kChannels, Sums::Slot::kCount>(params.shape, plan, phase, place, Sums::Slot::vector(params), reducer);
    }
    const int index = kChannels ? place.other : place.lane;
    const int count = kChannels ? plan.others : plan.lanes;
    const auto exists = [&](int i) { return place.exists && place.c + i < params.shape.channels; };
    Result results[kSums] = {};
    StatisticWalk walk(params.shape, place.n, place.c);
#pragma unroll
    for (int i = 0; i < kSums; ++i, walk.next()) {
      if (exists(i)) results[i] = reducer.sums[i].result(params, walk.index(), reducer.count);
    }
    merge_threads(shared, results, place.other < plan.others, index, count, kChannels ? plan.lanes : 1);
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      const int64_t row = place.n * params.shape.channels + place.c + i;
      if (exists(i) && index == 0) {
        Sums::store(params.partial + place.split * params.shape.rows() + row, plane, results[i]);
      }
    }
    __syncthreads();
  }
}

}  // namespace convt3d::norm
