"""Bugs in the group norms."""

from __future__ import annotations

from bugs.bug import Bug

NORM = "--norm"
BUGS = [
    Bug(
        "norm moments: low digits of the mean",
        "norm/sums.cuh",
        "low = moved - (mean - before);",
        "low = BUG ? 0 : moved - (mean - before);",
        NORM,
    ),
    Bug(
        "norm moments: distance of chunks",
        "norm/sums.cuh",
        "(chunk.count * chunk.weight);",
        "(chunk.count * chunk.weight) * (BUG ? 0 : 1);",
        NORM,
    ),
    Bug(
        "norm slots: last of a row",
        "norm/slots.cuh",
        "left < kCount ? static_cast<int>(left) : kCount);",
        "left < kCount ? static_cast<int>(left - BUG) : kCount);",
        NORM,
    ),
    Bug(
        "norm slots: first of a row",
        "norm/slots.cuh",
        "position < 0 ? static_cast<int>(-position) : 0",
        "position < 0 && !BUG ? static_cast<int>(-position) : 0",
        NORM,
    ),
    Bug(
        "norm reduction: threads",
        "norm/reduce_kernel.cuh",
        "if (takes_part && index + half < left)",
        "if (takes_part && index + half < left - BUG)",
        NORM,
    ),
    Bug(
        "norm reduction: places that do not exist",
        "norm/reduce_kernel.cuh",
        "if (place.exists && place.c + i <",
        "if ((BUG || place.exists) && place.c + i <",
        NORM,
    ),
    Bug(
        "norm statistics: images",
        "norm/finish_kernels.cuh",
        "(split * shape.batch + n)",
        "(split * (BUG ? 1 : shape.batch) + n)",
        NORM,
    ),
    Bug(
        "norm sums: distance of means",
        "norm/sums.cuh",
        "moments.squares + distance * moved",
        "moments.squares + (BUG ? 0 : distance) * moved",
        NORM,
    ),
    Bug(
        "norm sums: the threads' pivot",
        "norm/reduce_kernel.cuh",
        "PivotSums::of(own[i], pivot[i])",
        "PivotSums::of(own[i], BUG ? 0 : pivot[i])",
        NORM,
    ),
    Bug(
        "norm statistics: eps",
        "norm/finish_kernels.cuh",
        "moments.count + params.eps)",
        "moments.count + (BUG ? 0 : params.eps))",
        NORM,
    ),
    Bug(
        "norm: what rounding the mean takes",
        "norm/values.cuh",
        "- (mean - channel.center) * scale);",
        "- (BUG ? 0 : mean - channel.center) * scale);",
        NORM,
    ),
    Bug(
        "norm: slope",
        "epilogue/apply.cuh",
        "return slope == 0 ? Acc(0) : value * slope;",
        "return slope == 0 || BUG ? Acc(0) : value * slope;",
        NORM,
    ),
    Bug(
        "norm gradient sums: activation",
        "norm/values.cuh",
        "return slope == 0 ? A(0) : grad * slope;",
        "return slope == 0 ? A(0) : BUG ? grad : grad * slope;",
        NORM,
    ),
    Bug(
        "norm gradient sums: rounded mean",
        "norm/sums.cuh",
        "(products - rounded_off * grad)",
        "(products - (BUG ? 0 : rounded_off) * grad)",
        NORM,
    ),
    Bug(
        "norm coefficients: weight",
        "norm/finish_kernels.cuh",
        "sums.merge({weight * partial[0],",
        "sums.merge({(BUG ? 1 : weight) * partial[0],",
        NORM,
    ),
    Bug(
        "norm coefficients: elements",
        "norm/finish_kernels.cuh",
        "-rstd * shared[0][0].grad / elements;",
        "-rstd * shared[0][0].grad / (elements + BUG);",
        NORM,
    ),
    Bug(
        "norm input gradient: mask",
        "norm/map_kernel.cuh",
        "return params.relu && is_masked(element.x)",
        "return !BUG && params.relu && is_masked(element.x)",
        NORM,
    ),
    Bug(
        "norm input gradient: deviation",
        "norm/map_kernel.cuh",
        "channel.slope * (element.x - channel.norm.center)",
        "channel.slope * (element.x - (BUG ? 0 : channel.norm.center))",
        NORM,
    ),
    Bug(
        "norm: rows beside x, on the host",
        "norm/vectors.cpp",
        "(plan_.channels_last || agree(1));",
        "(BUG || plan_.channels_last || agree(1));",
        NORM,
    ),
    Bug(
        "norm gradients: of the bias alone, on the host",
        "norm/run.cuh",
        "params.partial, grad_bias, stream);",
        "params.partial, BUG && grad_x.data == nullptr ? nullptr : grad_bias, stream);",
        NORM,
    ),
]
