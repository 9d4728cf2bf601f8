#include "engines/wgmma/plan/boxes.h"

#include "core/access.h"

namespace convt3d {
namespace {

BoxType box_type(const HaloPlan& plan, DataType dtype, bool loads) {
  if (dtype == DataType::kFloat16) return BoxType::kFloat16;
  if (dtype == DataType::kBFloat16) return BoxType::kBFloat16;
  return loads && plan.terms == 1 ? BoxType::kTf32 : BoxType::kFloat32;  // TF32 rounds to nearest
}

}  // namespace

bool has_channel_pieces(const HaloPlan& plan, DataType dtype, const ConstTensor& input) {
  return has_pieces(operand_traits(input), element_size(dtype), plan.in_channels, 16 / element_size(dtype));
}

HaloLoad choose_load(const Problem& problem, const HaloPlan& plan, DataType dtype, const ConstTensor& input,
                     TensorBox& box) {
  const int64_t element_bytes = element_size(dtype);
  const auto [n, c, d, h, w] = input.stride;
  box = {};
  box.data = input.data;
  box.type = box_type(plan, dtype, true);
  const auto set = [&](int axis, int64_t size, int64_t step, int32_t count, int32_t fold = 1) {
    box.set(axis, size, step * element_bytes, count, fold);
  };
  const Int3& size = problem.input_size;
  if (plan.row_log > 0 && w == 1) {
    const int32_t row = 1 << plan.row_log;
    const bool whole = plan.rows_cross_widths();  // a row of the box is a part of the input's rows
    box.swizzle = row * static_cast<int32_t>(element_bytes);
    set(0, whole ? row : size[2], 1, row);
    set(1, problem.in_channels, c, plan.chunk_panels * kHaloRowChannels);
    set(2, whole ? size[1] * size[2] / row : size[1], whole ? row : h, plan.halo[1] * plan.halo[2] / row);
    set(3, size[0], d, plan.halo[0]);
    set(4, problem.batch, n, 1);
    return (!whole || h == size[2]) && describable(box) ? HaloLoad::kCopyRows : HaloLoad::kThreads;
  }
  if (has_channel_pieces(plan, dtype, input) && plan.in_channels * element_bytes % plan.row_bytes == 0) {
    box.swizzle = plan.row_bytes;
    set(0, problem.in_channels, 1, plan.row_bytes / static_cast<int32_t>(element_bytes));
    set(1, problem.batch, n, 1 << plan.image_log);
    set(2, size[2], w, plan.halo[2]);
    set(3, size[1], h, plan.halo[1], plan.axis[1].fold);
    set(4, size[0], d, plan.halo[0], plan.axis[0].fold);
    return describable(box) ? HaloLoad::kCopy : HaloLoad::kThreads;
  }
  if (!plan.transposes() || w != 1) return HaloLoad::kThreads;
  const int32_t piece = 16 / static_cast<int32_t>(element_bytes);
  if (plan.box_images > 0) {
    if (h != size[2]) return HaloLoad::kThreads;
    const int64_t plane = size[1] * size[2];
    set(0, plane, 1, static_cast<int32_t>(plane));
    set(1, 1, d, 1);
    set(2, size[0], d, plan.halo[0]);
    set(3, problem.in_channels, c, piece);
    set(4, problem.batch, n, plan.box_images);
  } else {
    set(0, size[2], 1, plan.box_width);
    set(1, size[1], h, plan.box_rows, plan.axis[1].fold);
    set(2, size[0], d, plan.box_depths, plan.axis[0].fold);
    set(3, problem.in_channels, c, piece);
    set(4, problem.batch, n, 1);
  }
  return describable(box) ? HaloLoad::kTranspose : HaloLoad::kThreads;
}

int output_boxes(const HaloPlan& plan) {
  const bool paired = plan.pair_rows || plan.width_sets();
  return plan.axis[0].stride * plan.axis[1].stride * (paired ? 1 : plan.axis[2].stride);
}

TensorBox output_box(const Problem& problem, const HaloPlan& plan, DataType dtype, const MutableTensor& output,
                     int index) {
  const HaloStaging& staging = plan.staging;
  const int64_t element_bytes = element_size(dtype);
  const bool paired = plan.pair_rows || plan.width_sets();
  const int counts[3] = {plan.axis[0].stride, plan.axis[1].stride, paired ? 1 : plan.axis[2].stride};
  const int residue[3] = {index / (counts[1] * counts[2]), index / counts[2] % counts[1], index % counts[2]};
  TensorBox box{};
  box.type = box_type(plan, dtype, false);
  box.swizzle = staging.swizzle == 0 ? 0 : staging.swizzle + 16;
  const auto* data = static_cast<const unsigned char*>(output.data);
  int64_t size[3];
  int64_t step[3];
  for (int i = 0; i < 3; ++i) {
    data += residue[i] * output.stride[2 + i] * element_bytes;
    size[i] = (problem.output_size(i) - 1 - residue[i]) / counts[i] + 1;
    step[i] = counts[i] * output.stride[2 + i] * element_bytes;
  }
  box.data = data;
  const int64_t channel_step = output.stride[1] * element_bytes;
  const int64_t image_step = output.stride[0] * element_bytes;
  if (output.stride[1] == 1) {
    box.set(0, problem.out_channels, channel_step, plan.slab_channels);
    box.set(1, problem.batch, image_step, 1 << plan.image_log);
    box.set(2, size[2], step[2], staging.columns * (paired ? 2 : 1));
    box.set(3, size[1], step[1], staging.box_rows);
    box.set(4, size[0], step[0], 1);
  } else {
    box.set(0, size[2], step[2], staging.columns * (paired ? 2 : 1));
    box.set(1, problem.out_channels, channel_step, plan.slab_channels);
    box.set(2, size[1], step[1], staging.box_rows);
    box.set(3, size[0], step[0], 1);
    box.set(4, problem.batch, image_step, 1);
  }
  return box;
}

bool stores_boxes(const Problem& problem, const HaloPlan& plan, DataType dtype, const MutableTensor& output) {
  if (!plan.staging.boxes()) return false;
  for (int index = 0; index < output_boxes(plan); ++index) {
    if (!describable(output_box(problem, plan, dtype, output, index))) return false;
  }
  return true;
}

}  // namespace convt3d
