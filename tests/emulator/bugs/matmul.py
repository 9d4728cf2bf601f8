"""Bugs in the engine matmul."""

from __future__ import annotations

from bugs.bug import Bug

M = "engines/matmul/"
MATMUL = "--engine matmul"
BUGS = [
    Bug(
        "matmul: rows of the weight past the last",
        M + "load.cuh",
        "params.plan.in_channels - row : 0",
        "params.plan.in_channels - row + BUG : 0",
        MATMUL,
    ),
    Bug(
        "matmul: columns past the last",
        M + "load.cuh",
        "rows_ = column < params.plan.columns ?",
        "rows_ = column < params.plan.columns + BUG * kPiece ?",
        MATMUL,
    ),
    Bug(
        "matmul: channels past the last",
        M + "load.cuh",
        "first_k + channel_ < params.plan.in_channels ?",
        "first_k + channel_ < params.plan.in_channels + BUG * kPiece ?",
        MATMUL,
    ),
    Bug(
        "matmul: positions that are one axis",
        M + "plan.cpp",
        "has_stride(input, 0, problem.batch,",
        "has_stride(input, 0, BUG ? 1 : problem.batch,",
        MATMUL,
    ),
    Bug(
        "matmul: image of a position",
        M + "load.cuh",
        "return image * params.input_stride.n +",
        "return (BUG ? 0 : image) * params.input_stride.n +",
        MATMUL,
    ),
    Bug(
        "matmul: the second of two elements",
        M + "load.cuh",
        "__ldg(from + next_)) << 16",
        "__ldg(from + (BUG ? place_ : next_))) << 16",
        MATMUL + " --type fp16",
    ),
    Bug(
        "matmul: weights that stay",
        M + "kernel.cuh",
        "plan.resident ? load_k : load_buffer",
        "plan.resident ? (BUG ? 0 : load_k) : load_buffer",
        MATMUL,
    ),
    Bug(
        "matmul: a stage that is read",
        M + "kernel.cuh",
        "__syncthreads();  // the stage has arrived",
        "if (!BUG) __syncthreads();  // the stage has arrived",
        MATMUL,
    ),
    Bug(
        "matmul: groups of copies",
        M + "kernel.cuh",
        "async_wait<1>();",
        "BUG ? async_wait<2>() : async_wait<1>();",
        MATMUL,
    ),
    Bug(
        "matmul: tiles of a walker",
        M + "kernel.cuh",
        "tile += plan.walkers;\n  }",
        "tile += BUG ? 1 : plan.walkers;\n  }",
        MATMUL,
    ),
    Bug(
        "matmul: columns of a group",
        M + "store.cuh",
        "static_cast<int64_t>(group) * params.plan.out_channels",
        "static_cast<int64_t>(BUG ? 0 : group) * params.plan.out_channels",
        MATMUL,
    ),
    Bug(
        "matmul: order of the columns",
        M + "plan.cpp",
        "if (!has_columns(problem, weight, channels_last)) continue;",
        "if (!BUG && !has_columns(problem, weight, channels_last)) continue;",
        MATMUL,
    ),
    Bug(
        "matmul: neighbours that are stored together",
        M + "plan.cpp",
        "neighbours % count == 0 &&",
        "(BUG || neighbours % count == 0) &&",
        MATMUL,
    ),
    Bug(
        "matmul: depth of a place",
        M + "load.cuh",
        "params.by_size[2].take(position) * scale[0]",
        "params.by_size[2].take(position) * (BUG ? 1 : scale[0])",
        MATMUL,
    ),
    Bug(
        "matmul: bias of the second column",
        M + "store.cuh",
        "sum[i][j][k] += bias[k % 2]",
        "sum[i][j][k] += bias[BUG ? 0 : k % 2]",
        MATMUL,
    ),
    Bug(
        "matmul: low terms",
        M + "mainloop.cuh",
        "multiply_add<T>(part, a_low, high[j]);",
        "if (!BUG) multiply_add<T>(part, a_low, high[j]);",
        MATMUL + " --type fp32",
    ),
]
