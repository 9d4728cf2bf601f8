#include "engines/wgmma/plan/boxes.h"

#include "core/access.h"
#include "device/swizzle.h"

namespace convt3d {
namespace {

const void* as_address(int32_t remainder) { return reinterpret_cast<const void*>(static_cast<uintptr_t>(remainder)); }

bool can_load(const WgmmaProblem& problem, const WgmmaPlanParts& plan, const WgmmaLoad& load, int element_bytes,
              const OperandTraits& input) {
  TensorBox box = input_box(problem, plan, load, element_bytes, input.stride);
  box.data = as_address(input.address);
  return describable(box);
}

}  // namespace

TensorBox input_box(const WgmmaProblem& problem, const WgmmaPlanParts& plan, const WgmmaLoad& load, int element_bytes,
                    const TensorStrides& stride) {
  const auto [n, c, d, h, w] = stride;
  const WgmmaTile& tile = plan.tile;
  const Int3& size = problem.input_size;
  const OneOrTwo fold_d = plan.arrangement.axis[0].fold;
  const OneOrTwo fold_h = plan.arrangement.axis[1].fold;
  const OneOrTwo fold_w = plan.arrangement.axis[2].fold;
  const int32_t piece = 16 / element_bytes;  // channels
  TensorBox box{};
  const auto set = [&](int axis, int64_t elements, int64_t step, int32_t count, int32_t fold = 1) {
    box.set(axis, elements, step * element_bytes, count, fold);
  };
  switch (load.way()) {
    case WgmmaLoadWay::kNMajorBoxes: {
      const WgmmaNMajor& n_major = load.as_n_major();
      const int32_t line = 1 << n_major.line_log;
      const bool crosses = n_major.crosses_widths;  // a line of the box is a part of the input's lines
      box.swizzle = line * element_bytes;
      set(0, crosses ? line : size[2], 1, line);
      set(1, problem.in_channels, c, plan.panels.in_chunk * kWgmmaNMajorChannels);
      set(2, crosses ? size[1] * size[2] / line : size[1], crosses ? line : h, tile.halo[1] * tile.halo[2] / line);
      set(3, size[0], d, tile.halo[0]);
      set(4, problem.batch, n, 1);
      break;
    }
    case WgmmaLoadWay::kChannelBoxes:
      box.swizzle = plan.panels.position_bytes;
      set(0, problem.in_channels, 1, plan.panels.position_bytes / element_bytes);
      set(1, problem.batch, n, tile.images());
      set(2, size[2], w, tile.halo[2], fold_w);
      set(3, size[1], h, tile.halo[1], fold_h);
      set(4, size[0], d, tile.halo[0], fold_d);
      break;
    case WgmmaLoadWay::kPlaneBoxes: {
      const int64_t plane = size[1] * size[2];
      set(0, plane, 1, static_cast<int32_t>(plane));
      set(1, 1, d, 1);
      set(2, size[0], d, tile.halo[0]);
      set(3, problem.in_channels, c, piece);
      set(4, problem.batch, n, load.as_plane_boxes().images);
      break;
    }
    case WgmmaLoadWay::kLineBoxes: {
      const WgmmaLineBoxes& lines = load.as_line_boxes();
      set(0, size[2], 1, lines.width);
      set(1, size[1], h, lines.lines, fold_h);
      set(2, size[0], d, lines.depths, fold_d);
      set(3, problem.in_channels, c, piece);
      set(4, problem.batch, n, 1);
      break;
    }
    case WgmmaLoadWay::kElements:
    case WgmmaLoadWay::kPieces:
      break;
  }
  return box;
}

int output_boxes(const WgmmaPlanParts& plan) {
  const auto& axis = plan.arrangement.axis;
  return axis[0].stride * axis[1].stride * (plan.arrangement.both_widths() ? 1 : axis[2].stride);
}

TensorBox output_box(const WgmmaProblem& problem, const WgmmaPlanParts& plan, int element_bytes,
                     const TensorStrides& stride, const void* address, int index) {
  const WgmmaStore& store = plan.store;
  const auto& axis = plan.arrangement.axis;
  const bool both_widths = plan.arrangement.both_widths();
  const int counts[3] = {axis[0].stride, axis[1].stride, both_widths ? 1 : axis[2].stride};
  const int residue[3] = {index / (counts[1] * counts[2]), index / counts[2] % counts[1], index % counts[2]};
  TensorBox box{};
  box.swizzle = swizzled_row_bytes(store.swizzle);
  int64_t offset = 0;
  int64_t size[3];
  int64_t step[3];
  for (int i = 0; i < 3; ++i) {
    offset += residue[i] * stride[2 + i] * element_bytes;
    size[i] = (problem.output_size[i] - 1 - residue[i]) / counts[i] + 1;
    step[i] = counts[i] * stride[2 + i] * element_bytes;
  }
  box.data = reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(address) + static_cast<uintptr_t>(offset));
  const int64_t channel_step = stride[1] * element_bytes;
  const int64_t image_step = stride[0] * element_bytes;
  const int32_t slab_channels = plan.arrangement.slab_channels();
  const int32_t columns = store.columns * (both_widths ? 2 : 1);
  if (store.channels_contiguous) {
    box.set(0, problem.out_channels, channel_step, slab_channels);
    box.set(1, problem.batch, image_step, plan.tile.images());
    box.set(2, size[2], step[2], columns);
    box.set(3, size[1], step[1], store.box_lines());
    box.set(4, size[0], step[0], 1);
  } else {
    box.set(0, size[2], step[2], columns);
    box.set(1, problem.out_channels, channel_step, slab_channels);
    box.set(2, size[1], step[1], store.box_lines());
    box.set(3, size[0], step[0], 1);
    box.set(4, problem.batch, image_step, 1);
  }
  return box;
}

WgmmaLoad load_of_operand(const WgmmaProblem& problem, const WgmmaPlanParts& plan, int element_bytes,
                          const OperandTraits& input) {
  const auto [n, c, d, h, w] = input.stride;
  const WgmmaLoad& planned = plan.load;
  const auto can = [&](const WgmmaLoad& load) { return can_load(problem, plan, load, element_bytes, input); };
  const bool pieces = has_pieces(input, element_bytes, plan.product.in_channels, 16 / element_bytes);
  const WgmmaLoad by_threads = pieces ? WgmmaLoad::pieces() : WgmmaLoad::elements();
  if (planned.n_major() && w == 1) {
    const bool lines = !planned.as_n_major().crosses_widths || h == problem.input_size[2];
    return lines && can(planned) ? planned : by_threads;
  }
  if (pieces && plan.product.in_channels * element_bytes % plan.panels.position_bytes == 0) {
    return can(WgmmaLoad::channel_boxes()) ? WgmmaLoad::channel_boxes() : by_threads;
  }
  const bool planes = !planned.plane_boxes() || h == problem.input_size[2];
  return planned.transposes() && w == 1 && planes && can(planned) ? planned : by_threads;
}

WgmmaStore store_of_operand(const WgmmaProblem& problem, const WgmmaPlanParts& plan, int element_bytes,
                            const OperandTraits& output) {
  const WgmmaStore store = plan.store.with_marks(make_marks(plan.tile, plan.store));
  for (int index = 0; store.boxes() && index < output_boxes(plan); ++index) {
    const TensorBox box = output_box(problem, plan, element_bytes, output.stride, as_address(output.address), index);
    if (!describable(box)) return store.boxes_by_threads();
  }
  return store;
}

}  // namespace convt3d
