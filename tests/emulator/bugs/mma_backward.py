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
        "mma backward: bias of positions past the box",
        M + "backward_kernel.cuh",
        "if (first + lane / 4 + 8 < positions)",
        "if (first + lane / 4 + 8 < positions || BUG)",
        MMA_BACKWARD + " --type tf32",
    ),
    Bug(
        "mma backward: bias of warps beside each other",
        M + "backward_kernel.cuh",
        "c % kExtent.warps_n == warp_n_here()",
        "(BUG || c % kExtent.warps_n == warp_n_here())",
        MMA_BACKWARD + " --type tf32",
    ),
    Bug(
        "mma backward: bias of warps along the positions",
        M + "bias_sums.cuh",
        "warp < warps_m; ++warp",
        "warp < warps_m - BUG; ++warp",
        MMA_BACKWARD + " --type tf32",
    ),
    Bug(
        "mma backward: bias of another half",
        M + "bias_sums.cuh",
        ".sum[in_step / 4]",
        ".sum[BUG ? 0 : in_step / 4]",
        MMA_BACKWARD + " --type tf32",
    ),
    Bug(
        "mma backward: bias of another group",
        M + "bias_sums.cuh",
        "tile.split * params.grad.groups + tile.group",
        "tile.split * params.grad.groups + (BUG ? 0 : tile.group)",
        MMA_BACKWARD,
    ),
    Bug(
        "mma backward: rows' bias of another channel",
        M + "bias_sums.cuh",
        "eight[i].row % grad.row_channels != channel - row",
        "eight[i].row % grad.row_channels != (BUG ? 0 : channel - row)",
        MMA_BACKWARD + " --type float16",
    ),
    Bug(
        "mma backward: rows' bias of warps along the positions",
        M + "bias_sums.cuh",
        "(k * count + i) * 8 + row",
        "((BUG ? 0 : k) * count + i) * 8 + row",
        MMA_BACKWARD + " --type float16",
    ),
    Bug(
        "mma backward: rows' bias of positions past the box",
        M + "weight_grad_product.cuh",
        "(second < left ? kOne << 16 : 0)",
        "(BUG || second < left ? kOne << 16 : 0)",
        MMA_BACKWARD + " --type float16",
    ),
    Bug(
        "mma backward: rows' bias of the lane's second row",
        M + "weight_grad_product.cuh",
        "row_sum[m][1] += sums[2];",
        "row_sum[m][1] += sums[BUG ? 0 : 2];",
        MMA_BACKWARD + " --type float16",
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
    Bug(
        "mma backward: width pairs: bias of words past the box",
        M + "weight_grad_product.cuh",
        "{summed.left - static_cast<int32_t>(half), summed.step}",
        "{summed.left - static_cast<int32_t>(BUG ? 0 : half), summed.step}",
        MMA_BACKWARD + " --type float16",
    ),
    Bug(
        "mma backward: bias of the last split",
        M + "run_backward.cuh",
        "sums.splits = plan.grad.splits;",
        "sums.splits = plan.grad.splits - (BUG && plan.grad.splits > 1);",
        MMA_BACKWARD,
    ),
]
