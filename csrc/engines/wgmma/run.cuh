// Forward on Hopper's matrix units: the boxes of its tensors, the packing of its weight, its kernel.
#pragma once

#include <stdexcept>
#include <string>
#include <type_traits>

#include "core/integer.h"
#include "device/launch.cuh"
#include "device/make_source.cuh"
#include "device/tensor_map.h"
#include "engines/wgmma/kernel.cuh"
#include "engines/wgmma/pack_weight.cuh"
#include "engines/wgmma/plan/boxes.h"
#include "engines/wgmma/run.h"

namespace convt3d::wgmma {

template <typename T>
void run_halo_packing(const PackHaloWeightParams<T>& params, Stream stream) {
  launch("weight packing", convt3d_pack_halo_weight<T>, ceil_div(params.threads, kPackHaloThreads), kPackHaloThreads,
         stream, params);
}

template <typename T>
using HaloKernel = void (*)(HaloParams<T>);

// The kernel of one of kHaloInstructions, if it is this one or a later one in the list.
template <typename T, int kIndex = 0>
HaloKernel<T> halo_forward_kernel(const HaloPlan& plan) {
  if constexpr (kIndex < kHaloInstructionCount) {
    constexpr HaloInstruction kIs = kHaloInstructions[kIndex];
    if constexpr (kIs.terms == 1 || std::is_same_v<T, float>) {
      if (plan.tile.instruction == kIs) {
        if constexpr (kIs.n_major && sizeof(T) == 2) {
          if (plan.load.n_major()) return convt3d_halo_forward<T, kIs.n, kIs.sets, kIs.terms, true>;
        }
        return convt3d_halo_forward<T, kIs.n, kIs.sets, kIs.terms, false>;
      }
    }
    return halo_forward_kernel<T, kIndex + 1>(plan);
  } else {
    throw std::logic_error("convt3d: no kernel for the plan " + to_string(plan));
  }
}

template <typename T>
void run_halo_forward(const HaloParams<T>& params, Stream stream) {
  const HaloPlan& plan = params.plan;
  // Without a weight to pack, the kernel before this one is not ours.
  const LaunchOrder order = plan.packed_bytes() > 0 ? LaunchOrder::kOverlapping : LaunchOrder::kAfter;
  launch("tensor-core forward", halo_forward_kernel<T>(plan), plan.grid.blocks, kHaloThreads, stream, params,
         plan.memory.bytes, order);
}

// As the tensor cores and TMA take elements; TF32 is rounded to nearest.
template <typename T>
constexpr BoxType halo_box_type(bool rounds_to_tf32) {
  if (std::is_same_v<T, __half>) return BoxType::kFloat16;
  if (std::is_same_v<T, __nv_bfloat16>) return BoxType::kBFloat16;
  return rounds_to_tf32 ? BoxType::kTf32 : BoxType::kFloat32;
}

inline void encode_planned(const TensorBox& box, const char* tensor, CUtensorMap& map) {
  if (encode(box, map)) return;
  throw std::runtime_error(std::string("convt3d: the driver refuses to describe the ") + tensor +
                           " to the tensor memory accelerator: " + to_string(box));
}

template <typename T>
void forward(const Problem& problem, const HaloPlan& plan, ConstTensor input, ConstTensor weight,
             const Epilogue& epilogue, MutableTensor output, void* workspace, Stream stream) {
  PackHaloWeightParams<T> pack{};
  if (plan.packed_bytes() > 0) {
    pack.plan = plan;
    pack.weight = static_cast<const T*>(weight.data);
    pack.stride = to_strides(weight.stride);
    pack.packed = static_cast<unsigned char*>(workspace);
    pack.counters = reinterpret_cast<uint32_t*>(pack.packed + plan.packed_bytes());
    share_packing(pack);
  }
  HaloParams<T> params{};
  params.plan = plan;
  params.source = make_source<T>(input, {}, problem.input_size, {});  // the plan says how it is read
  params.weight = pack.packed;
  params.counters = pack.counters;
  params.destination = static_cast<T*>(output.data);
  params.destination_stride = to_strides(output.stride);
  params.epilogue = epilogue;
  constexpr int kBytes = sizeof(T);
  if (plan.load.boxes()) {
    TensorBox box = input_box(problem, plan, plan.load, kBytes, input.stride);
    box.data = input.data;
    box.type = halo_box_type<T>(plan.product.terms == 1);
    encode_planned(box, "input", params.boxes);
  }
  for (int i = 0; plan.store.boxes() && i < output_boxes(plan); ++i) {
    TensorBox box = output_box(problem, plan, kBytes, output.stride, output.data, i);
    box.type = halo_box_type<T>(false);
    encode_planned(box, "output", params.out[i]);
  }
  if (plan.packed_bytes() > 0) run_halo_packing(pack, stream);
  run_halo_forward(params, stream);
}

}  // namespace convt3d::wgmma
