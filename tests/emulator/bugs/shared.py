"""Bugs in what engines share, and on the host."""

from __future__ import annotations

from bugs.bug import Bug

DEPTHWISE = "--engine depthwise"
BUGS = [
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
        "split < params.splits; split",
        "split < params.splits - BUG; split",
        "--operator weight_grad",
    ),
    Bug(
        "ordered sum: padding",
        "device/ordered_sum.cuh",
        "exists && place < axis[i].size;",
        "exists && place < axis[i].size + BUG;",
        "--operator weight_grad",
    ),
    Bug(
        "ordered sum: columns",
        "device/ordered_sum.cuh",
        "tile_column + to_column >= params.columns",
        "tile_column + to_column >= params.columns + BUG",
        "--operator weight_grad",
    ),
    Bug(
        "ordered sum: order of axes",
        "device/ordered_sum.cuh",
        "partial_stride[order[i]];",
        "partial_stride[BUG ? i : order[i]];",
        "--operator weight_grad",
    ),
    Bug(
        "ordered sum: few lanes",
        "device/ordered_sum.cuh",
        "for (int i = 0; i < distance; ++i) sum[i] += sum[i + distance];",
        "for (int i = BUG; i < distance; ++i) sum[i] += sum[i + distance];",
        "--engine mma --operator weight_grad",
    ),
    Bug(
        "ordered sum: rows of few lanes",
        "device/ordered_sum.cuh",
        "i < kUnroll; i += kLanes) {",
        "i < kUnroll - BUG; i += kLanes) {",
        "--engine mma --operator weight_grad",
    ),
    Bug(
        "ordered sum: lanes",
        "device/ordered_sum.cuh",
        "distance >= apart;",
        "distance > apart - !BUG;",
        "--operator bias_grad",
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
]
