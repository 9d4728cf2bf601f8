// From a block's sums to memory: the epilogue, one rounding, and stores along whichever axis is contiguous.
#pragma once

#include "device/numeric.cuh"
#include "device/ptx/global_memory.cuh"
#include "device/ptx/matrices.cuh"
#include "device/ptx/thread_barrier.cuh"
#include "device/ptx/threads.cuh"
#include "engines/mma/correlation/mainloop.cuh"
#include "engines/mma/correlation/params.cuh"
#include "engines/mma/correlation/split_sum.cuh"
#include "engines/mma/correlation/staged_rows.cuh"
#include "epilogue/apply.cuh"
#include "epilogue/moments.cuh"

namespace convt3d::mma {

// Made where sums are stored: what it knows of its thread takes no registers while the thread multiplies. kNorms: for a
// norm behind, it may gather moments and apply the norm.
template <typename T, int kTerms, Shape kShape, bool kNorms>
class BlockStore {
  static constexpr ShapeExtent kExtent = shape_extent(kShape, kTerms);
  static constexpr int kJoined = joined_fragments(kExtent.warp_n, sizeof(T));
  static constexpr int kLaneChannels = lane_channels(kExtent.warp_n, sizeof(T));
  static constexpr int kThreads = 32 * kExtent.warps();
  using Product = WarpProduct<T, kTerms, kExtent.warp_m, kExtent.warp_n>;
  using Sums = float[Product::kRows][Product::kColumns][4];

 public:
  // `thread`: of those that multiply. `bias`: of the block's channels, read where there is one. `offsets`, `staging`:
  // shared memory for a number for each position of each warp, and for rows.
  __device__ __forceinline__ BlockStore(const StoreParams<T>& params, const BlockShare& share, int32_t thread,
                                        const float* bias, int64_t* offsets, unsigned char* staging)
      : params_(params),
        share_(share),
        bias_(bias),
        offsets_(offsets),
        staging_(staging),
        thread_(hopper::computed_here(thread)),
        lane_(thread_ % 32),
        first_m_(thread_ / 32 / kExtent.warps_n * kExtent.warp_m),
        first_n_(thread_ / 32 % kExtent.warps_n * kExtent.warp_n) {}

  // All threads that multiply. `begins_box`: nothing of this box was stored before.
  __device__ __forceinline__ void operator()(int32_t box, bool begins_box, const Residue& residue, Sums& sum) const {
    apply_epilogue(sum);
    if constexpr (kNorms) {
      if (params_.epilogue.moments.parts != nullptr) gather_moments(box_here(box), residue, sum);
      if (!params_.epilogue.stores) return;
      if (params_.epilogue.norm.norms != nullptr) normalise(box_here(box).image, sum);
    }
    if (params_.stores_channels || params_.stores_pairs) {
      int64_t* const offsets = offsets_ + thread_ / 32 * kExtent.warp_m;
      if (begins_box || !params_.residues_alike) {
        const BlockBox at = box_here(box);
        __syncwarp();  // what was stored before is read
        fill_position_offsets(at, params_.residues_alike ? Residue{} : residue, offsets);
        __syncwarp();
      }
      const int64_t shift = params_.residues_alike ? shift_of(residue) : 0;
      if constexpr (sizeof(T) == 2) {
        if (params_.stores_pairs) return store_pairs(sum, offsets, shift);
      }
      store_channels(sum, offsets, shift);
      return;
    }
    const bool first = !params_.joins_width || residue.at[2] == 0;
    const bool last = !params_.joins_width || residue.at[2] == params_.residues[2] - 1;
    if (first) sync_threads(kMultipliers, kThreads);
    stage_rows(residue, sum);
    if (last) {
      const BlockBox at = box_here(box);
      fill_row_offsets(at, residue);
      sync_threads(kMultipliers, kThreads);
      StagedRows<T, kExtent.m(), kThreads>(params_, share_, offsets_, staging_, thread_)(at, residue);
    }
  }

 private:
  // Not kept while sums are.
  __device__ __forceinline__ BlockBox box_here(int32_t box) const {
    return box_at(params_, hopper::computed_here(box));
  }

  // Of channel 0 at a position of the box, given by its row and width; negative where there is none.
  __device__ __forceinline__ int64_t offset_of(const BlockBox& box, const Residue& residue, int32_t row, int32_t w,
                                               int32_t w_residue) const {
    if (row >= params_.box_rows.count) return -1;
    const BoxPlace place = params_.box_rows.place(row);
    const int64_t image = int64_t{box.image} + place.image;
    const int64_t at_d = wide_product(box.first[0] + place.d, params_.residues[0]) + residue.at[0];
    const int64_t at_h = wide_product(box.first[1] + place.h, params_.residues[1]) + residue.at[1];
    const int64_t at_w = wide_product(box.first[2] + w, params_.residues[2]) + w_residue;
    if (image >= params_.batch || at_d >= params_.size[0] || at_h >= params_.size[1] || at_w >= params_.size[2]) {
      return -1;
    }
    return image * params_.destination_stride.n + params_.destination_stride.spatial(at_d, at_h, at_w);
  }
  // Whether a position of a box of one image is an output. A box past the output's end ends within 32 bits.
  __device__ __forceinline__ bool is_output(const BlockBox& box, const Residue& residue, int32_t row) const {
    const int32_t w = params_.box_width.take(row);
    const BoxPlace place = params_.box_rows.place(row);
    const auto inside = [&](int axis, int32_t position) {
      const uint32_t at =
          static_cast<uint32_t>(box.first[axis] + position) * static_cast<uint32_t>(params_.residues[axis]) +
          static_cast<uint32_t>(residue.at[axis]);
      return at < static_cast<uint32_t>(params_.size[axis]);
    };
    return row < params_.box_rows.count && inside(0, place.d) && inside(1, place.h) && inside(2, w);
  }

  __device__ __forceinline__ int64_t shift_of(const Residue& residue) const {
    return params_.destination_stride.spatial(residue.at[0], residue.at[1], residue.at[2]);
  }

  // Of the warp's positions.
  __device__ __forceinline__ void fill_position_offsets(const BlockBox& box, const Residue& residue,
                                                        int64_t* offsets) const {
    for (int32_t i = lane_; i < kExtent.warp_m; i += 32) {
      int32_t row = first_m_ + i;
      const int32_t w = params_.box_width.take(row);
      offsets[i] = offset_of(box, residue, row, w, residue.at[2]);
    }
  }
  __device__ __forceinline__ void fill_row_offsets(const BlockBox& box, const Residue& residue) const {
    for (int32_t row = thread_; row < params_.box_rows.count; row += kThreads) {
      offsets_[row] = offset_of(box, residue, row, 0, params_.joins_width ? 0 : residue.at[2]);
    }
  }

  // Of the block's channels, the one of column `c` of fragment `j`.
  __device__ __forceinline__ int32_t channel_of(int j, int c, int32_t lane) const {
    return first_n_ + (params_.stores_channels ? first_channel_of(j, lane % 4, kJoined) : 8 * j + lane % 4 * 2) + c;
  }
  __device__ __forceinline__ int32_t channel_of(int j, int c) const { return channel_of(j, c, lane_); }

  __device__ __forceinline__ void apply_epilogue(Sums& sum) const {
    if (params_.epilogue.bias.data != nullptr) {
#pragma unroll
      for (int j = 0; j < Product::kColumns; ++j) {
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          const float bias = bias_[channel_of(j, c)];
#pragma unroll
          for (int i = 0; i < Product::kRows; ++i) {
            sum[i][j][c] += bias;
            sum[i][j][2 + c] += bias;
          }
        }
      }
    }
    activate(params_.epilogue, &sum[0][0][0], Product::kRows * Product::kColumns * 4);
  }

  // Lanes with the same four channels have their values at different positions.
  __device__ __forceinline__ void gather_moments(const BlockBox& box, const Residue& residue, const Sums& sum) const {
    static_assert(kExtent.warp_m % 32 == 0 && 2 * Product::kRows <= 32);
    int32_t outputs = 0;  // bit i: that of the thread in rows 8i + lane / 4 is one
    int count = 0;        // of the warp
#pragma unroll
    for (int k = 0; k < kExtent.warp_m / 32; ++k) {
      const uint32_t word = __ballot_sync(0xFFFFFFFFu, is_output(box, residue, first_m_ + 32 * k + lane_));
      count += __popc(word);
#pragma unroll
      for (int i = 0; i < 4; ++i) outputs |= static_cast<int32_t>(word >> (8 * i + lane_ / 4) & 1) << (4 * k + i);
    }
    PartMoments* const part = params_.epilogue.moments.at(box.image, part_of(box, residue), share_.first_channel);
#pragma unroll
    for (int j = 0; j < Product::kColumns; ++j) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const int here = hopper::computed_here(outputs);  // no bit is kept by itself
        const auto visit = [&](auto&& use) {
#pragma unroll
          for (int i = 0; i < 2 * Product::kRows; ++i) {
            if ((here >> i & 1) != 0) use(sum[i / 2][j][i % 2 * 2 + c]);
          }
        };
        MomentSums<0b11100> sums;
        float all = 0;
        visit([&](float value) { all += value; });
        sums.choose_pivot(all, max(count, 1));
        visit([&](float value) { sums.add(value); });
        const PartMoments moments = sums.result(count);
        const int32_t n = channel_of(j, c, hopper::computed_here(lane_));
        if (lane_ < 4 && n < share_.channels) store_moments(part + n, moments);
      }
    }
  }

  // Images do not share the box.
  __device__ __forceinline__ void normalise(int32_t image, Sums& sum) const {
    const ChannelNorm* const norms = params_.epilogue.norm.at(image, share_.first_channel);
#pragma unroll
    for (int j = 0; j < Product::kColumns; ++j) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const ChannelNorm norm = norms[min(channel_of(j, c, hopper::computed_here(lane_)), share_.channels - 1)];
#pragma unroll
        for (int i = 0; i < Product::kRows; ++i) {
          sum[i][j][c] = normalised<T>(norm, sum[i][j][c]);
          sum[i][j][2 + c] = normalised<T>(norm, sum[i][j][2 + c]);
        }
      }
    }
  }
  // As CorrelationPlan::moment_parts counts them.
  __device__ __forceinline__ int64_t part_of(const BlockBox& box, const Residue& residue) const {
    int64_t number = 0;
#pragma unroll
    for (int i = 0; i < 3; ++i) number = number * params_.boxes[i].value + box.first[i] / params_.box[i];
    number = number * kExtent.warps_m + first_m_ / kExtent.warp_m;
#pragma unroll
    for (int i = 0; i < 3; ++i) number = number * params_.residues[i] + residue.at[i];
    return number;
  }

  // `shift`: from where positions are by their offsets.
  __device__ __forceinline__ void store_channels(const Sums& sum, const int64_t* offsets, int64_t shift) const {
    constexpr int kWord = 4 / static_cast<int>(sizeof(T));
    if (params_.channel_vector == kLaneChannels) return store_channels_by<kLaneChannels>(sum, offsets, shift);
    if constexpr (kWord > 1) {
      if (params_.channel_vector == 1) return store_channels_by<1>(sum, offsets, shift);
    }
    if constexpr (kWord < kLaneChannels) store_channels_by<kWord>(sum, offsets, shift);
  }
  // So many of a lane's channels are one aligned store.
  template <int kVector>
  __device__ __forceinline__ void store_channels_by(const Sums& sum, const int64_t* offsets, int64_t shift) const {
    T* const channel = params_.destination + shift + share_.first_channel + first_n_ + lane_ % 4 * kLaneChannels;
    const int32_t left = share_.channels - first_n_ - lane_ % 4 * kLaneChannels;
#pragma unroll
    for (int i = 0; i < Product::kRows; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int64_t offset = offsets[i * 16 + half * 8 + lane_ / 4];
        if (offset < 0) continue;
#pragma unroll
        for (int j = 0; j < Product::kColumns; j += kJoined) {
#pragma unroll
          for (int first = 0; first < kLaneChannels; first += kVector) {
            if (8 * j + first >= left) continue;
            alignas(kVector * sizeof(T)) T values[kVector];
#pragma unroll
            for (int c = 0; c < kVector; ++c) {
              values[c] = from_accumulator<T>(sum[i][j + (first + c) / 2][2 * half + (first + c) % 2]);
            }
            hopper::store_global(channel + offset + 8 * j + first, values);
          }
        }
      }
    }
  }

  // Two columns of a lane are the halves of a channel's word; eight lanes have neighbouring words.
  __device__ __forceinline__ void store_pairs(const Sums& sum, const int64_t* offsets, int64_t shift) const {
    const int32_t thread = hopper::computed_here(thread_);
    const int32_t first = thread / 32 % kExtent.warps_n * (kExtent.warp_n / 2) + thread % 4;
    const int32_t left = share_.channels / 2 - first;
    const int64_t step = 4 * params_.destination_stride.c;
    T* const channel = params_.destination + shift + (share_.first_channel / 2 + first) * params_.destination_stride.c;
#pragma unroll
    for (int i = 0; i < Product::kRows; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int64_t offset = offsets[i * 16 + half * 8 + thread % 32 / 4];
        if (offset < 0) continue;
        T* to = channel + offset;
#pragma unroll
        for (int j = 0; j < Product::kColumns; ++j, to += step) {
          if (4 * j >= left) continue;
          *reinterpret_cast<uint32_t*>(to) = rounded_pair<T>(sum[i][j][2 * half], sum[i][j][2 * half + 1]);
        }
      }
    }
  }

  __device__ __forceinline__ void stage_rows(const Residue& residue, const Sums& sum) const {
    if constexpr (sizeof(T) == 2) {
      if (params_.stages_matrices) return stage_matrices(residue, sum);
    }
    stage_elements(residue, sum);
  }

  // Sums of eight neighbouring positions and channels are a matrix, which is transposed on its way. Positions past the
  // box have room, too. Of two residues, a channel has the positions of one, then those of the other.
  __device__ __forceinline__ void stage_matrices(const Residue& residue, const Sums& sum) const {
    constexpr int kAtOnce = 4;  // matrices
    constexpr int kColumns = Product::kColumns;
    constexpr int kBeside = kColumns < kAtOnce ? kColumns : kAtOnce;  // along the channels, the others along positions
    static_assert(2 * Product::kRows * kColumns % kAtOnce == 0 && kColumns % kBeside == 0);
    const int32_t matrix = lane_ / 8;
    const int32_t position = (params_.joins_width ? residue.at[2] * kExtent.m() : 0) + first_m_ + matrix / kBeside * 8;
    const uint32_t to = hopper::shared_address(staging_) +
                        static_cast<uint32_t>((first_n_ + matrix % kBeside * 8 + lane_ % 8) * params_.staging_pitch +
                                              position * static_cast<int32_t>(sizeof(T)));
#pragma unroll
    for (int first = 0; first < 2 * Product::kRows * kColumns; first += kAtOnce) {
      uint32_t words[kAtOnce];
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        const int half = (first + k) / kColumns % 2;
        const float (&of)[4] = sum[(first + k) / kColumns / 2][(first + k) % kColumns];
        words[k] = rounded_pair<T>(of[2 * half], of[2 * half + 1]);
      }
      hopper::store_matrices_transposed(to + static_cast<uint32_t>(first % kColumns * 8 * params_.staging_pitch) +
                                            first / kColumns * 8 * static_cast<uint32_t>(sizeof(T)),
                                        words);
    }
  }

  __device__ __forceinline__ void stage_elements(const Residue& residue, const Sums& sum) const {
    const int32_t count = params_.box_rows.count * static_cast<int32_t>(params_.box_width.value);
    const int32_t step = params_.joins_width ? params_.residues[2] : 1;
    const int32_t shift = params_.joins_width ? residue.at[2] : 0;
    unsigned char* const channel = staging_ + (first_n_ + lane_ % 4 * 2) * params_.staging_pitch;
#pragma unroll
    for (int i = 0; i < Product::kRows; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int32_t m = first_m_ + i * 16 + half * 8 + lane_ / 4;
        if (m >= count) continue;
        unsigned char* const to = channel + (m * step + shift) * static_cast<int32_t>(sizeof(T));
#pragma unroll
        for (int j = 0; j < Product::kColumns; ++j) {
#pragma unroll
          for (int c = 0; c < 2; ++c) {
            *reinterpret_cast<T*>(to + (8 * j + c) * params_.staging_pitch) =
                from_accumulator<T>(sum[i][j][2 * half + c]);
          }
        }
      }
    }
  }

  const StoreParams<T>& params_;
  const BlockShare& share_;
  const float* bias_;
  int64_t* offsets_;
  unsigned char* staging_;
  int32_t thread_;
  int32_t lane_;
  int32_t first_m_;
  int32_t first_n_;
};

}  // namespace convt3d::mma
