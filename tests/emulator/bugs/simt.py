"""Bugs in the general engine."""

from __future__ import annotations

from bugs.bug import Bug

SIMT = "--engine simt"
BUGS = [
    Bug("positions", "engines/simt/epilogue.cuh", "offset < 0 || n >= n_left", "offset < 0 || n >= n_left + BUG", SIMT),
    Bug("channels", "engines/simt/epilogue.cuh", "if (n + k < n_left) dest", "if (n + k < n_left + BUG) dest", SIMT),
    Bug(
        "fill",
        "engines/simt/fill_kernel.cuh",
        "% params.channels;",
        "% (params.channels + BUG);",
        SIMT,
    ),
    Bug(
        "a stage is written while it is read",
        "engines/simt/mainloop.cuh",
        "stages[(tile + 1) % 2])",
        "stages[(tile + !BUG) % 2])",
        SIMT,
    ),
    Bug(
        "mask of a NaN",
        "device/mask.cuh",
        "return to_accumulator(output) <= 0;",
        "return BUG ? !(to_accumulator(output) > 0) : to_accumulator(output) <= 0;",
        "--operator input_grad",
    ),
]
