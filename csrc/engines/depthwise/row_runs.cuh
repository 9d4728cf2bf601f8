// Rows that no vector fits, where each follows the one before: what a block computes at a time are runs of rows, one
// for each plane. They are staged as they lie in memory, with the alignment that they have there, and leave as whole,
// aligned vectors but for their ends.
#pragma once

#include "device/ptx/shared_memory.cuh"
#include "engines/depthwise/rows_kernel.cuh"

namespace convt3d {

template <typename T>
class DepthwiseRowRuns {
 public:
  static constexpr int kVector = depthwise_vector(sizeof(T));

  // `volume`: the destination's first element of the block's channel and image. `first_item`: of the block at this
  // step. `begin`: bytes of shared memory before the runs.
  __device__ __forceinline__ DepthwiseRowRuns(const DepthwiseParams<T>& params, T* volume, int32_t first_item,
                                              int32_t begin)
      : params_(params),
        volume_(volume),
        staged_(reinterpret_cast<T*>(dynamic_shared_memory + begin)),
        first_item_(first_item),
        first_unit_d_(params.plan.by_units[1].quotient(first_item)),
        first_unit_h_(params.plan.by_units[1].remainder(first_item, first_unit_d_)) {}

  // A thread's outputs of a row, from `out_w` on, in the plane of residue `d` of a unit of the depth.
  __device__ __forceinline__ void stage(int32_t unit_d, int32_t row, int d, int32_t out_w,
                                        const DepthwiseVector<T>& vector) const {
    if (row >= height() || 2 * unit_d + d >= depth()) return;
    const int32_t valid = min(width() - out_w, kVector);
    T* const to =
        staged_ + place(unit_d, d) + alignment(run_begin(unit_d, d)) + (row - first_row(unit_d)) * width() + out_w;
    if constexpr (sizeof(T) == 2) {
      const auto* const elements = reinterpret_cast<const uint16_t*>(&vector);
      const bool odd = reinterpret_cast<uintptr_t>(to) % 4 != 0;
      auto* const halves = reinterpret_cast<uint16_t*>(to);
      // Words, and what is left at either end.
      if (odd && valid > 0) halves[0] = elements[0];
#pragma unroll
      for (int i = 0; i < kVector; i += 2) {
        const int32_t first = i + odd;
        const uint32_t low = odd ? elements[i + 1] : elements[i];
        const uint32_t high = odd ? (i + 2 < kVector ? elements[i + 2] : 0) : elements[i + 1];
        if (first + 1 < valid) {
          *reinterpret_cast<uint32_t*>(halves + first) = low | high << 16;
        } else if (first < valid) {
          halves[first] = static_cast<uint16_t>(low);
        }
      }
    } else {
#pragma unroll
      for (int i = 0; i < kVector; ++i) {
        if (i < valid) to[i] = vector.value[i];
      }
    }
  }

  // What has been staged, by all threads, past a barrier.
  __device__ __forceinline__ void store() const {
    const DepthwisePlan& plan = params_.plan;
    const int32_t last_item = min(plan.items, first_item_ + plan.slots) - 1;
    const int32_t last_unit_d = plan.by_units[1].quotient(last_item);
    const int32_t last_unit_h = plan.by_units[1].remainder(last_item, last_unit_d);
#pragma unroll 1
    for (int32_t unit_d = first_unit_d_; unit_d <= last_unit_d; ++unit_d) {
      const int32_t rows = (unit_d == last_unit_d ? min(height(), 2 * last_unit_h + 2) : height()) - first_row(unit_d);
#pragma unroll 1
      for (int d = 0; d < 2 && 2 * unit_d + d < depth(); ++d) {
        store_run(staged_ + place(unit_d, d), run_begin(unit_d, d), rows * width());
      }
    }
  }

 private:
  __device__ __forceinline__ int32_t depth() const { return params_.plan.axis[0].dst_size; }
  __device__ __forceinline__ int32_t height() const { return params_.plan.axis[1].dst_size; }
  __device__ __forceinline__ int32_t width() const { return params_.plan.axis[2].dst_size; }

  __device__ __forceinline__ int32_t first_row(int32_t unit_d) const {
    return unit_d == first_unit_d_ ? 2 * first_unit_h_ : 0;
  }
  __device__ __forceinline__ T* run_begin(int32_t unit_d, int d) const {
    const Strides& to = params_.destination_stride;
    return volume_ + (2 * unit_d + d) * to.d + first_row(unit_d) * to.h;
  }
  __device__ __forceinline__ static int32_t alignment(const T* run) {
    return static_cast<int32_t>(reinterpret_cast<uintptr_t>(run) % 16 / sizeof(T));
  }
  // Of a run's first vector, in elements: runs of residue 0, then those of residue 1.
  __device__ __forceinline__ int32_t place(int32_t unit_d, int d) const {
    const auto room = [](int32_t count) { return (count + 2 * kVector - 2) / kVector * kVector; };
    const int32_t before = unit_d - first_unit_d_;
    const int32_t first =
        before == 0 ? 0 : room((height() - 2 * first_unit_h_) * width()) + (before - 1) * room(height() * width());
    return first + (d == 0 ? 0 : params_.plan.run_elements);
  }

  __device__ __forceinline__ static void store_run(const T* staged, T* run, int32_t count) {
    const int32_t before = alignment(run);
    T* const to = run - before;
#pragma unroll 1
    for (int32_t at = static_cast<int32_t>(threadIdx.x) * kVector; at < before + count;
         at += kDepthwiseThreads * kVector) {
      if (at >= before && at + kVector <= before + count) {
        *reinterpret_cast<uint4*>(to + at) = *reinterpret_cast<const uint4*>(staged + at);
        continue;
      }
#pragma unroll 1
      for (int32_t i = max(at, before); i < min(at + kVector, before + count); ++i) to[i] = staged[i];
    }
  }

  const DepthwiseParams<T>& params_;
  T* volume_;
  T* staged_;
  int32_t first_item_;
  int32_t first_unit_d_;
  int32_t first_unit_h_;
};

}  // namespace convt3d
