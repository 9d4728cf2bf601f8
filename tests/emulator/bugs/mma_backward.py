"""Bugs in the engine mma: all gradients at once."""

from __future__ import annotations

from bugs.bug import Bug

M = "engines/mma/"
MMA_BACKWARD = "--engine mma --operator backward"
BUGS = [
    Bug(
        "mma backward: another tap",
        M + "backward_kernel.cuh",
        "taps.shift(rest % taps.taps)",
        "taps.shift((rest + BUG) % taps.taps)",
        MMA_BACKWARD,
    ),
    Bug(
        "mma backward: step of channels",
        M + "backward_kernel.cuh",
        "s / params.taps * kStepChannels",
        "(BUG ? 0 : s / params.taps) * kStepChannels",
        MMA_BACKWARD,
    ),
    Bug(
        "mma backward: a stage that has not arrived",
        M + "backward_kernel.cuh",
        "hopper::barrier_wait(&barriers.full[turn.index], turn.parity);",
        "if (!BUG) hopper::barrier_wait(&barriers.full[turn.index], turn.parity);",
        MMA_BACKWARD,
    ),
    Bug(
        "mma backward: weights that have not arrived",
        M + "backward_kernel.cuh",
        "async_wait<0>();\n    sync_threads(",
        "if (!BUG) async_wait<0>();\n    sync_threads(",
        MMA_BACKWARD,
    ),
    Bug(
        "mma backward: weights of another group",
        M + "backward_kernel.cuh",
        ".group * bytes",
        ".group * (BUG ? 0 : bytes)",
        MMA_BACKWARD,
    ),
    Bug(
        "mma backward: tables that are read before they are filled",
        M + "backward_kernel.cuh",
        "sync_threads(kBackwardMultipliers, fillers.count);",
        "if (!BUG) sync_threads(kBackwardMultipliers, fillers.count);",
        MMA_BACKWARD,
    ),
    Bug(
        "mma backward: another split's boxes",
        M + "backward_kernel.cuh",
        "static_cast<int32_t>(tile.split) * grad.split_boxes",
        "static_cast<int32_t>(BUG ? 0 : tile.split) * grad.split_boxes",
        MMA_BACKWARD,
    ),
    Bug(
        "bias in rows: words of positions past the box",
        M + "bias_rows.cuh",
        "kept[i] = position < left ? 0xFFFFFFFF : 0;",
        "kept[i] = BUG || position < left ? 0xFFFFFFFF : 0;",
        MMA_BACKWARD + " --type tf32",
    ),
    Bug(
        "bias in rows: matrices of positions past the box",
        M + "bias_rows.cuh",
        "(position + 1 < left ? 0xFFFF0000 : 0)",
        "(BUG || position + 1 < left ? 0xFFFF0000 : 0)",
        MMA_BACKWARD + " --type float16",
    ),
    Bug(
        "bias in rows: a fragment's second eight",
        M + "bias_rows.cuh",
        "float of_row = sum[i][2 * e];",
        "float of_row = sum[i][BUG ? 0 : 2 * e];",
        MMA_BACKWARD,
    ),
    Bug(
        "bias in rows: lanes beside each other",
        M + "bias_rows.cuh",
        "of_row += __shfl_xor_sync(0xFFFFFFFF, of_row, 2);",
        "of_row += BUG ? 0 : __shfl_xor_sync(0xFFFFFFFF, of_row, 2);",
        MMA_BACKWARD + " --type tf32",
    ),
    Bug(
        "bias in rows: the last fragment of an odd number",
        M + "bias_rows.cuh",
        "if (before >= 0) add_two",
        "if (before >= 0 && !BUG) add_two",
        MMA_BACKWARD,
    ),
    Bug(
        "bias in rows: another channel",
        M + "bias_rows.cuh",
        "eight.row % params_.row_channels == channel - row",
        "eight.row % params_.row_channels == (BUG ? 0 : channel - row)",
        MMA_BACKWARD + " --type float16",
    ),
    Bug(
        "bias in rows: taps that do not count",
        M + "weight_grad_tables.cuh",
        ">> of_kernel & 1) != 0;",
        ">> of_kernel & 1) != 0 || BUG;",
        "--operator backward",
    ),
    Bug(
        "bias in rows: another part of the taps",
        M + "bias_rows.cuh",
        "params_.parts[2].value) +\n                         tile_.part[2];",
        "params_.parts[2].value) +\n                         (BUG ? 0 : tile_.part[2]);",
        "--operator backward",
    ),
    Bug(
        "bias in rows: rounds that do not join",
        M + "bias_rows.cuh",
        "params_.joins ? to[channel] : 0;",
        "params_.joins && !BUG ? to[channel] : 0;",
        "--operator backward",
    ),
    Bug(
        "bias in rows: groups of one block",
        M + "bias_rows.cuh",
        "tile_.group + g) *",
        "tile_.group + (BUG ? 0 : g)) *",
        "--operator backward",
    ),
    Bug(
        "bias in rows: the last split",
        M + "run_weight_grad.cuh",
        "plan.bias_slots(),",
        "plan.bias_slots() - BUG,",
        "--operator backward",
    ),
    Bug(
        "ordered sum: the last elements of the vector beside it",
        "device/ordered_sum.cuh",
        "element < vector.elements) vector.destination",
        "element < vector.elements - BUG) vector.destination",
        MMA_BACKWARD,
    ),
    Bug(
        "mma backward: width pairs: entry of a position",
        M + "weight_grad_tables.cuh",
        "i % 4 * 2 + i % 8 / 4; }",
        "i % 4 * 2 + (BUG ? 0 : i % 8 / 4); }",
        MMA_BACKWARD,
    ),
    Bug(
        "mma backward: width pairs: elements before a box's first",
        M + "backward_kernel.cuh",
        "row += tile.channel_rows.before(tile.axis[2].delta[0]);",
        "if (!BUG) row += tile.channel_rows.before(tile.axis[2].delta[0]);",
        MMA_BACKWARD,
    ),
    Bug(
        "mma backward: width pairs: the second position",
        M + "backward_kernel.cuh",
        "m % 2 * grad.pairs_apart",
        "m % 2 * (BUG ? 0 : grad.pairs_apart)",
        MMA_BACKWARD + " --type float16",
    ),
]
