// Segments that the copy engine cannot take: from a warp's staging to memory by its threads. Instructions are what
// bounds it: what does not change within a unit is computed once for a batch, and short ends of rows share a warp.
#pragma once

#include "kernels/halo_params.h"

namespace convt3d {

// A segment of a warpgroup's outputs, as positions of the tile.
struct alignas(kHaloStoredSegmentBytes) HaloStoredSegment {
  uint16_t d;
  uint16_t h;
  uint16_t w;
  uint16_t columns;
  uint16_t first;   // column of the segment that `w` is
  uint16_t offset;  // in a warp's staging
};

enum class HaloRows {
  kWidths,       // [channel][place]: a thread's two columns are neighbours
  kWidthPhases,  // ... and so are their two phases
  kChannels,     // [place][channel]
};

// Of one warp and unit.
template <typename T>
class HaloThreadStore {
 public:
  // `residue`: of each axis; `channel`: the slab's first, of all groups, and how many `channels` it has; `memory`: the
  // warp's staging.
  __device__ __forceinline__ HaloThreadStore(const HaloParams<T>& params, const HaloItem& item, const int (&residue)[3],
                                             bool paired, int channel, int channels, const unsigned char* memory)
      : params_(params),
        staging_(params.plan.staging),
        memory_(memory),
        lane_(static_cast<int>(threadIdx.x) % 32),
        paired_(paired),
        channels_(channels),
        images_(params.plan.batch - item.image) {
    int at[3];
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      const HaloAxis& axis = params.plan.axis[i];
      at[i] = item.first[i] * axis.stride + residue[i];
      // Strides are 1 or 2: a shift divides. Paired residues of the width count as outputs.
      const int log = i == 2 && paired ? 0 : axis.stride - 1;
      left_[i] = (axis.dst_size - 1 - at[i] >> log) + 1;
    }
    const Strides& stride = params.destination_stride;
    destination_ =
        params.destination + item.image * stride.n + channel * stride.c + stride.spatial(at[0], at[1], at[2]);
  }

  template <HaloRows kRows>
  __device__ __forceinline__ void store(const HaloStoredSegment& segment) const {
    const int phases = paired_ ? 2 : 1;
    const int count = min(segment.columns * phases, left_[2] - segment.w * phases);
    if (segment.d >= left_[0] || segment.h >= left_[1] || count <= 0) return;
    const HaloPlan& plan = params_.plan;
    T* destination = destination_ + params_.destination_stride.spatial(segment.d * plan.axis[0].stride,
                                                                       segment.h * plan.axis[1].stride,
                                                                       segment.w * plan.axis[2].stride);
    const int bytes = segment.first * staging_.column_bytes;
    if constexpr (kRows == HaloRows::kChannels) {
      store_places(destination, count, segment.offset + bytes);
    } else {
      store_rows(destination, count, memory_ + segment.offset, bytes);
    }
  }

 private:
  // `count` neighbours of every channel, whatever their alignment, `first_bytes` from the beginning of the channel's
  // row: runs of 32 take a warp each, and of the rest several channels share one.
  __device__ __forceinline__ void store_rows(T* destination, int count, const unsigned char* rows,
                                             int first_bytes) const {
    const int whole = count & ~31;
#pragma unroll 1
    for (int element = lane_; element < whole; element += 32) {
      store_channels(destination + element, rows, first_bytes + element * kBytes, 0, 1);
    }
    const int rest = count - whole;
    if (rest == 0) return;
    const int lanes_log = 32 - __clz(rest - 1);
    const int element = lane_ & ((1 << lanes_log) - 1);
    if (element >= rest) return;
    store_channels(destination + whole + element, rows, first_bytes + (whole + element) * kBytes, lane_ >> lanes_log,
                   32 >> lanes_log);
  }

  // One element of the channels `channel`, `channel + step`, ...
  __device__ __forceinline__ void store_channels(T* destination, const unsigned char* rows, int bytes, int channel,
                                                 int step) const {
    constexpr int kTogether = 8;  // on their way at a time
    // The plan leaves larger outputs to other engines.
    const uint32_t stride = static_cast<uint32_t>(params_.destination_stride.c);
    const auto ahead = [&](int channels) { return static_cast<uint64_t>(stride) * static_cast<uint32_t>(channels); };
    T* to = destination + ahead(channel);
    if (staging_.swizzle == 0) {
      const int pitch = step * staging_.pitch;
      const unsigned char* from = rows + bytes + channel * staging_.pitch;
#pragma unroll 1
      for (; channel + (kTogether - 1) * step < channels_; channel += kTogether * step) {
        T value[kTogether];
#pragma unroll
        for (int i = 0; i < kTogether; ++i) value[i] = *reinterpret_cast<const T*>(from + i * pitch);
#pragma unroll
        for (int i = 0; i < kTogether; ++i) to[ahead(i * step)] = value[i];
        from += kTogether * pitch;
        to += ahead(kTogether * step);
      }
    }
#pragma unroll 1
    for (; channel < channels_; channel += step) {
      const int staged = channel * staging_.pitch;
      *to = *reinterpret_cast<const T*>(rows + staged + (bytes ^ (staged >> 3 & staging_.swizzle)));
      to += ahead(step);
    }
  }

  // `count` places, each with its channels and images.
  __device__ __forceinline__ void store_places(T* destination, int count, int offset) const {
    const int log = params_.plan.image_log;
    // A step of the width, in outputs: of both phases every one, else each that the stride reaches.
    const int step = paired_ ? 1 : params_.plan.axis[2].stride;
    const int lanes_log = channels_ > 1 ? 32 - __clz(channels_ - 1) : 0;  // lanes of a place
    const int channel = lane_ & ((1 << lanes_log) - 1);
    if (channel >= channels_) return;
    for (int place = lane_ >> lanes_log; place < count << log; place += 32 >> lanes_log) {
      const int image = place & ((1 << log) - 1);
      if (image >= images_) continue;
      const int staged = offset + place * staging_.pitch;
      destination[image * params_.destination_stride.n + (place >> log) * step * params_.destination_stride.w +
                  channel] =
          *reinterpret_cast<const T*>(memory_ + staged + (channel * kBytes ^ (staged >> 3 & staging_.swizzle)));
    }
  }

  static constexpr int kBytes = static_cast<int>(sizeof(T));

  const HaloParams<T>& params_;
  const HaloStaging& staging_;
  const unsigned char* memory_;
  int lane_;
  bool paired_;
  int channels_;
  int64_t images_;
  T* destination_;  // of the tile's first position
  int left_[3];     // positions from there to the output's end; of paired widths, outputs
};

}  // namespace convt3d
