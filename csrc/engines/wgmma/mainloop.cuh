// The products of one warpgroup of consumers: stages of weights times columns of the tile.
#pragma once

#include "device/hopper.cuh"
#include "device/small_quotient.h"
#include "engines/wgmma/shared.cuh"

namespace convt3d {

// For every K step of a chunk's loops, how far the operand lies from the warpgroup's first column, in units of 16
// bytes; by the consumers. kNMajor: panels are N-major, and no tap shifts them.
template <bool kNMajor>
__device__ __forceinline__ void fill_shifts(const WgmmaPlan& plan, uint16_t* shifts) {
  const WgmmaLoops& loops = plan.loops;
  const WgmmaTile& tile = plan.tile;
  const WgmmaPanels& panels = plan.panels;
  const int panel_log = panels.position_bytes / (2 * kWgmmaOperandBytes);  // log2 of a panel's K steps: 0, 1 or 2
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int share = max(1, small_quotient(kWgmmaConsumerWarps, loops.count()));  // warps of a loop
  int first_loop = warp;
  const int in_share = take_small(first_loop, share);
  for (int loop = first_loop; loop < loops.count(); loop += small_quotient(kWgmmaConsumerWarps, share)) {
    const WgmmaPhase phase = plan.arrangement.phase(loops.sets.quotient(loop), loops.sets.remainder(loop));
    const WgmmaAxis& depth = plan.arrangement.axis[0];
    const WgmmaAxis& height = plan.arrangement.axis[1];
    const WgmmaTaps& taps_d = depth.taps[phase.depth];
    const WgmmaTaps& taps_h = height.taps[phase.height];
    const WgmmaAxis& width = plan.arrangement.axis[2];
    const WgmmaTaps& taps_w = width.taps[phase.width];
    uint16_t* entries = shifts + loops.first[loop] * loops.stage_steps();
#pragma unroll 1
    for (int step = in_share * 32 + static_cast<int>(threadIdx.x) % 32; step < loops.steps[loop]; step += 32 * share) {
      if constexpr (kNMajor) {
        entries[step] = static_cast<uint16_t>(step * (kWgmmaOperandBytes / 16) << plan.load.as_n_major().line_log);
        continue;
      }
      int number = step;
      const int tap_step = take_small(number, panels.tap_steps);
      const WgmmaTapNumbers tap = tap_numbers(number, taps_w.count, taps_h.count);
      const int offset_w = taps_w.offset[tap.width];
      const int offset_h = taps_h.offset[tap.height];
      const int offset_d = taps_d.offset[tap.depth];
      const int w = width.shift_of(offset_w) - taps_w.low;
      const int h = height.shift_of(offset_h) - taps_h.low;
      const int d = depth.shift_of(offset_d) - taps_d.low;
      const int fold = plan.arrangement.folds_apart
                           ? 0
                           : (depth.fold_of(offset_d) * height.fold + height.fold_of(offset_h)) * width.fold +
                                 width.fold_of(offset_w);
      const int position = ((d * tile.halo[1] + h) * tile.halo[2] + w) << tile.image_log;
      const int panel = tap_step >> panel_log;
      const int bytes = panel * panels.panel_bytes + fold * panels.fold_bytes + position * panels.position_bytes +
                        (tap_step - (panel << panel_log)) * kWgmmaOperandBytes;
      entries[step] = static_cast<uint16_t>(bytes / 16);
    }
  }
}

// The operand of a warpgroup whose columns begin at position `first` of the tile.
template <bool kNMajor>
__device__ __forceinline__ hopper::MatrixDescriptor columns_descriptor(const WgmmaPlan& plan, const void* tile,
                                                                       int first) {
  const uint32_t address = hopper::shared_address(tile);
  if constexpr (kNMajor) {
    const uint32_t position_bytes = static_cast<uint32_t>(plan.panels.n_major_position_bytes());
    return hopper::swizzled_descriptor(address, 2u << plan.load.as_n_major().line_log,
                                       position_bytes << plan.load.as_n_major().line_log) +
           static_cast<uint32_t>(first) * (position_bytes / 16);
  }
  return hopper::swizzled_descriptor(address, static_cast<uint32_t>(plan.panels.position_bytes)) +
         static_cast<uint32_t>(first * plan.panels.position_bytes / 16);
}

template <int kSets, int kN>
__device__ __forceinline__ void clear(float (&c)[kSets][kN]) {
#pragma unroll
  for (int set = 0; set < kSets; ++set) {
#pragma unroll
    for (int i = 0; i < kN; ++i) c[set][i] = 0;
  }
}

// The compiler knows of no other link between the accumulators and the wait for the products that fill them.
template <int kN>
__device__ __forceinline__ void fence_registers(float (&c)[kN]) {
#pragma unroll
  for (int i = 0; i < kN; ++i) hopper::fence_register(c[i]);
}

// A consumer warp's way through both pipelines: the weights of its work tiles, stage after stage, and the tiles that
// its products leave behind. Every warp hands back what it has read on its own. Between two stages' products there is
// time for few instructions.
class WgmmaConsumerState {
 public:
  __device__ __forceinline__ WgmmaConsumerState(const WgmmaShared& shared, const WgmmaPlan& plan)
      : barriers_(shared.barriers),
        stages_(plan.pipelines.weight_stages),
        resident_(plan.pipelines.resident_weights),
        base_(hopper::matrix_descriptor(hopper::shared_address(shared.weights), kWgmmaSliceBytes / 2, 128)) {}

  // Descriptor of the next stage, once it has arrived.
  __device__ __forceinline__ hopper::MatrixDescriptor arrived() {
    hopper::barrier_wait(&barriers_->weights_full[state_.stage], state_.parity);
    return base_ + static_cast<uint32_t>(state_.stage * (kWgmmaWeightStageBytes / 16));
  }
  // The products of the stage were committed. At most two stages are passed and not handed back, unless they stay.
  __device__ __forceinline__ void pass_stage() {
    state_.advance(stages_);
    ++held_;
  }
  // All products but those of the last stage are done.
  __device__ __forceinline__ void release_before() { release_stage(!resident_ && held_ > 1); }
  // All issued products are done.
  __device__ __forceinline__ void release_all() {
    release_stage(!resident_ && held_ > 0);
    release_stage(!resident_ && held_ > 0);
    release_tile();
  }
  // All issued products on the tile that was left are done.
  __device__ __forceinline__ void release_tile() {
    if (tile_ >= 0 && threadIdx.x % 32 == 0) hopper::barrier_arrive(&barriers_->tile_empty[tile_]);
    tile_ = -1;
  }
  __device__ __forceinline__ void leave_tile(int stage) {
    // In a pass without products nothing holds the lanes together: one that hands the tile back must not be ahead of
    // one that still waits for it.
    if (tile_ >= 0) __syncwarp();
    release_tile();
    tile_ = stage;
  }
  // `keep`: all work tiles read the same weights, which stay from the first stage on.
  __device__ __forceinline__ void end_work_tile(bool keep) {
    if (keep) {
      state_ = WgmmaPipelineState();
      held_ = 0;
    } else {
#pragma unroll 1
      while (held_ > 0) release_stage(true);
    }
  }

 private:
  // The oldest that is held, if `is`; without a branch.
  __device__ __forceinline__ void release_stage(bool is) {
    if (is && threadIdx.x % 32 == 0) hopper::barrier_arrive(&barriers_->weights_empty[free_]);
    const int next = free_ + 1 == stages_ ? 0 : free_ + 1;
    free_ = is ? next : free_;
    held_ -= is ? 1 : 0;
  }

  WgmmaBarriers* barriers_;
  int stages_;
  bool resident_;
  hopper::MatrixDescriptor base_;
  WgmmaPipelineState state_;
  int free_ = 0;   // stage of weights that is handed back next
  int held_ = 0;   // stages passed and not handed back
  int tile_ = -1;  // stage of the tiles that was left, or none
};

// K steps of one loop (see plan/k_order.h): taps of one accumulator set on one chunk of channels. `b`: descriptor of
// the warpgroup's first column; `shifts`: of the steps.
template <typename T, int kN, bool kNMajor>
__device__ __forceinline__ void multiply_steps(int steps, const uint16_t* shifts, hopper::MatrixDescriptor b,
                                               float (&c)[kN / 2], WgmmaConsumerState& consumer) {
  constexpr int kSlice = kWgmmaSliceBytes / 16;
  using Product = hopper::Wgmma<T, kN>;
  const int stages = steps / kWgmmaStageSlices;
  uint32_t stage_shifts = hopper::shared_address(shifts);
  uint2 next = hopper::load_shared<uint2>(stage_shifts);
#pragma unroll 1
  for (int stage = 0; stage < stages; ++stage) {
    const uint2 shift = next;
    const hopper::MatrixDescriptor a = consumer.arrived();
    stage_shifts += sizeof(uint2);
    next = hopper::load_shared<uint2>(stage_shifts);  // before the products, which take longer
    hopper::wgmma_fence();
    Product::template multiply<true, kNMajor>(c, a.bits(), (b + (shift.x & 0xFFFF)).bits());
    Product::template multiply<true, kNMajor>(c, (a + kSlice).bits(), (b + (shift.x >> 16)).bits());
    Product::template multiply<true, kNMajor>(c, (a + 2 * kSlice).bits(), (b + (shift.y & 0xFFFF)).bits());
    Product::template multiply<true, kNMajor>(c, (a + 3 * kSlice).bits(), (b + (shift.y >> 16)).bits());
    hopper::wgmma_commit();
    consumer.pass_stage();
    hopper::wgmma_wait<1>();
    consumer.release_before();
    consumer.release_tile();
  }
  const int left = steps % kWgmmaStageSlices;
  if (left == 0) return;
  const hopper::MatrixDescriptor a = consumer.arrived();
  shifts += steps - left;
  for (int i = 0; i < left; ++i) {
    hopper::wgmma_fence();
    Product::template multiply<true, kNMajor>(c, (a + static_cast<uint32_t>(i * kSlice)).bits(),
                                              (b + shifts[i]).bits());
  }
  hopper::wgmma_commit();
  consumer.pass_stage();
  hopper::wgmma_wait<1>();
  consumer.release_before();
  consumer.release_tile();
}

// Multiplies one K step of two terms with a low term. These products come before that of the high terms, as the tensor
// cores cut each sum. Of the low terms' product nothing would be left. `b_low`: from the high term's panels to the low
// one's.
template <bool kAdd, int kN>
__device__ __forceinline__ void multiply_low(float (&c)[kN / 2], uint64_t a, uint64_t b, uint32_t b_low) {
  hopper::Wgmma<float, kN>::template multiply<kAdd>(c, a + kWgmmaSliceBytes / 16, b);
  hopper::Wgmma<float, kN>::multiply(c, a, b + b_low);
}

// K steps of one loop of two terms; here sums of whole descriptors leave fewer instructions between the products. The
// tensor cores' cut adds up to more than float32's rounding: two stages are summed in `products` and then added to `c`.
template <int kN>
__device__ __forceinline__ void multiply_steps_of_terms(int steps, const uint16_t* shifts,
                                                        hopper::MatrixDescriptor columns, uint32_t b_low,
                                                        float (&products)[kN / 2], float (&c)[kN / 2],
                                                        WgmmaConsumerState& consumer) {
  constexpr int kStrip = 2 * kWgmmaSliceBytes / 16;
  using Product = hopper::Wgmma<float, kN>;
  const uint64_t b = columns.bits();
  const auto next = [&] {
    const uint64_t a = consumer.arrived().bits();
    consumer.pass_stage();
    return a;
  };
  const auto flush = [&] {
    hopper::wgmma_wait<0>();
    fence_registers(products);
    consumer.release_all();
#pragma unroll
    for (int i = 0; i < kN / 2; ++i) c[i] += products[i];
  };
  const uint32_t* stage_shifts = reinterpret_cast<const uint32_t*>(shifts);
  uint32_t first_shifts = stage_shifts[0];
  uint32_t second_shifts = stage_shifts[1];
  int step = 0;
#pragma unroll 1
  for (; step + 4 <= steps; step += 4) {
    const uint64_t b0 = b + (first_shifts & 0xFFFF);
    const uint64_t b1 = b + (first_shifts >> 16);
    const uint64_t b2 = b + (second_shifts & 0xFFFF);
    const uint64_t b3 = b + (second_shifts >> 16);
    const uint64_t a = next();
    const uint64_t a2 = next();
    hopper::wgmma_fence();
    multiply_low<false, kN>(products, a, b0, b_low);
    multiply_low<true, kN>(products, a + kStrip, b1, b_low);
    multiply_low<true, kN>(products, a2, b2, b_low);
    multiply_low<true, kN>(products, a2 + kStrip, b3, b_low);
    Product::multiply(products, a, b0);
    Product::multiply(products, a + kStrip, b1);
    Product::multiply(products, a2, b2);
    Product::multiply(products, a2 + kStrip, b3);
    hopper::wgmma_commit();
    stage_shifts += 2;  // read ahead
    first_shifts = stage_shifts[0];
    second_shifts = stage_shifts[1];
    flush();
  }
  for (; step < steps; step += 2) {
    const uint64_t a = next();
    hopper::wgmma_fence();
    multiply_low<false, kN>(products, a, b + shifts[step], b_low);
    Product::multiply(products, a, b + shifts[step]);
    hopper::wgmma_commit();
    if (step + 1 < steps) {
      hopper::wgmma_fence();
      multiply_low<true, kN>(products, a + kStrip, b + shifts[step + 1], b_low);
      Product::multiply(products, a + kStrip, b + shifts[step + 1]);
      hopper::wgmma_commit();
    }
    flush();
  }
}

}  // namespace convt3d
