// Segments that TMA does not take and that are no runs: from a warp's staging to memory by its threads.
#pragma once

#include "device/swizzle.h"
#include "engines/wgmma/store/target.cuh"

namespace convt3d {

// Of one warp and pass.
template <typename T>
class WgmmaThreadStore {
 public:
  // `channels`: of the slab; `images`: of the batch, from the work tile's first on; `memory`: the warp's staging.
  __device__ __forceinline__ WgmmaThreadStore(const WgmmaParams<T>& params, const WgmmaTarget<T>& target,
                                              bool paired_width, int channels, int64_t images,
                                              const unsigned char* memory)
      : params_(params),
        store_(params.plan.store),
        target_(target),
        channels_(channels),
        images_(images),
        memory_(memory),
        lane_(static_cast<int>(threadIdx.x) % 32),
        paired_width_(paired_width) {}

  template <WgmmaStagedOrder kOrder>
  __device__ __forceinline__ void store(const WgmmaStoredSegment& segment) const {
    const int phases = paired_width_ ? 2 : 1;
    const int count = min(segment.columns * phases, target_.left[2] - segment.w * phases);
    if (segment.d >= target_.left[0] || segment.h >= target_.left[1] || count <= 0) return;
    T* destination = target_.at(params_, segment.d, segment.h, segment.w);
    const int bytes = segment.first * store_.column_bytes;
    if constexpr (kOrder == WgmmaStagedOrder::kChannels) {
      store_voxels(destination, count, segment.offset + bytes);
    } else {
      store_rows(destination, count, memory_ + segment.offset, bytes);
    }
  }

 private:
  // `count` neighbours of every channel, `first_bytes` from the beginning of the channel's row: a part of a box.
  __device__ __forceinline__ void store_rows(T* destination, int count, const unsigned char* rows,
                                             int first_bytes) const {
#pragma unroll 1
    for (int channel = 0; channel < channels_; ++channel) {
      const int staged = channel * store_.pitch;
      for (int element = lane_; element < count; element += 32) {
        const int bytes = first_bytes + element * kBytes;
        destination[channel * params_.destination_stride.c + element] =
            *reinterpret_cast<const T*>(rows + staged + (bytes ^ swizzle_flip(staged, store_.swizzle)));
      }
    }
  }

  // `count` voxels, each with its channels and images.
  __device__ __forceinline__ void store_voxels(T* destination, int count, int offset) const {
    const int log = params_.plan.tile.image_log;
    // A step of the width, in outputs: of both phases every one, else each that the stride reaches.
    const int step = paired_width_ ? 1 : params_.plan.arrangement.axis[2].stride;
    const int lanes_log = channels_ > 1 ? 32 - __clz(channels_ - 1) : 0;  // lanes of a voxel
    const int channel = lane_ & ((1 << lanes_log) - 1);
    if (channel >= channels_) return;
    for (int voxel = lane_ >> lanes_log; voxel < count << log; voxel += 32 >> lanes_log) {
      const int image = voxel & ((1 << log) - 1);
      if (image >= images_) continue;
      const int staged = offset + voxel * store_.pitch;
      destination[image * params_.destination_stride.n + (voxel >> log) * step * params_.destination_stride.w +
                  channel] =
          *reinterpret_cast<const T*>(memory_ + staged + (channel * kBytes ^ swizzle_flip(staged, store_.swizzle)));
    }
  }

  static constexpr int kBytes = static_cast<int>(sizeof(T));

  const WgmmaParams<T>& params_;
  const WgmmaStore& store_;
  WgmmaTarget<T> target_;
  int channels_;
  int64_t images_;
  const unsigned char* memory_;
  int lane_;
  bool paired_width_;
};

}  // namespace convt3d
