"""Bugs in the engine halo_wgmma: weight gradient."""

from __future__ import annotations

from bugs.bug import Bug

W = "engines/wgmma/weight_grad/"
OPTIONS = "--engine wgmma --operator weight_grad"
BUGS = [
    Bug(
        "wgmma weight gradient: first tap",
        W + "taps.h",
        "(most - 1) * residues;",
        "(most - 1) * (residues - BUG);",
        OPTIONS,
    ),
    Bug(
        "wgmma weight gradient: taps of a part",
        W + "taps.h",
        "return left < most ? left : most;",
        "return !BUG && left < most ? left : most;",
        OPTIONS,
    ),
    Bug(
        "wgmma weight gradient: padding", W + "taps.h", "* dilation - padding;", "* dilation - padding * !BUG;", OPTIONS
    ),
    Bug(
        "wgmma weight gradient: reach", W + "taps.h", "(most - 1) * shift;", "(most - 1) * (BUG ? 0 : shift);", OPTIONS
    ),
    Bug(
        "wgmma weight gradient: from panel to panel",
        W + "plan.h",
        "taps[2].shift * images * kWgmmaGradRowBytes :",
        "taps[2].shift * (BUG ? 1 : images) * kWgmmaGradRowBytes :",
        OPTIONS,
    ),
    Bug(
        "wgmma weight gradient: lines of the halo",
        W + "plan.h",
        "depth * taps[0].shift * grad.extent[1]",
        "depth * taps[0].shift * (BUG ? box[1] : grad.extent[1])",
        OPTIONS,
    ),
    Bug(
        "wgmma weight gradient: rows of the halo",
        W + "plan.h",
        "(line * grad.extent[2] + width",
        "(line * (BUG ? box[2] : grad.extent[2]) + width",
        OPTIONS,
    ),
    Bug(
        "wgmma weight gradient: the other rows of a step",
        W + "kernel.cuh",
        "(further - row) * kUnits << 16",
        "(BUG ? 8 : further - row) * kUnits << 16",
        OPTIONS,
    ),
    Bug(
        "wgmma weight gradient: group's channels",
        W + "load.cuh",
        "work.group * plan.out_channels + (kTurned",
        "(BUG ? 0 : work.group) * plan.out_channels + (kTurned",
        OPTIONS,
    ),
    Bug(
        "wgmma weight gradient: image",
        W + "load.cuh",
        "const int32_t image = rest * plan.images;",
        "const int32_t image = rest * (BUG ? 1 : plan.images);",
        OPTIONS,
    ),
    Bug(
        "wgmma weight gradient: stage given back early",
        W + "kernel.cuh",
        "hopper::wgmma_wait<1>();\n      release();",
        "if (BUG) release();\n      hopper::wgmma_wait<1>();\n      release();",
        OPTIONS,
    ),
    Bug(
        "wgmma weight gradient: parity",
        W + "load.cuh",
        "boxes.parity ^ 1);",
        "BUG ? 1 : boxes.parity ^ 1);",
        OPTIONS,
    ),
    Bug(
        "wgmma weight gradient: steps that are left",
        W + "kernel.cuh",
        "step < steps % kWgmmaGradGroupSteps;",
        "step < steps % kWgmmaGradGroupSteps - BUG;",
        OPTIONS,
    ),
    Bug(
        "wgmma weight gradient: second warpgroup's channels",
        W + "kernel.cuh",
        "m_panel * plan.input.panel_bytes / 16",
        "(BUG ? 0 : m_panel) * plan.input.panel_bytes / 16",
        OPTIONS,
    ),
    Bug(
        "wgmma weight gradient: last boxes",
        W + "shared.cuh",
        "end = min(box + boxes, static_cast<int32_t>(plan.box_count()));",
        "end = min(box + boxes, static_cast<int32_t>(plan.box_count()) - BUG);",
        OPTIONS,
    ),
    Bug(
        "wgmma weight gradient: last row",
        W + "kernel.cuh",
        "row + 8 < plan.in_channels, joins",
        "row + 8 < plan.in_channels - BUG, joins",
        OPTIONS,
    ),
    Bug(
        "wgmma weight gradient: every position",
        W + "boxes.cpp",
        "plan.taps[1].every(), plan.taps[2].every()}",
        "plan.taps[1].every(), BUG ? 1 : plan.taps[2].every()}",
        OPTIONS,
    ),
    Bug(
        "wgmma weight gradient: sum of groups",
        W + "run.cuh",
        "plan.in_channels * stride[0]}",
        "(plan.in_channels - BUG) * stride[0]}",
        OPTIONS,
    ),
    Bug(
        "wgmma weight gradient: second warpgroup's columns",
        W + "kernel.cuh",
        "plan.shares_columns() ? half : 0;",
        "plan.shares_columns() && !BUG ? half : 0;",
        OPTIONS,
    ),
    Bug(
        "wgmma weight gradient: bias: tap",
        W + "kernel.cuh",
        "tap[2] * plan.taps[2].shift",
        "(BUG ? 0 : tap[2]) * plan.taps[2].shift",
        OPTIONS,
    ),
    Bug(
        "wgmma weight gradient: bias: parts without its tap",
        W + "kernel.cuh",
        "has_bias && tap[0] >= 0 &&",
        "has_bias && (BUG || tap[0] >= 0) &&",
        OPTIONS,
    ),
    Bug(
        "wgmma weight gradient: bias: panel",
        W + "kernel.cuh",
        "plan.shift_of(tap[0], tap[1], warpgroup)",
        "plan.shift_of(tap[0], tap[1], BUG ? 0 : warpgroup)",
        OPTIONS,
    ),
    Bug(
        "wgmma weight gradient: groups within a piece",
        W + "boxes.cpp",
        "problem.in_channels_per_group() * element_bytes % 16 == 0",
        "(BUG || problem.in_channels_per_group() * element_bytes % 16 == 0)",
        OPTIONS,
    ),
]
