"""Bugs in the engine mma: sums that several blocks share."""

from __future__ import annotations

from bugs.bug import Bug

M = "engines/mma/"
MMA = "--engine mma"
BUGS = [
    Bug(
        "mma: splits: taps that a phase does not have",
        M + "correlation/params.cuh",
        "taps = component < count ?",
        "taps = component < count || BUG ?",
        MMA + " --operator forward",
    ),
    Bug(
        "mma: splits: sums in one place",
        M + "correlation/split_sum.cuh",
        "int64_t{share_.split} * kTile",
        "int64_t{BUG ? 0 : share_.split} * kTile",
        MMA,
    ),
    Bug(
        "mma: splits: sums of another box",
        M + "correlation/split_sum.cuh",
        "int64_t{hopper::computed_here(box)} * params_.shares",
        "int64_t{BUG ? 0 : box} * params_.shares",
        MMA,
    ),
    Bug(
        "mma: splits: sums of another share",
        M + "correlation/kernel.cuh",
        "(params.phase_blocks.value) + place.phase_block;",
        "(params.phase_blocks.value) + (BUG ? 0 : place.phase_block);",
        MMA + " --operator forward",
    ),
    Bug(
        "mma: splits: not the last one adds",
        "device/split_sum.cuh",
        "static_cast<uint32_t>(splits - 1);",
        "static_cast<uint32_t>(splits - 1 - BUG);",
        MMA,
    ),
    Bug(
        "mma: splits: the last one",
        "device/split_sum.cuh",
        "split < splits; ++split",
        "split < splits - BUG; ++split",
        MMA,
    ),
    Bug(
        "mma: splits: other pieces",
        "device/split_sum.cuh",
        "partial + first * kThreads * 4",
        "partial + (BUG ? 0 : first) * kThreads * 4",
        MMA + " --operator input_grad --type tf32",
    ),
    Bug(
        "mma: splits: added before it is known who adds",
        M + "correlation/split_sum.cuh",
        "sync_threads(kMultipliers, kThreads);\n    if (!share_.adds_splits)",
        "if (!BUG) sync_threads(kMultipliers, kThreads);\n    if (!share_.adds_splits)",
        MMA,
    ),
    Bug(
        "mma: splits: counters that nobody begins",
        M + "correlation/pack_weight.cuh",
        " < params.counter_count;",
        " < (BUG ? 0 : params.counter_count);",
        MMA,
    ),
]
