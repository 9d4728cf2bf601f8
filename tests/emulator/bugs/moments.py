"""Bugs in the moments that epilogues leave for a norm, and in their collection."""

from __future__ import annotations

from bugs.bug import Bug

EPILOGUE = "epilogue/moments.cuh"
TARGET = "engines/wgmma/store/target.cuh"
WGMMA = "engines/wgmma/store/moments.cuh"
OUTPUTS = "engines/wgmma/plan/outputs.cpp"
MMA = "engines/mma/correlation/store.cuh"
COLLECT = "norm/collect.cu"
OF_WGMMA = "--engine wgmma --operator forward"
OF_MMA = "--engine mma --operator forward"
BUGS = [
    Bug("moments: lanes", "device/lanes.cuh", "(kBits & bit) != 0", "(kBits & bit) > (BUG ? 1 : 0)", OF_WGMMA),
    Bug("moments: mean", EPILOGUE, "sum_ += deviation;", "sum_ += BUG ? value : deviation;", OF_MMA),
    Bug(
        "moments: squares",
        EPILOGUE,
        "squares_ += deviation * deviation;",
        "squares_ += deviation * (BUG ? 1 : deviation);",
        OF_MMA,
    ),
    Bug("moments, mma: second word", MMA, "first_m_ + 32 * k + lane_)", "first_m_ + 32 * k * !BUG + lane_)", OF_MMA),
    Bug(
        "moments, wgmma: lanes",
        WGMMA,
        "columns[word] >> (2 * (lane_ % 4));",
        "columns[word] >> (2 * (BUG ? 0 : lane_ % 4));",
        OF_WGMMA,
    ),
    Bug(
        "moments, wgmma: halo",
        OUTPUTS,
        "if (!tile.is_output(",
        "if (!BUG && !tile.is_output(",
        OF_WGMMA,
    ),
    Bug(
        "moments, wgmma: columns of the other warpgroup",
        OUTPUTS,
        "plan.store.start[warpgroup] + column",
        "plan.store.start[BUG ? 0 : warpgroup] + column",
        OF_WGMMA,
    ),
    Bug(
        "moments, wgmma: residues alike", WGMMA, "whole || params_.outputs", "whole || BUG || params_.outputs", OF_WGMMA
    ),
    Bug(
        "moments, wgmma: residues one by one",
        WGMMA,
        "turn == 2 * set + half",
        "(BUG || turn == 2 * set + half)",
        OF_WGMMA,
    ),
    Bug("moments, wgmma: residues of the height", OUTPUTS, "|| divides(1)", "|| BUG || divides(1)", OF_WGMMA),
    Bug("moments, wgmma: whole tiles", WGMMA, "<= axis.dst_size;", "<= axis.dst_size + 2 * BUG;", OF_WGMMA),
    Bug("moments, wgmma: pivot", WGMMA, "some[set][half], share", "some[set][half], BUG ? 0 : share", OF_WGMMA),
    Bug(
        "moments, wgmma: pivot of all", WGMMA, "if (outputs.first > 0) {", "if (!BUG && outputs.first > 0) {", OF_WGMMA
    ),
    Bug(
        "moments, wgmma: columns",
        OUTPUTS,
        "std::min(plan.store.extent, tile.instruction.n)",
        "(BUG ? tile.instruction.n : std::min(plan.store.extent, tile.instruction.n))",
        OF_WGMMA,
    ),
    Bug("moments, wgmma: end of the width", WGMMA, "&& inside(2, at.w);", "&& (BUG || inside(2, at.w));", OF_WGMMA),
    Bug(
        "moments, wgmma: residue",
        WGMMA,
        "+ residue(axis, set, half) <",
        "+ (BUG ? 0 : residue(axis, set, half)) <",
        OF_WGMMA,
    ),
    Bug(
        "moments, wgmma: pairs",
        WGMMA,
        "return residues_.at[2] + half;",
        "return residues_.at[2] + (BUG ? 0 : half);",
        OF_WGMMA,
    ),
    Bug(
        "moments, wgmma: sets",
        WGMMA,
        "return residues_.at[1] + set;",
        "return residues_.at[1] + (BUG ? 0 : set);",
        OF_WGMMA,
    ),
    Bug(
        "moments, wgmma: warpgroup",
        WGMMA,
        "(2 * number + warpgroup_) *",
        "(2 * number + (BUG ? 0 : warpgroup_)) *",
        OF_WGMMA,
    ),
    Bug(
        "moments, wgmma: channels of sets",
        TARGET,
        "? kWgmmaSlabRows * set : 0",
        "? kWgmmaSlabRows * (BUG ? 0 : set) : 0",
        OF_WGMMA,
    ),
    Bug("moments, wgmma: channels of halves", TARGET, "? 0 : 8 * half)", "? 0 : 8 * (BUG ? 0 : half))", OF_WGMMA),
    Bug("moments, wgmma: padding", WGMMA, "&& row < channels_ &&", "&& row < channels_ + BUG &&", OF_WGMMA),
    Bug(
        "moments, mma: positions",
        MMA,
        "return row < params_.box_rows.count && inside",
        "return (BUG || row < params_.box_rows.count) && inside",
        OF_MMA,
    ),
    Bug("moments, mma: warps", MMA, "+ first_m_ / kExtent.warp_m;", "+ (BUG ? 0 : first_m_ / kExtent.warp_m);", OF_MMA),
    Bug("moments, mma: lower half", MMA, "(here >> i & 1) != 0", "(here >> (BUG ? 0 : i) & 1) != 0", OF_MMA),
    Bug(
        "moments, mma: channels",
        MMA,
        "lane_ < 4 && n < share_.channels)",
        "lane_ < 4 && n < share_.channels + BUG)",
        OF_MMA,
    ),
    Bug("collected moments: distance", COLLECT, "moments.pivot - pivot;", "BUG ? 0 : moments.pivot - pivot;", "--norm"),
    Bug(
        "collected moments: end",
        COLLECT,
        "plan.split_parts, plan.parts);",
        "plan.split_parts, plan.parts + BUG);",
        "--norm",
    ),
    Bug(
        "collected moments: splits",
        COLLECT,
        "split * plan.split_parts + other, end",
        "split * plan.split_parts * !BUG + other, end",
        "--norm",
    ),
    Bug(
        "norm sums: mean",
        "norm/sums.cuh",
        "squares - sum * distance;",
        "squares - (BUG ? 0 : sum * distance);",
        "--norm",
    ),
    Bug(
        "norm in the epilogue: rounding",
        "epilogue/apply.cuh",
        "value = to_accumulator(from_accumulator<T>(value));",
        "if (!BUG) value = to_accumulator(from_accumulator<T>(value));",
        OF_MMA + " --type bf16",
    ),
    Bug(
        "norm in the epilogue, wgmma: channels",
        "engines/wgmma/store/fragments.cuh",
        "first_channel + min(row, channels - 1));",
        "first_channel + (BUG ? 0 : min(row, channels - 1)));",
        OF_WGMMA,
    ),
    Bug(
        "norm in the epilogue, wgmma: image",
        "engines/wgmma/store/epilogue.cuh",
        "normalise(c, work_.image,",
        "normalise(c, BUG ? 0 : work_.image,",
        OF_WGMMA,
    ),
    Bug(
        "not stored, wgmma",
        "engines/wgmma/store/epilogue.cuh",
        "if (!params_.epilogue.stores)",
        "if (!params_.epilogue.stores && !BUG)",
        OF_WGMMA,
    ),
    Bug(
        "norm in the epilogue, mma: channels",
        MMA,
        "norms[min(channel_of(j, c, hopper::computed_here(lane_)), share_.channels - 1)];",
        "norms[min(channel_of(j, BUG ? 0 : c, lane_), share_.channels - 1)];",
        OF_MMA,
    ),
    Bug(
        "norm in the epilogue, mma: image",
        MMA,
        "normalise(box_here(box).image, sum);",
        "normalise(BUG ? 0 : box_here(box).image, sum);",
        OF_MMA,
    ),
    Bug(
        "not stored, mma",
        MMA,
        "if (!params_.epilogue.stores) return;",
        "if (!params_.epilogue.stores && !BUG) return;",
        OF_MMA,
    ),
    Bug(
        "norm of channels: image",
        "norm/finish_kernels.cuh",
        "params.norms[statistic / params.shape.groups *",
        "params.norms[(BUG ? 0 : statistic / params.shape.groups) *",
        "--norm",
    ),
]
