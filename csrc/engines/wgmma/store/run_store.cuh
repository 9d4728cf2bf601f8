// Runs (see plan/store.h): a channel's lines as they follow one another in the output. They are staged element by
// element, with the alignment that the burst's first line has in memory, and leave in pieces of 16 bytes: neighbouring
// threads store a channel's whole sectors together, and what is left at both ends element by element.
#pragma once

#include <type_traits>

#include "device/hopper.cuh"
#include "engines/wgmma/store/target.cuh"

namespace convt3d {

constexpr uint32_t kWgmmaRunBurstBit = 1u << (kWgmmaRunOffsetBits + kWgmmaRunMissingBits);

// An entry of the table of columns.
__device__ __forceinline__ uint16_t run_entry(int elements, int outputs, int burst) {
  return static_cast<uint16_t>(elements | (kWgmmaRunOutputs - outputs) << kWgmmaRunOffsetBits |
                               ((burst & 1) != 0 ? kWgmmaRunBurstBit : 0));
}

// Neighbours in a run, as far as fewer than kWgmmaRunOutputs are `missing`: of an entry of another burst there are
// more.
template <typename T, int kCount>
__device__ __forceinline__ void stage_outputs(uint32_t at, uint32_t missing, const float (&values)[kCount]) {
  if constexpr (sizeof(T) == 4) {
    hopper::store_shared_neighbours(at, missing, values);
  } else {
    uint32_t pairs[kCount / 2];
#pragma unroll
    for (int i = 0; i < kCount / 2; ++i) pairs[i] = rounded_pair<T>(values[2 * i], values[2 * i + 1]);
    hopper::store_shared_neighbours(at, missing, pairs);
  }
}

// Of one warp and pass.
template <typename T>
class WgmmaRunStore {
 public:
  // `channels`: of the slab; `segments`: the warpgroup's; `memory`: address of the warp's staging.
  __device__ __forceinline__ WgmmaRunStore(const WgmmaParams<T>& params, const WgmmaTarget<T>& target, int channels,
                                           const WgmmaStoredSegment* segments, uint32_t memory)
      : params_(params),
        store_(params.plan.store),
        target_(target),
        channels_(channels),
        segments_(segments),
        memory_(memory) {}

  // Where a channel's part of the staging begins, for the burst that begins with `segment`.
  __device__ __forceinline__ uint32_t staged(int segment, int channel) const {
    return memory_ + static_cast<uint32_t>(channel * store_.pitch +
                                           low_bits(line(segments_[segment]) + channel * channel_bytes(), kAligned));
  }

  // The burst that begins with `segment`; returns the one with which the next begins.
  __device__ __forceinline__ int store(int segment) const {
    const WgmmaRuns& runs = store_.as_runs();
    const WgmmaStoredSegment first = segments_[segment];
    const int next = segment + first.step;
    const int lines = min(first.step * runs.lines, target_.left[1] - first.h * runs.lines);
    if (first.d >= target_.left[0] || lines <= 0) return next;
    const int last = segment + runs.lines.quotient(lines - 1);
    if (runs.joined_lines) {
      store_run({line(first), 0, begin_of(first), (lines - 1) * runs.line_step + end_of(segments_[last])});
    } else {
#pragma unroll 1
      for (int i = segment; i <= last; ++i) {
        const WgmmaStoredSegment at = segments_[i];
        store_run({line(at), at.offset, begin_of(at), end_of(at)});
      }
    }
    return next;
  }

 private:
  static constexpr int kBytes = static_cast<int>(sizeof(T));
  static constexpr int kSector = 32;
  static constexpr int kAligned = 16;  // bytes that staging and memory have alike
  static constexpr int kPiece = kAligned;
  static constexpr int kLanes = 8;  // of a channel: a line of 128 bytes at once

  // One channel's bytes `begin` to `end` from a line's `destination` on; `offset`: of the line in the burst.
  struct Run {
    unsigned char* destination;
    int offset;
    int begin;
    int end;
  };
  __device__ __forceinline__ static int low_bits(const unsigned char* at, int modulus) {
    return static_cast<int>(reinterpret_cast<uintptr_t>(at)) & modulus - 1;
  }
  __device__ __forceinline__ int64_t channel_bytes() const { return params_.destination_stride.c * kBytes; }
  // The slab's first channel, where the segment's column 0 is in the output.
  __device__ __forceinline__ unsigned char* line(const WgmmaStoredSegment& segment) const {
    return reinterpret_cast<unsigned char*>(target_.at(params_, segment.d, segment.h, segment.w - segment.first));
  }
  // The segment's outputs, in bytes from there.
  __device__ __forceinline__ int begin_of(const WgmmaStoredSegment& segment) const {
    return segment.first * store_.column_bytes;
  }
  __device__ __forceinline__ int end_of(const WgmmaStoredSegment& segment) const {
    return min((segment.first + segment.columns) * store_.column_bytes,
               target_.left[2] * kBytes - (segment.w - segment.first) * store_.column_bytes);
  }

  // Of every channel. The code is short of registers: most of them hold sums that are yet to be staged.
  __device__ __forceinline__ void store_run(const Run& run) const {
    const int lane = hopper::computed_here(static_cast<int>(threadIdx.x) % 32);
    const int sub = lane % kLanes;
#pragma unroll 1
    for (int channel = lane / kLanes; channel < params_.plan.arrangement.slab_channels(); channel += 32 / kLanes) {
      // All counted from the beginning of the sector that the line's destination lies in.
      unsigned char* to = run.destination + channel * channel_bytes();
      const int before = low_bits(to, kSector);
      to -= before;
      // The burst's first line is aligned as this one would be without its offset.
      const int staged_line = channel * store_.pitch + (run.offset - before + kAligned - 1 & -kAligned);
      const uint32_t from = memory_ + static_cast<uint32_t>(staged_line);
      const int begin = before + run.begin;
      const int end = channel < channels_ ? before + run.end : begin;
      const int first = begin + kSector - 1 & -kSector;  // of the whole sectors
      const int last = end & -kSector;
      store_elements(begin + sub * kBytes, min(first, end), to, from);
      store_elements(max(first, last) + sub * kBytes, end, to, from);
      store_pieces(first + sub * kPiece, last, to, from);
    }
  }

  // A thread's pieces from `at` on, kLanes apart; two are on their way at a time.
  __device__ __forceinline__ void store_pieces(int at, int end, unsigned char* to, uint32_t from) const {
    constexpr int kNext = kLanes * kPiece;
    from += static_cast<uint32_t>(at);
    to += at;
#pragma unroll 1
    for (int left = end - at; left > 0; left -= 2 * kNext) {
      const bool second = left > kNext;
      const uint4 piece = hopper::load_shared<uint4>(from);
      const uint4 next = hopper::load_shared<uint4>(second ? from + kNext : from);
      *reinterpret_cast<uint4*>(to) = piece;
      if (second) *reinterpret_cast<uint4*>(to + kNext) = next;
      from += 2 * kNext;
      to += 2 * kNext;
    }
  }

  // A thread's elements, of less than a sector. What does not exist is read from where nothing else is written
  // meanwhile.
  __device__ __forceinline__ void store_elements(int at, int end, unsigned char* to, uint32_t from) const {
    using Element = std::conditional_t<kBytes == 2, uint16_t, uint32_t>;
    constexpr int kNext = kLanes * kBytes;
    static_assert(kSector <= 2 * kNext);
    from += static_cast<uint32_t>(at);
    to += at;
    const bool first = at < end;
    const bool second = kNext < kSector && at + kNext < end;
    const Element element = hopper::load_shared<Element>(first ? from : memory_);
    const Element next = hopper::load_shared<Element>(second ? from + kNext : memory_);
    if (first) *reinterpret_cast<Element*>(to) = element;
    if (second) *reinterpret_cast<Element*>(to + kNext) = next;
  }

  const WgmmaParams<T>& params_;
  const WgmmaStore& store_;
  const WgmmaTarget<T>& target_;
  int channels_;
  const WgmmaStoredSegment* segments_;
  uint32_t memory_;
};

}  // namespace convt3d
