// The gradient of the bias beside all others, of one term: sums of the rows (tap, output channel) that warps of the
// weight gradient multiply. Those warps wait for memory anyway; the loading warps, which sum rows elsewhere
// (weight_grad/bias_rows.cuh), are what such a block waits for.
#pragma once

#include "device/lanes.cuh"
#include "device/ptx/shared_memory.cuh"
#include "device/ptx/thread_barrier.cuh"
#include "engines/mma/backward/params.cuh"
#include "engines/mma/weight_grad/kernel.cuh"

namespace convt3d::mma {

// Where a block leaves the bias's sums of its split and group.
template <typename T>
__device__ __forceinline__ float* bias_of_block(const BackwardParams<T>& params) {
  const GradTile tile = tile_here(params.grad);
  return params.bias + (tile.split * params.grad.groups + tile.group) * params.grad.row_channels;
}

// Sums of the weight gradient's rows (tap, output channel): of 16 bits its warps have the tensor cores sum them as
// products with ones, sixteen positions at a time; of float32, whose bits the tensor cores would cut, each lane adds
// what it reads (GradProduct). In shared memory, float32: [warp along the positions][eight][row].
template <typename T, int kTerms>
class RowBiasSums {
 public:
  static constexpr bool kExist = kTerms == 1;

  __device__ __forceinline__ RowBiasSums(const BackwardParams<T>& params, unsigned char* shared)
      : params_(params), shared_(shared) {}

  __device__ __forceinline__ bool wanted() const { return kExist && params_.bias != nullptr; }

  __device__ __forceinline__ void clear(const Fillers& fillers) const {
    const int32_t count = params_.grad.warps_k * eights() * 8;
    for (int32_t i = fillers.thread; i < count; i += fillers.count) sums()[i] = 0;
  }

  // Adds the row sums of a warp, which has these elements for itself.
  template <typename Product>
  __device__ __forceinline__ void add(const GradShare& share, const Product& product) const {
    const auto lane = static_cast<int32_t>(threadIdx.x % 32);
    if (!Product::kRowParts && lane % 4 != 0) return;
    float* const to = sums() + (share.k * eights() + 2 * share.first) * 8 + lane / 4;
#pragma unroll
    for (int m = 0; m < Product::kFragments; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float of_row = product.row_sum[m][half];
        bool has_row = 2 * m + half < share.eights;
        if constexpr (Product::kRowParts) {
          of_row = sum_over_lanes<3>(of_row);
          has_row = has_row && lane % 4 == 0;
        }
        if (has_row) to[(2 * m + half) * 8] += of_row;
      }
    }
  }

  // Stores the sums, when all warps of the weight gradient have added theirs.
  __device__ __forceinline__ void store() const {
    sync_threads(kGradMultipliers, 32 * kGradWarps);
    const WeightGradParams<T>& grad = params_.grad;
    const auto* const eight = reinterpret_cast<const GradEight*>(shared_ + grad.layout.eights);
    const int32_t count = eights();
    float* const to = bias_of_block(params_);
    for (auto channel = static_cast<int32_t>(threadIdx.x); channel < grad.row_channels; channel += 32 * kGradWarps) {
      const int32_t row = channel % 8;
      double sum = 0;
      for (int32_t i = 0; i < count; ++i) {
        // Only eights that have the channel, one of each tap, count.
        if (row >= eight[i].channels || eight[i].row % grad.row_channels != channel - row) continue;
        for (int32_t k = 0; k < grad.warps_k; ++k) sum += sums()[(k * count + i) * 8 + row];
      }
      to[channel] = static_cast<float>(sum);
    }
  }

 private:
  __device__ __forceinline__ int32_t eights() const { return tile_here(params_.grad).eights(params_.grad); }
  __device__ __forceinline__ float* sums() const { return reinterpret_cast<float*>(shared_ + params_.layout.bias); }

  const BackwardParams<T>& params_;
  unsigned char* shared_;
};

}  // namespace convt3d::mma
