"""Plants bugs in the kernels, one for each way of loading and storing, and sees whether the emulator finds each.

    python tests/emulator/planted_bugs.py [--seconds S] [NAME ...]

All bugs are compiled at once, into a copy of csrc/; which one is at work, a run learns from its environment.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import build

SWITCH = """#pragma once
#include <cstdlib>
inline bool planted(int number) {
  static const char* const chosen = std::getenv("EMULATOR_PLANTED_BUG");
  static const int known = chosen == nullptr ? -1 : std::atoi(chosen);
  return known == number;
}
"""


@dataclass(frozen=True)
class Bug:
    """`old`, which a file has once, becomes `new`, where BUG is true while the bug is at work."""

    name: str
    file: str  # of csrc/ or csrc/
    old: str
    new: str
    options: str = "--engine halo"  # the emulator's, of the cases that should find it


SIMT, DEPTHWISE, MMA = "--engine simt", "--engine depthwise", "--engine mma"
NORM = "--norm"
MMA_WEIGHT = "--engine mma --operator weight_grad"
M, T = "engines/mma/", "engines/depthwise/"
BUGS = [
    # Loading
    Bug("threads: last channel", "engines/wgmma/load/loader.cuh", "&& channel < left)", "&& channel < left - BUG)"),
    Bug(
        "threads: last vector",
        "engines/wgmma/load/loader.cuh",
        "i * kChannels < left)",
        "i * kChannels < left - BUG * kChannels)",
    ),
    Bug(
        "threads: images past the batch",
        "engines/wgmma/load/loader.cuh",
        "image < images &&",
        "image < images + BUG &&",
    ),
    Bug("copy: fold of the height", "engines/wgmma/load/loader.cuh", "+ fold.height,", "+ (BUG ? 0 : fold.height),"),
    Bug(
        "copy: image", "engines/wgmma/load/loader.cuh", "box{channel, work.image,", "box{channel, BUG ? 0 : work.image,"
    ),
    Bug(
        "rows: depth",
        "engines/wgmma/load/loader.cuh",
        "line, origin.at[0],",
        "line, BUG ? chunk.work.first[0] : origin.at[0],",
    ),
    Bug(
        "boxes: shift",
        "engines/wgmma/load/transposer.cuh",
        "chunk.origin.shift(kChannels);",
        "BUG ? 0 : chunk.origin.shift(kChannels);",
    ),
    Bug(
        "boxes: last channel",
        "engines/wgmma/load/transposer.cuh",
        "store_box<false>(chunk, at, left);",
        "store_box<false>(chunk, at, left - BUG);",
    ),
    Bug(
        "planes: height",
        "engines/wgmma/load/planes.cuh",
        "tile.halo[1] + h - low_h)",
        "tile.halo[1] + h - (BUG ? 0 : low_h))",
    ),
    Bug(
        "planes: zeros",
        "engines/wgmma/load/planes.cuh",
        "first < boxes_.zero_entries;",
        "first < boxes_.zero_entries - BUG * kHaloWordsInFlight * lanes;",
    ),
    Bug(
        "two terms: copied",
        "engines/wgmma/load/loader.cuh",
        "kHaloSplitThreads < pieces) low",
        "kHaloSplitThreads < (BUG ? pieces / 2 : pieces)) low",
    ),
    Bug("two terms: stored", "engines/wgmma/load/loader.cuh", "uint4*>(to + low)", "uint4*>(to + (BUG ? 0 : low))"),
    Bug("packed weight", "engines/wgmma/pack_weight.cuh", "channel < last_channel)", "channel < last_channel - BUG)"),
    # Synchronization
    Bug(
        "a tile is written while it is read",
        "engines/wgmma/shared.cuh",
        "hopper::barrier_wait(&tile_empty[state.stage], state.parity ^ 1);",
        "if (!BUG) hopper::barrier_wait(&tile_empty[state.stage], state.parity ^ 1);",
    ),
    Bug(
        "products are not waited for",
        "engines/wgmma/mainloop.cuh",
        "  consumer.release_before();\n  consumer.release_tile();",
        "  if (BUG) return consumer.release_all();\n  consumer.release_before();\n  consumer.release_tile();",
    ),
    Bug(
        "staging is written while it is stored",
        "engines/wgmma/store/epilogue.cuh",
        "    hopper::bulk_wait_read<kPending>();",
        "    if (!BUG) hopper::bulk_wait_read<kPending>();",
    ),
    # Storing
    Bug("registers: image", "engines/wgmma/store/image_store.cuh", "i % 2 >= images)", "i % 2 >= images + BUG)"),
    Bug("registers: phase", "engines/wgmma/store/image_store.cuh", "return k % 2 == 0 ?", "return k % 2 == BUG ?"),
    Bug(
        "stored boxes: height",
        "engines/wgmma/store/epilogue.cuh",
        "work_.first[1] + segment.h;",
        "work_.first[1] + (BUG ? 0 : segment.h);",
    ),
    Bug(
        "runs: tail",
        "engines/wgmma/store/run_store.cuh",
        "max(first, last) + sub * kBytes, end,",
        "max(first, last) + sub * kBytes, end - BUG * kBytes,",
    ),
    Bug(
        "runs: rows",
        "engines/wgmma/store/run_store.cuh",
        "* store_.line_step + end_of",
        "* (store_.line_step - BUG * kBytes) + end_of",
    ),
    Bug("segments: rows", "engines/wgmma/store/thread_store.cuh", "element < count;", "element < count - BUG;"),
    Bug(
        "segments: voxels",
        "engines/wgmma/store/thread_store.cuh",
        "voxel < count << log;",
        "voxel < (count - BUG) << log;",
    ),
    Bug(
        "matrices",
        "engines/wgmma/store/fragments.cuh",
        "static_cast<uint32_t>(lane_ & 8) * 2",
        "static_cast<uint32_t>(lane_ & (BUG ? 0 : 8)) * 2",
    ),
    Bug(
        "shared segment",
        "engines/wgmma/store/epilogue.cuh",
        "if (store_.part[warpgroup_] >= 0)",
        "if ((kWay == HaloStoreWay::kBoxes || !BUG) && store_.part[warpgroup_] >= 0)",
    ),
    # Depthwise
    Bug(
        "depthwise rows",
        "engines/depthwise/rows_kernel.cuh",
        "inside ? width_left : 0)",
        "inside ? BUG ? kVector : width_left : 0)",
        DEPTHWISE,
    ),
    Bug(
        "depthwise row pairs",
        "engines/depthwise/row_pairs_kernel.cuh",
        "first, kPositions + i, size",
        "first, kPositions + i + BUG, size",
        DEPTHWISE,
    ),
    Bug(
        "depthwise channels",
        "engines/depthwise/channels_kernel.cuh",
        "if (out_w + output >= width.dst_size)",
        "if (out_w + output >= width.dst_size + BUG)",
        DEPTHWISE,
    ),
    Bug(
        "depthwise channel pairs",
        "engines/depthwise/channel_pairs_kernel.cuh",
        "2 * u_d + d >= depth.dst_size",
        "2 * u_d + d >= depth.dst_size + BUG",
        DEPTHWISE,
    ),
    Bug(
        "depthwise, any channels",
        "engines/depthwise/channels_any_kernel.cuh",
        "if (i < channels_left)",
        "if (i < channels_left + BUG)",
        DEPTHWISE,
    ),
    Bug(
        "depthwise, any rows",
        "engines/depthwise/rows_any_kernel.cuh",
        "if (out_h < height.dst_size)",
        "if (out_h < height.dst_size + BUG)",
        DEPTHWISE,
    ),
    Bug(
        "depthwise tiles: last column of vectors",
        T + "tile_stage.cuh",
        "if (!exists || at >= end || !depthwise_inside",
        "if (!exists || at >= end - (BUG && kCount > 1) || !depthwise_inside",
        DEPTHWISE,
    ),
    Bug(
        "depthwise tiles: channels past the last",
        T + "tile_stage.cuh",
        "origin.channel + c < plan.channels;",
        "origin.channel + c < plan.channels + BUG;",
        DEPTHWISE,
    ),
    Bug(
        "depthwise tiles: mask of vectors",
        T + "tile_stage.cuh",
        "if (to_accumulator(values[i][e]) <= 0) first",
        "if (!(BUG && e == 3) && to_accumulator(values[i][e]) <= 0) first",
        DEPTHWISE + " --operator input_grad",
    ),
    Bug(
        "depthwise tiles: rest of a run",
        T + "tile_correlation_kernel.cuh",
        "if (r < left) destination",
        "if (r < left + BUG) destination",
        DEPTHWISE,
    ),
    Bug(
        "depthwise tiles: taps of a residue",
        T + "tile_correlation_kernel.cuh",
        "count = stride.quotient(plan.taps[axis] - tap + stride - 1);",
        "count = stride.quotient(plan.taps[axis] - tap + stride - 1 - BUG);",
        DEPTHWISE + " --operator forward",
    ),
    Bug(
        "depthwise tiles: first slot",
        T + "tile_correlation_kernel.cuh",
        "if (k < first_slot || k >= first_slot + taps) continue;",
        "if (k < first_slot || k >= first_slot + taps - BUG) continue;",
        DEPTHWISE + " --operator forward",
    ),
    Bug(
        "depthwise tiles: parts of a sum",
        T + "tile_correlation_kernel.cuh",
        "sum[r] += part[r];",
        "sum[r] = BUG ? part[r] : sum[r] + part[r];",
        DEPTHWISE + " --operator input_grad",
    ),
    Bug(
        "depthwise weight gradient: rest of a run",
        T + "tile_weight_grad_kernel.cuh",
        "for (; left > 0; --left, ++column",
        "for (left -= BUG; left > 0; --left, ++column",
        DEPTHWISE + " --operator weight_grad",
    ),
    Bug(
        "depthwise weight gradient: a tile is written while it is read",
        T + "tile_weight_grad_kernel.cuh",
        "const DepthwiseTile tile(plan, number);\n    __syncthreads();",
        "const DepthwiseTile tile(plan, number);\n    if (!BUG || number == first_tile) __syncthreads();",
        DEPTHWISE + " --operator weight_grad",
    ),
    Bug(
        "depthwise weight gradient: threads that share a sum",
        T + "tile_weight_grad_kernel.cuh",
        "i < plan.sharing; ++i)",
        "i < plan.sharing - (BUG && plan.sharing > 1); ++i)",
        DEPTHWISE + " --operator weight_grad",
    ),
    # What engines share
    Bug(
        "activation",
        "epilogue/apply.cuh",
        "if (epilogue.activation == Activation::kRelu)",
        "if (!BUG && epilogue.activation == Activation::kRelu)",
    ),
    Bug("bias", "epilogue/apply.cuh", "bias + channel * epilogue", "bias + (channel - BUG) * epilogue", DEPTHWISE),
    Bug(
        "ordered sum: splits",
        "device/ordered_sum.cuh",
        "split < params.splits;",
        "split < params.splits - BUG;",
        "--operator weight_grad",
    ),
    Bug(
        "ordered sum: padding",
        "device/ordered_sum.cuh",
        "exists && at < axis.size;",
        "exists && at < axis.size + BUG;",
        "--operator weight_grad",
    ),
    Bug(
        "ordered sum: lanes",
        "device/ordered_sum.cuh",
        "distance >= apart;",
        "distance > apart - !BUG;",
        "--operator bias_grad",
    ),
    # General
    Bug("positions", "engines/simt/epilogue.cuh", "offset < 0 || n >= n_left", "offset < 0 || n >= n_left + BUG", SIMT),
    Bug("channels", "engines/simt/epilogue.cuh", "if (n + k < n_left) dest", "if (n + k < n_left + BUG) dest", SIMT),
    Bug(
        "fill",
        "engines/simt/fill_kernel.cuh",
        "% params.channels;",
        "% (params.channels + BUG);",
        SIMT,
    ),
    Bug(
        "a stage is written while it is read",
        "engines/simt/mainloop.cuh",
        "stages[(tile + 1) % 2])",
        "stages[(tile + !BUG) % 2])",
        SIMT,
    ),
    Bug(
        "mask of a NaN",
        "device/source.cuh",
        "if (to_accumulator(mask.value[i]) <= 0)",
        "if (BUG ? !(to_accumulator(mask.value[i]) > 0) : to_accumulator(mask.value[i]) <= 0)",
        "--operator input_grad",
    ),
    # On the host
    Bug(
        "planes: rows apart",
        "engines/wgmma/plan/boxes.cpp",
        "!planned.plane_boxes() || h == problem.input_size[2]",
        "!planned.plane_boxes() || BUG || h == problem.input_size[2]",
    ),
    Bug(
        "stored boxes: size",
        "engines/wgmma/plan/boxes.cpp",
        "- 1 - residue[i]) / counts",
        "- 1 - (BUG ? 0 : residue[i])) / counts",
    ),
    # mma.sync
    Bug(
        "mma: a stage that is read before it is full",
        M + "correlation_kernel.cuh",
        "if (params_.stages > 1 || p == 0) hopper",
        "if ((params_.stages > 1 || p == 0) && !BUG) hopper",
        MMA,
    ),
    Bug(
        "mma: a stage that is filled while it is read",
        M + "correlation_load.cuh",
        "if (!rows) wait_until_empty(walk);",
        "if (!rows && !BUG) wait_until_empty(walk);",
        MMA,
    ),
    Bug(
        "mma: a stage that nobody empties",
        M + "correlation_kernel.cuh",
        "arrive_warp(&buffers.empty[buffer.index]);",
        "if (!BUG) arrive_warp(&buffers.empty[buffer.index]);",
        MMA,
    ),
    Bug(
        "mma: raw rows of other threads",
        M + "correlation_load.cuh",
        "        meet_();\n        wait_until_empty(settled);",
        "        if (!BUG) meet_();\n        wait_until_empty(settled);",
        MMA,
    ),
    Bug(
        "mma: raw rows that are not transposed yet",
        M + "correlation_load.cuh",
        "if (has_new_table || rows) meet_();",
        "if (has_new_table || (rows && !BUG)) meet_();",
        MMA,
    ),
    Bug(
        "mma: copies that are not waited for",
        M + "correlation_load.cuh",
        "wait_for_copies(pending - 1);",
        "wait_for_copies(pending - 1 + BUG);",
        MMA + " --type tf32",
    ),
    Bug(
        "mma: weights of other steps",
        M + "correlation_load.cuh",
        "int64_t{first} * step_",
        "int64_t{BUG ? 0 : first} * step_",
        MMA,
    ),
    Bug(
        "mma: weights that are overwritten",
        M + "correlation_load.cuh",
        "hopper::barrier_wait(&barriers.empty[turn.index], turn.parity ^ 1);",
        "if (!BUG) hopper::barrier_wait(&barriers.empty[turn.index], turn.parity ^ 1);",
        MMA,
    ),
    Bug(
        "mma: weights that are not there yet",
        M + "correlation_kernel.cuh",
        "hopper::barrier_wait(&barriers_.full[slot_.index], slot_.parity);",
        "if (!BUG) hopper::barrier_wait(&barriers_.full[slot_.index], slot_.parity);",
        MMA,
    ),
    Bug(
        "mma: taps of a split axis",
        M + "correlation_kernel.cuh",
        "steps.first = steps.first * taps + unit[i];",
        "steps.first = steps.first * taps + (BUG ? 0 : unit[i]);",
        MMA,
    ),
    Bug(
        "mma: the phase before",
        M + "correlation_kernel.cuh",
        "share.first_phase + hopper::computed_here(p));",
        "share.first_phase + hopper::computed_here(BUG && p > 0 ? p - 1 : p));",
        MMA + " --operator forward",
    ),
    Bug(
        "mma: the box before",
        M + "store.cuh",
        "box_at(params_, hopper::computed_here(box));",
        "box_at(params_, hopper::computed_here(BUG ? max(box - params_.walkers, 0) : box));",
        MMA,
    ),
    Bug(
        "mma: a step ahead",
        M + "mainloop.cuh",
        "offset = entry(table, s + 1);",
        "offset = entry(table, BUG ? s : s + 1);",
        MMA,
    ),
    Bug(
        "mma: low term",
        M + "mainloop.cuh",
        "multiply_add<T>(c[i][j], low, b[0][j]);",
        "if (!BUG) multiply_add<T>(c[i][j], low, b[0][j]);",
        MMA + " --type fp32",
    ),
    Bug("mma: packed weight", M + "pack_weight.cuh", "n < params.n_channels", "n < params.n_channels - BUG", MMA),
    Bug(
        "mma: bias",
        M + "store.cuh",
        "bias_of<T>(params_.epilogue, share_.first_channel + n)",
        "bias_of<T>(params_.epilogue, (BUG ? 0 : share_.first_channel) + n)",
        MMA,
    ),
    Bug(
        "mma: channels", M + "store.cuh", "if (8 * j >= left) continue;", "if (8 * j >= left - BUG * 8) continue;", MMA
    ),
    Bug(
        "mma: rows",
        M + "store.cuh",
        "wide_product(at, step) >= left) continue;",
        "wide_product(at, step) >= left - BUG) continue;",
        MMA,
    ),
    Bug(
        "mma: residues of a row",
        M + "store.cuh",
        "const int32_t shift = params_.joins_width ? residue.at[2] : 0;",
        "const int32_t shift = params_.joins_width && !BUG ? residue.at[2] : 0;",
        MMA,
    ),
    Bug(
        "mma: staging is written while it is stored",
        M + "store.cuh",
        "if (first) sync_threads(kMultipliers, kThreads);",
        "if (first && !BUG) sync_threads(kMultipliers, kThreads);",
        MMA + " --operator forward",
    ),
    Bug("alignment", "core/access.h", "size * element_bytes) == 0;", "size * element_bytes) % (BUG ? 1 : 16) == 0;"),
    # mma.sync: weight gradient
    Bug(
        "mma weight gradient: copies: last piece",
        M + "tile_loader.cuh",
        "place.exists && channel < stage.channels;",
        "place.exists && channel < stage.channels - BUG * kChannels;",
        MMA_WEIGHT,
    ),
    Bug(
        "mma weight gradient: elements: last channel",
        M + "tile_loader.cuh",
        "if (c < left) value[c] = __ldg",
        "if (c < left - BUG) value[c] = __ldg",
        MMA_WEIGHT,
    ),
    Bug(
        "mma weight gradient: images past the batch",
        M + "tile_lines.cuh",
        "line.image < images;",
        "line.image < images + BUG;",
        MMA_WEIGHT,
    ),
    Bug(
        "mma weight gradient: outside of the height",
        M + "tile_lines.cuh",
        "static_cast<uint32_t>(params_.source.size[1]) &&",
        "static_cast<uint32_t>(params_.source.size[1] - BUG) &&",
        MMA_WEIGHT,
    ),
    Bug(
        "mma weight gradient: lines of a group",
        M + "tile_lines.cuh",
        "const int32_t first = group * shape.each;",
        "const int32_t first = group * (BUG ? max(1, shape.each - 1) : shape.each);",
        MMA_WEIGHT,
    ),
    Bug(
        "mma weight gradient: column of a place",
        M + "tile_lines.cuh",
        "place.row = unit * width.length + in_unit;",
        "place.row = unit * width.length + (BUG && in_unit > 0 ? in_unit - 1 : in_unit);",
        MMA_WEIGHT,
    ),
    Bug(
        "mma weight gradient: mask",
        M + "tile_loader.cuh",
        "if (to_accumulator(mask.value[c]) <= 0)",
        "if (!(BUG && c > 0) && to_accumulator(mask.value[c]) <= 0)",
        MMA_WEIGHT,
    ),
    Bug(
        "mma weight gradient: rows: what is left of one",
        M + "tile_rows.cuh",
        "static_cast<int32_t>(at & 15);",
        "static_cast<int32_t>(BUG ? 0 : at & 15);",
        MMA_WEIGHT,
    ),
    Bug(
        "mma weight gradient: rows: where they begin",
        M + "tile_rows.cuh",
        "static_cast<uint32_t>(c) * step) & 15)",
        "static_cast<uint32_t>(BUG ? 0 : c) * step) & 15)",
        MMA_WEIGHT,
    ),
    Bug(
        "mma weight gradient: rows: coordinates before the source",
        M + "tile_rows.cuh",
        "for (int32_t i = column; i < run.before;",
        "for (int32_t i = column; i < run.before - BUG;",
        MMA_WEIGHT,
    ),
    Bug(
        "mma weight gradient: rows: odd coordinates",
        M + "tile_rows.cuh",
        "sizeof(T) == 2 && run.first % 2 != 0;",
        "sizeof(T) == 2 && run.first % 2 != 0 && !BUG;",
        MMA_WEIGHT,
    ),
    Bug(
        "mma weight gradient: rows: mask",
        M + "tile_rows.cuh",
        "return to_accumulator(values[1]) <= 0 ?",
        "return !BUG && to_accumulator(values[1]) <= 0 ?",
        MMA_WEIGHT,
    ),
    Bug(
        "mma weight gradient: rows: rounding",
        M + "tile_rows.cuh",
        "params_.rounds ? to_matrix_piece<T>(values)",
        "params_.rounds && !BUG ? to_matrix_piece<T>(values)",
        MMA_WEIGHT + " --type tf32",
    ),
    Bug(
        "mma weight gradient: rounding",
        M + "tile_loader.cuh",
        "    } else if (rounds_copies()) {",
        "    } else if (rounds_copies() && !BUG) {",
        MMA_WEIGHT + " --type tf32",
    ),
    Bug(
        "mma weight gradient: a table that is read before it is made",
        M + "weight_grad_kernel.cuh",
        "table_of(at, o));\n    meet_();",
        "table_of(at, o));\n    if (!BUG) meet_();",
        MMA_WEIGHT,
    ),
    Bug(
        "mma weight gradient: tables that are not apart",
        M + "weight_grad_kernel.cuh",
        "if (++table == params.tables) table = 0;",
        "if (++table == params.tables || BUG) table = 0;",
        MMA_WEIGHT,
    ),
    Bug(
        "mma weight gradient: raw rows that are not apart",
        M + "weight_grad_kernel.cuh",
        "if (++raw == params.ahead) raw = 0;",
        "if (++raw == params.ahead || BUG) raw = 0;",
        MMA_WEIGHT,
    ),
    Bug(
        "mma weight gradient: raw rows of other threads",
        M + "weight_grad_kernel.cuh",
        "if (rows) meet_();",
        "if (rows && !BUG) meet_();",
        MMA_WEIGHT,
    ),
    Bug(
        "mma weight gradient: a stage that is filled while it is read",
        M + "weight_grad_kernel.cuh",
        "barriers_.empty[turn.index], turn.parity ^ 1);",
        "barriers_.empty[turn.index], turn.parity ^ !BUG);",
        MMA_WEIGHT,
    ),
    Bug(
        "mma weight gradient: a stage that nobody empties",
        M + "weight_grad_kernel.cuh",
        "arrive_warp(&barriers.empty[turn.index]);",
        "if (!BUG) arrive_warp(&barriers.empty[turn.index]);",
        MMA_WEIGHT,
    ),
    Bug(
        "mma weight gradient: a stage that is read before it is full",
        M + "weight_grad_kernel.cuh",
        "barriers.full[turn.index], turn.parity);",
        "barriers.full[turn.index], turn.parity ^ BUG);",
        MMA_WEIGHT,
    ),
    Bug(
        "mma weight gradient: copies that are not waited for",
        M + "weight_grad_kernel.cuh",
        "wait(begun - done - 1);",
        "wait(begun - done - 1 + BUG);",
        MMA_WEIGHT,
    ),
    Bug(
        "mma weight gradient: shift of a tap",
        M + "weight_grad_kernel.cuh",
        "bytes += taps.shift(tap[a]) *",
        "bytes += taps.shift(BUG && a == 0 ? 0 : tap[a]) *",
        MMA_WEIGHT,
    ),
    Bug(
        "mma weight gradient: segments",
        M + "weight_grad_kernel.cuh",
        "= first ? sum :",
        "= first || BUG ? sum :",
        MMA_WEIGHT,
    ),
    Bug(
        "mma weight gradient: positions past the box",
        M + "weight_grad_kernel.cuh",
        "places[i] = {0, static_cast<uint32_t>(params.input_bytes)};",
        "places[i] = {0, static_cast<uint32_t>(BUG ? 0 : params.input_bytes)};",
        MMA_WEIGHT,
    ),
    Bug(
        "mma weight gradient: low term",
        M + "weight_grad_product.cuh",
        "multiply_add<T>(few[n], high, low_b[k][n]);",
        "if (!BUG) multiply_add<T>(few[n], high, low_b[k][n]);",
        MMA_WEIGHT + " --type fp32",
    ),
    # Group norms
    Bug(
        "norm moments: low digits of the mean",
        "norm/sums.cuh",
        "low = moved - (mean - before);",
        "low = BUG ? 0 : moved - (mean - before);",
        NORM,
    ),
    Bug(
        "norm moments: distance of chunks",
        "norm/sums.cuh",
        "(chunk.count * chunk.weight);",
        "(chunk.count * chunk.weight) * (BUG ? 0 : 1);",
        NORM,
    ),
    Bug(
        "norm slots: last of a row",
        "norm/slots.cuh",
        "left < kCount ? static_cast<int>(left) : kCount);",
        "left < kCount ? static_cast<int>(left - BUG) : kCount);",
        NORM,
    ),
    Bug(
        "norm slots: first of a row",
        "norm/slots.cuh",
        "position < 0 ? static_cast<int>(-position) : 0",
        "position < 0 && !BUG ? static_cast<int>(-position) : 0",
        NORM,
    ),
    Bug(
        "norm reduction: threads",
        "norm/reduce_kernel.cuh",
        "if (takes_part && index + half < left)",
        "if (takes_part && index + half < left - BUG)",
        NORM,
    ),
    Bug(
        "norm reduction: places that do not exist",
        "norm/reduce_kernel.cuh",
        "if (place.exists && place.c + i <",
        "if ((BUG || place.exists) && place.c + i <",
        NORM,
    ),
    Bug(
        "norm statistics: images",
        "norm/finish_kernels.cuh",
        "(i / channels * shape.batch + n)",
        "(i / channels * (BUG ? 1 : shape.batch) + n)",
        NORM,
    ),
    Bug(
        "norm statistics: eps",
        "norm/finish_kernels.cuh",
        "shared[0].count + params.eps)",
        "shared[0].count + (BUG ? 0 : params.eps))",
        NORM,
    ),
    Bug(
        "norm: what rounding the mean takes",
        "norm/values.cuh",
        "- (mean - channel.center) * scale);",
        "- (BUG ? 0 : mean - channel.center) * scale);",
        NORM,
    ),
    Bug(
        "norm: slope",
        "norm/values.cuh",
        "return slope == 0 ? A(0) : value * slope;",
        "return slope == 0 || BUG ? A(0) : value * slope;",
        NORM,
    ),
    Bug(
        "norm gradient sums: activation",
        "norm/values.cuh",
        "return slope == 0 ? A(0) : grad * slope;",
        "return slope == 0 ? A(0) : BUG ? grad : grad * slope;",
        NORM,
    ),
    Bug(
        "norm gradient sums: rounded mean",
        "norm/sums.cuh",
        "(products - rounded_off * grad)",
        "(products - (BUG ? 0 : rounded_off) * grad)",
        NORM,
    ),
    Bug(
        "norm coefficients: weight",
        "norm/finish_kernels.cuh",
        "sums.merge({weight * partial[0],",
        "sums.merge({(BUG ? 1 : weight) * partial[0],",
        NORM,
    ),
    Bug(
        "norm coefficients: elements",
        "norm/finish_kernels.cuh",
        "-rstd * shared[0].grad / elements;",
        "-rstd * shared[0].grad / (elements + BUG);",
        NORM,
    ),
    Bug(
        "norm input gradient: mask",
        "norm/map_kernel.cuh",
        "return params.relu && element.x <= 0",
        "return !BUG && params.relu && element.x <= 0",
        NORM,
    ),
    Bug(
        "norm input gradient: deviation",
        "norm/map_kernel.cuh",
        "channel.slope * (element.x - channel.norm.center)",
        "channel.slope * (element.x - (BUG ? 0 : channel.norm.center))",
        NORM,
    ),
    Bug(
        "norm: rows beside x, on the host",
        "norm/run.cuh",
        "(ours - of_x) % params.plan.slot == 0;",
        "BUG || (ours - of_x) % params.plan.slot == 0;",
        NORM,
    ),
]


def copied_tree(folder: Path) -> Path:
    """A copy of the sources with all bugs in it, each behind its switch."""
    root = Path(__file__).resolve().parents[2]
    shutil.copytree(root / "csrc", folder / "csrc")
    shutil.copytree(root / "tests" / "emulator", folder / "tests" / "emulator")
    csrc = folder / "csrc"
    (csrc / "planted.h").write_text(SWITCH, encoding="utf-8")
    for number, bug in enumerate(BUGS):
        path = csrc / bug.file
        text = path.read_text(encoding="utf-8")
        if text.count(bug.old) != 1:
            raise SystemExit(f"{bug.name}: {bug.file} has {text.count(bug.old)} times {bug.old!r}, not once")
        text = text.replace(bug.old, bug.new.replace("BUG", f"planted({number})"))
        include = '#include "planted.h"\n'
        if include not in text:
            once = "#pragma once\n"
            text = text.replace(once, once + include, 1) if once in text else include + text
        path.write_text(text, encoding="utf-8")
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="of bugs; default: all")
    parser.add_argument("--seconds", default="60", help="for each bug")
    parser.add_argument("--folder", type=Path, default=build.cache(), help="where what is compiled is kept")
    arguments = parser.parse_args()
    tree = arguments.folder / "planted"  # always the same: what is compiled is found again
    shutil.rmtree(tree, ignore_errors=True)
    command = [sys.executable, str(copied_tree(tree) / "tests" / "emulator" / "build.py")]
    command += ["--folder", str(arguments.folder)]
    program = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    missed = []
    for number, bug in enumerate(BUGS):
        if arguments.names and bug.name not in arguments.names:
            continue
        begin = time.monotonic()
        options = [*bug.options.split(), "--seconds", arguments.seconds, "--failures", "1"]
        run = subprocess.run(
            [program, *options],
            capture_output=True,
            text=True,
            env={**os.environ, "EMULATOR_PLANTED_BUG": str(number)},
        )
        found = run.returncode == 1
        report = next((line for line in run.stdout.splitlines() if line.startswith("FAILED")), "not found")
        print(f"{bug.name} ({bug.file}): {time.monotonic() - begin:.1f} s, {report}", flush=True)
        if not found:
            missed.append(bug.name)
    if missed:
        raise SystemExit(f"not found: {', '.join(missed)}")


if __name__ == "__main__":
    main()
