// A warp's accumulators (a slab: 16 rows) -> the epilogue (epilogue/apply.cuh) -> its staging, in the
// output's order -> memory: by the copy engine in the background, or by the warp itself (see plan/staging.h).
#pragma once

#include <type_traits>

#include "device/hopper.cuh"
#include "engines/wgmma/params.h"
#include "engines/wgmma/store/fragments.cuh"
#include "engines/wgmma/store/image_store.cuh"
#include "engines/wgmma/store/run_store.cuh"
#include "engines/wgmma/store/staging_tables.cuh"
#include "engines/wgmma/store/thread_store.cuh"
#include "epilogue/apply.cuh"

namespace convt3d {

template <int kIndex>
using HaloStep = std::integral_constant<int, kIndex>;

// Of one warp; a unit is begun, which fetches what it needs from memory, and stored after its products.
template <typename T, int kN, int kSets>
class HaloEpilogue : HaloFragments<T, kN, kSets> {
 public:
  // `columns` and `segments`: the warpgroup's. `memory`: the warp's staging.
  __device__ __forceinline__ HaloEpilogue(const HaloParams<T>& params, int warpgroup, const uint16_t* columns,
                                          const HaloStoredSegment* segments, unsigned char* memory)
      : Fragments(params, memory),
        columns_(columns),
        segments_(segments),
        memory_(memory),
        warpgroup_(warpgroup),
        item_(params.plan, 0) {}

  __device__ __forceinline__ void begin_unit(const HaloItem& item, const HaloPhase& phase, const HaloSlab& slab) {
    const HaloPlan& plan = params_.plan;
    item_ = item;
    slab_channel_ = slab.channel;
    residue_ = phase.width * kKeptPhase | (plan.axis[0].in_m > 1 ? slab.depth : phase.depth) << 2 |
               (plan.axis[1].in_m > 1 ? slab.height : phase.height) << 1 |
               (paired()                ? 0
                : plan.axis[2].in_m > 1 ? slab.width
                                        : phase.width);
#pragma unroll
    for (int set = 0; set < kSets; ++set) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = lane_ / 4 + (plan.pair_rows ? 0 : 8 * half) + (plan.channel_sets() ? 16 * set : 0);
        bias_[set][half] = row < channels_left() ? bias_of<T>(params_.epilogue, first_channel() + row) : 0;
      }
    }
  }

  // c[set][4j + i]: fragment j of 16 rows x 8 columns, as wgmma leaves it.
  __device__ __forceinline__ void store(float (&c)[kSets][kN / 2]) {
    if (channels_left() <= 0) return;
    // Passes of their own: most layers need neither, and the stores of a fragment wait for nothing.
    if (params_.epilogue.bias.data != nullptr) {
      change(c, [&](float value, int set, int half) { return value + bias_[set][half]; });
    }
    activate(params_.epilogue, &c[0][0], kSets * kN / 2);
    if (staging_.way == HaloWay::kRegisters) {
      if constexpr (halo_stores_images(kN, kSets)) {
        HaloImageStore<T, kN, kSets>(params_, target(), columns_, slab_channels(), params_.plan.batch - item_.image,
                                     reinterpret_cast<T*>(memory_))
            .store(c, params_.plan.phase_pairs && (residue_ & kKeptPhase) == 0);
      }
    } else if (staging_.runs()) {
      store_as<HaloWay::kRuns>(c);
    } else if (params_.boxes_out) {
      store_as<HaloWay::kBoxes>(c);
    } else {
      store_as<HaloWay::kThreads>(c);
    }
  }

  // Before the block's shared memory goes.
  __device__ __forceinline__ void finish() const { hopper::bulk_wait_read<0>(); }

 private:
  using Fragments = HaloFragments<T, kN, kSets>;
  using Fragments::address_;
  using Fragments::lane_;
  using Fragments::paired;
  using Fragments::params_;
  using Fragments::run_batch_;
  using Fragments::run_rows_;
  using Fragments::staging_;

  static constexpr int kKeptPhase = 8;  // bit of residue_ that is 0
  static constexpr int kSteps = kN / kHaloStagedColumns;
  static constexpr int kTableSteps = halo_table_columns(kN) / kHaloStagedColumns;
  template <HaloRows kRows>
  static constexpr bool kMatrices = sizeof(T) == 2 && kRows == HaloRows::kChannels;

  template <HaloWay kWay>
  __device__ __forceinline__ void store_as(const float (&c)[kSets][kN / 2]) {
    if (params_.destination_channels_contiguous) {
      if constexpr (kWay != HaloWay::kRuns) store_rows<kWay, HaloRows::kChannels>(c);
    } else if constexpr (kSets == 1) {
      if (paired()) {
        store_rows<kWay, HaloRows::kWidthPhases>(c);
      } else {
        store_rows<kWay, HaloRows::kWidths>(c);
      }
    } else if (kWay == HaloWay::kRuns && params_.plan.pair_rows) {
      store_rows<kWay, HaloRows::kWidthPhases>(c);
    } else {
      store_rows<kWay, HaloRows::kWidthSets>(c);
    }
  }

  // Of the group, from the slab's first on.
  __device__ __forceinline__ int channels_left() const { return params_.plan.out_channels - slab_channel_; }
  // The slab's first, of all groups.
  __device__ __forceinline__ int first_channel() const {
    return item_.group * params_.plan.out_channels + slab_channel_;
  }
  __device__ __forceinline__ int residue(int axis) const { return residue_ >> (2 - axis) & 1; }
  // Which of the output's boxes.
  __device__ __forceinline__ int map() const {
    const HaloPlan& plan = params_.plan;
    return (residue(0) * plan.axis[1].stride + residue(1)) * (paired() ? 1 : plan.axis[2].stride) + residue(2);
  }

  template <HaloWay kWay, HaloRows kRows>
  __device__ __forceinline__ void store_rows(const float (&c)[kSets][kN / 2]) {
    if constexpr (kWay == HaloWay::kRuns) {
      if (staging_.segments[warpgroup_] > 0) store_runs<kRows>(c);
      return;
    }
    if constexpr (kWay == HaloWay::kBoxes) wait_until_read<0>();
    uint32_t end = staging_.end[warpgroup_];
    int step = 0;
#pragma unroll 1
    for (int batch = 0; step <= kSteps; ++batch) {
      if constexpr (kWay == HaloWay::kBoxes) {
        if (batch > 0) wait_until_read<1>();  // the batch before the last one has been read
      }
      step = stage_batch<kWay, kRows>(c, step, end);
      end &= end - 1;
      hand_over<kWay, kRows>(batch);
    }
    if (staging_.part[warpgroup_] >= 0) {
      thread_store().template store<kRows>(segments_[staging_.part[warpgroup_]]);
      __syncwarp();
    }
  }

  template <HaloRows kRows>
  __device__ __forceinline__ void store_runs(const float (&c)[kSets][kN / 2]) {
    const HaloTarget<T> to = target();
    const HaloRunStore<T> runs(params_, to, slab_channels(), segments_, address_);
    uint32_t end = staging_.end[warpgroup_];
    int step = 0;
    int segment = 0;
    run_batch_ = 0;
#pragma unroll 1
    while (step <= kSteps) {
      __syncwarp();
#pragma unroll
      for (int half = 0; half < 2; ++half)
        run_rows_[half] = runs.staged(segment, hopper::computed_here(lane_) / 4 + 8 * half);
      step = stage_batch<HaloWay::kRuns, kRows>(c, step, end);
      end &= end - 1;
      run_batch_ ^= kHaloRunBatchBit;
      __syncwarp();
      segment = runs.store(segment);
    }
  }

  // Runs of float32 gain nothing by it, and the compiler then leaves uniform registers where products are issued.
  template <HaloWay kWay>
  static constexpr bool kStageUnits = kWay == HaloWay::kBoxes || (kWay == HaloWay::kRuns && sizeof(T) == 2);

  template <HaloRows kRows>
  static constexpr int kPlaces = kMatrices<kRows> ? 1 : 2;  // of a step
  template <HaloRows kRows>
  __device__ __forceinline__ const uint16_t* columns() const {
    const int lane = hopper::computed_here(lane_);
    const int thread = kMatrices<kRows> ? lane % 8 + lane / 16 * 8 : lane % 4;
    return columns_ + thread * kTableSteps * kPlaces<kRows>;
  }

  template <HaloWay kWay, HaloRows kRows, int kStep>
  __device__ __forceinline__ void stage_step(const float (&c)[kSets][kN / 2], HaloPlaces<kPlaces<kRows>> places) const {
    if constexpr (kWay == HaloWay::kRuns) {
      this->template stage_run<kRows>(c, 2 * kStep, places.first());
      this->template stage_run<kRows>(c, 2 * kStep + 1, places.second());
    } else if constexpr (kMatrices<kRows>) {
#pragma unroll
      for (int set = 0; set < kSets; ++set) this->stage_matrices(c[set], 2 * kStep, places.first(), 32 * set);
    } else if constexpr (kRows == HaloRows::kChannels) {
      this->stage_channels(c, 2 * kStep, places.first());
      this->stage_channels(c, 2 * kStep + 1, places.second());
    } else {
      this->template stage_widths<kRows>(c, 2 * kStep, places.first());
      this->template stage_widths<kRows>(c, 2 * kStep + 1, places.second());
    }
  }

  // All of a unit's columns from a step on, where they are one batch: nothing stands between the steps, and what the
  // next ones need is read ahead of the stores.
  template <HaloWay kWay, HaloRows kRows, int kFirst = 0>
  __device__ __forceinline__ void stage_unit(const float (&c)[kSets][kN / 2],
                                             HaloPlacesOfSteps<kPlaces<kRows>> places) const {
    constexpr int kNext = kFirst + HaloPlacesOfSteps<kPlaces<kRows>>::kSteps;
    const auto stage_one_of = [&](auto constant) {
      if constexpr (kFirst + constant() < kSteps) {
        stage_step<kWay, kRows, kFirst + constant()>(c, HaloPlaces<kPlaces<kRows>>(places.bits[constant()]));
      }
    };
    const auto stage = [&] {
      stage_one_of(HaloStep<0>());
      stage_one_of(HaloStep<1>());
      stage_one_of(HaloStep<2>());
      stage_one_of(HaloStep<3>());
    };
    if constexpr (kNext < kSteps) {
      const HaloPlacesOfSteps<kPlaces<kRows>> next(columns<kRows>(), kNext);
      stage();
      stage_unit<kWay, kRows, kNext>(c, next);
    } else {
      stage();
    }
  }

  // Stages a step's columns after another, from `first` on until a batch ends, `end` being the marks of those to come;
  // returns the step to go on with or, after the last batch, kSteps + 1. A jump leads to the first step, and the steps
  // are the only unrolled code: fetching more would take longer than running it.
  // Where the next batch begins in the same step, boxes and what threads store stage its columns at once, in another
  // place. Runs have one place, so that the step is done again, for the other batch's columns.
  template <HaloWay kWay, HaloRows kRows>
  __device__ __forceinline__ int stage_batch(const float (&c)[kSets][kN / 2], int first, uint32_t end) const {
    const uint32_t open = staging_.open[warpgroup_];
    if (kStageUnits<kWay> && staging_.end[warpgroup_] == 0) {
      stage_unit<kWay, kRows>(c, HaloPlacesOfSteps<kPlaces<kRows>>(columns<kRows>(), 0));
      return kSteps + 1;
    }
    HaloPlaces<kPlaces<kRows>> next(columns<kRows>(), first);
    const auto stage = [&](auto constant) {
      constexpr int kStep = constant();
      if constexpr (kStep < kSteps) {
        const HaloPlaces<kPlaces<kRows>> places = next;
        if constexpr (kStep + 1 < kSteps) next = HaloPlaces<kPlaces<kRows>>(columns<kRows>(), kStep + 1);
        if (kWay == HaloWay::kBoxes && (open >> kStep & 1) != 0) wait_until_read<0>();  // the next batch begins, too
        stage_step<kWay, kRows, kStep>(c, places);
        return (end >> kStep & 1) != 0;
      } else {
        return false;
      }
    };
    const auto after = [&](int step) { return kWay == HaloWay::kRuns && (open >> step & 1) != 0 ? step : step + 1; };
    switch (first) {
      case 0:
        if (stage(HaloStep<0>())) return after(0);
        [[fallthrough]];
      case 1:
        if (stage(HaloStep<1>())) return after(1);
        [[fallthrough]];
      case 2:
        if (stage(HaloStep<2>())) return after(2);
        [[fallthrough]];
      case 3:
        if (stage(HaloStep<3>())) return after(3);
        [[fallthrough]];
      case 4:
        if (stage(HaloStep<4>())) return after(4);
        [[fallthrough]];
      case 5:
        if (stage(HaloStep<5>())) return after(5);
        [[fallthrough]];
      case 6:
        if (stage(HaloStep<6>())) return after(6);
        [[fallthrough]];
      case 7:
        if (stage(HaloStep<7>())) return after(7);
        [[fallthrough]];
      case 8:
        if (stage(HaloStep<8>())) return after(8);
        [[fallthrough]];
      case 9:
        if (stage(HaloStep<9>())) return after(9);
        [[fallthrough]];
      case 10:
        if (stage(HaloStep<10>())) return after(10);
        [[fallthrough]];
      case 11:
        if (stage(HaloStep<11>())) return after(11);
        [[fallthrough]];
      case 12:
        if (stage(HaloStep<12>())) return after(12);
        [[fallthrough]];
      case 13:
        if (stage(HaloStep<13>())) return after(13);
        [[fallthrough]];
      case 14:
        if (stage(HaloStep<14>())) return after(14);
        [[fallthrough]];
      case 15:
        if (stage(HaloStep<15>())) return after(15);
        [[fallthrough]];
      default:
        return kSteps + 1;
    }
  }

  // All but the last kPending batches have been read.
  template <int kPending>
  __device__ __forceinline__ void wait_until_read() const {
    hopper::bulk_wait_read<kPending>();  // of the lanes that handed them over; the others have none
    __syncwarp();
  }

  template <HaloWay kWay, HaloRows kRows>
  __device__ __forceinline__ void hand_over(int batch) const {
    const int part = staging_.part[warpgroup_];
    const int first = batch * staging_.batch + (part == 0 ? 1 : 0);
    const int last = min(first + staging_.batch, staging_.segments[warpgroup_] - (part > 0 ? 1 : 0));
    if constexpr (kWay == HaloWay::kBoxes) {
      hopper::fence_async_proxy();
      __syncwarp();
      if (hopper::elect_lane()) {
#pragma unroll 1
        for (int i = first; i < last;) {
          const HaloStoredSegment segment = segments_[i];
          store_box<kRows>(segment);
          i += segment.step;
        }
        hopper::bulk_commit();
      }
    } else {
      __syncwarp();
      const HaloThreadStore<T> threads = thread_store();
#pragma unroll 1
      for (int i = first; i < last; ++i) threads.template store<kRows>(segments_[i]);
      __syncwarp();
    }
  }

  // `segment`: the first of the box's rows.
  template <HaloRows kRows>
  __device__ __forceinline__ void store_box(const HaloStoredSegment& segment) const {
    const int d = item_.first[0] + segment.d;
    const int h = item_.first[1] + segment.h;
    const int w = (item_.first[2] + segment.w) * (paired() ? 2 : 1);
    const hopper::BoxOrigin origin = kRows == HaloRows::kChannels
                                         ? hopper::BoxOrigin{first_channel(), item_.image, w, h, d}
                                         : hopper::BoxOrigin{w, first_channel(), h, d, item_.image};
    hopper::copy_box_to_global(&params_.out[map()], memory_ + segment.offset, origin);
  }

  __device__ __forceinline__ int slab_channels() const { return min(channels_left(), params_.plan.slab_channels); }
  __device__ __forceinline__ HaloTarget<T> target() const {
    const int bits = hopper::computed_here(residue_);
    const int residues[3] = {bits >> 2 & 1, bits >> 1 & 1, bits & 1};
    return HaloTarget<T>(params_, item_, residues, paired(), first_channel());
  }
  __device__ __forceinline__ HaloThreadStore<T> thread_store() const {
    return HaloThreadStore<T>(params_, target(), paired(), slab_channels(), params_.plan.batch - item_.image, memory_);
  }

  const uint16_t* columns_;
  const HaloStoredSegment* segments_;
  unsigned char* memory_;
  int warpgroup_;
  // Of the unit.
  HaloItem item_;
  int slab_channel_;
  int residue_;  // a bit for each axis, and that of the phase that is kept of a pair
  float bias_[kSets][2];
};

}  // namespace convt3d
