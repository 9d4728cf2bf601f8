"""What one 3D transposed convolution is in numbers. Needs nothing but Python."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

Int3 = tuple[int, int, int]


@dataclass(frozen=True)
class Sizes:
    """Sizes and parameters, in the terms of ``torch.nn.ConvTranspose3d``."""

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

    def __str__(self) -> str:
        return self.name

    @property
    def parameters(self) -> dict[str, Any]:
        """Of the operators, by their names."""
        return {
            "stride": self.stride,
            "padding": self.padding,
            "output_padding": self.output_padding,
            "groups": self.groups,
            "dilation": self.dilation,
        }

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.batch, self.in_channels, *self.input_size)

    @property
    def weight_shape(self) -> tuple[int, ...]:
        return (self.in_channels, self.out_channels // self.groups, *self.kernel_size)

    @cached_property
    def output_size(self) -> Int3:
        """D', H', W'."""
        d, h, w = (
            (size - 1) * stride - 2 * padding + dilation * (kernel - 1) + extra + 1
            for size, stride, padding, dilation, kernel, extra in zip(
                self.input_size,
                self.stride,
                self.padding,
                self.dilation,
                self.kernel_size,
                self.output_padding,
                strict=True,
            )
        )
        return d, h, w

    @property
    def output_shape(self) -> tuple[int, ...]:
        return (self.batch, self.out_channels, *self.output_size)
