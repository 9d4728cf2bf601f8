// Forward on Hopper's matrix units: the boxes of its tensors, the packing of its weight, its kernel.
#pragma once

#include "core/integer.h"
#include "device/copied_source.cuh"
#include "device/launch.cuh"
#include "device/make_source.cuh"
#include "engines/wgmma/encode.h"
#include "engines/wgmma/pack_weight.cuh"
#include "engines/wgmma/plan/boxes.h"
#include "engines/wgmma/run.h"
#include "engines/wgmma/run_kernel.h"

namespace convt3d::wgmma {

template <typename T>
void run_wgmma_packing(const PackWgmmaWeightParams<T>& params, Stream stream) {
  launch("weight packing", convt3d_pack_halo_weight<T>, ceil_div(params.packing.threads, kPackWgmmaThreads),
         kPackWgmmaThreads, stream, params, 0,
         params.plan.packs_beside ? LaunchOrder::kOverlapping : LaunchOrder::kAfter);
}

template <typename T>
void correlate(const WgmmaProblem& problem, const WgmmaPlan& plan, ConstTensor input, ConstTensor weight,
               const WgmmaWeightStrides& weight_stride, const Epilogue& epilogue, MutableTensor output, void* workspace,
               Stream stream) {
  PackWgmmaWeightParams<T> pack{};
  if (plan.packed_bytes() > 0) {
    pack.plan = plan;
    pack.weight = static_cast<const T*>(weight.data);
    pack.stride = to_strides(weight.stride);
    pack.stride.n = weight_stride.in_channel;
    pack.stride.c = weight_stride.out_channel;
    pack.group_stride = weight_stride.group;
    pack.packed = static_cast<unsigned char*>(workspace);
    pack.counters = reinterpret_cast<uint32_t*>(pack.packed + plan.packed_bytes());
    pack.packing = plan_packing(plan, sizeof(T));
    run_wgmma_packing(pack, stream);
  }
  WgmmaParams<T> params{};
  params.plan = plan;
  // The plan says how it is read. A copy begins beside the packing, which takes less time, and ends behind it: the
  // kernel waits for that alone.
  if (plan.copy.exists) {
    void* const to = static_cast<unsigned char*>(workspace) + plan.copy_offset();
    OperandCopy copy = plan.copy;
    copy.beside = plan.packed_bytes() > 0;
    params.source = copied_source<T>(copy, {0, problem.batch, {0, problem.input_size[0]}}, input, {}, to, stream);
    input = {to, copied_operand(copy).stride};
  } else {
    params.source = make_source<T>(input, {}, problem.input_size, {});
  }
  params.weight = pack.packed;
  params.counters = pack.counters;
  params.destination = static_cast<T*>(output.data);
  params.destination_stride = to_strides(output.stride);
  params.epilogue = epilogue;
  if (epilogue.moments.parts != nullptr) params.outputs = wgmma_outputs(plan);
  constexpr int kBytes = sizeof(T);
  if (plan.load.boxes()) {
    TensorBox box = input_box(problem, plan, plan.load, kBytes, input.stride);
    box.data = input.data;
    box.type = wgmma_box_type<T>(plan.product.terms == 1);
    encode_planned(box, "input", params.boxes);
  }
  for (int i = 0; plan.store.boxes() && i < output_boxes(plan); ++i) {
    TensorBox box = output_box(problem, plan, kBytes, output.stride, output.data, i);
    box.type = wgmma_box_type<T>(false);
    encode_planned(box, "output", params.out[i]);
  }
  if (is_wide(plan.tile.instruction)) {
    run_wgmma_forward<T, true>(params, stream);
  } else {
    run_wgmma_forward<T, false>(params, stream);
  }
}

}  // namespace convt3d::wgmma
