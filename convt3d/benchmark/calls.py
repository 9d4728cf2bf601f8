"""What is measured: convt3d's operators and PyTorch's own, and the float64 reference that judges both."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

if TYPE_CHECKING:
    from convt3d._layer import Layer

Call = Callable[[], Tensor]

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
