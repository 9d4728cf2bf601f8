// A warp's accumulators (a slab: 16 rows) -> bias, ReLU, one rounding -> its staging, in the
// output's order -> memory: by the copy engine in the background, or by the warp itself (see plan/staging.h).
#pragma once

#include <type_traits>

#include "device/hopper.cuh"
#include "device/ptx/numeric.cuh"
#include "engines/wgmma/params.h"
#include "engines/wgmma/store/image_store.cuh"
#include "engines/wgmma/store/run_store.cuh"
#include "engines/wgmma/store/stage.cuh"
#include "engines/wgmma/store/staging_tables.cuh"
#include "engines/wgmma/store/steps.cuh"
#include "engines/wgmma/store/thread_store.cuh"

namespace convt3d {

// Of one warp; a unit is begun, which fetches what it needs from memory, and stored after its products.
template <typename T, int kN, int kSets>
class HaloEpilogue {
 public:
  // `columns` and `segments`: the warpgroup's. `memory`: the warp's staging.
  __device__ __forceinline__ HaloEpilogue(const HaloParams<T>& params, int warpgroup, const uint16_t* columns,
                                          const HaloStoredSegment* segments, unsigned char* memory)
      : params_(params),
        staging_(params.plan.staging),
        columns_(columns),
        segments_(segments),
        memory_(memory),
        address_(hopper::shared_address(memory)),
        warpgroup_(warpgroup),
        lane_(static_cast<int>(threadIdx.x) % 32),
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
        bias_[set][half] = params_.bias != nullptr && row < channels_left()
                               ? to_accumulator(__ldg(params_.bias + (first_channel() + row) * params_.bias_stride))
                               : 0;
      }
    }
  }

  // c[set][4j + i]: fragment j of 16 rows x 8 columns, as wgmma leaves it.
  __device__ __forceinline__ void store(float (&c)[kSets][kN / 2]) {
    if (channels_left() <= 0) return;
    // Passes of their own: most layers need neither, and the stores of a fragment wait for nothing.
    if (params_.bias != nullptr) {
      change(c, [&](float value, int set, int half) { return value + bias_[set][half]; });
    }
    if (params_.relu) {
      change(c, [](float value, int, int) { return greater(value, 0); });
    }
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

  // A unit has both phases of the width, or those of the pair that it is of.
  __device__ __forceinline__ bool paired() const {
    const HaloPlan& plan = params_.plan;
    return plan.width_sets() || plan.pair_rows || plan.phase_pairs;
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
      stage_run<kRows>(c, 2 * kStep, places.first());
      stage_run<kRows>(c, 2 * kStep + 1, places.second());
    } else if constexpr (kMatrices<kRows>) {
#pragma unroll
      for (int set = 0; set < kSets; ++set)
        stage_matrices<T>(c[set], 2 * kStep, places.first(), 32 * set, address_, lane_, staging_.swizzle);
    } else if constexpr (kRows == HaloRows::kChannels) {
      stage_channels(c, 2 * kStep, places.first());
      stage_channels(c, 2 * kStep + 1, places.second());
    } else {
      stage_widths<kRows>(c, 2 * kStep, places.first());
      stage_widths<kRows>(c, 2 * kStep + 1, places.second());
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
    return from_step(first, kSteps + 1, stage, after);
  }

  // All but the last kPending batches have been read.
  template <int kPending>
  __device__ __forceinline__ void wait_until_read() const {
    hopper::bulk_wait_read<kPending>();  // of the lanes that handed them over; the others have none
    __syncwarp();
  }

  // Fragment j of a thread's channels: two positions of both phases, or of one, are neighbours.
  template <HaloRows kRows>
  __device__ __forceinline__ void stage_widths(const float (&c)[kSets][kN / 2], int j, uint32_t place) const {
    const uint32_t row = static_cast<uint32_t>(lane_ / 4 * staging_.pitch);
    const uint32_t at = address_ + row + (place ^ (row >> 3 & static_cast<uint32_t>(staging_.swizzle)));
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int i = 4 * j + 2 * half;
      const uint32_t to = at + 8 * half * staging_.pitch;
      if constexpr (kRows == HaloRows::kWidths) {
        stage_two<T>(to, place, c[0][i], c[0][i + 1]);
      } else if constexpr (kRows == HaloRows::kWidthSets) {
        stage_four<T>(to, place, c[0][i], c[1][i], c[0][i + 1], c[1][i + 1]);
      } else if (half == 0) {
        stage_four<T>(to, place, c[0][i], c[0][i + 2], c[0][i + 1], c[0][i + 3]);
      }
    }
  }

  // Fragment j of a thread's channels, of both phases of the height where they are the sets.
  template <HaloRows kRows>
  __device__ __forceinline__ void stage_run(const float (&c)[kSets][kN / 2], int j, uint32_t entry) const {
    const uint32_t place = entry ^ run_batch_;
    const uint32_t missing = place >> kHaloRunOffsetBits;
    const uint32_t at = (place & ((1u << kHaloRunOffsetBits) - 1)) * static_cast<uint32_t>(sizeof(T));
    const int i = 4 * j;
    if constexpr (kRows == HaloRows::kWidths) {
      stage_outputs<T>(run_rows_[0] + at, missing, {c[0][i], c[0][i + 1]});
      stage_outputs<T>(run_rows_[1] + at, missing, {c[0][i + 2], c[0][i + 3]});
    } else if constexpr (kRows == HaloRows::kWidthPhases) {
#pragma unroll
      for (int set = 0; set < kSets; ++set) {
        stage_outputs<T>(run_rows_[0] + at + static_cast<uint32_t>(set * staging_.row_step), missing,
                         {c[set][i], c[set][i + 2], c[set][i + 1], c[set][i + 3]});
      }
    } else {
      stage_outputs<T>(run_rows_[0] + at, missing, {c[0][i], c[1][i], c[0][i + 1], c[1][i + 1]});
      stage_outputs<T>(run_rows_[1] + at, missing, {c[0][i + 2], c[1][i + 2], c[0][i + 3], c[1][i + 3]});
    }
  }

  // Rows r and r + 8 are 8 channels apart or, where rows are paired, one place: 8 elements apart in both cases;
  // sets, 16. The threads of an instruction meet in no bank of shared memory where a place has 64 bytes or more: of 128
  // by the swizzle, of fewer also because half of them begin with their second column.
  __device__ __forceinline__ void stage_channels(const float (&c)[kSets][kN / 2], int j, uint32_t place) const {
    const uint32_t next = static_cast<uint32_t>((paired() ? 2 : 1) * staging_.pitch);
    const uint32_t mask = static_cast<uint32_t>(staging_.swizzle);
    const bool turned = kSets == 1 && lane_ % 2 != 0;
    // Of a thread's two columns.
    const uint32_t first = address_ + place + (turned ? next : 0);
    const uint32_t second = address_ + place + (turned ? 0 : next);
    // Where places have less than 128 bytes, the swizzle's pattern is the same for both columns.
    const uint32_t flip = place >> 3 & mask;
    const uint32_t second_flip = kSets == 1 ? flip : flip ^ (next >> 3 & mask);
#pragma unroll
    for (int set = 0; set < kSets; ++set) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float a = c[set][4 * j + 2 * half];
        const float b = c[set][4 * j + 2 * half + 1];
        const uint32_t row = static_cast<uint32_t>(lane_ / 4 * 4 + 32 * half + 64 * set);
        stage_one(first + (row ^ flip), place, turned ? b : a);
        stage_one(second + (row ^ second_flip), place, turned ? a : b);
      }
    }
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

  const HaloParams<T>& params_;
  const HaloStaging& staging_;
  const uint16_t* columns_;
  const HaloStoredSegment* segments_;
  unsigned char* memory_;
  uint32_t address_;
  int warpgroup_;
  int lane_;
  // Of the unit.
  HaloItem item_;
  int slab_channel_;
  int residue_;  // a bit for each axis, and that of the phase that is kept of a pair
  float bias_[kSets][2];
  // Of the batch, of runs.
  uint32_t run_rows_[2];  // where each of a thread's channels begins in shared memory
  uint32_t run_batch_;
};

}  // namespace convt3d
