"""Every planted bug, in a module for each part of csrc/."""

from __future__ import annotations

from bugs import (
    depthwise,
    matmul,
    mma,
    mma_backward,
    mma_copy,
    mma_splits,
    mma_weight_grad,
    moments,
    norm,
    separate,
    shared,
    simt,
    wgmma,
    wgmma_turned,
    wgmma_weight_grad,
)

BUGS = [
    bug
    for part in (
        wgmma,
        wgmma_weight_grad,
        wgmma_turned,
        depthwise,
        shared,
        simt,
        matmul,
        mma,
        mma_splits,
        mma_weight_grad,
        mma_copy,
        mma_backward,
        separate,
        norm,
        moments,
    )
    for bug in part.BUGS
]
