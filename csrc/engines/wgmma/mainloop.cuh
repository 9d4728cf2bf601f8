// The products of one warpgroup: stages of weights from the ring times columns of the tile.
#pragma once

#include "device/hopper.cuh"
#include "device/small_divisor.cuh"
#include "engines/wgmma/shared.cuh"

namespace convt3d {

// For every step of a chunk's segments, how far the operand lies from the warpgroup's first column, in units of 16
// bytes; by the warps that multiply. kNMajor: the tile is rows of positions, and no tap shifts it.
template <bool kNMajor>
__device__ __forceinline__ void fill_shifts(const HaloPlan& plan, uint16_t* shifts) {
  const int panel_log = plan.row_bytes / (2 * kHaloOperandBytes);  // log2 of a panel's steps: 0, 1 or 2
  const int segments = plan.phases * plan.sets;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int share = max(1, kHaloMultiplyWarps / segments);  // warps of a segment
  const SmallDivisor by_tap_steps(plan.tap_steps);
  for (int segment = warp / share; segment < segments; segment += kHaloMultiplyWarps / share) {
    const HaloPhase phase = halo_phase(plan, segment / plan.sets, segment % plan.sets);
    const HaloTaps& taps_d = plan.axis[0].taps[phase.depth];
    const HaloTaps& taps_h = plan.axis[1].taps[phase.height];
    const HaloTaps& taps_w = plan.axis[2].taps[phase.width];
    const SmallDivisor by_widths(max(1, taps_w.count));
    const SmallDivisor by_heights(max(1, taps_h.count));
    uint16_t* entries = shifts + plan.segment_first[segment] * plan.stage_steps();
#pragma unroll 1
    for (int step = warp % share * 32 + static_cast<int>(threadIdx.x) % 32; step < plan.segment_steps[segment];
         step += 32 * share) {
      if constexpr (kNMajor) {
        entries[step] = static_cast<uint16_t>(step * (kHaloOperandBytes / 16) << plan.row_log);
        continue;
      }
      int tap_step = step;
      int entry_w = by_tap_steps.divide(tap_step);
      int entry_h = by_widths.divide(entry_w);
      const int entry_d = by_heights.divide(entry_h);
      const int w = taps_w.offset[entry_w] - taps_w.low;
      const int offset_h = taps_h.offset[entry_h];
      const int offset_d = taps_d.offset[entry_d];
      const int h = plan.axis[1].step_of(offset_h) - taps_h.low;
      const int d = plan.axis[0].step_of(offset_d) - taps_d.low;
      const int fold = plan.axis[0].fold_of(offset_d) * plan.axis[1].fold + plan.axis[1].fold_of(offset_h);
      const int position = ((d * plan.halo[1] + h) * plan.halo[2] + w) << plan.image_log;
      const int panel = tap_step >> panel_log;
      const int bytes = panel * plan.panel_bytes() + fold * plan.fold_bytes + position * plan.row_bytes +
                        (tap_step - (panel << panel_log)) * kHaloOperandBytes;
      entries[step] = static_cast<uint16_t>(bytes / 16);
    }
  }
}

// The operand of a warpgroup whose columns begin at position `first` of the tile.
template <bool kNMajor>
__device__ __forceinline__ hopper::MatrixDescriptor columns_descriptor(const HaloPlan& plan, const void* tile,
                                                                       int first) {
  const uint32_t address = hopper::shared_address(tile);
  if constexpr (kNMajor) {
    const uint32_t position_bytes = static_cast<uint32_t>(plan.row_position_bytes());
    return hopper::swizzled_descriptor(address, 2u << plan.row_log, position_bytes << plan.row_log) +
           static_cast<uint32_t>(first) * (position_bytes / 16);
  }
  return hopper::swizzled_descriptor(address, static_cast<uint32_t>(plan.row_bytes)) +
         static_cast<uint32_t>(first * plan.row_bytes / 16);
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

// The weights of a warpgroup's items, stage after stage, and the slots that its products leave behind. Every warp hands
// back what it has read on its own. Between two stages' products there is time for few instructions.
class HaloReader {
 public:
  __device__ __forceinline__ HaloReader(const HaloShared& shared, const HaloPlan& plan)
      : barriers_(shared.barriers),
        ring_(plan.ring),
        resident_(plan.resident_weights),
        base_(hopper::matrix_descriptor(hopper::shared_address(shared.ring), kHaloBlockBytes / 2, 128)) {}

  // Descriptor of the next stage, once it has arrived.
  __device__ __forceinline__ hopper::MatrixDescriptor arrived() {
    hopper::barrier_wait(&barriers_->weights_full[place_.slot], place_.parity);
    return base_ + static_cast<uint32_t>(place_.slot * (kHaloStageBytes / 16));
  }
  // The products of the stage were committed. At most two stages are passed and not handed back, unless they stay.
  __device__ __forceinline__ void pass_stage() {
    place_.advance(ring_);
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
  // ... of the tile that was left.
  __device__ __forceinline__ void release_tile() {
    if (tile_ >= 0 && threadIdx.x % 32 == 0) hopper::barrier_arrive(&barriers_->tile_empty[tile_]);
    tile_ = -1;
  }
  __device__ __forceinline__ void leave_tile(int slot) {
    // Of a unit without products, which nothing holds the lanes together for: one that hands the tile back must not be
    // ahead of one that still waits for it.
    if (tile_ >= 0) __syncwarp();
    release_tile();
    tile_ = slot;
  }
  // `keep`: all items read the same weights, which stay from the ring's first stage on.
  __device__ __forceinline__ void end_item(bool keep) {
    if (keep) {
      place_ = HaloPlace();
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
    const int next = free_ + 1 == ring_ ? 0 : free_ + 1;
    free_ = is ? next : free_;
    held_ -= is ? 1 : 0;
  }

  HaloBarriers* barriers_;
  int ring_;
  bool resident_;
  hopper::MatrixDescriptor base_;
  HaloPlace place_;
  int free_ = 0;   // slot that is handed back next
  int held_ = 0;   // stages passed and not handed back
  int tile_ = -1;  // slot of the tile's ring that was left
};

// One segment: every tap of one set of accumulators on one chunk of channels. `b`: descriptor of the warpgroup's first
// column; `shifts`: of the segment.
template <typename T, int kN, bool kNMajor>
__device__ __forceinline__ void multiply_segment(int steps, const uint16_t* shifts, hopper::MatrixDescriptor b,
                                                 float (&c)[kN / 2], HaloReader& reader) {
  constexpr int kBlock = kHaloBlockBytes / 16;
  using Product = hopper::Wgmma<T, kN>;
  const int stages = steps / kHaloStageBlocks;
  const uint2* stage_shifts = reinterpret_cast<const uint2*>(shifts);
  uint2 next = stage_shifts[0];
#pragma unroll 1
  for (int stage = 0; stage < stages; ++stage) {
    const uint2 shift = next;
    const hopper::MatrixDescriptor a = reader.arrived();
    hopper::wgmma_fence();
    Product::template multiply<true, kNMajor>(c, a.bits(), (b + (shift.x & 0xFFFF)).bits());
    Product::template multiply<true, kNMajor>(c, (a + kBlock).bits(), (b + (shift.x >> 16)).bits());
    Product::template multiply<true, kNMajor>(c, (a + 2 * kBlock).bits(), (b + (shift.y & 0xFFFF)).bits());
    Product::template multiply<true, kNMajor>(c, (a + 3 * kBlock).bits(), (b + (shift.y >> 16)).bits());
    hopper::wgmma_commit();
    next = stage_shifts[stage + 1];  // read ahead
    reader.pass_stage();
    hopper::wgmma_wait<1>();
    reader.release_before();
    reader.release_tile();
  }
  const int left = steps % kHaloStageBlocks;
  if (left == 0) return;
  const hopper::MatrixDescriptor a = reader.arrived();
  shifts += steps - left;
  for (int i = 0; i < left; ++i) {
    hopper::wgmma_fence();
    Product::template multiply<true, kNMajor>(c, (a + static_cast<uint32_t>(i * kBlock)).bits(),
                                              (b + shifts[i]).bits());
  }
  hopper::wgmma_commit();
  reader.pass_stage();
  hopper::wgmma_wait<1>();
  reader.release_before();
  reader.release_tile();
}

// Of one step of K of two terms: the products with a low term, which come before those of the high terms, as the tensor
// cores cut each sum. Of the low terms' product nothing would be left. `b_low`: from the high term's panels to the low
// one's.
template <bool kAdd, int kN>
__device__ __forceinline__ void multiply_low(float (&c)[kN / 2], uint64_t a, uint64_t b, uint32_t b_low) {
  hopper::Wgmma<float, kN>::template multiply<kAdd>(c, a + kHaloBlockBytes / 16, b);
  hopper::Wgmma<float, kN>::multiply(c, a, b + b_low);
}

// The same of two terms; here sums of whole descriptors leave fewer instructions between the products. The tensor
// cores' cut adds up to more than float32's rounding: two stages are summed in `products` and then added to `c`.
template <int kN>
__device__ __forceinline__ void multiply_segment_of_terms(int steps, const uint16_t* shifts,
                                                          hopper::MatrixDescriptor columns, uint32_t b_low,
                                                          float (&products)[kN / 2], float (&c)[kN / 2],
                                                          HaloReader& reader) {
  constexpr int kStep = 2 * kHaloBlockBytes / 16;
  using Product = hopper::Wgmma<float, kN>;
  const uint64_t b = columns.bits();
  const auto next = [&] {
    const uint64_t a = reader.arrived().bits();
    reader.pass_stage();
    return a;
  };
  const auto flush = [&] {
    hopper::wgmma_wait<0>();
    fence_registers(products);
    reader.release_all();
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
    multiply_low<true, kN>(products, a + kStep, b1, b_low);
    multiply_low<true, kN>(products, a2, b2, b_low);
    multiply_low<true, kN>(products, a2 + kStep, b3, b_low);
    Product::multiply(products, a, b0);
    Product::multiply(products, a + kStep, b1);
    Product::multiply(products, a2, b2);
    Product::multiply(products, a2 + kStep, b3);
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
      multiply_low<true, kN>(products, a + kStep, b + shifts[step + 1], b_low);
      Product::multiply(products, a + kStep, b + shifts[step + 1]);
      hopper::wgmma_commit();
    }
    flush();
  }
}

}  // namespace convt3d
