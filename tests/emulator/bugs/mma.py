"""Bugs in the engine mma: forward and input gradient."""

from __future__ import annotations

from bugs.bug import Bug

M = "engines/mma/"
MMA = "--engine mma"
BUGS = [
    Bug(
        "mma: rounding",
        M + "mainloop.cuh",
        "a[k] = to_matrix_word<T>(words[k]);",
        "a[k] = BUG ? words[k] : to_matrix_word<T>(words[k]);",
        MMA + " --type tf32",
    ),
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
        "box_at(params_, hopper::computed_here(BUG ? max(box - 1, 0) : box));",
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
    Bug(
        "mma: packed weight, taps of a tile",
        M + "pack_weight.cuh",
        "shared.to[tap] * step_words",
        "shared.to[BUG ? 0 : tap] * step_words",
        MMA,
    ),
    Bug(
        "mma: packed weight, axes of a tile",
        M + "pack_weight.cuh",
        "params.order[0] == PackAxis{axis} ? a",
        "params.order[BUG] == PackAxis{axis} ? a",
        MMA,
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
]
