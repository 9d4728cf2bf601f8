"""The peers of convt3d's operators in PyTorch, and what else of cuDNN Python reaches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from .calls import MEMORY_FORMATS, Call, Operands, aten_call, compile_once, norm_call
from .cudnn_frontend import fastest_plan_call
from .layers import LAYOUTS
from .norms import mixed_chain, torch_chain
from .passes import BACKWARD_PASSES, NORM_PASSES, TRAINING_PASSES

if TYPE_CHECKING:
    from convt3d._layer import Int3, Layer

Compiler = Callable[[Callable[[Tensor, Tensor | None], Tensor]], Callable[[Tensor, Tensor | None], Tensor]]


@dataclass(frozen=True)
class Peer:
    """Another way to the same result; ``prepare`` does what may be done once, ahead of the calls.

    ``slow``: a peer whose preparation takes seconds, by compilation or by a search of plans.
    """

    name: str
    layout: str
    prepare: Callable[[Operands], Call]
    slow: bool = False


def peers(layer: Layer, pass_: str) -> list[Peer]:
    """Every peer of a layer's pass that does all of it, each in its own layout."""

    def in_layouts(name: str, call: Callable[[Operands, str], Call], *, slow: bool = False) -> list[Peer]:
        def prepared(layout: str) -> Callable[[Operands], Call]:
            return lambda operands: call(operands, layout)

        return [Peer(f"{name}_{layout}", layout, prepared(layout), slow) for layout in LAYOUTS]

    if pass_ in NORM_PASSES:

        def chain(operands: Operands, _: str) -> Call:
            return norm_call(torch_chain(layer), pass_, operands)

        def compiled(operands: Operands, _: str) -> Call:
            return norm_call(torch_chain(layer), pass_, operands, compiled=True)

        def mixed(operands: Operands, _: str) -> Call:
            return norm_call(mixed_chain(layer), pass_, operands, compiled=True)

        return [
            *in_layouts("cudnn", chain),
            *in_layouts("compiled", compiled, slow=True),
            *in_layouts("convt3d_then_norm_compiled", mixed, slow=True),
        ]
    if pass_ in TRAINING_PASSES:
        return [
            *in_layouts("cudnn", lambda operands, _: aten_call(layer, "training_step", operands)),
            *in_layouts(
                "compiled", lambda operands, _: aten_call(layer, "training_step_compiled", operands), slow=True
            ),
        ]
    found = in_layouts("cudnn", lambda operands, _: aten_call(layer, pass_, operands))
    if pass_ in (*BACKWARD_PASSES, "backward_bias"):
        return found
    if pass_ == "forward" and conv3d_flipped_padding(layer) is not None:
        found += in_layouts("conv3d_flipped", lambda operands, _: conv3d_flipped_call(layer, operands))
    if pass_ == "backward_input":
        found += in_layouts("conv3d", lambda operands, _: conv3d_call(layer, operands))
    if is_matmul(layer):
        if pass_ == "forward":
            found.append(
                Peer(
                    "matmul_shuffle", "NCDHW", lambda operands: matmul_shuffle_call(layer, operands, compile_once), True
                )
            )
        else:
            call = matmul_input_grad_call if pass_ == "backward_input" else matmul_weight_grad_call
            found += in_layouts(
                "matmul_unshuffle", lambda operands, layout: call(layer, operands, layout, compile_once), slow=True
            )
    found += in_layouts("cudnn_frontend", lambda operands, _: fastest_plan_call(layer, pass_, operands), slow=True)
    return found


def conv3d_flipped_call(layer: Layer, operands: Operands) -> Call:
    """Stride 1: the forward pass as ``F.conv3d`` with weights flipped and transposed beforehand."""
    padding = conv3d_flipped_padding(layer)
    if padding is None:
        raise ValueError(f"layer {layer.name!r} is not a plain conv3d")
    groups, in_channels, out_channels = layer.groups, layer.in_channels, layer.out_channels
    grouped = operands.weight.reshape(groups, in_channels // groups, out_channels // groups, *layer.kernel_size)
    weight = grouped.transpose(1, 2).reshape(out_channels, in_channels // groups, *layer.kernel_size).flip(2, 3, 4)
    channels_last = operands.input.is_contiguous(memory_format=torch.channels_last_3d)
    weight = weight.contiguous(memory_format=MEMORY_FORMATS["NDHWC" if channels_last else "NCDHW"])
    return lambda: F.conv3d(operands.input, weight, operands.bias, 1, padding, layer.dilation, groups)


def conv3d_flipped_padding(layer: Layer) -> Int3 | None:
    """Padding of the equivalent ``F.conv3d``, or None where there is none without cropping or extra positions."""
    if layer.stride != (1, 1, 1) or any(layer.output_padding):
        return None
    depth, height, width = (layer.dilation[a] * (layer.kernel_size[a] - 1) - layer.padding[a] for a in range(3))
    return None if min(depth, height, width) < 0 else (depth, height, width)


def conv3d_call(layer: Layer, operands: Operands) -> Call:
    """The gradient of the input as what it is, a strided convolution of the output's gradient with the same weight."""
    gy, w = operands.grad_output, operands.weight
    depth, height, width = layer.input_size

    def conv3d() -> Tensor:
        result = F.conv3d(gy, w, None, layer.stride, layer.padding, layer.dilation, layer.groups)
        # An output padding of a stride and more leaves positions that no input has.
        return result if result.shape[2:] == layer.input_size else result[:, :, :depth, :height, :width]

    return conv3d


def is_matmul(layer: Layer) -> bool:
    """Kernel == stride with nothing else: each input position makes its own block of outputs."""
    return (
        layer.kernel_size == layer.stride
        and layer.groups == 1
        and not any(layer.padding)
        and not any(layer.output_padding)
        and layer.dilation == (1, 1, 1)
    )


def matmul_shuffle_call(layer: Layer, operands: Operands, compiler: Compiler) -> Call:
    """Kernel == stride: the forward pass as one matrix product and a compiled shuffle, which also adds the bias."""
    if not is_matmul(layer):
        raise ValueError(f"layer {layer.name!r} is not a matrix product")
    (kd, kh, kw), (d, h, w) = layer.kernel_size, layer.input_size
    batch, in_channels, out_channels = layer.batch, layer.in_channels, layer.out_channels

    def shuffle(product: Tensor, bias: Tensor | None) -> Tensor:
        blocks = product.view(batch, out_channels, kd, kh, kw, d, h, w).permute(0, 1, 5, 2, 6, 3, 7, 4)
        output = blocks.reshape(batch, out_channels, d * kd, h * kh, w * kw)
        return output if bias is None else output + bias.view(1, -1, 1, 1, 1)

    compiled = compiler(shuffle)
    matrix = operands.weight.reshape(in_channels, -1).t().contiguous().expand(batch, -1, -1)  # [N, C_out*taps, C_in]
    columns = operands.input.reshape(batch, in_channels, -1)  # [N, C_in, D*H*W]
    return lambda: compiled(torch.bmm(matrix, columns), operands.bias)


def matmul_input_grad_call(layer: Layer, operands: Operands, layout: str, compiler: Compiler) -> Call:
    """Kernel == stride: the gradient of the input as a compiled unshuffle and one matrix product."""
    w, gy = operands.weight, operands.grad_output
    unshuffle = _unshuffle(layer, layout, compiler)
    batch, in_channels = layer.batch, layer.in_channels
    if layout == "NCDHW":
        matrix = w.reshape(in_channels, -1).expand(batch, -1, -1)  # [N, C_in, C_out*taps]
        return lambda: torch.bmm(matrix, unshuffle(gy, None)).view(layer.input_shape)
    columns = w.permute(2, 3, 4, 1, 0).reshape(-1, in_channels)  # [taps*C_out, C_in]
    rows = (batch, *layer.input_size, in_channels)
    return lambda: torch.mm(unshuffle(gy, None), columns).view(rows).permute(0, 4, 1, 2, 3)


def matmul_weight_grad_call(layer: Layer, operands: Operands, layout: str, compiler: Compiler) -> Call:
    """Kernel == stride: the gradient of the weight as a compiled unshuffle and one matrix product.

    In NCDHW the product is one of each image, and these are added.
    """
    x, gy = operands.input, operands.grad_output
    unshuffle = _unshuffle(layer, layout, compiler)
    in_channels = layer.in_channels
    if layout == "NCDHW":
        images = x.reshape(layer.batch, in_channels, -1)  # [N, C_in, D*H*W]
        return lambda: torch.bmm(images, unshuffle(gy, None).transpose(1, 2)).sum(0).view(layer.weight_shape)
    columns = x.permute(0, 2, 3, 4, 1).reshape(-1, in_channels).t()  # [C_in, N*D*H*W]
    taps = (in_channels, *layer.kernel_size, layer.out_channels)
    return lambda: torch.mm(columns, unshuffle(gy, None)).view(taps).permute(0, 4, 1, 2, 3)


def _unshuffle(layer: Layer, layout: str, compiler: Compiler) -> Callable[[Tensor, Tensor | None], Tensor]:
    """The output's gradient by input positions, compiled.

    It becomes [N, C_out*taps, D*H*W] in NCDHW and [N*D*H*W, taps*C_out] in NDHWC.
    """
    if not is_matmul(layer):
        raise ValueError(f"layer {layer.name!r} is not a matrix product")
    (kd, kh, kw), (d, h, w) = layer.kernel_size, layer.input_size
    batch, out_channels, taps, positions = layer.batch, layer.out_channels, kd * kh * kw, d * h * w

    def of_channels_first(grad: Tensor, _: Tensor | None) -> Tensor:
        blocks = grad.view(batch, out_channels, d, kd, h, kh, w, kw).permute(0, 1, 3, 5, 7, 2, 4, 6)
        return blocks.reshape(batch, out_channels * taps, positions)

    def of_channels_last(grad: Tensor, _: Tensor | None) -> Tensor:
        blocks = grad.permute(0, 2, 3, 4, 1).view(batch, d, kd, h, kh, w, kw, out_channels)
        return blocks.permute(0, 1, 3, 5, 2, 4, 6, 7).reshape(batch * positions, taps * out_channels)

    return compiler(of_channels_first if layout == "NCDHW" else of_channels_last)
