// Raw rows of 16 bits whose channels begin alike (rows.cuh): 16 bytes of eight channels are a matrix of 8 x 8,
// which a warp reads transposed, and a row of it a position's piece of channels.
//
//     raw rows, eight channels                          the tile, a row a position
//     c0: x0 x1 .. x7 | x8 .. x15 | ..   one matrix     x0: [c0 c1 .. c7]
//     c1: x0 x1 .. x7 | x8 .. x15 | ..   ---------->    x1: [c0 c1 .. c7]
//     ..                                                ..
#pragma once

#include <cstddef>

#include "device/ptx/matrices.cuh"
#include "engines/mma/tile/rows.cuh"

namespace convt3d::mma {

template <typename T, int kThreads>
class RawMatrixLoader : public RawRowLoader<T, kThreads> {
 protected:
  using Lines = TileLines<T, kThreads>;
  using Rows = RawRowLoader<T, kThreads>;
  using Lines::kChannels;
  using Lines::params_;
  using Lines::thread_;
  using typename Rows::Run;

 public:
  using RawRowLoader<T, kThreads>::RawRowLoader;

 protected:
  __device__ __forceinline__ void transpose(const LoadStage& stage) const {
    if constexpr (sizeof(T) == 2) {
      if (params_.shape.raw.matrices) {
        const bool masked = params_.source.mask != nullptr;
        if (params_.shape.raw.begin == RowsBegin::kWhole) {
          return masked ? transpose_matrices<true, true>(stage) : transpose_matrices<true, false>(stage);
        }
        return masked ? transpose_matrices<false, true>(stage) : transpose_matrices<false, false>(stage);
      }
    }
    this->transpose_words(stage);
  }

 private:
  static constexpr int kWarps = kThreads / 32;
  static constexpr int kMatrixRows = 8;
  static constexpr int kAtOnce = 4;  // matrices that a warp transposes at once
  static constexpr int kLinesAtOnce =
      2;  // lines in flight, half as many with a mask: more would take too many registers
  static_assert(kThreads % 32 == 0);

  // Where a lane's row of a matrix goes: of whole rows it is the same in all lines, but for where those begin.
  template <bool kWhole>
  class Target {
   public:
    // `position`: after the first element of the 16 bytes that a line's raw rows begin in.
    __device__ __forceinline__ Target(const RawMatrixLoader& loader, const LoadStage& stage, const Run& run,
                                      int32_t lead, int32_t position)
        : entry_(loader.columns_address() + static_cast<uint32_t>(4 * (kCoordinatesBefore + position))) {
      if constexpr (kWhole) {
        to_ = hopper::load_shared<uint32_t>(entry_ - static_cast<uint32_t>(4 * lead));
      } else {
        const Source<T>& source = loader.params_.source;
        entry_ += static_cast<uint32_t>(4 * run.before);
        low_ =
            2 * static_cast<uint32_t>(loader.run_address(source.data, source.stride, stage.first_channel, run.first));
        most_low_ = static_cast<uint32_t>(4 * position);
      }
    }
    // Finds the targets in neighbouring lines of the table; `to`: the tile's first line. Where the tile does not have
    // the row, the targets are `from`, `from` + `pitch` and so on.
    template <int kLines>
    __device__ __forceinline__ void of(uint32_t line, uint32_t to, uint32_t from, uint32_t pitch,
                                       uint32_t (&targets)[kLines]) const {
      uint32_t lows[kLines];
#pragma unroll
      for (int i = 0; i < kLines; ++i) {
        const uint32_t at = line + i * kLineBytes;
        if constexpr (!kWhole) lows[i] = hopper::load_shared<uint32_t>(at);
        targets[i] = to + hopper::load_shared<uint32_t>(at + offsetof(LoadLine, row));
      }
#pragma unroll
      for (int i = 0; i < kLines; ++i) {
        uint32_t column = to_;
        bool in_row = true;
        if constexpr (!kWhole) {
          const uint32_t low = (low_ + 2 * lows[i]) & (2 * kPieceBytes - 1);
          column = hopper::load_shared<uint32_t>(entry_ - low);
          in_row = low <= most_low_;
        }
        const bool exists = in_row && static_cast<int32_t>(column) >= 0;
        targets[i] = exists ? targets[i] + column : from + static_cast<uint32_t>(i) * pitch;
      }
    }

   private:
    uint32_t entry_;  // the position's entry in the table of coordinates
    uint32_t to_ = 0;
    // Twice as many bytes, as entries have four and elements two: of the first element's address, and as many of them
    // as leave the position one of the row's.
    uint32_t low_ = 0;
    uint32_t most_low_ = 0;
  };

  // Places are the pieces of channels of the first eight positions, then of the next. Four of them are four matrices
  // that a warp transposes at once, of one line after another; a lane names a row of one of them in the raw rows, and
  // where the tile has it. A row that the tile does not have goes back to where its matrix came from and is read no
  // more.
  template <bool kWhole, bool kMasked>
  __device__ __forceinline__ void transpose_matrices(const LoadStage& stage) const {
    const StagedTile& tile = params_.tile;
    const RawRows& raw = params_.shape.raw;
    const Run run = this->run_of(stage.box);
    // Elements before the first that is staged, of the 16 bytes that have it, at most.
    const int32_t lead = kWhole ? static_cast<int32_t>(run.least & (kChannels - 1)) : kChannels - 1;
    const int32_t span = kWhole ? raw.span : raw.span - run.before;
    const int32_t places = (lead + span + kChannels - 1) / kChannels * tile.pieces;
    const int32_t all = (places + kAtOnce - 1) / kAtOnce * params_.shape.lines;
    const int32_t warp = thread_ / 32;
    const int32_t row = thread_ % kMatrixRows;
    if (!kWhole && run.before > 0) store_zeros(stage, run.before);
    const auto line_pitch = static_cast<uint32_t>(tile.pieces * raw.item_pitch);
    const int32_t end = all * (warp + 1) / kWarps;
#pragma unroll 1
    for (int32_t at = all * warp / kWarps; at < end;) {
      int32_t quad = at;
      const int32_t first = params_.shape.by_lines.take(quad);
      const int32_t count = min(params_.shape.lines - first, end - at);
      at += count;
      // Lanes past the last place have that one once more.
      int32_t group = min(quad * kAtOnce + thread_ % 32 / kMatrixRows, places - 1);
      const int32_t piece = tile.pieces_of_row.take(group);
      uint32_t from = stage.raw + static_cast<uint32_t>(first) * line_pitch +
                      static_cast<uint32_t>(piece * raw.item_pitch + row * raw.pitch + group * kPieceBytes);
      uint32_t table = stage.table + static_cast<uint32_t>(first * kLineBytes);
      const uint32_t to = stage.to + static_cast<uint32_t>(piece * kPieceBytes);
      const Target<kWhole> target(*this, stage, run, lead, group * kMatrixRows + row);
      Lines::template for_each_batch<kMasked ? kLinesAtOnce / 2 : kLinesAtOnce>(count, [&](auto batch) {
        constexpr int kLines = decltype(batch)::value;
        uint32_t targets[kLines];
        uint32_t matrices[kLines][kAtOnce];
        [[maybe_unused]] uint32_t masks[kLines][kAtOnce];
#pragma unroll
        for (int i = 0; i < kLines; ++i) {
          const uint32_t here = from + static_cast<uint32_t>(i) * line_pitch;
          load_matrices_transposed(matrices[i], here);
          if constexpr (kMasked) load_matrices_transposed(masks[i], here + static_cast<uint32_t>(raw.bytes));
        }
        target.of(table, to, from, line_pitch, targets);
#pragma unroll
        for (int i = 0; i < kLines; ++i) {
          if constexpr (kMasked) {
#pragma unroll
            for (int k = 0; k < kAtOnce; ++k) matrices[i][k] = masked_word<T>(matrices[i][k], masks[i][k]);
          }
          hopper::store_matrices(targets[i], matrices[i]);
        }
        from += kLines * line_pitch;
        table += kLines * kLineBytes;
      });
    }
  }

  // Stores zeros for the tile's coordinates before the source's first one.
  __device__ __forceinline__ void store_zeros(const LoadStage& stage, int32_t count) const {
    const int32_t items = params_.shape.lines * params_.tile.pieces;
#pragma unroll 1
    for (int32_t item = thread_; item < items; item += kThreads) {
      int32_t line = item;
      const int32_t piece = params_.tile.pieces_of_row.take(line);
      const auto row = hopper::load_shared<uint32_t>(stage.table + static_cast<uint32_t>(line * kLineBytes) +
                                                     offsetof(LoadLine, row));
      const uint32_t to = stage.to + row + static_cast<uint32_t>(piece * kPieceBytes);
#pragma unroll 1
      for (int32_t i = 0; i < count; ++i) Rows::store_row(this->columns_address(), i, to, uint4{0, 0, 0, 0});
    }
  }
};

}  // namespace convt3d::mma
