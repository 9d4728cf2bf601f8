// A warp's accumulators (a slab: 16 rows) -> bias, ReLU, one rounding -> memory, along whichever axis is contiguous
// there: at once where a thread's accumulators are neighbours, else through shared memory.
#pragma once

#include "kernels/halo_params.h"

namespace convt3d {

// A position of a tile: four fields, each with a free bit above it, so that one subtraction compares all of them.
struct HaloPosition {
  static constexpr uint32_t kFree = 1u << 31 | 1u << 26 | 1u << 18 | 1u << 9;
  static constexpr uint32_t kNowhere = ~kFree;  // past every last position

  __device__ __forceinline__ static uint32_t pack(int image, int d, int h, int w) {
    return static_cast<uint32_t>(image << 27 | d << 19 | h << 10 | w);
  }
  // No field of `position` is greater than that of `last`.
  __device__ __forceinline__ static bool within(uint32_t position, uint32_t last) {
    return (((last | kFree) - position) & kFree) == kFree;
  }
};

// Where a column of the instructions goes in every tile.
struct alignas(16) HaloColumn {
  int64_t offset;  // in elements, from the tile's first output
  uint32_t position;
};

// Both warpgroups' columns, one after the other; by all threads of the block.
template <typename T>
__device__ __forceinline__ void fill_columns(const HaloParams<T>& params, HaloColumn* columns) {
  const HaloPlan& plan = params.plan;
  for (int index = static_cast<int>(threadIdx.x); index < 2 * plan.n; index += static_cast<int>(blockDim.x)) {
    const int column = index % plan.n;
    const int start = index < plan.n ? 0 : plan.second_start >> plan.image_log;
    const int image = column & ((1 << plan.image_log) - 1);
    const int flat = start + (column >> plan.image_log);
    const int w = flat % plan.halo[2];
    const int h = flat / plan.halo[2] % plan.halo[1];
    const int d = flat / plan.halo[2] / plan.halo[1];
    const bool exists = column < plan.columns && w < plan.tile[2] && h < plan.tile[1] && d < plan.tile[0];
    const Strides& stride = params.destination_stride;
    columns[index].offset =
        image * stride.n + stride.spatial(d * plan.axis[0].stride, h * plan.axis[1].stride, w * plan.axis[2].stride);
    columns[index].position = exists ? HaloPosition::pack(image, d, h, w) : HaloPosition::kNowhere;
  }
}

template <typename T, int kCount>
struct alignas(sizeof(T) * kCount) Neighbours {
  T value[kCount];
};

// The greater; a NaN stays.
__device__ __forceinline__ float greater(float a, float b) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}

template <typename T, int kN, int kSets>
class HaloEpilogue {
 public:
  // `columns`: the warpgroup's. `staging`: the warp's.
  __device__ __forceinline__ HaloEpilogue(const HaloParams<T>& params, const HaloItem& item, const HaloPhase& phase,
                                          const HaloSlab& slab, const HaloColumn* columns, void* staging)
      : params_(params),
        columns_(columns),
        staging_(static_cast<T*>(staging)),
        lane_(static_cast<int>(threadIdx.x) % 32),
        paired_(kSets == 2 || params.plan.pair_rows),
        channels_(params.plan.out_channels - slab.channel),
        floor_(params.relu ? 0.0f : -INFINITY) {
    const HaloPlan& plan = params.plan;
    const int residue[3] = {plan.axis[0].in_m > 1 ? slab.depth : phase.depth,
                            plan.axis[1].in_m > 1 ? slab.height : phase.height,
                            paired_                 ? 0
                            : plan.axis[2].in_m > 1 ? slab.width
                                                    : phase.width};
    const int64_t channel = item.group * plan.out_channels + slab.channel;
    const Strides& stride = params.destination_stride;
    int first[3];
    int last[3];
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      const HaloAxis& axis = plan.axis[i];
      first[i] = item.first[i] * axis.stride + residue[i];
      last[i] = last_position(axis, first[i], plan.tile[i]);
    }
    const int images = static_cast<int>(min(plan.batch - item.image, int64_t{1} << plan.image_log)) - 1;
    const int last_second = paired_ ? last_position(plan.axis[2], first[2] + 1, plan.tile[2]) : last[2];
    const bool any = last[0] >= 0 && last[1] >= 0;
    any_[0] = any && last[2] >= 0;
    any_[1] = any && last_second >= 0;
    last_[0] = HaloPosition::pack(images, last[0], last[1], last[2]);
    last_[1] = HaloPosition::pack(images, last[0], last[1], last_second);
    destination_ =
        params.destination + item.image * stride.n + channel * stride.c + stride.spatial(first[0], first[1], first[2]);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = lane_ / 4 + (plan.pair_rows ? 0 : 8 * i);
      bias_[i] = params.bias != nullptr && row < channels_
                     ? to_accumulator(__ldg(params.bias + (channel + row) * params.bias_stride))
                     : 0;
    }
  }

  // c[set][4j + i]: fragment j of 16 rows x 8 columns, as wgmma leaves it.
  __device__ __forceinline__ void store(const float (&c)[kSets][kN / 2]) {
    if (!any_[0]) return;
    if (params_.destination_channels_contiguous) {
      if constexpr (kSets == 1) {
        if (paired_) {
          params_.destination_vectors ? store_channels<true, true>(c[0]) : store_channels<true, false>(c[0]);
        } else {
          params_.destination_vectors ? store_channels<false, true>(c[0]) : store_channels<false, false>(c[0]);
        }
      }
    } else if (params_.destination_vectors) {
      store_at_once(c);
    } else {
      store_widths(c);
    }
  }

 private:
  // Of the outputs at `first`, `first` + stride, ...
  __device__ __forceinline__ static int last_position(const HaloAxis& axis, int first, int tile) {
    const int left = axis.dst_size - 1 - first;
    return left < 0 ? -1 : min(tile - 1, axis.stride == 2 ? left / 2 : left);
  }

  __device__ __forceinline__ bool exists(const HaloColumn& column, int phase) const {
    return (phase == 0 ? any_[0] : any_[1]) && HaloPosition::within(column.position, phase == 0 ? last_[0] : last_[1]);
  }

  // Of the accumulators' row lane/4 (half 0) or lane/4 + 8.
  __device__ __forceinline__ T finish(float value, int half) const {
    return from_accumulator<T>(greater(value + bias_[half], floor_));
  }

  // A thread's neighbours along the width: two positions of both phases, or of one.
  __device__ __forceinline__ Neighbours<T, 4> paired(const float (&c)[kSets][kN / 2], int j, int half) const {
    Neighbours<T, 4> out;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if constexpr (kSets == 2) {
        out.value[2 * i] = finish(c[0][4 * j + i + 2 * half], half);
        out.value[2 * i + 1] = finish(c[1][4 * j + i + 2 * half], half);
      } else {
        out.value[2 * i] = finish(c[0][4 * j + i], 0);
        out.value[2 * i + 1] = finish(c[0][4 * j + i + 2], 1);
      }
    }
    return out;
  }
  __device__ __forceinline__ Neighbours<T, 2> plain(const float (&c)[kSets][kN / 2], int j, int half) const {
    Neighbours<T, 2> out;
#pragma unroll
    for (int i = 0; i < 2; ++i) out.value[i] = finish(c[0][4 * j + i + 2 * half], half);
    return out;
  }

  __device__ __forceinline__ void store_at_once(const float (&c)[kSets][kN / 2]) {
    const int row = lane_ / 4;
    T* const rows[2] = {destination_ + row * params_.destination_stride.c,
                        destination_ + (row + 8) * params_.destination_stride.c};
    const bool exists[2] = {row < channels_, row + 8 < channels_};
    if (!exists[0]) return;
    const HaloColumn* columns = columns_ + lane_ % 4 * 2;
    if (paired_) {
#pragma unroll
      for (int j = 0; j < kN / 8; ++j) {
        const HaloColumn column = columns[8 * j];
        if (!HaloPosition::within(column.position, last_[0])) continue;
        *reinterpret_cast<Neighbours<T, 4>*>(rows[0] + column.offset) = paired(c, j, 0);
        if (kSets == 2 && exists[1]) *reinterpret_cast<Neighbours<T, 4>*>(rows[1] + column.offset) = paired(c, j, 1);
      }
    } else {
#pragma unroll
      for (int j = 0; j < kN / 8; ++j) {
        const HaloColumn column = columns[8 * j];
        if (!HaloPosition::within(column.position, last_[0])) continue;
        *reinterpret_cast<Neighbours<T, 2>*>(rows[0] + column.offset) = plain(c, j, 0);
        if (exists[1]) *reinterpret_cast<Neighbours<T, 2>*>(rows[1] + column.offset) = plain(c, j, 1);
      }
    }
  }

  // Rows of channels, whatever their alignment: 32 neighbours of one row a store.
  __device__ __forceinline__ void store_widths(const float (&c)[kSets][kN / 2]) {
    constexpr int kFragments = kSets == 2 ? 2 : 4;
    const int rows = kSets == 2 || !paired_ ? 16 : 8;
    const int outs = 8 * kFragments * (paired_ ? 2 : 1);
    const int pitch = outs + (paired_ ? 16 : 8);
    const int channels = min(rows, channels_);
#pragma unroll
    for (int j = 0; j < kN / 8; j += kFragments) {
#pragma unroll
      for (int i = 0; i < kFragments; ++i) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          T* row = staging_ + (lane_ / 4 + 8 * half) * pitch;
          if (kSets == 2 || (paired_ && half == 0)) {
            *reinterpret_cast<Neighbours<T, 4>*>(row + 16 * i + lane_ % 4 * 4) = paired(c, j + i, half);
          } else if (!paired_) {
            *reinterpret_cast<Neighbours<T, 2>*>(row + 8 * i + lane_ % 4 * 2) = plain(c, j + i, half);
          }
        }
      }
      __syncwarp();
      for (int first = 0; first < outs; first += 32) {
        const int out = neighbour(first + lane_, outs);
        const int phase = paired_ ? out % 2 : 0;
        const HaloColumn column = columns_[8 * j + (paired_ ? out / 2 : out)];
        if (!exists(column, phase)) continue;
        T* destination = destination_ + column.offset + phase * params_.destination_stride.w;
        const T* staged = staging_ + out;
#pragma unroll 8
        for (int row = 0; row < channels; ++row) {
          *destination = *staged;
          destination += params_.destination_stride.c;
          staged += pitch;
        }
      }
      __syncwarp();
    }
  }

  // Where images count fastest, neighbours along the width are 8 columns apart: lanes take them in the width's order.
  __device__ __forceinline__ int neighbour(int out, int outs) const {
    if (params_.plan.image_log == 0) return out;
    const int phase = paired_ ? out % 2 : 0;
    const int column = paired_ ? out / 2 : out;
    const int widths = (paired_ ? outs / 2 : outs) >> 3;
    const int moved = column % widths * 8 + column / widths;
    return paired_ ? 2 * moved + phase : moved;
  }

  // A place is a column, or one of its two phases where rows are paired; its channels are neighbours.
  template <bool kPaired, bool kVectors>
  __device__ __forceinline__ void store_channels(const float (&c)[kN / 2]) {
    constexpr int kFragments = 4;
    constexpr int kPhases = kPaired ? 2 : 1;
    constexpr int kPlaces = 8 * kFragments * kPhases;
    constexpr int kSlabChannels = 16 / kPhases;
    constexpr int kPitch = kSlabChannels + 4;
    constexpr int kStored = kVectors ? 4 : 1;             // channels of one store
    constexpr int kPlaceLanes = kSlabChannels / kStored;  // lanes that share a place
    constexpr int kRoundPlaces = 32 / kPlaceLanes;        // places of one round of stores
    const int channel = lane_ % kPlaceLanes * kStored;
    const int first_place = lane_ / kPlaceLanes;
    const int64_t phase_step = params_.destination_stride.w;
#pragma unroll
    for (int j = 0; j < kN / 8; j += kFragments) {
#pragma unroll
      for (int i = 0; i < 4 * kFragments; ++i) {
        const int column = 8 * (i / 4) + lane_ % 4 * 2 + i % 2;
        const int half = i / 2 % 2;
        const int place = kPaired ? 2 * column + half : column;
        staging_[place * kPitch + lane_ / 4 + (kPaired ? 0 : 8 * half)] = finish(c[4 * j + i], half);
      }
      __syncwarp();
      if (channel < channels_) {
#pragma unroll 2
        for (int round = 0; round < kPlaces / kRoundPlaces; ++round) {
          const int place = first_place + round * kRoundPlaces;
          const int phase = kPaired ? place % 2 : 0;
          const HaloColumn column = columns_[8 * j + place / kPhases];
          if (!exists(column, phase)) continue;
          *reinterpret_cast<Neighbours<T, kStored>*>(destination_ + column.offset + phase * phase_step + channel) =
              *reinterpret_cast<const Neighbours<T, kStored>*>(staging_ + place * kPitch + channel);
        }
      }
      __syncwarp();
    }
  }

  const HaloParams<T>& params_;
  const HaloColumn* columns_;
  T* staging_;
  int lane_;
  bool paired_;
  int channels_;  // from the slab's first on
  float floor_;
  bool any_[2];       // of the two width phases
  uint32_t last_[2];  // ... their last position in the tile
  T* destination_;    // of the tile's first output and the slab's first channel
  float bias_[2];
};

}  // namespace convt3d
