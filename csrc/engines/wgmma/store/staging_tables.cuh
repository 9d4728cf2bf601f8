// Where a warpgroup's columns go in a warp's staging, and its segments: tables in shared memory, the same for all
// passes.
#pragma once

#include <type_traits>

#include "engines/wgmma/store/run_store.cuh"

namespace convt3d {

constexpr uint32_t kWgmmaNotStaged = 0xFFFF;  // of a column that is no output

// The table of columns has those entries that threads read: the first column of each fragment's pair or, where
// 16-bit channels leave as matrices, one column of every two fragments.
template <typename T>
__device__ __forceinline__ bool stages_matrices(const WgmmaParams<T>& params) {
  return sizeof(T) == 2 && params.plan.store.channels_contiguous;
}

// For both warpgroups: the pairs of neighbours that begin with each fragment, where these are 8 images of a position.
template <typename T>
__device__ __forceinline__ void fill_stored_pairs(const WgmmaParams<T>& params, int threads, uint16_t* columns) {
  const WgmmaPlan& plan = params.plan;
  const WgmmaStore& store = plan.store;
  const auto& axis = plan.arrangement.axis;
  const int positions = plan.tile.instruction.n >> plan.tile.image_log;
  for (int index = static_cast<int>(threadIdx.x); index < 2 * positions; index += threads) {
    const int g = index < positions ? 0 : 1;
    const int position = index - g * positions;
    const WgmmaPosition at = plan.tile.at(store.start[g] + position);
    int kept = 0;
    for (int before = 0; before < position; ++before) kept += store.pair_positions(plan.tile, g, before) > 0 ? 1 : 0;
    const int64_t offset =
        params.destination_stride.spatial(at.d * axis[0].stride, at.h * axis[1].stride, at.w * axis[2].stride);
    reinterpret_cast<WgmmaStoredPair*>(columns + g * wgmma_table_columns(plan.tile.instruction.n))[position] = {
        static_cast<uint16_t>(at.d), static_cast<uint16_t>(at.h),
        static_cast<uint16_t>(at.w), static_cast<uint16_t>(store.pair_positions(plan.tile, g, position)),
        static_cast<uint16_t>(kept), static_cast<uint32_t>(offset)};
  }
}

// The entry of one of a warpgroup's columns: where it goes in a warp's staging.
template <typename T>
__device__ __forceinline__ uint16_t column_entry(const WgmmaPlan& plan, int g, int column) {
  const WgmmaStore& store = plan.store;
  const int image = column & ((1 << plan.tile.image_log) - 1);
  const int number = column >> plan.tile.image_log;
  const WgmmaPosition position = plan.tile.at(store.start[g] + number);
  if (number >= store.extent || !plan.tile.is_output(position))
    return store.runs() ? run_entry(0, 0, 0) : kWgmmaNotStaged;
  const int in_line = store.by_columns.quotient(position.w);
  const int segment = store.segment_of(plan.tile, position) - store.first_segment[g];
  const int offset = store.segment_offset(plan.tile, g, segment) +
                     store.by_columns.remainder(position.w, in_line) * store.column_bytes;
  if (!store.runs()) return static_cast<uint16_t>(offset + image * store.pitch);
  // Whole lines follow one another: what lies past the output's width would be the next line's.
  const int phases = store.column_bytes / static_cast<int>(sizeof(T));
  const int left = plan.tile.count[2] == 1 ? plan.arrangement.axis[2].dst_size - position.w * phases : 2 * phases;
  return run_entry(offset / static_cast<int>(sizeof(T)), max(0, min(2 * phases, left)),
                   store.burst_of(plan.tile, g, segment));
}

__device__ __forceinline__ WgmmaStoredSegment stored_segment(const WgmmaPlan& plan, int g, int segment) {
  const WgmmaStore& store = plan.store;
  const WgmmaPosition first = store.first_of(plan.tile, g, segment);
  const int in_segment = store.by_columns.remainder(first.w, store.by_columns.quotient(first.w));
  const int number = plan.tile.number_of(first) - store.start[g];
  const int count = min(min(store.columns - in_segment, plan.tile.size[2] - first.w), store.extent - number);
  return {static_cast<uint16_t>(first.d),
          static_cast<uint16_t>(first.h),
          static_cast<uint16_t>(first.w),
          static_cast<uint16_t>(count),
          static_cast<uint16_t>(in_segment),
          static_cast<uint16_t>(store.segment_offset(plan.tile, g, segment)),
          static_cast<uint16_t>(store.segments_to_next(plan.tile, g, segment))};
}

// For both warpgroups, by `threads` threads: where columns go in a warp's staging, and the segments. No thread has both
// where there are enough of them: what one of them takes is waited for (docs/dev/lab-notes.md).
template <typename T>
__device__ __forceinline__ void fill_staging_tables(const WgmmaParams<T>& params, int threads, uint16_t* columns,
                                                    WgmmaStoredSegment* segments) {
  const WgmmaPlan& plan = params.plan;
  const WgmmaStore& store = plan.store;
  if (store.registers()) return fill_stored_pairs(params, threads, columns);
  const int strips = wgmma_table_columns(plan.tile.instruction.n) / kWgmmaStripColumns;
  const int every_log = stages_matrices(params) ? 0 : 1;     // of the columns, one is in the table
  const int entries = plan.tile.instruction.n >> every_log;  // of a warpgroup
  const int all = 2 * entries + store.segments[0] + store.segments[1];
#pragma unroll 1
  for (int index = static_cast<int>(threadIdx.x); index < all; index += threads) {
    if (index < 2 * entries) {
      const int g = index < entries ? 0 : 1;
      const int column = (index - g * entries) << every_log;
      uint16_t* table = columns + g * wgmma_table_columns(plan.tile.instruction.n);
      uint16_t* entry = every_log == 0 ? table + column % 16 * strips + column / 16
                                       : table + column % 8 / 2 * (2 * strips) + column / 8;
      *entry = column_entry<T>(plan, g, column);
    } else {
      const int segment = index - 2 * entries;
      const int g = segment < store.segments[0] ? 0 : 1;
      segments[segment] = stored_segment(plan, g, segment - g * store.segments[0]);
    }
  }
}

// Of a strip's columns, read at once: one of a warp's matrix, or two of fragments.
template <int kCount>
class WgmmaColumnEntries {
 public:
  using Bits = std::conditional_t<kCount == 1, uint16_t, uint32_t>;

  __device__ __forceinline__ explicit WgmmaColumnEntries(Bits bits) : bits_(bits) {}
  __device__ __forceinline__ WgmmaColumnEntries(const uint16_t* columns, int strip)
      : bits_(reinterpret_cast<const Bits*>(columns)[strip]) {}
  __device__ __forceinline__ uint32_t first() const { return kCount == 1 ? bits_ : bits_ & 0xFFFF; }
  __device__ __forceinline__ uint32_t second() const { return bits_ >> 16; }

 private:
  uint32_t bits_;
};

// Of a few strips, read at once, too.
template <int kCount>
struct WgmmaEntriesOfStrips {
  static constexpr int kStrips = 4;
  using Bits = typename WgmmaColumnEntries<kCount>::Bits;
  using Vector = std::conditional_t<kCount == 1, uint2, uint4>;

  alignas(Vector) Bits bits[kStrips];

  __device__ __forceinline__ WgmmaEntriesOfStrips(const uint16_t* columns, int strip) {
    *reinterpret_cast<Vector*>(bits) = *reinterpret_cast<const Vector*>(columns + strip * kCount);
  }
};

}  // namespace convt3d
