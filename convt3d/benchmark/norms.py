"""A transposed convolution with ReLU and group norm behind it: convt3d's operator and its peers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch.nn.functional as F

import convt3d

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from convt3d._layer import Layer

    Chain = Callable[[Tensor, Tensor, Tensor | None, Tensor, Tensor], Tensor]
    """Of input, weight, bias, and the norm's weight and bias."""

_MOST_GROUPS = 8


def num_groups(layer: Layer) -> int:
    """Of the norm: 8, or as many of them as divide the channels."""
    return math.gcd(layer.out_channels, _MOST_GROUPS)


def convt3d_chain(layer: Layer) -> Chain:
    """convt3d's one operator."""

    def chain(x: Tensor, w: Tensor, b: Tensor | None, norm_weight: Tensor, norm_bias: Tensor) -> Tensor:
        return convt3d.conv_transpose3d_relu_group_norm(
            *(x, w, b, layer.stride, layer.padding, layer.output_padding, layer.groups, layer.dilation),
            num_groups=num_groups(layer),
            norm_weight=norm_weight,
            norm_bias=norm_bias,
        )

    return chain


def torch_chain(layer: Layer) -> Chain:
    """PyTorch's operators."""

    def chain(x: Tensor, w: Tensor, b: Tensor | None, norm_weight: Tensor, norm_bias: Tensor) -> Tensor:
        output = F.conv_transpose3d(
            x, w, b, layer.stride, layer.padding, layer.output_padding, layer.groups, layer.dilation
        )
        return F.group_norm(output.relu(), num_groups(layer), norm_weight, norm_bias)

    return chain


def mixed_chain(layer: Layer) -> Chain:
    """convt3d's convolution with its ReLU, then PyTorch's norm."""

    def chain(x: Tensor, w: Tensor, b: Tensor | None, norm_weight: Tensor, norm_bias: Tensor) -> Tensor:
        output = convt3d.conv_transpose3d_relu(
            x, w, b, layer.stride, layer.padding, layer.output_padding, layer.groups, layer.dilation
        )
        return F.group_norm(output, num_groups(layer), norm_weight, norm_bias)

    return chain
