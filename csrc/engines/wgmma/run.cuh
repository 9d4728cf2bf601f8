// Forward on Hopper's matrix units: the boxes of its tensors, the packing of its weight, its kernel.
#pragma once

#include <type_traits>

#include "core/integer.h"
#include "device/current_device.h"
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

// Of one term.
template <typename T, int kN, int kSets>
auto halo_forward_kernel(HaloLoad load) -> void (*)(HaloParams<T>) {
  if constexpr (sizeof(T) == 2 && halo_multiplies_rows(kN, kSets)) {
    if (load == HaloLoad::kCopyRows) return convt3d_halo_forward<T, kN, kSets, 1, true>;
  }
  return convt3d_halo_forward<T, kN, kSets, 1, false>;
}

template <typename T>
void run_halo_forward(const HaloParams<T>& params, int64_t blocks, Stream stream) {
  const HaloPlan& plan = params.plan;
  const auto kernel = [&]() -> void (*)(HaloParams<T>) {
    if constexpr (std::is_same_v<T, float>) {
      if (plan.terms == 2) {
        if (plan.sets == 2) {
          return plan.n == 80 ? convt3d_halo_forward<T, 80, 2, 2, false> : convt3d_halo_forward<T, 64, 2, 2, false>;
        }
        return plan.n == 128 ? convt3d_halo_forward<T, 128, 1, 2, false> : convt3d_halo_forward<T, 64, 1, 2, false>;
      }
    }
    if (plan.sets == 2) {
      if (plan.n == 80) return halo_forward_kernel<T, 80, 2>(params.load);
      return plan.n == 128 ? halo_forward_kernel<T, 128, 2>(params.load) : halo_forward_kernel<T, 64, 2>(params.load);
    }
    if (plan.n == 256) return halo_forward_kernel<T, 256, 1>(params.load);
    if (plan.n == 192) return halo_forward_kernel<T, 192, 1>(params.load);
    if (plan.n == 160) return halo_forward_kernel<T, 160, 1>(params.load);
    return plan.n == 128 ? halo_forward_kernel<T, 128, 1>(params.load) : halo_forward_kernel<T, 64, 1>(params.load);
  }();
  // Without a weight to pack, the kernel before this one is not ours.
  const LaunchOrder order = plan.packed_bytes > 0 ? LaunchOrder::kOverlapping : LaunchOrder::kAfter;
  launch("tensor-core forward", kernel, blocks, kHaloThreads, stream, params, plan.memory.bytes, order);
}

template <typename T>
void forward(const Problem& problem, const HaloPlan& plan, ConstTensor input, ConstTensor weight,
             const Epilogue& epilogue, MutableTensor output, void* workspace, Stream stream) {
  PackHaloWeightParams<T> pack{};
  if (plan.packed_bytes > 0) {
    pack.plan = plan;
    pack.weight = static_cast<const T*>(weight.data);
    pack.stride = to_strides(weight.stride);
    pack.packed = static_cast<unsigned char*>(workspace);
    pack.counters = reinterpret_cast<uint32_t*>(pack.packed + plan.packed_bytes);
    share_packing(pack);
    run_halo_packing(pack, stream);
  }

  HaloParams<T> params{};
  params.plan = plan;
  params.source = make_source<T>(input, {}, problem.input_size,
                                 channel_access(operand_traits(input), {}, sizeof(T), plan.in_channels));
  params.weight = pack.packed;
  params.items = static_cast<uint32_t>(plan.items());
  const HaloGrid grid = halo_grid(plan, current_device().traits.multiprocessors);
  params.weight_classes = grid.weight_classes;
  params.lag_clocks = lag_clocks(plan);
  params.counters = pack.counters;
  params.destination = static_cast<T*>(output.data);
  params.destination_stride = to_strides(output.stride);
  params.destination_channels_contiguous = output.stride[1] == 1;
  params.epilogue = epilogue;
  TensorBox box{};
  params.load = choose_load(problem, plan, kDataType<T>, input, box);
  if (params.load != HaloLoad::kThreads && !encode(box, params.boxes)) params.load = HaloLoad::kThreads;
  params.boxes_out = stores_boxes(problem, plan, kDataType<T>, output);
  for (int i = 0; params.boxes_out && i < output_boxes(plan); ++i) {
    params.boxes_out = encode(output_box(problem, plan, kDataType<T>, output, i), params.out[i]);
  }
  run_halo_forward(params, grid.blocks, stream);
}

}  // namespace convt3d::wgmma
