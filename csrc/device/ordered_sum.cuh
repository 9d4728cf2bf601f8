// Adds partial sums, [split][element], in an order that only their number decides: same partial sums, same bits. In
// float64, whatever the partial sums are, and rounded once.
//
// Partial sums lie as it suits who computes them, the destination as its tensor does. A block adds a tile of columns,
// neighbours in the partial sums, and rows, neighbours in the destination: it reads along the columns and, through
// shared memory, writes along the rows.
#pragma once

#include <algorithm>
#include <array>
#include <climits>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "core/call.h"
#include "core/divisor.h"
#include "core/integer.h"
#include "core/ordered_sum_shape.h"
#include "device/launch.cuh"
#include "device/numeric.cuh"
#include "device/overlap.cuh"
#include "device/ptx/shared_memory.cuh"

namespace convt3d {

constexpr int kOrderedSumAxes = 6;
// Blocks that fit a multiprocessor by their registers. Unless it is told, the compiler makes room for more, and spills.
constexpr int kOrderedSumBlocks = 4;

// The block's sum of one double a thread, over threads whose index is equal modulo `apart`, a power of two, in a fixed
// order. All threads of the block call it.
template <int kThreads>
__device__ __forceinline__ double sum_over_threads(double value, int apart, double (&shared)[kThreads]) {
  shared[threadIdx.x] = value;
  __syncthreads();
  for (int distance = kThreads / 2; distance >= apart; distance /= 2) {
    if (static_cast<int>(threadIdx.x) < distance) shared[threadIdx.x] += shared[threadIdx.x + distance];
    __syncthreads();
  }
  const double sum = shared[threadIdx.x % apart];
  __syncthreads();
  return sum;
}

// The same of few numbers, which one thread reads: kCount of them, `apart` from each other.
template <int kCount>
__device__ __forceinline__ double sum_of_few(const double* values, int apart) {
  double sum[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) sum[i] = values[i * apart];
#pragma unroll
  for (int distance = kCount / 2; distance > 0; distance /= 2) {
#pragma unroll
    for (int i = 0; i < distance; ++i) sum[i] += sum[i + distance];
  }
  return sum[0];
}

// Elements are numbered as an array's, whose axes may be longer than the destination's: what lies past `size` is
// padding, and goes nowhere.
struct OrderedSumAxis {
  int64_t extent = 1;
  int64_t size = 1;
  int64_t stride = 0;  // of the destination, in elements
};

// A dense vector, [split][element], that the same launch adds.
template <typename T, typename Partial>
struct OrderedVector {
  const Partial* partial = nullptr;
  int64_t splits = 0;
  int64_t elements = 0;
  T* destination = nullptr;
};

template <typename T, typename Partial>
struct OrderedSum {
  const Partial* partial;  // [split][element]
  int64_t splits;
  int64_t elements;
  OrderedSumAxis axis[kOrderedSumAxes];  // the fastest first; the last one takes what is left of an element's number
  T* destination;
  OrderedVector<T, Partial> beside;
};

// Numbers of rows are taken apart along the axes of an OrderedSum but the first, in the order of the destination.
struct OrderedSumRow {
  int64_t partial;      // elements from the first row
  int64_t destination;  // elements from the first row; below zero: the row is padding
};
struct OrderedSumRows {
  OrderedSumAxis axis[kOrderedSumAxes - 1];
  int64_t partial_stride[kOrderedSumAxes - 1];
  Divisor divisor[kOrderedSumAxes - 1];  // of extents, where rows have numbers of 31 bits
  int64_t count;

  __device__ __forceinline__ OrderedSumRow at(int64_t row) const {
    OrderedSumRow found{0, 0};
    bool exists = row < count;
    auto narrow = static_cast<int32_t>(row);
#pragma unroll
    for (int i = 0; i < kOrderedSumAxes - 1; ++i) {
      int64_t place = 0;
      if (count <= INT32_MAX) {
        place = divisor[i].take(narrow);
      } else {
        place = row % axis[i].extent;
        row /= axis[i].extent;
      }
      exists = exists && place < axis[i].size;
      found.partial += place * partial_stride[i];
      found.destination += place * axis[i].stride;
    }
    return exists ? found : OrderedSumRow{0, -1};
  }
};

// Of one column lane and row lane, kLanes threads share the splits.
template <typename T, typename Partial>
struct OrderedSumParams {
  const Partial* partial;
  int64_t splits;
  int64_t elements;
  int64_t columns;
  int64_t column_stride;  // of the destination
  Divisor column_tiles;
  int64_t tiles;
  int64_t tiles_and_vector;  // and blocks' shares of the vector behind them
  int32_t column_bits;       // of the columns of a tile, a power of two
  bool along_columns;        // the destination's neighbours are columns
  OrderedSumRows rows;
  T* destination;
  OrderedVector<T, Partial> beside;
};

// Blocks past the tiles add so many of the vector's elements each, and as many threads as are left share the splits.
constexpr int kVectorColumns = 32;

template <typename T, typename Partial>
__device__ __forceinline__ void add_vector(const OrderedVector<T, Partial>& vector, int64_t tile,
                                           double (&shared)[kOrderedSumThreads]) {
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t element = tile * kVectorColumns + thread % kVectorColumns;
  const Partial* const from = vector.partial + (element < vector.elements ? element : 0);
  double sum = 0;
  wait_for_kernel_before();  // which leaves the partial sums
#pragma unroll 2
  for (int64_t split = thread / kVectorColumns; split < vector.splits; split += kOrderedSumThreads / kVectorColumns) {
    sum += from[split * vector.elements];
  }
  sum = sum_over_threads(sum, kVectorColumns, shared);
  if (thread < kVectorColumns && element < vector.elements) vector.destination[element] = from_accumulator<T>(sum);
}

// Lane i adds splits i, i + kLanes, ..., and then the lanes' sums are added. kUnroll: rows of a tile that a thread has.
template <typename T, typename Partial, int kLanes, int kUnroll>
__global__ void __launch_bounds__(kOrderedSumThreads, kOrderedSumBlocks)
    convt3d_ordered_sum(const __grid_constant__ OrderedSumParams<T, Partial> params) {
  begin_dependents();
  constexpr int kSums = kOrderedSumThreads / kLanes;  // of a block at a time
  static_assert(kSums * kLanes == kOrderedSumThreads, "lanes share a block evenly");
  constexpr int kTileBits = exact_log2(kSums * kUnroll);  // rows and columns of a tile are powers of two
  constexpr bool kFewLanes = kLanes > 1 && kLanes <= 8;   // of one sum, which one thread adds
  struct Shared {
    double lanes[kFewLanes ? kOrderedSumThreads * kUnroll : kLanes > 1 ? kOrderedSumThreads : 1];
    OrderedSumRow rows[kSums * kUnroll];
    T sums[2 * kSums * kUnroll];  // a row's end with a pad
    double vector[kOrderedSumThreads];
  };
  auto& shared = static_shared_memory<Shared>();
  const int thread = static_cast<int>(threadIdx.x);
  const int columns = 1 << params.column_bits;
  const int row_lanes = kSums >> params.column_bits;
  const int row_bits = kTileBits - params.column_bits;
  const int tile_rows = 1 << row_bits;
  const int pitch = columns + 1;
  const int column = thread % kSums & (columns - 1);
  const int first_row = thread % kSums >> params.column_bits;
  for (int64_t tile = blockIdx.x; tile < params.tiles_and_vector; tile += gridDim.x) {
    if (tile >= params.tiles) {
      add_vector(params.beside, tile - params.tiles, shared.vector);
      continue;
    }
    const int64_t row_tile =
        tile <= INT32_MAX ? params.column_tiles.quotient(static_cast<int32_t>(tile)) : tile / params.column_tiles.value;
    const int64_t tile_column = (tile - row_tile * params.column_tiles.value) * columns;
    for (int i = thread; i < tile_rows; i += kOrderedSumThreads) {
      shared.rows[i] = params.rows.at(row_tile * tile_rows + i);
    }
    __syncthreads();
    const Partial* from[kUnroll];
    double sum[kUnroll];
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      // What does not exist is read from the first row and column.
      const int64_t at = shared.rows[first_row + i * row_lanes].partial;
      from[i] = params.partial + at + (tile_column + column < params.columns ? tile_column + column : 0);
      sum[i] = 0;
    }
    wait_for_kernel_before();  // which leaves the partial sums
#pragma unroll(8 / kUnroll)
    for (int64_t split = thread / kSums; split < params.splits; split += kLanes) {
#pragma unroll
      for (int i = 0; i < kUnroll; ++i) sum[i] += from[i][split * params.elements];
    }
    if constexpr (kFewLanes) {
#pragma unroll
      for (int i = 0; i < kUnroll; ++i) shared.lanes[i * kOrderedSumThreads + thread] = sum[i];
      __syncthreads();
      for (int i = thread / kSums; i < kUnroll; i += kLanes) {
        const double* const lanes = shared.lanes + i * kOrderedSumThreads + thread % kSums;
        shared.sums[(first_row + i * row_lanes) * pitch + column] =
            from_accumulator<T>(sum_of_few<kLanes>(lanes, kSums));
      }
    }
#pragma unroll
    for (int i = 0; i < kUnroll && !kFewLanes; ++i) {
      if constexpr (kLanes > 1) sum[i] = sum_over_threads(sum[i], kSums, shared.lanes);
      if (thread < kSums) {
        shared.sums[(first_row + i * row_lanes) * pitch + column] = from_accumulator<T>(sum[i]);
      }
    }
    __syncthreads();
    for (int i = thread; i < 1 << kTileBits; i += kOrderedSumThreads) {
      const int to_column = params.along_columns ? i & (columns - 1) : i >> row_bits;
      const int to_row = params.along_columns ? i >> params.column_bits : i & (tile_rows - 1);
      const int64_t destination = shared.rows[to_row].destination;
      if (destination < 0 || tile_column + to_column >= params.columns) continue;
      params.destination[destination + (tile_column + to_column) * params.column_stride] =
          shared.sums[to_row * pitch + to_column];
    }
    __syncthreads();
  }
}

template <int kLanes, int kUnroll, typename T, typename Partial>
void add_tiles_in_order(const char* name, const OrderedSum<T, Partial>& sum, Stream stream) {
  constexpr int kMostColumns = 32;
  OrderedSumParams<T, Partial> params{};
  params.partial = sum.partial;
  params.splits = sum.splits;
  params.elements = sum.elements;
  params.destination = sum.destination;
  params.beside = sum.beside;
  const OrderedSumAxis& columns = sum.axis[0];
  params.columns = columns.size;
  params.column_stride = columns.stride;
  std::array<int, kOrderedSumAxes - 1> order{};
  std::array<int64_t, kOrderedSumAxes - 1> partial_stride{};
  int64_t rows = 1;
  for (int i = 0; i < kOrderedSumAxes - 1; ++i) {
    order[i] = i;
    partial_stride[i] = columns.extent * rows;
    rows *= sum.axis[i + 1].extent;
  }
  // Axes of one element are nobody's neighbours.
  const auto neighbours = [&](int i) { return sum.axis[i + 1].extent == 1 ? INT64_MAX : sum.axis[i + 1].stride; };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return neighbours(a) < neighbours(b); });
  params.rows.count = rows;
  for (int i = 0; i < kOrderedSumAxes - 1; ++i) {
    params.rows.axis[i] = sum.axis[order[i] + 1];
    params.rows.partial_stride[i] = partial_stride[order[i]];
    if (rows <= INT32_MAX) params.rows.divisor[i] = make_divisor(params.rows.axis[i].extent);
  }
  params.along_columns = columns.size > 1 && columns.stride < neighbours(order[0]);
  constexpr int kSums = kOrderedSumThreads / kLanes;
  while ((2 << params.column_bits) <= std::min(kMostColumns, kSums) && (1 << params.column_bits) < columns.size) {
    ++params.column_bits;
  }
  params.column_tiles = make_divisor(ceil_div(columns.size, int64_t{1} << params.column_bits));
  params.tiles = params.column_tiles.value * ceil_div(rows, int64_t{kSums >> params.column_bits} * kUnroll);
  params.tiles_and_vector = params.tiles + ceil_div(sum.beside.elements, int64_t{kVectorColumns});
  void (*const kernel)(OrderedSumParams<T, Partial>) = convt3d_ordered_sum<T, Partial, kLanes, kUnroll>;
  launch(name, kernel, params.tiles_and_vector, kOrderedSumThreads, stream, params, 0,
         overlapping_order(name, reinterpret_cast<const void*>(kernel)));
}

// One of the shapes that a plan may have.
template <int kLanesOf, int kRowsOf>
struct OrderedSumKernel {
  static constexpr int kLanes = kLanesOf;
  static constexpr int kRows = kRowsOf;
};

// Launches the kernel of the plan's shape, which is one of these.
template <typename... Kernels, typename T, typename Partial>
void add_in_order(const char* name, const OrderedSum<T, Partial>& sum, OrderedSumShape shape, Stream stream) {
  const auto launch_if = [&](auto kernel) {
    using Kernel = decltype(kernel);
    if (!(shape == OrderedSumShape{Kernel::kLanes, Kernel::kRows})) return false;
    add_tiles_in_order<Kernel::kLanes, Kernel::kRows>(name, sum, stream);
    return true;
  };
  if ((launch_if(Kernels()) || ...)) return;
  throw std::logic_error("convt3d: no kernel adds partial sums with " + std::to_string(shape.lanes) + " lanes and " +
                         std::to_string(shape.rows) + " rows");
}

// Of a gradient, whose plan has gradient_sum_shape().
template <typename T, typename Partial>
void add_gradient_in_order(const char* name, const OrderedSum<T, Partial>& sum, OrderedSumShape shape, Stream stream) {
  add_in_order<OrderedSumKernel<1, kOrderedSumRows>, OrderedSumKernel<kFewSumLanes, kOrderedSumRows>,
               OrderedSumKernel<kSumLanes, kOrderedSumRows>, OrderedSumKernel<kSumLanes, 1>>(name, sum, shape, stream);
}

}  // namespace convt3d
