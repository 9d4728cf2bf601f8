// What the tensor-core engine's kernels receive.
#pragma once

#include "halo_plan.h"
#include "kernels/source.cuh"

namespace convt3d {

template <typename T>
struct HaloParams {
  HaloPlan plan;
  Source<T> source;
  const unsigned char* weight;  // packed, see pack_halo_weight.cuh
  const T* bias;
  int64_t bias_stride;
  T* destination;
  Strides destination_stride;
  bool destination_channels_contiguous;
  bool destination_vectors;  // four neighbours of a fragment are aligned in memory, and all or none of them exist
  bool relu;
};

// The residues and the first output channel of one slab of 16 rows.
struct HaloSlab {
  int depth;
  int height;
  int width;
  int channel;  // in the group; at or past out_channels where the slab is padding
};

CONVT3D_HOST_DEVICE inline HaloSlab halo_slab(const HaloPlan& plan, int slab) {
  HaloSlab result;
  result.channel = slab % plan.channel_slabs * plan.slab_channels;
  slab /= plan.channel_slabs;
  result.width = 0;
  if (!plan.pair_width) {
    result.width = slab % plan.axis[2].in_m;
    slab /= plan.axis[2].in_m;
  }
  result.height = slab % plan.axis[1].in_m;
  result.depth = slab / plan.axis[1].in_m;
  if (result.depth >= plan.axis[0].in_m) result.channel = plan.out_channels;
  return result;
}

}  // namespace convt3d
