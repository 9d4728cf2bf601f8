"""One transposed convolution as sizes: its exact amount of work, and the time that the hardware allows at best."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

Int3 = tuple[int, int, int]

# Measured on one NVIDIA H200: a device copy, and GEMM 8192^3 through cuBLAS. fp32 is a third of TF32's rate: three TF32
# products make an fp32 one on the tensor cores, which beats the 50 TFLOP/s of the plain fp32 units. fp64 is the rate in
# the data sheet.
COPY_BYTES_PER_SECOND = 4.25e12
PEAK_FLOPS_PER_SECOND: Mapping[str, float] = {
    "fp64": 67e12,
    "fp32": 133e12,
    "tf32": 400e12,
    "fp16": 743e12,
    "bf16": 771e12,
}
ELEMENT_BYTES: Mapping[str, int] = {"fp64": 8, "fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2}


@dataclass(frozen=True)
class Layer:
    """One transposed convolution in the terms of ``torch.nn.ConvTranspose3d``; sizes are (depth, height, width)."""

    name: str
    batch: int
    in_channels: int
    out_channels: int
    input_size: Int3
    kernel_size: Int3
    stride: Int3 = (1, 1, 1)
    padding: Int3 = (0, 0, 0)
    output_padding: Int3 = (0, 0, 0)
    dilation: Int3 = (1, 1, 1)
    groups: int = 1
    bias: bool = False

    @property
    def output_size(self) -> Int3:
        """D', H', W' of the output."""
        depth, height, width = (self._output_length(axis) for axis in range(3))
        return depth, height, width

    @property
    def input_shape(self) -> tuple[int, ...]:
        """N, C_in, D, H, W."""
        return (self.batch, self.in_channels, *self.input_size)

    @property
    def weight_shape(self) -> tuple[int, ...]:
        """C_in, C_out/groups, kD, kH, kW."""
        return (self.in_channels, self.out_channels // self.groups, *self.kernel_size)

    @property
    def output_shape(self) -> tuple[int, ...]:
        """N, C_out, D', H', W'."""
        return (self.batch, self.out_channels, *self.output_size)

    @property
    def multiply_adds(self) -> int:
        """Products whose output position is in range: what any implementation has to compute, and no more."""
        pairs = 1
        for axis in range(3):
            pairs *= self._pairs_in_range(axis)
        return self.batch * self.in_channels * (self.out_channels // self.groups) * pairs

    @property
    def gflop(self) -> float:
        """Floating-point operations of one pass in 10^9: two for each multiply-add in range."""
        return 2e-9 * self.multiply_adds

    def bytes(self, precision: str) -> int:
        """Bytes of input, weight and output: what any implementation has to move, once each."""
        elements = sum(math.prod(shape) for shape in (self.input_shape, self.weight_shape, self.output_shape))
        return elements * ELEMENT_BYTES[precision]

    def limit_ms(self, precision: str) -> float:
        """Milliseconds at best: each tensor moved once, or the arithmetic at peak, whichever takes longer.

        The backward passes move the same three tensors and do the same multiply-adds, so the limit is theirs too.
        """
        seconds_moving = self.bytes(precision) / COPY_BYTES_PER_SECOND
        seconds_computing = 2 * self.multiply_adds / PEAK_FLOPS_PER_SECOND[precision]
        return 1e3 * max(seconds_moving, seconds_computing)

    def _output_length(self, axis: int) -> int:
        return (
            (self.input_size[axis] - 1) * self.stride[axis]
            - 2 * self.padding[axis]
            + self.dilation[axis] * (self.kernel_size[axis] - 1)
            + self.output_padding[axis]
            + 1
        )

    def _pairs_in_range(self, axis: int) -> int:
        """Pairs (input i, tap k) of one dimension with 0 <= i*stride - padding + k*dilation < output length."""
        length, output_length = self.input_size[axis], self._output_length(axis)
        stride, pairs = self.stride[axis], 0
        for tap in range(self.kernel_size[axis]):
            shift = self.padding[axis] - tap * self.dilation[axis]  # i*stride is in [shift, shift + output_length)
            first = max(0, -(-shift // stride))
            last = min(length - 1, (shift + output_length - 1) // stride)
            pairs += max(0, last - first + 1)
        return pairs
