#include "norm/collect.h"

#include "device/launch.cuh"
#include "norm/reduce_kernel.cuh"

namespace convt3d::norm {
namespace {

struct CollectParams {
  Shape shape;
  CollectPlan plan;
  const PartMoments* parts;
  double* partial;
};

// The moments of every `step`-th of a channel's parts [first, end): sums of deviations from the first part's pivot,
// without a division for each part.
__device__ __forceinline__ Moments collected(const PartMoments* parts, int64_t first, int64_t end, int64_t step,
                                             int64_t channels) {
  if (first >= end) return {};
  const double pivot = parts[first * channels].pivot;
  PivotSums sums{};
#pragma unroll 4
  for (int64_t part = first; part < end; part += step) {
    const PartMoments moments = parts[part * channels];
    const double distance = moments.pivot - pivot;
    const double moved = moments.count * distance;
    sums.merge({moments.count, moments.sum + moved, moments.squares + distance * (2.0 * moments.sum + moved)});
  }
  return sums.moments(pivot);
}

__global__ void __launch_bounds__(kThreads) convt3d_norm_collect(const __grid_constant__ CollectParams params) {
  auto& shared = static_shared_memory<PivotSums[1][kThreads]>();
  const Shape& shape = params.shape;
  const CollectPlan& plan = params.plan;
  const int lane = static_cast<int>(threadIdx.x) % plan.lanes;
  const int other = static_cast<int>(threadIdx.x) / plan.lanes;
  const int64_t plane = plan.splits * shape.rows();
  const int64_t blocks = plan.blocks(shape.batch);
#pragma unroll 1
  for (int64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
    const int64_t split = block % plan.splits;
    const int64_t unit = block / plan.splits;
    const int64_t c = unit % plan.channel_blocks * plan.lanes + lane;
    const int64_t n = unit / plan.channel_blocks;
    const bool exists = c < shape.channels;
    const int64_t end = min((split + 1) * plan.split_parts, plan.parts);
    Moments own[1] = {};
    if (exists) {
      own[0] = collected(params.parts + n * plan.parts * shape.channels + c, split * plan.split_parts + other, end,
                         plan.others, shape.channels);
    }
    merge_threads(shared, own, true, other, plan.others, plan.lanes);
    if (exists && other == 0) {
      double* const to = params.partial + split * shape.rows() + n * shape.channels + c;
      to[0] = own[0].count;
      to[plane] = own[0].mean;
      to[2 * plane] = own[0].squares;
    }
    __syncthreads();
  }
}

}  // namespace

void collect(const Shape& shape, const CollectPlan& plan, const PartMoments* parts, double* partial, Stream stream) {
  launch("norm collection", convt3d_norm_collect, plan.blocks(shape.batch), kThreads, stream,
         CollectParams{shape, plan, parts, partial});
}

}  // namespace convt3d::norm
