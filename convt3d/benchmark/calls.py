"""What is measured: convt3d's operators and PyTorch's own, and the float64 reference that judges both."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

import convt3d

from .norms import convt3d_chain, torch_chain
from .passes import NORM_PASSES, NORM_TRAINING_STEP, OF_ALL_IMAGES, OF_SLICE, PARTS, TRAINING_PASSES, output_mask, parts

if TYPE_CHECKING:
    from convt3d._layer import Layer

    from .norms import Chain

Result = Tensor | tuple[Tensor, ...]
"""Of a pass: one tensor, or those of a joint pass in the order of its parts."""
Call = Callable[[], Result]

P = ParamSpec("P")
T = TypeVar("T")

_CORNER = 0.05  # of a ReLU, in deviations: no precision rounds this far

DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
MEMORY_FORMATS = {"NCDHW": torch.contiguous_format, "NDHWC": torch.channels_last_3d}


@dataclass(frozen=True)
class Operands:
    """Tensors of one layer: input, weight, bias or None, the gradient of the output, and a norm's weight and bias."""

    input: Tensor  # [N, C_in, D, H, W]
    weight: Tensor  # [C_in, C_out/groups, kD, kH, kW]
    bias: Tensor | None  # [C_out]
    grad_output: Tensor  # [N, C_out, D', H', W']
    norm_weight: Tensor | None = None  # [C_out], of the passes with a norm
    norm_bias: Tensor | None = None
    of_slice: bool = False  # in_layout makes grad_output the first half of a concatenation's gradient, by channels

    @property
    def of_norm(self) -> tuple[Tensor | None, ...]:
        """The arguments of a convolution with a norm behind it."""
        return self.input, self.weight, self.bias, self.norm_weight, self.norm_bias

    def in_layout(self, layout: str) -> Operands:
        """The same values with every 5-D tensor in the memory format of ``layout``."""
        memory_format = MEMORY_FORMATS[layout]
        return replace(
            self,
            input=self.input.contiguous(memory_format=memory_format),
            weight=self.weight.contiguous(memory_format=memory_format),
            grad_output=self._grad_output(memory_format),
        )

    def _grad_output(self, memory_format: torch.memory_format) -> Tensor:
        if not self.of_slice:
            return self.grad_output.contiguous(memory_format=memory_format)
        # NaN where nothing may read.
        whole = torch.cat((self.grad_output, torch.full_like(self.grad_output, math.nan)), 1)
        return whole.contiguous(memory_format=memory_format).narrow(1, 0, self.grad_output.shape[1])


def tensors_of(result: Result) -> tuple[Tensor, ...]:
    """A pass's results, one or several."""
    return (result,) if isinstance(result, Tensor) else result


def random_operands(layer: Layer, precision: str, device: torch.device, pass_: str = "forward") -> Operands:
    """Normally distributed operands, the same in every run and for every pass."""
    generator = torch.Generator(device).manual_seed(1)

    def random(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, device=device).to(DTYPES[precision])

    operands = Operands(
        input=random(*layer.input_shape),
        weight=random(*layer.weight_shape),
        bias=random(layer.out_channels) if layer.bias else None,
        grad_output=random(*layer.output_shape),
        of_slice=pass_ == OF_SLICE,
    )
    if pass_ not in NORM_PASSES:
        return operands
    norm_weight, norm_bias = 1 + 0.2 * random(layer.out_channels), random(layer.out_channels)
    # Near the ReLU's corner a rounding decides whether a gradient passes, and either is right.
    convolved = aten_call(layer, "forward", operands)()
    assert isinstance(convolved, Tensor)
    counts = convolved.abs() > _CORNER * convolved.float().std()
    return replace(operands, grad_output=operands.grad_output * counts, norm_weight=norm_weight, norm_bias=norm_bias)


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
    """convt3d's operator of a pass on the given operands; a training step is of its public function."""
    if pass_ in NORM_PASSES:
        return norm_call(convt3d_chain(layer), pass_, operands)
    if pass_ in TRAINING_PASSES:
        return _training_step(convt3d.conv_transpose3d, layer, pass_, operands)
    ops, parameters = (
        torch.ops.convt3d,
        (layer.stride, layer.padding, layer.output_padding, layer.groups, layer.dilation),
    )
    x, w, b, gy = operands.input, operands.weight, operands.bias, operands.grad_output

    def backward() -> tuple[Tensor, ...]:
        mask = output_mask(layer, pass_)
        return _wanted(mask, ops.conv_transpose3d_backward(gy, x, w, None, *parameters, mask))

    calls: dict[str, Call] = {
        "forward": lambda: ops.conv_transpose3d(x, w, b, *parameters),
        "backward_input": lambda: ops.conv_transpose3d_input_grad(gy, w, None, *parameters),
        "backward_weight": lambda: ops.conv_transpose3d_weight_grad(gy, x, layer.kernel_size, None, *parameters),
    }
    return calls.get(pass_, backward)


def aten_call(layer: Layer, pass_: str, operands: Operands) -> Call:
    """PyTorch's own operator of a pass: cuDNN on CUDA (where enabled); a training step is of its public function."""
    if pass_ in TRAINING_PASSES:
        return _training_step(F.conv_transpose3d, layer, pass_, operands)
    x, w, b, gy = operands.input, operands.weight, operands.bias, operands.grad_output
    if pass_ == "forward":
        return lambda: F.conv_transpose3d(
            x, w, b, layer.stride, layer.padding, layer.output_padding, layer.groups, layer.dilation
        )
    mask = output_mask(layer, pass_)
    bias_sizes = [layer.out_channels] if mask[2] else None

    def backward() -> Result:
        sizes = (layer.stride, layer.padding, layer.dilation, True, layer.output_padding, layer.groups)
        gradients = _wanted(mask, torch.ops.aten.convolution_backward(gy, x, w, bias_sizes, *sizes, mask))
        return gradients[0] if len(gradients) == 1 else gradients

    return backward


def norm_call(chain: Chain, pass_: str, operands: Operands, *, compiled: bool = False) -> Call:
    """A pass of a convolution with a norm behind it."""
    called = compile_once(chain) if compiled else chain
    if pass_ == NORM_TRAINING_STEP:
        return training_step(called, operands.of_norm, operands.grad_output)
    return lambda: called(*operands.of_norm)  # type: ignore[arg-type]


def compile_once(function: Callable[P, T]) -> Callable[P, T]:
    """``torch.compile`` for one shape, with no earlier compilation counting against its limit.

    Inductor's own cache on disk makes the second compilation of a shape, of fp32 and tf32 say, a matter of moments.
    """
    torch.compiler.reset()
    return torch.compile(function, fullgraph=True, dynamic=False)


def _training_step(function: Callable[..., Tensor], layer: Layer, pass_: str, operands: Operands) -> Call:
    """Of the convolution alone."""

    def forward(x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
        return function(x, w, b, layer.stride, layer.padding, layer.output_padding, layer.groups, layer.dilation)

    called = compile_once(forward) if pass_ == "training_step_compiled" else forward
    return training_step(called, (operands.input, operands.weight, operands.bias), operands.grad_output)


def training_step(forward: Callable[..., Tensor], tensors: Sequence[Tensor | None], grad_output: Tensor) -> Call:
    """The output, and the gradients of what a layer learns and of its input, through autograd."""
    leaves = [None if tensor is None else tensor.detach().requires_grad_() for tensor in tensors]
    wanted = [leaf for leaf in leaves if leaf is not None]

    def step() -> tuple[Tensor, ...]:
        with torch.enable_grad():
            output = forward(*leaves)
            return (output.detach(), *torch.autograd.grad(output, wanted, grad_output))

    return step


def _wanted(mask: Sequence[bool], gradients: Sequence[Tensor]) -> tuple[Tensor, ...]:
    return tuple(gradient for asked, gradient in zip(mask, gradients, strict=True) if asked)


class Reference:
    """The results of a pass in float64, sample by sample, by ATen's own kernels (cuDNN switched off)."""

    def __init__(self, layer: Layer, pass_: str, operands: Operands, known: dict[str, Exact] | None = None) -> None:
        """``known``: of the same layer and operands, by part; what is missing is added."""
        known = {} if known is None else known
        for part in parts(layer, pass_):
            if part not in known:
                known[part] = Exact(layer, part, operands)
        self.of = {part: known[part] for part in parts(layer, pass_)}

    def errors(self, result: Result) -> list[float]:
        """Relative norm error of each result."""
        return [exact.error(part) for exact, part in zip(self.of.values(), tensors_of(result), strict=True)]

    def error(self, result: Result) -> float:
        """The greatest of the results' errors; NaN where one is not finite."""
        return greatest(self.errors(result))


class Exact:
    """One result in float64."""

    def __init__(self, layer: Layer, part: str, operands: Operands) -> None:
        single, samples = replace(layer, batch=1), range(layer.batch)
        if part in OF_ALL_IMAGES:
            self._parts = [_sample_result(single, part, operands, 0)]
            for n in samples[1:]:
                self._parts[0] += _sample_result(single, part, operands, n)
        else:
            self._parts = [_sample_result(single, part, operands, n) for n in samples]
        self._norm_squared = sum(float(part.square().sum()) for part in self._parts)

    def error(self, result: Result) -> float:
        """Relative norm error |result - reference| / |reference| of the whole tensor; NaN where it is not finite."""
        (tensor,) = tensors_of(result)
        parts = tensor.split(self._parts[0].shape[0])
        squared = (float((part - exact).square().sum()) for part, exact in zip(parts, self._parts, strict=True))
        return math.sqrt(sum(squared) / self._norm_squared)


def greatest(errors: Sequence[float]) -> float:
    """Of errors; NaN where one is."""
    return math.nan if any(map(math.isnan, errors)) else max(errors)


def _sample_result(layer: Layer, pass_: str, operands: Operands, n: int) -> Tensor:
    bias, enabled = operands.bias, torch.backends.cudnn.enabled
    norm = [None if vector is None else vector.double() for vector in (operands.norm_weight, operands.norm_bias)]
    sample = Operands(
        input=operands.input[n : n + 1].double(),
        weight=operands.weight.double(),
        bias=None if bias is None else bias.double(),
        grad_output=operands.grad_output[n : n + 1].double(),
        norm_weight=norm[0],
        norm_bias=norm[1],
    )
    torch.backends.cudnn.enabled = False
    try:
        if pass_ in PARTS[NORM_TRAINING_STEP]:
            results = tensors_of(norm_call(torch_chain(layer), NORM_TRAINING_STEP, sample)())
            return results[parts(layer, NORM_TRAINING_STEP).index(pass_)]
        (result,) = tensors_of(aten_call(layer, pass_, sample)())
        return result
    finally:
        torch.backends.cudnn.enabled = enabled
