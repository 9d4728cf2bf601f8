"""What is measured: convt3d's operators, their peers in PyTorch, and the float64 reference that judges both."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from .layers import LAYOUTS

if TYPE_CHECKING:
    from convt3d._layer import Int3, Layer

Call = Callable[[], Tensor]
Compiler = Callable[[Callable[[Tensor, Tensor | None], Tensor]], Callable[[Tensor, Tensor | None], Tensor]]

DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
MEMORY_FORMATS = {"NCDHW": torch.contiguous_format, "NDHWC": torch.channels_last_3d}


@dataclass(frozen=True)
class Operands:
    """Tensors of one layer: input, weight, bias or None, and the gradient of the output."""

    input: Tensor  # [N, C_in, D, H, W]
    weight: Tensor  # [C_in, C_out/groups, kD, kH, kW]
    bias: Tensor | None  # [C_out]
    grad_output: Tensor  # [N, C_out, D', H', W']

    def in_layout(self, layout: str) -> Operands:
        """The same values with every 5-D tensor in the memory format of ``layout``."""
        memory_format = MEMORY_FORMATS[layout]
        return replace(
            self,
            input=self.input.contiguous(memory_format=memory_format),
            weight=self.weight.contiguous(memory_format=memory_format),
            grad_output=self.grad_output.contiguous(memory_format=memory_format),
        )


def random_operands(layer: Layer, precision: str, device: torch.device) -> Operands:
    """Normally distributed operands, the same in every run."""
    generator = torch.Generator(device).manual_seed(1)

    def random(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, device=device).to(DTYPES[precision])

    return Operands(
        input=random(*layer.input_shape),
        weight=random(*layer.weight_shape),
        bias=random(layer.out_channels) if layer.bias else None,
        grad_output=random(*layer.output_shape),
    )


@contextlib.contextmanager
def precision_switches(precision: str) -> Iterator[None]:
    """PyTorch's own TF32 switches as ``precision`` asks, for convolutions and for the matmul peer."""
    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    before = cudnn.allow_tf32, matmul.allow_tf32
    cudnn.allow_tf32 = matmul.allow_tf32 = precision == "tf32"
    try:
        yield
    finally:
        cudnn.allow_tf32, matmul.allow_tf32 = before


@contextlib.contextmanager
def exhaustive_cudnn() -> Iterator[None]:
    """Let cuDNN try every algorithm (``benchmark=True``, ``benchmark_limit=0``)."""
    cudnn = torch.backends.cudnn
    before = cudnn.benchmark, cudnn.benchmark_limit
    cudnn.benchmark, cudnn.benchmark_limit = True, 0
    try:
        yield
    finally:
        cudnn.benchmark, cudnn.benchmark_limit = before


def convt3d_call(layer: Layer, pass_: str, operands: Operands) -> Call:
    """convt3d's operator of a pass on the given operands."""
    ops, parameters = (
        torch.ops.convt3d,
        (layer.stride, layer.padding, layer.output_padding, layer.groups, layer.dilation),
    )
    x, w, b, gy = operands.input, operands.weight, operands.bias, operands.grad_output
    calls: dict[str, Call] = {
        "forward": lambda: ops.conv_transpose3d(x, w, b, *parameters),
        "backward_input": lambda: ops.conv_transpose3d_input_grad(gy, w, None, *parameters),
        "backward_weight": lambda: ops.conv_transpose3d_weight_grad(gy, x, layer.kernel_size, None, *parameters),
    }
    return calls[pass_]


def aten_call(layer: Layer, pass_: str, operands: Operands) -> Call:
    """PyTorch's own operator of a pass: cuDNN on CUDA (where enabled)."""
    x, w, b, gy = operands.input, operands.weight, operands.bias, operands.grad_output
    if pass_ == "forward":
        return lambda: F.conv_transpose3d(
            x, w, b, layer.stride, layer.padding, layer.output_padding, layer.groups, layer.dilation
        )
    index = 0 if pass_ == "backward_input" else 1
    mask = [index == 0, index == 1, False]

    def backward() -> Tensor:
        gradients: tuple[Tensor, ...] = torch.ops.aten.convolution_backward(
            gy, x, w, None, layer.stride, layer.padding, layer.dilation, True, layer.output_padding, layer.groups, mask
        )
        return gradients[index]

    return backward


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


def compile_once(function: Callable[[Tensor, Tensor | None], Tensor]) -> Callable[[Tensor, Tensor | None], Tensor]:
    """``torch.compile`` for one shape, with no earlier compilation counting against its limit."""
    torch.compiler.reset()
    return torch.compile(function, fullgraph=True, dynamic=False)


@dataclass(frozen=True)
class Peer:
    """Another way to the same result; ``prepare`` does what may be done once, ahead of the calls."""

    name: str
    layout: str
    prepare: Callable[[Operands], Call]


def peers(layer: Layer, pass_: str) -> list[Peer]:
    """Every peer of a layer's pass, each in its own layout."""
    found = [Peer(f"cudnn_{layout}", layout, lambda operands: aten_call(layer, pass_, operands)) for layout in LAYOUTS]
    if pass_ != "forward":
        return found
    if conv3d_flipped_padding(layer) is not None:
        found += [
            Peer(f"conv3d_flipped_{layout}", layout, lambda operands: conv3d_flipped_call(layer, operands))
            for layout in LAYOUTS
        ]
    if is_matmul(layer):
        found.append(
            Peer("matmul_shuffle", "NCDHW", lambda operands: matmul_shuffle_call(layer, operands, compile_once))
        )
    return found


class Reference:
    """The result of one pass in float64, sample by sample, by ATen's own kernels (cuDNN switched off)."""

    def __init__(self, layer: Layer, pass_: str, operands: Operands) -> None:
        single, samples = replace(layer, batch=1), range(layer.batch)
        if pass_ == "backward_weight":
            self._parts = [_sample_result(single, pass_, operands, 0)]
            for n in samples[1:]:
                self._parts[0] += _sample_result(single, pass_, operands, n)
        else:
            self._parts = [_sample_result(single, pass_, operands, n) for n in samples]
        self._norm_squared = sum(float(part.square().sum()) for part in self._parts)

    def error(self, result: Tensor) -> float:
        """Relative norm error |result - reference| / |reference| of the whole tensor; NaN where it is not finite."""
        parts = result.split(self._parts[0].shape[0])
        squared = (float((part - exact).square().sum()) for part, exact in zip(parts, self._parts, strict=True))
        return math.sqrt(sum(squared) / self._norm_squared)


def _sample_result(layer: Layer, pass_: str, operands: Operands, n: int) -> Tensor:
    bias, enabled = operands.bias, torch.backends.cudnn.enabled
    sample = Operands(
        input=operands.input[n : n + 1].double(),
        weight=operands.weight.double(),
        bias=None if bias is None else bias.double(),
        grad_output=operands.grad_output[n : n + 1].double(),
    )
    torch.backends.cudnn.enabled = False
    try:
        return aten_call(layer, pass_, sample)()
    finally:
        torch.backends.cudnn.enabled = enabled
