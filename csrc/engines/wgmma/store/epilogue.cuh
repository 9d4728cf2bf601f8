// A warp's accumulators (a slab: 16 rows) -> the epilogue (epilogue/apply.cuh) -> its staging, in the output's order ->
// memory: by TMA in the background, or by the warp itself (see plan/store.h).
#pragma once

#include <type_traits>

#include "device/hopper.cuh"
#include "engines/wgmma/params.h"
#include "engines/wgmma/store/fragments.cuh"
#include "engines/wgmma/store/image_store.cuh"
#include "engines/wgmma/store/moments.cuh"
#include "engines/wgmma/store/run_store.cuh"
#include "engines/wgmma/store/staging_tables.cuh"
#include "engines/wgmma/store/thread_store.cuh"
#include "epilogue/apply.cuh"

namespace convt3d {

template <int kIndex>
using WgmmaStrip = std::integral_constant<int, kIndex>;

// Of one warp; a pass is begun, which fetches what it needs from memory, and stored after its products.
template <typename T, int kN, int kSets>
class WgmmaEpilogue : WgmmaFragments<T, kN, kSets> {
 public:
  // `columns` and `segments`: the warpgroup's. `memory`: the warp's staging.
  __device__ __forceinline__ WgmmaEpilogue(const WgmmaParams<T>& params, int warpgroup, const uint16_t* columns,
                                           const WgmmaStoredSegment* segments, unsigned char* memory)
      : Fragments(params, memory),
        columns_(columns),
        segments_(segments),
        memory_(memory),
        warpgroup_(warpgroup),
        work_(params.plan, 0) {}

  __device__ __forceinline__ void begin_pass(const WgmmaWorkTile& work, const WgmmaPhase& phase,
                                             const WgmmaSlab& slab) {
    const WgmmaArrangement& arrangement = params_.plan.arrangement;
    const auto& axis = arrangement.axis;
    work_ = work;
    slab_channel_ = slab.channel;
    const int width = axis[2].in_m > 1 ? slab.width : phase.width;
    residue_ = phase.width * kKeptPhase | (axis[0].in_m > 1 ? slab.depth : phase.depth) << 2 |
               (axis[1].in_m > 1 ? slab.height : phase.height) << 1 | (paired() ? 0 : width);
#pragma unroll
    for (int set = 0; set < kSets; ++set) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = wgmma_row(arrangement, lane_, set, half);
        bias_[set][half] = row < channels_left() ? bias_of<T>(params_.epilogue, first_channel() + row) : 0;
      }
    }
  }

  // c[set][4j + i]: fragment j of 16 rows x 8 columns, as wgmma leaves it.
  __device__ __forceinline__ void store(float (&c)[kSets][kN / 2]) {
    if (channels_left() <= 0) return;
    // Apart from the stores: most layers need neither, and the stores of a fragment wait for nothing.
    if (params_.epilogue.bias.data != nullptr) {
      change(c, [&](float value, int set, int half) { return value + bias_[set][half]; });
    }
    activate(params_.epilogue, &c[0][0], kSets * kN / 2);
    if (params_.epilogue.moments.parts != nullptr) {
      WgmmaMoments<T, kN, kSets>(params_, work_, residues(), warpgroup_, first_channel(), channels_left()).gather(c);
    }
    if (!params_.epilogue.stores) return;
    if (params_.epilogue.norm.norms != nullptr) this->normalise(c, work_.image, first_channel(), channels_left());
    if (store_.registers()) {
      if constexpr (wgmma_stores_images(kN, kSets)) {
        WgmmaImageStore<T, kN, kSets>(params_, target(), columns_, slab_channels(),
                                      params_.plan.product.images - work_.image, reinterpret_cast<T*>(memory_))
            .store(c, store_.phase_pairs && (residue_ & kKeptPhase) == 0);
      }
    } else if (store_.runs()) {
      store_as<WgmmaStoreWay::kRuns>(c);
    } else if (store_.boxes()) {
      store_as<WgmmaStoreWay::kBoxes>(c);
    } else {
      store_as<WgmmaStoreWay::kThreads>(c);
    }
  }

  // Before the block's shared memory goes.
  __device__ __forceinline__ void finish() const { hopper::bulk_wait_read<0>(); }

 private:
  using Fragments = WgmmaFragments<T, kN, kSets>;
  using Fragments::address_;
  using Fragments::lane_;
  using Fragments::paired;
  using Fragments::params_;
  using Fragments::run_burst_;
  using Fragments::run_lines_;
  using Fragments::store_;

  static constexpr int kKeptPhase = 8;  // bit of residue_ that is 0
  static constexpr int kStrips = kN / kWgmmaStripColumns;
  static constexpr int kTableStrips = wgmma_table_columns(kN) / kWgmmaStripColumns;
  template <WgmmaStagedOrder kOrder>
  static constexpr bool kMatrices = sizeof(T) == 2 && kOrder == WgmmaStagedOrder::kChannels;

  template <WgmmaStoreWay kWay>
  __device__ __forceinline__ void store_as(const float (&c)[kSets][kN / 2]) {
    if (params_.plan.store.channels_contiguous) {
      if constexpr (kWay != WgmmaStoreWay::kRuns) store_staged<kWay, WgmmaStagedOrder::kChannels>(c);
    } else if constexpr (kSets == 1) {
      if (paired()) {
        store_staged<kWay, WgmmaStagedOrder::kWidthPhases>(c);
      } else {
        store_staged<kWay, WgmmaStagedOrder::kWidths>(c);
      }
    } else if (kWay == WgmmaStoreWay::kRuns && params_.plan.arrangement.width_pairs()) {
      store_staged<kWay, WgmmaStagedOrder::kWidthPhases>(c);
    } else {
      store_staged<kWay, WgmmaStagedOrder::kWidthSets>(c);
    }
  }

  // Of the group, from the slab's first on.
  __device__ __forceinline__ int channels_left() const { return params_.plan.product.out_channels - slab_channel_; }
  // The slab's first, of all groups.
  __device__ __forceinline__ int first_channel() const {
    return work_.group * params_.plan.product.out_channels + slab_channel_;
  }
  __device__ __forceinline__ int residue(int axis) const { return residue_ >> (2 - axis) & 1; }
  // Which of the output's boxes.
  __device__ __forceinline__ int map() const {
    const auto& axis = params_.plan.arrangement.axis;
    return (residue(0) * axis[1].stride + residue(1)) * (paired() ? 1 : axis[2].stride) + residue(2);
  }

  template <WgmmaStoreWay kWay, WgmmaStagedOrder kOrder>
  __device__ __forceinline__ void store_staged(const float (&c)[kSets][kN / 2]) {
    if constexpr (kWay == WgmmaStoreWay::kRuns) {
      if (store_.segments[warpgroup_] > 0) store_runs<kOrder>(c);
      return;
    }
    if constexpr (kWay == WgmmaStoreWay::kBoxes) wait_until_read<0>();
    uint32_t end = store_.marks.end[warpgroup_];
    int strip = 0;
#pragma unroll 1
    for (int burst = 0; strip <= kStrips; ++burst) {
      if constexpr (kWay == WgmmaStoreWay::kBoxes) {
        if (burst > 0) wait_until_read<1>();  // the burst before the last one has been read
      }
      strip = stage_burst<kWay, kOrder>(c, strip, end);
      end &= end - 1;
      hand_over<kWay, kOrder>(burst);
    }
    if (store_.part[warpgroup_] >= 0) {
      thread_store().template store<kOrder>(segments_[store_.part[warpgroup_]]);
      __syncwarp();
    }
  }

  template <WgmmaStagedOrder kOrder>
  __device__ __forceinline__ void store_runs(const float (&c)[kSets][kN / 2]) {
    const WgmmaTarget<T> to = target();
    const WgmmaRunStore<T> runs(params_, to, slab_channels(), segments_, address_);
    uint32_t end = store_.marks.end[warpgroup_];
    int strip = 0;
    int segment = 0;
    run_burst_ = 0;
#pragma unroll 1
    while (strip <= kStrips) {
      __syncwarp();
#pragma unroll
      for (int half = 0; half < 2; ++half)
        run_lines_[half] = runs.staged(segment, hopper::computed_here(lane_) / 4 + 8 * half);
      strip = stage_burst<WgmmaStoreWay::kRuns, kOrder>(c, strip, end);
      end &= end - 1;
      run_burst_ ^= kWgmmaRunBurstBit;
      __syncwarp();
      segment = runs.store(segment);
    }
  }

  // Runs of float32 gain nothing by it, and the compiler then leaves uniform registers where products are issued.
  template <WgmmaStoreWay kWay>
  static constexpr bool kStagePasses =
      kWay == WgmmaStoreWay::kBoxes || (kWay == WgmmaStoreWay::kRuns && sizeof(T) == 2);

  template <WgmmaStagedOrder kOrder>
  static constexpr int kEntries = kMatrices<kOrder> ? 1 : 2;  // of a strip
  template <WgmmaStagedOrder kOrder>
  __device__ __forceinline__ const uint16_t* columns() const {
    const int lane = hopper::computed_here(lane_);
    const int thread = kMatrices<kOrder> ? lane % 8 + lane / 16 * 8 : lane % 4;
    return columns_ + thread * kTableStrips * kEntries<kOrder>;
  }

  template <WgmmaStoreWay kWay, WgmmaStagedOrder kOrder, int kStrip>
  __device__ __forceinline__ void stage_strip(const float (&c)[kSets][kN / 2],
                                              WgmmaColumnEntries<kEntries<kOrder>> entries) const {
    if constexpr (kWay == WgmmaStoreWay::kRuns) {
      this->template stage_run<kOrder>(c, 2 * kStrip, entries.first());
      this->template stage_run<kOrder>(c, 2 * kStrip + 1, entries.second());
    } else if constexpr (kMatrices<kOrder>) {
#pragma unroll
      for (int set = 0; set < kSets; ++set) this->stage_matrices(c[set], 2 * kStrip, entries.first(), 32 * set);
    } else if constexpr (kOrder == WgmmaStagedOrder::kChannels) {
      this->stage_channels(c, 2 * kStrip, entries.first());
      this->stage_channels(c, 2 * kStrip + 1, entries.second());
    } else {
      this->template stage_widths<kOrder>(c, 2 * kStrip, entries.first());
      this->template stage_widths<kOrder>(c, 2 * kStrip + 1, entries.second());
    }
  }

  // All of a pass's columns from a strip on, where they are one burst: nothing stands between the strips, and what the
  // next ones need is read ahead of the stores.
  template <WgmmaStoreWay kWay, WgmmaStagedOrder kOrder, int kFirst = 0>
  __device__ __forceinline__ void stage_pass(const float (&c)[kSets][kN / 2],
                                             WgmmaEntriesOfStrips<kEntries<kOrder>> entries) const {
    constexpr int kNext = kFirst + WgmmaEntriesOfStrips<kEntries<kOrder>>::kStrips;
    const auto stage_one_of = [&](auto constant) {
      if constexpr (kFirst + constant() < kStrips) {
        stage_strip<kWay, kOrder, kFirst + constant()>(c,
                                                       WgmmaColumnEntries<kEntries<kOrder>>(entries.bits[constant()]));
      }
    };
    const auto stage = [&] {
      stage_one_of(WgmmaStrip<0>());
      stage_one_of(WgmmaStrip<1>());
      stage_one_of(WgmmaStrip<2>());
      stage_one_of(WgmmaStrip<3>());
    };
    if constexpr (kNext < kStrips) {
      const WgmmaEntriesOfStrips<kEntries<kOrder>> next(columns<kOrder>(), kNext);
      stage();
      stage_pass<kWay, kOrder, kNext>(c, next);
    } else {
      stage();
    }
  }

  // Stages one strip after another, from `first` on until a burst ends, `end` being the marks of those to come; returns
  // the strip to go on with or, after the last burst, kStrips + 1. A jump leads to the first strip, and the strips are
  // the only unrolled code: fetching more would take longer than running it.
  // Where the next burst begins in the same strip, boxes and what threads store stage its columns at once, as
  // there is staging for two bursts. Runs have staging for one, so that the strip is done again, for the other burst's
  // columns.
  template <WgmmaStoreWay kWay, WgmmaStagedOrder kOrder>
  __device__ __forceinline__ int stage_burst(const float (&c)[kSets][kN / 2], int first, uint32_t end) const {
    const uint32_t open = store_.marks.open[warpgroup_];
    if (kStagePasses<kWay> && store_.marks.end[warpgroup_] == 0) {
      stage_pass<kWay, kOrder>(c, WgmmaEntriesOfStrips<kEntries<kOrder>>(columns<kOrder>(), 0));
      return kStrips + 1;
    }
    WgmmaColumnEntries<kEntries<kOrder>> next(columns<kOrder>(), first);
    const auto stage = [&](auto constant) {
      constexpr int kStrip = constant();
      if constexpr (kStrip < kStrips) {
        const WgmmaColumnEntries<kEntries<kOrder>> entries = next;
        if constexpr (kStrip + 1 < kStrips) next = WgmmaColumnEntries<kEntries<kOrder>>(columns<kOrder>(), kStrip + 1);
        if (kWay == WgmmaStoreWay::kBoxes && (open >> kStrip & 1) != 0)
          wait_until_read<0>();  // the next burst begins, too
        stage_strip<kWay, kOrder, kStrip>(c, entries);
        return (end >> kStrip & 1) != 0;
      } else {
        return false;
      }
    };
    const auto after = [&](int strip) {
      return kWay == WgmmaStoreWay::kRuns && (open >> strip & 1) != 0 ? strip : strip + 1;
    };
    switch (first) {
      case 0:
        if (stage(WgmmaStrip<0>())) return after(0);
        [[fallthrough]];
      case 1:
        if (stage(WgmmaStrip<1>())) return after(1);
        [[fallthrough]];
      case 2:
        if (stage(WgmmaStrip<2>())) return after(2);
        [[fallthrough]];
      case 3:
        if (stage(WgmmaStrip<3>())) return after(3);
        [[fallthrough]];
      case 4:
        if (stage(WgmmaStrip<4>())) return after(4);
        [[fallthrough]];
      case 5:
        if (stage(WgmmaStrip<5>())) return after(5);
        [[fallthrough]];
      case 6:
        if (stage(WgmmaStrip<6>())) return after(6);
        [[fallthrough]];
      case 7:
        if (stage(WgmmaStrip<7>())) return after(7);
        [[fallthrough]];
      case 8:
        if (stage(WgmmaStrip<8>())) return after(8);
        [[fallthrough]];
      case 9:
        if (stage(WgmmaStrip<9>())) return after(9);
        [[fallthrough]];
      case 10:
        if (stage(WgmmaStrip<10>())) return after(10);
        [[fallthrough]];
      case 11:
        if (stage(WgmmaStrip<11>())) return after(11);
        [[fallthrough]];
      case 12:
        if (stage(WgmmaStrip<12>())) return after(12);
        [[fallthrough]];
      case 13:
        if (stage(WgmmaStrip<13>())) return after(13);
        [[fallthrough]];
      case 14:
        if (stage(WgmmaStrip<14>())) return after(14);
        [[fallthrough]];
      case 15:
        if (stage(WgmmaStrip<15>())) return after(15);
        [[fallthrough]];
      default:
        return kStrips + 1;
    }
  }

  // All but the last kPending bursts have been read.
  template <int kPending>
  __device__ __forceinline__ void wait_until_read() const {
    hopper::bulk_wait_read<kPending>();  // of the lanes that handed them over; the others have none
    __syncwarp();
  }

  template <WgmmaStoreWay kWay, WgmmaStagedOrder kOrder>
  __device__ __forceinline__ void hand_over(int burst) const {
    const int part = store_.part[warpgroup_];
    const int first = burst * store_.burst + (part == 0 ? 1 : 0);
    const int last = min(first + store_.burst, store_.segments[warpgroup_] - (part > 0 ? 1 : 0));
    if constexpr (kWay == WgmmaStoreWay::kBoxes) {
      hopper::fence_async_proxy();
      __syncwarp();
      if (hopper::elect_lane()) {
#pragma unroll 1
        for (int i = first; i < last;) {
          const WgmmaStoredSegment segment = segments_[i];
          store_box<kOrder>(segment);
          i += segment.step;
        }
        hopper::bulk_commit();
      }
    } else {
      __syncwarp();
      const WgmmaThreadStore<T> threads = thread_store();
#pragma unroll 1
      for (int i = first; i < last; ++i) threads.template store<kOrder>(segments_[i]);
      __syncwarp();
    }
  }

  // `segment`: that of the box's first line.
  template <WgmmaStagedOrder kOrder>
  __device__ __forceinline__ void store_box(const WgmmaStoredSegment& segment) const {
    const int d = work_.first[0] + segment.d;
    const int h = work_.first[1] + segment.h;
    const int w = (work_.first[2] + segment.w) * (paired() ? 2 : 1);
    const hopper::BoxOrigin origin = kOrder == WgmmaStagedOrder::kChannels
                                         ? hopper::BoxOrigin{first_channel(), work_.image, w, h, d}
                                         : hopper::BoxOrigin{w, first_channel(), h, d, work_.image};
    hopper::copy_box_to_global(&params_.out[map()], memory_ + segment.offset, origin);
  }

  __device__ __forceinline__ int slab_channels() const {
    return min(channels_left(), params_.plan.arrangement.slab_channels());
  }
  __device__ __forceinline__ WgmmaTarget<T> target() const {
    return WgmmaTarget<T>(params_, work_, residues(), paired(), first_channel());
  }
  // Not kept while the warp multiplies.
  __device__ __forceinline__ WgmmaResidues residues() const {
    const int bits = hopper::computed_here(residue_);
    return {{bits >> 2 & 1, bits >> 1 & 1, bits & 1}};
  }
  __device__ __forceinline__ WgmmaThreadStore<T> thread_store() const {
    return WgmmaThreadStore<T>(params_, target(), paired(), slab_channels(), params_.plan.product.images - work_.image,
                               memory_);
  }

  const uint16_t* columns_;
  const WgmmaStoredSegment* segments_;
  unsigned char* memory_;
  int warpgroup_;
  // Of the pass.
  WgmmaWorkTile work_;
  int slab_channel_;
  int residue_;  // a bit for each axis, and that of the phase that is kept of a pair
  float bias_[kSets][2];
};

}  // namespace convt3d
