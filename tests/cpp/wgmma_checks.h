// Plans of the wgmma engine against the operator's definition, the shared memory and the launches that they are for.
#pragma once

#include <algorithm>
#include <chrono>
#include <set>
#include <vector>

#include "core/devices.h"
#include "engines/wgmma/plan/plan.h"
#include "left_out_checks.h"
#include "n_major_checks.h"
#include "packing_checks.h"
#include "store_checks.h"
#include "terms.h"

namespace convt3d {

// Blocks that keep their weights have work tiles of one class only: those of the first work tiles, a grid apart, and
// those that are claimed, as many as there are classes apart.
inline void check_grid(const Problem& problem, const WgmmaPlan& plan) {
  const int64_t classes = plan.product.groups * plan.tile.splits;  // which count fastest in a work tile's index
  for (const int multiprocessors : {1, 20, 132}) {
    const WgmmaGrid grid = make_grid(plan.product, plan.tile, plan.pipelines, multiprocessors);
    const int64_t most = std::min<int64_t>(grid.work_tiles, multiprocessors);
    expect(grid.blocks >= 1 && grid.blocks <= most && grid.work_tiles % classes == 0 &&
               grid.work_tiles == plan.tile.work_tiles(plan.product),
           "every block has a work tile", problem);
    if (grid.weight_classes > 0) {
      expect(plan.pipelines.resident_weights && grid.weight_classes == classes && grid.blocks % classes == 0 &&
                 most - grid.blocks < classes && classes <= kWgmmaMaxClasses,
             "whole rounds of blocks keep their weights", problem);
    } else {
      expect(grid.blocks == most, "blocks without weights of their own use every multiprocessor", problem);
    }
  }
}

inline Operands dense_operands(const WgmmaProblem& problem, bool channels_last) {
  Operands operands;
  operands.first = dense_operand(problem.in_channels, problem.input_size, channels_last);
  operands.result = dense_operand(problem.out_channels, problem.output_size, channels_last);
  return operands;
}

inline std::vector<WgmmaPlan> candidates(const WgmmaProblem& problem, WgmmaElement element, bool channels_last) {
  return wgmma_candidates(problem, element, dense_operands(problem, channels_last), fitted_device());
}

// What the tensor-core engine visits along axis 0, and that its tile holds every position it reads. `problem`: for what
// is said of failures.
inline void check_wgmma(const Problem& problem, const WgmmaProblem& computed, const std::set<Term>& terms) {
  for (const WgmmaElement element : {WgmmaElement{2, 1}, WgmmaElement{4, 1}, WgmmaElement{4, 2}}) {
    for (const bool channels_last : {false, true}) {
      for (const WgmmaPlan& plan : candidates(computed, element, channels_last)) {
        const WgmmaAxis& axis = plan.arrangement.axis[0];
        std::vector<Term> visited;
        for (int outer = 0; outer < axis.outer; ++outer) {
          const WgmmaTaps& taps = axis.taps[outer];
          for (int j = 0; j < taps.count && plan.arrangement.folds_apart; ++j) {
            expect(axis.fold_of(taps.offset[j]) == taps.fold, "a fold has its own offsets", problem);
          }
          for (int j = 0; j < taps.count; ++j) {
            const int step = axis.shift_of(taps.offset[j]) - taps.low;
            expect(step >= 0 && step <= axis.reach, "offsets are inside the halo", problem);
            for (int m = 0; m < axis.in_m; ++m) {
              if (taps.tap[j][m] < 0) continue;
              for (int u = 0; u < axis.positions; ++u) {
                const int source = u * axis.fold + taps.offset[j];
                const int residue = plan.arrangement.folds_apart ? 0 : outer;
                const int destination = u * axis.stride + (axis.in_m > 1 ? m : residue);
                if (source < 0 || source >= axis.src_size || destination >= axis.dst_size) continue;
                visited.push_back({source, taps.tap[j][m], destination});
              }
            }
          }
        }
        const std::set<Term> unique(visited.begin(), visited.end());
        expect(unique.size() == visited.size() && unique == terms, "the tensor-core engine visits the defined terms",
               problem);
        for (int i = 0; i < 3; ++i) {
          expect(plan.tile.count[i] * plan.tile.size[i] >= plan.arrangement.axis[i].positions,
                 "tiles cover the positions", problem);
          const int range = plan.tile.size[i] + plan.arrangement.axis[i].reach - (i == 2 ? plan.tile.zeros : 0);
          expect(plan.tile.halo[i] == range || (i == 2 && plan.tile.zeros == 0 && plan.tile.halo[i] == range + 1),
                 "the halo is the offsets' range", problem);
        }
        check_shared_zeros(plan, problem);
        check_left_out(plan, problem);
        // Columns from a tile's first position to its last, `depth` planes deep.
        const auto extent = [&](int depth) {
          return ((int64_t{depth - 1} * plan.tile.halo[1] + plan.tile.size[1] - 1) * plan.tile.halo[2] +
                  plan.tile.size[2])
                 << plan.tile.image_log;
        };
        const bool neighbours =
            plan.tile.second_start == plan.tile.instruction.n &&
            extent(plan.tile.size[0]) <= 2 * plan.tile.instruction.n &&
            plan.tile.columns == std::min<int64_t>(extent(plan.tile.size[0]), plan.tile.instruction.n);
        const int half = plan.tile.size[0] / 2;
        const bool halves = plan.tile.size[0] % 2 == 0 && extent(half) <= plan.tile.instruction.n &&
                            plan.tile.columns == extent(half) &&
                            plan.tile.second_start == (half * plan.tile.halo[1] * plan.tile.halo[2])
                                                          << plan.tile.image_log;
        const int rows = plan.tile.size[1] / 2;
        const bool height_halves = plan.tile.size[0] == 1 && plan.tile.size[1] % 2 == 0 &&
                                   plan.tile.columns == ((rows - 1) * plan.tile.halo[2] + plan.tile.size[2])
                                                            << plan.tile.image_log &&
                                   plan.tile.columns <= plan.tile.instruction.n &&
                                   plan.tile.second_start == (rows * plan.tile.halo[2]) << plan.tile.image_log;
        expect(neighbours || halves || height_halves, "two warpgroups hold the tile's columns", problem);
        const int64_t positions = (int64_t{plan.tile.halo[0]} * plan.tile.halo[1] * plan.tile.halo[2])
                                  << plan.tile.image_log;
        expect(plan.panels.fold_bytes >= (positions + plan.tile.zeros) * plan.panels.position_bytes &&
                   plan.panels.fold_bytes % 1024 == 0,
               "a panel holds the tile", problem);
        if (plan.load.line_boxes()) {
          const WgmmaLineBoxes& boxes = plan.load.as_line_boxes();
          expect(boxes.lines * boxes.in_height >= plan.tile.halo[1] &&
                     boxes.depths * boxes.in_depth >= plan.tile.halo[0] &&
                     (boxes.depths == 1 || boxes.lines == plan.tile.halo[1]),
                 "boxes cover the tile", problem);
          expect(boxes.width * boxes.lines * boxes.depths * 16 <= kWgmmaBoxBytes, "a box fits", problem);
          const int align = 16 / element.bytes;
          for (int tile = 0; tile < plan.tile.count[2]; ++tile) {
            for (int outer = 0; outer < plan.arrangement.axis[2].outer; ++outer) {
              const WgmmaTaps& taps = plan.arrangement.axis[2].taps[outer];
              const int fold = plan.arrangement.axis[2].fold;
              const int shift = ((tile * plan.tile.size[2] + taps.low) * fold + taps.fold) & (align - 1);
              expect(boxes.width % align == 0 && shift + (plan.tile.halo[2] - 1) * fold < boxes.width,
                     "boxes reach the tile's end", problem);
            }
          }
        }
        // The last column that is read, with the taps' farthest shift: past the tile, but in the block's memory.
        const int64_t reach =
            ((int64_t{plan.arrangement.axis[0].reach} * plan.tile.halo[1] + plan.arrangement.axis[1].reach) *
                 plan.tile.halo[2] +
             plan.arrangement.axis[2].reach)
            << plan.tile.image_log;
        const int64_t last_slot =
            plan.memory.begin[kTilePart] + int64_t{plan.pipelines.tile_stages} * plan.panels.tile_bytes;
        const int64_t past = std::max<int64_t>(plan.tile.second_start + plan.tile.instruction.n + reach - positions, 0);
        const int64_t column_bytes = plan.load.n_major() ? int64_t{plan.panels.in_chunk} * plan.panels.position_bytes
                                                         : plan.panels.position_bytes;
        expect(last_slot + past * column_bytes <= plan.memory.bytes, "what is read lies in shared memory", problem);
        if (plan.load.n_major()) check_n_major(problem, element, channels_last, plan);
        check_packing(problem, plan, element.bytes);
        if (plan.load.plane_boxes()) {
          const WgmmaPlaneBoxes& planes = plan.load.as_plane_boxes();
          const int64_t plane = computed.input_size[1] * computed.input_size[2];
          expect(plan.tile.image_log == 3 && 8 % planes.images == 0 && plan.tile.count[1] == 1 &&
                     plan.tile.count[2] == 1 && planes.images * plane * plan.tile.halo[0] * 16 <= kWgmmaBoxBytes,
                 "a box of planes fits, and holds the tile's", problem);
        }
        expect(plan.store.registers() ? !channels_last && plan.tile.image_log == 3 && !plan.arrangement.width_pairs()
                                      : channels_last || plan.tile.image_log == 0,
               "images of a contiguous width leave from the registers", problem);
        expect(plan.panels.count % plan.panels.in_chunk == 0 &&
                   plan.panels.count * plan.panels.position_bytes >= plan.product.in_channels * element.bytes,
               "panels hold the channels", problem);
        for (int loop = 0; loop < plan.loops.count(); ++loop) {
          const int stages = plan.loops.first[loop + 1] - plan.loops.first[loop];
          expect(stages * plan.loops.stage_steps() >= plan.loops.steps[loop] &&
                     (stages - 1) * plan.loops.stage_steps() < plan.loops.steps[loop],
                 "stages hold the steps", problem);
        }
        expect(plan.arrangement.passes() % (plan.tile.splits * plan.arrangement.summed_phases()) == 0 &&
                   plan.pipelines.tile_stages >= 1 && plan.pipelines.tile_stages <= kWgmmaMaxTileStages &&
                   plan.pipelines.weight_stages >= 1 && plan.pipelines.weight_stages <= kWgmmaMaxWeightStages &&
                   (plan.pipelines.weight_stages >= 3 || plan.pipelines.resident_weights) &&
                   (plan.pipelines.tile_stages >= 2 || plan.panels.chunks() * plan.arrangement.summed_phases() == 1),
               "rings exist", problem);
        check_grid(problem, plan);
        expect(plan.arrangement.slabs >= plan.arrangement.channel_slabs &&
                   plan.arrangement.m_tiles * 4 >= plan.arrangement.slabs &&
                   plan.arrangement.channel_slabs * plan.arrangement.slab_channels() >= plan.product.out_channels,
               "slabs hold the output channels", problem);
        expect(plan.memory.bytes <= fitted_device().shared_bytes && plan.memory.begin[kStagingPart] % 1024 == 0,
               "shared memory suffices", problem);
        for (int g = 0; g < 2; ++g) {
          if (!plan.store.registers()) check_first_columns(problem, plan, g);
          if (plan.store.runs()) {
            check_runs(problem, plan, element.bytes, g);
          } else if (plan.store.registers()) {
            check_pairs(problem, plan, element.bytes, g);
          } else {
            check_staging(problem, plan, g);
          }
        }
      }
    }
  }
}

inline void check_wgmma(const Problem& problem) {
  check_wgmma(problem, wgmma_forward(problem), defined_terms(problem));
  check_wgmma(problem, wgmma_input_grad(problem), defined_input_grad_terms(problem));
}

// Boxes of whole planes hold 8 images or, where these do not fit, 4.
inline void check_image_boxes() {
  struct Plane {
    int64_t height;
    int64_t width;
    int images;
  };
  // The halo is 3 deep: planes of 16 positions fill a box with 8 images, planes of 32 with 4.
  for (const Plane& plane : {Plane{4, 4, 8}, Plane{4, 6, 4}, Plane{4, 8, 4}, Plane{5, 8, 0}}) {
    Problem problem;
    problem.batch = 16;
    problem.in_channels = 32;
    problem.out_channels = 48;  // too many to fold depths
    problem.input_size = {1, plane.height, plane.width};
    problem.kernel_size = {3, 1, 1};
    problem.padding = {1, 0, 0};
    for (const WgmmaElement element : {WgmmaElement{2, 1}, WgmmaElement{4, 1}}) {
      bool found = false;
      for (const WgmmaPlan& plan :
           wgmma_candidates(wgmma_forward(problem), element, dense_operands(problem, false), fitted_device(), false)) {
        if (plan.tile.image_log == 0 || plan.tile.count[1] * plan.tile.count[2] > 1) continue;
        found = true;
        expect((plan.load.plane_boxes() ? plan.load.as_plane_boxes().images : 0) == plane.images,
               "a box of planes holds as many images as fit", problem);
      }
      expect(found, "images share a tile", problem);
    }
  }
}

// Where every phase reads one position of the input, 16-bit panels are N-major, if lines of 16 bytes' multiples
// exist. Paddings and output paddings move the phases' tiles along the depth and the height, and add tiles past the
// input.
inline int check_layers_of_one_tap(int64_t width, int64_t channels) {
  int problems = 0;
  const auto finds_lines = [&](const Problem& problem) {
    check_wgmma(problem);
    ++problems;
    const std::vector<WgmmaPlan> plans = candidates(wgmma_forward(problem), {2, 1}, false);
    return std::any_of(plans.begin(), plans.end(), [](const WgmmaPlan& plan) { return plan.load.n_major(); });
  };
  for (const int64_t groups : {1, 2}) {
    for (const int64_t height : {8, 9}) {
      Problem problem;
      problem.batch = 3;
      problem.groups = groups;
      problem.in_channels = groups * channels;
      problem.out_channels = groups * 40;
      problem.input_size = {3, height, width};
      problem.kernel_size = problem.stride = {2, 1, 2};
      const bool possible = groups == 1 || channels % kWgmmaNMajorChannels == 0;
      const bool whole = width * height % 16 == 0;  // a row of 16 is a part of the plane
      const bool parts = width >= 32;               // some tile is 16, 32 or 64 wide
      expect(finds_lines(problem) == (possible && (whole || parts)), "tiles are lines of positions", problem);
      // Each phase of the depth has a halo of its own.
      problem.padding = {1, 0, 0};
      problem.output_padding = {1, 0, 0};
      expect(finds_lines(problem) == (possible && (whole || parts)), "tiles of phases are lines of positions", problem);
      problem.kernel_size = problem.stride = {2, 2, 1};
      for (const int64_t padding : {1, 2}) {
        problem.padding = {2, padding, 0};
        problem.output_padding = {1, 0, 0};
        finds_lines(problem);
        problem.padding = {0, 2, padding};
        problem.output_padding = {0, 1, 0};
        finds_lines(problem);
      }
      // The output is wider than the input, by a tile of the input's width.
      problem.kernel_size = problem.stride = {1, 1, 1};
      problem.dilation = {1, 1, width + 1};
      problem.padding = {0, 0, 0};
      problem.output_padding = {0, 0, width};
      finds_lines(problem);
    }
  }
  return problems;
}

// A wide row is planned as fast as a short one, and a weight whose packing would need more threads than an index of 32
// bits counts has no plan on the tensor cores.
inline void check_large_problems() {
  Problem problem;
  problem.batch = 1;
  problem.in_channels = problem.out_channels = 16;
  problem.input_size = {1, 1, int64_t{1} << 25};
  problem.kernel_size = {1, 1, 3};
  const auto begin = std::chrono::steady_clock::now();
  expect(plan_wgmma(wgmma_forward(problem), {2, 1}, dense_operands(problem, false), fitted_device()).has_value(),
         "a wide row has a plan", problem);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  expect(seconds.count() < 1, "a wide row is planned fast", problem);
  problem.input_size = {1, 1, 8};
  problem.in_channels = int64_t{1} << 20;
  for (const int64_t out_channels : {int64_t{1} << 10, int64_t{1} << 14}) {
    problem.out_channels = out_channels;
    const auto plan = plan_wgmma(wgmma_forward(problem), {2, 1}, dense_operands(problem, true), fitted_device());
    expect(plan.has_value() == (out_channels == 1 << 10), "weights of 32 GiB are packed at most", problem);
  }
}

}  // namespace convt3d
