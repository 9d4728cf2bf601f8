"""Bugs in the depthwise engine."""

from __future__ import annotations

from bugs.bug import Bug

T = "engines/depthwise/"
DEPTHWISE = "--engine depthwise"
BUGS = [
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
]
