// A thread's way through its slots (norm/plan.h), the same in every pass: whole ones several at a time, by vectors, the
// others by elements.
#pragma once

#include <cstdint>

#include "norm/params.cuh"

namespace convt3d::norm {

template <typename T>
constexpr int kSlot = 16 / static_cast<int>(sizeof(T));

template <typename T, int kCount>
struct alignas(16) Pack {
  T value[kCount];
};

template <typename T, int kCount>
__device__ __forceinline__ void load_vector(Pack<T, kCount>& pack, const T* source) {
  constexpr int kVectors = sizeof(pack) / sizeof(uint4);
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    reinterpret_cast<uint4*>(&pack)[i] = reinterpret_cast<const uint4*>(source)[i];
  }
}

template <typename T, int kCount>
__device__ __forceinline__ void store_vector(T* destination, const Pack<T, kCount>& pack) {
  constexpr int kVectors = sizeof(pack) / sizeof(uint4);
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    reinterpret_cast<uint4*>(destination)[i] = reinterpret_cast<const uint4*>(&pack)[i];
  }
}

// Elements [first, last) of the slot whose first one is at (n, c, p); those outside are 0.
template <bool kChannels, typename T, int kCount>
__device__ __forceinline__ void load_slot(Pack<T, kCount>& pack, const View<const T>& view, int64_t n, int64_t c,
                                          int64_t p, int first, int last) {
  const T* const source = view.data + n * view.n + c * view.c + p * view.p;
  if (view.vector && last - first == kCount) return load_vector(pack, source);
  const int64_t step = kChannels ? view.c : view.p;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    pack.value[i] = i >= first && i < last ? source[i * step] : from_accumulator<T>(Accumulator<T>(0));
  }
}

template <bool kChannels, typename T, int kCount>
__device__ __forceinline__ void store_slot(const View<T>& view, int64_t n, int64_t c, int64_t p,
                                           const Pack<T, kCount>& pack, int first, int last) {
  T* const destination = view.data + n * view.n + c * view.c + p * view.p;
  if (view.vector && last - first == kCount) return store_vector(destination, pack);
  const int64_t step = kChannels ? view.c : view.p;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (i >= first && i < last) destination[i * step] = pack.value[i];
  }
}

template <typename Slot, int kUnroll>
struct SlotBatch {
  Slot slot[kUnroll];
};

template <typename A>
struct Element {
  A x, grad;
};

// What a pass of the forward reads: a slot of the convolution's output.
template <typename T, typename R>
struct InputSlot {
  static constexpr int kCount = kSlot<T>;
  Pack<T, kCount> x;

  static __device__ __forceinline__ bool vector(const Params<T, R>& params) { return params.x.vector; }

  template <bool kChannels>
  __device__ __forceinline__ void load(const Params<T, R>& params, int64_t n, int64_t c, int64_t p, int first,
                                       int last) {
    load_slot<kChannels>(x, params.x, n, c, p, first, last);
  }
  __device__ __forceinline__ Element<Accumulator<T>> element(int i) const { return {to_accumulator(x.value[i]), 0}; }
};

// What a pass of the backward reads: a slot of the convolution's output and of the gradient of the norm's result.
template <typename T, typename R>
struct GradientSlot {
  static constexpr int kCount = kSlot<T>;
  Pack<T, kCount> x;
  Pack<R, kCount> grad;

  static __device__ __forceinline__ bool vector(const Params<T, R>& params) {
    return params.x.vector && params.grad_result.vector;
  }

  template <bool kChannels>
  __device__ __forceinline__ void load(const Params<T, R>& params, int64_t n, int64_t c, int64_t p, int first,
                                       int last) {
    load_slot<kChannels>(x, params.x, n, c, p, first, last);
    load_slot<kChannels>(grad, params.grad_result, n, c, p, first, last);
  }
  __device__ __forceinline__ Element<Accumulator<T>> element(int i) const {
    return {to_accumulator(x.value[i]), static_cast<Accumulator<T>>(to_accumulator(grad.value[i]))};
  }
};

// Where a thread works: channel `c` of image `n` or, where channels are contiguous, the slot of them that begins there.
struct Place {
  int64_t n, c;
  int64_t split;
  int32_t lane;   // along what is contiguous
  int32_t other;  // across
  bool exists;
};

template <bool kChannels>
__device__ __forceinline__ Place place_of(const Shape& shape, const Plan& plan, int64_t block) {
  Place place;
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t unit = block / plan.splits;
  place.split = block - unit * plan.splits;
  place.lane = thread % plan.lanes;
  place.other = thread / plan.lanes;
  if constexpr (kChannels) {
    place.n = unit / plan.channel_blocks;
    place.c = ((unit - place.n * plan.channel_blocks) * plan.lanes + place.lane) * plan.slot;
    place.exists = place.other < plan.others && place.c < shape.channels;
  } else {
    const int64_t row = unit * plan.others + place.other;
    place.n = row / shape.channels;
    place.c = row - place.n * shape.channels;
    place.exists = row < shape.rows();
  }
  return place;
}

// Visits the steps [begin, end) of a thread, `stride` apart. Of one that `is_whole` the visitor loads a batch and uses
// it, with kAhead while the next one's is on its way, where that was measured to be faster: the registers that it takes
// are other warps'. `parts` takes the others.
template <typename Visitor, typename IsWhole, typename Load, typename Use, typename Parts>
__device__ __forceinline__ void visit_steps(int64_t begin, int64_t end, int64_t stride, IsWhole&& is_whole, Load&& load,
                                            Use&& use, Parts&& parts) {
  typename Visitor::Batch next;
  bool is_loaded = Visitor::kAhead && begin < end && is_whole(begin);
  if (is_loaded) load(next, begin);
#pragma unroll 1
  for (int64_t at = begin; at < end; at += stride) {
    if constexpr (Visitor::kAhead) {
      const typename Visitor::Batch batch = next;
      const bool was_loaded = is_loaded;
      is_loaded = at + stride < end && is_whole(at + stride);
      if (is_loaded) load(next, at + stride);
      if (was_loaded) {
        use(batch, at);
      } else {
        parts(at);
      }
    } else if (is_whole(at)) {
      load(next, at);
      use(next, at);
    } else {
      parts(at);
    }
  }
}

// Visits the slots of a thread. A batch is Visitor::kUnroll whole slots, the first of them at a `position`, each `step`
// positions past the one before; `part(position, first, last)` has elements [first, last) of one.
template <bool kChannels, int kCount, typename Visitor>
__device__ __forceinline__ void visit_slots(const Shape& shape, const Plan& plan, int64_t phase, const Place& place,
                                            bool vector, Visitor& visitor) {
  using Batch = typename Visitor::Batch;
  constexpr int kUnroll = Visitor::kUnroll;
  const int64_t begin = place.split * plan.split_length;
  int64_t end = begin + plan.split_length;
  if constexpr (kChannels) {
    if (end > shape.positions) end = shape.positions;
    const int64_t step = plan.others;
    const int64_t left = shape.channels - place.c;
    const int count = left < kCount ? static_cast<int>(left) : kCount;
    const bool may_be_whole = vector && count == kCount;
    visit_steps<Visitor>(
        begin + place.other, end, step * kUnroll,
        [&](int64_t position) { return may_be_whole && position + (kUnroll - 1) * step < end; },
        [&](Batch& batch, int64_t position) { visitor.load(batch, position, step); },
        [&](const Batch& batch, int64_t position) { visitor.use(batch, position, step); },
        [&](int64_t position) {
#pragma unroll 1
          for (int i = 0; i < kUnroll && position + i * step < end; ++i) visitor.part(position + i * step, 0, count);
        });
  } else {
    // The slots of a row are those that are aligned, from the line of memory on in which the row begins: the first
    // begins `shift` elements before the row. A warp that reads and writes whole lines shares none with another.
    const int64_t shift = phase % (kSlotsOfLine * kCount);
    const int64_t slots = (shape.positions + shift + kCount - 1) / kCount;
    const int64_t whole_begin = (shift + kCount - 1) / kCount;
    if (end > slots) end = slots;
    const int64_t step = plan.lanes;
    const int64_t whole_end = end < (shape.positions + shift) / kCount ? end : (shape.positions + shift) / kCount;
    visit_steps<Visitor>(
        begin + place.lane, end, step * kUnroll,
        [&](int64_t slot) { return vector && slot >= whole_begin && slot + (kUnroll - 1) * step < whole_end; },
        [&](Batch& batch, int64_t slot) { visitor.load(batch, slot * kCount - shift, step * kCount); },
        [&](const Batch& batch, int64_t slot) { visitor.use(batch, slot * kCount - shift, step * kCount); },
        [&](int64_t slot) {
#pragma unroll 1
          for (int i = 0; i < kUnroll && slot + i * step < end; ++i) {
            const int64_t position = (slot + i * step) * kCount - shift;
            const int64_t left = shape.positions - position;
            const int64_t missing = position < 0 ? -position : 0;
            visitor.part(position, missing < kCount ? static_cast<int>(missing) : kCount,
                         left < kCount ? static_cast<int>(left) : kCount);
          }
        });
  }
}

}  // namespace convt3d::norm
