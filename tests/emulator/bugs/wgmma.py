"""Bugs in the engine halo_wgmma: loading, synchronization, storing."""

from __future__ import annotations

from bugs.bug import Bug

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
        "zeros behind the lines",
        "engines/wgmma/load/loader.cuh",
        "if (plan.tile.zeros == 0) return;",
        "if (BUG || plan.tile.zeros == 0) return;",
    ),
    Bug(
        "zeros: pieces",
        "engines/wgmma/load/loader.cuh",
        "const int pieces = plan.tile.zeros * panels.position_bytes / 16;",
        "const int pieces = (plan.tile.zeros - BUG) * panels.position_bytes / 16;",
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
        "first < boxes_.zero_entries - BUG * kWgmmaWordsInFlight * lanes;",
    ),
    Bug(
        "two terms: copied",
        "engines/wgmma/load/loader.cuh",
        "kWgmmaSplitThreads < pieces) low",
        "kWgmmaSplitThreads < (BUG ? pieces / 2 : pieces)) low",
    ),
    Bug("two terms: stored", "engines/wgmma/load/loader.cuh", "uint4*>(to + low)", "uint4*>(to + (BUG ? 0 : low))"),
    Bug("packed weight", "engines/wgmma/pack_weight.cuh", "channel < last_channel)", "channel < last_channel - BUG)"),
    # What is left out
    Bug(
        "left out: first offsets",
        "engines/wgmma/plan/tile.h",
        "last + taps.offset[front] < 0)",
        "last + taps.offset[front] < (BUG ? 1 : 0))",
    ),
    Bug(
        "left out: last offsets",
        "engines/wgmma/plan/tile.h",
        "taps.offset[taps.count - 1 - back] >= depth.src_size)",
        "taps.offset[taps.count - 1 - back] >= depth.src_size - (BUG ? 1 : 0))",
    ),
    Bug(
        "left out: the tile's depths",
        "engines/wgmma/plan/tile.h",
        "(first + size - 1) * depth.fold;",
        "(first + (BUG ? 0 : size - 1)) * depth.fold;",
    ),
    Bug(
        "left out: steps of an offset",
        "engines/wgmma/params.h",
        "axis[2].taps[phase.width].count * plan.loops.tap_steps;",
        "axis[2].taps[phase.width].count * plan.loops.tap_steps << BUG;",
    ),
    Bug(
        "left out: begin of a stage",
        "engines/wgmma/plan/k_order.h",
        "const int32_t begin = front * depth_steps & kMask;",
        "const int32_t begin = BUG ? (front * depth_steps + 3) & kMask : front * depth_steps & kMask;",
    ),
    Bug(
        "left out: shifts",
        "engines/wgmma/kernel.cuh",
        "plan.loops.first[loop] * kSteps + steps[set].begin;",
        "plan.loops.first[loop] * kSteps + (BUG ? 0 : steps[set].begin);",
    ),
    Bug(
        "left out: weights",
        "engines/wgmma/kernel.cuh",
        "source + begin * kWgmmaWeightStageBytes,",
        "source + (BUG ? 0 : begin) * kWgmmaWeightStageBytes,",
    ),
    Bug(
        "left out: weights of the last set",
        "engines/wgmma/kernel.cuh",
        "is_first ? first_set.first : last_set.first;",
        "(BUG || is_first) ? first_set.first : last_set.first;",
    ),
    Bug(
        "left out: weights to the next loop",
        "engines/wgmma/kernel.cuh",
        "(is_first ? first_set.all : last_set.all)",
        "((BUG || is_first) ? first_set.all : last_set.all)",
    ),
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
        "* runs.line_step + end_of",
        "* (runs.line_step - BUG * kBytes) + end_of",
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
        "input gradient: weight's channels",
        "engines/wgmma/plan/problem.cpp",
        "stride[0], stride[1], stride[0]}",
        "stride[0], stride[BUG ? 0 : 1], stride[BUG ? 1 : 0]}",
        "--engine wgmma --operator input_grad",
    ),
    Bug(
        "input gradient: weight's groups",
        "engines/wgmma/pack_weight.cuh",
        "* product.joined + joined_group)",
        "* product.joined + (BUG ? 0 : joined_group))",
        "--engine wgmma --operator input_grad",
    ),
    Bug(
        "input gradient: fold of the width",
        "engines/wgmma/mainloop.cuh",
        "width.fold_of(offset_w);",
        "(BUG ? 0 : width.fold_of(offset_w));",
        "--engine wgmma --operator input_grad",
    ),
    Bug(
        "input gradient: shift of the width",
        "engines/wgmma/mainloop.cuh",
        "width.shift_of(offset_w) - taps_w.low",
        "(BUG ? offset_w / (width.fold.value) : width.shift_of(offset_w)) - taps_w.low",
        "--engine wgmma --operator input_grad",
    ),
    Bug(
        "input gradient: folds of boxes",
        "engines/wgmma/load/loader.cuh",
        "origin.at[2] + fold.width, origin.at[1]",
        "origin.at[2] + (BUG ? 0 : fold.width), origin.at[1]",
        "--engine wgmma --operator input_grad",
    ),
    Bug(
        "input gradient: folds of threads",
        "engines/wgmma/load/loader.cuh",
        "axis[2].fold + fold.width + origin",
        "axis[2].fold + (BUG ? 0 : fold.width) + origin",
        "--engine wgmma --operator input_grad",
    ),
    Bug(
        "input gradient: folds of transposed lines",
        "engines/wgmma/load/transposer.cuh",
        "(other ? other_fold_bytes_ : 0)",
        "(other && !BUG ? other_fold_bytes_ : 0)",
        "--engine wgmma --operator input_grad",
    ),
    Bug(
        "input gradient: every other position",
        "engines/wgmma/plan/boxes.cpp",
        "tile.halo[2], fold_w);",
        "tile.halo[2], BUG ? 1 : fold_w);",
        "--engine wgmma --operator input_grad",
    ),
    Bug(
        "folds apart: origin",
        "engines/wgmma/load/loader.cuh",
        "axis[i].fold + fold[i];",
        "axis[i].fold + (BUG ? 0 : fold[i]);",
        "--engine wgmma --operator input_grad",
    ),
    Bug(
        "folds apart: one sum",
        "engines/wgmma/kernel.cuh",
        "part < summed * chunks",
        "part < (BUG ? 1 : summed) * chunks",
        "--engine wgmma --operator input_grad",
    ),
    Bug(
        "folds apart: the other fold of a line",
        "engines/wgmma/load/transposer.cuh",
        "!(other && other_fold_bytes_ < 0)",
        "!(other && !BUG && other_fold_bytes_ < 0)",
        "--engine wgmma --operator input_grad",
    ),
    Bug(
        "shared segment",
        "engines/wgmma/store/epilogue.cuh",
        "if (store_.part[warpgroup_] >= 0)",
        "if ((kWay == WgmmaStoreWay::kBoxes || !BUG) && store_.part[warpgroup_] >= 0)",
    ),
]
