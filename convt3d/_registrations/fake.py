"""Fake kernels: shape, dtype, device and strides of each result, without data.

They serve FakeTensor (compile, export) and meta tensors. Sizes may be symbolic. The checks are those of
csrc/ops/checks.cpp that say whether the result exists; overflow of sizes is left to the real kernel, but for channels
that are known, which `convt3d.explain` plans for.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from convt3d._registrations.memory_format import result_memory_format
from convt3d._registrations.registry import register_fake
from convt3d._registrations.symbolic import holds

_check: Any = torch._check  # untyped in PyTorch

_DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
ACTIVATION = "5-D (N, C, D, H, W)"
_WEIGHT = "5-D (C_in, C_out/groups, kD, kH, kW)"
_SIZE_LIMIT = 2**31
_AXES = ("depth", "height", "width")


def text_of(values: Sequence[Any]) -> str:
    return f"({', '.join(str(value) for value in values)})"


class Checks:
    """Raises RuntimeError naming the operator, like the compiled checks."""

    def __init__(self, op: str) -> None:
        self.op = op

    def that(self, condition: Any, message: Callable[[], str]) -> None:
        _check(condition, lambda: f"{self.op}: {message()}")

    def tensor(self, name: str, tensor: Tensor, rank: int, shape: str) -> None:
        self.that(
            tensor.layout == torch.strided,
            lambda: f"{name} must be a dense (strided) tensor, got another layout (sparse or opaque)",
        )
        self.that(
            tensor.dim() == rank,
            lambda: f"{name} must be {shape}, got {tensor.dim()}-D of shape {text_of(tensor.shape)}",
        )

    def dtype(self, name: str, tensor: Tensor) -> None:
        self.that(
            tensor.dtype in _DTYPES,
            lambda: f"{name} must be of dtype float32, float64, float16 or bfloat16, got {dtype_name(tensor)}",
        )

    def mask(self, mask: Any) -> None:
        self.that(len(mask) == 3, lambda: f"output_mask must be 3 bools (input, weight, bias), got {len(mask)}")

    def same_kind(self, name: str, tensor: Tensor, first_name: str, first: Tensor) -> None:
        self.that(
            tensor.device == first.device,
            lambda: f"{name} must be on the device of {first_name}, {first.device}, got {tensor.device}",
        )
        self.that(
            tensor.dtype == first.dtype,
            lambda: f"{name} must have the dtype of {first_name}, {dtype_name(first)}, got {dtype_name(tensor)}",
        )

    def relu_output(self, relu_output: Tensor | None, grad_output: Tensor) -> None:
        if relu_output is None:
            return
        self.tensor("relu_output", relu_output, 5, ACTIVATION)
        self.same_kind("relu_output", relu_output, "grad_output", grad_output)
        for size, expected in zip(relu_output.shape, grad_output.shape, strict=True):
            self.that(
                size == expected,
                lambda: (
                    f"relu_output must have the shape of grad_output, {text_of(grad_output.shape)}, "
                    f"got {text_of(relu_output.shape)}"
                ),
            )

    def triple(self, name: str, values: Sequence[Any], minimum: int) -> tuple[Any, ...]:
        self.that(
            len(values) in (1, 3),
            lambda: f"{name} must be an int or 3 ints (depth, height, width), got {text_of(values)}",
        )
        valid = "non-negative" if minimum == 0 else "positive"
        for value in values:
            self.that(value >= minimum, lambda: f"{name} must be {valid}, got {text_of(values)}")
        return tuple(values) * 3 if len(values) == 1 else tuple(values)

    def spatial(self, name: str, tensor: Tensor) -> None:
        if holds(tensor.shape[0] == 0, when_unknown=False):
            return  # an empty batch has no voxel to be missing
        for size in tensor.shape[2:]:
            self.that(
                size >= 1,
                lambda: f"{name} must have a depth, height and width of at least 1, got shape {text_of(tensor.shape)}",
            )

    def below_limit(self, size: Any, message: Callable[[], str]) -> None:
        if isinstance(size, int):  # a symbolic one would be guarded on, and the real kernel checks it
            self.that(size < _SIZE_LIMIT, message)

    def channels(self, name: str, tensor: Tensor) -> None:
        self.below_limit(
            tensor.shape[1], lambda: f"{name} must have less than 2^31 channels, got shape {text_of(tensor.shape)}"
        )

    def weight(self, weight: Tensor, groups: Any) -> None:
        for size in weight.shape:
            self.that(
                size >= 1, lambda: f"weight must not be empty in any dimension, got shape {text_of(weight.shape)}"
            )
        self.that(
            weight.shape[0] % groups == 0,
            lambda: (
                f"weight must have a first dimension (C_in) divisible by groups = {groups}, "
                f"got shape {text_of(weight.shape)}"
            ),
        )
        for channels in (weight.shape[0], weight.shape[1] * groups):
            self.below_limit(
                channels,
                lambda: (
                    "weight must have less than 2^31 channels (C_in, and C_out/groups times groups), got shape "
                    f"{text_of(weight.shape)} with groups = {groups}"
                ),
            )

    def input(self, input: Tensor, weight: Tensor) -> None:
        self.that(
            input.shape[1] == weight.shape[0],
            lambda: (
                f"input must have C_in = {weight.shape[0]} channels (the first dimension of weight, of shape "
                f"{text_of(weight.shape)}), got shape {text_of(input.shape)}"
            ),
        )
        self.spatial("input", input)

    def of_output(
        self, grad_output: Tensor, input: Tensor, kernel_size: Sequence[Any], out_channels: Any, geometry: "_Geometry"
    ) -> None:
        expected = [input.shape[0], out_channels, *geometry.output_size(input.shape[2:], kernel_size)]
        for got, size in zip(grad_output.shape, expected, strict=True):
            self.that(
                got == size,
                lambda: (
                    f"grad_output must have the shape of the output, {text_of(expected)} for input of shape "
                    f"{text_of(input.shape)}, {geometry.describe(kernel_size)}, got {text_of(grad_output.shape)}"
                ),
            )


def dtype_name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


class _Geometry(NamedTuple):
    stride: tuple[Any, ...]
    padding: tuple[Any, ...]
    output_padding: tuple[Any, ...]
    groups: Any
    dilation: tuple[Any, ...]

    @classmethod
    def checked(
        cls, checks: Checks, stride: Any, padding: Any, output_padding: Any, groups: Any, dilation: Any
    ) -> "_Geometry":
        geometry = cls(
            checks.triple("stride", stride, 1),
            checks.triple("padding", padding, 0),
            checks.triple("output_padding", output_padding, 0),
            groups,
            checks.triple("dilation", dilation, 1),
        )
        checks.that(groups >= 1, lambda: f"groups must be positive, got {groups}")
        checks.below_limit(groups, lambda: f"groups must be less than 2^31, got {groups}")
        for extra, step, spread in zip(geometry.output_padding, geometry.stride, geometry.dilation, strict=True):
            checks.that(
                extra < max(step, spread),
                lambda: (
                    "output_padding must be smaller than stride or dilation in every dimension, got "
                    f"output_padding {text_of(geometry.output_padding)} with stride {text_of(geometry.stride)} "
                    f"and dilation {text_of(geometry.dilation)}"
                ),
            )
        return geometry

    def offset(self, kernel_size: Sequence[Any], axis: int) -> Any:
        """Output size less (input size - 1) * stride."""
        reach = self.dilation[axis] * (kernel_size[axis] - 1)
        return reach + 1 + self.output_padding[axis] - 2 * self.padding[axis]

    def output_size(self, input_size: Sequence[Any], kernel_size: Sequence[Any]) -> list[Any]:
        return [(input_size[axis] - 1) * self.stride[axis] + self.offset(kernel_size, axis) for axis in range(3)]

    def describe(self, kernel_size: Sequence[Any]) -> str:
        return (
            f"kernel size {text_of(kernel_size)}, stride {text_of(self.stride)}, padding {text_of(self.padding)}, "
            f"output_padding {text_of(self.output_padding)} and dilation {text_of(self.dilation)}"
        )


def _empty(shape: Sequence[Any], *operands: Tensor) -> Tensor:
    memory_format = result_memory_format(*operands)
    return torch.empty(shape, dtype=operands[0].dtype, device=operands[0].device, memory_format=memory_format)


_ONE, _ZERO = (1, 1, 1), (0, 0, 0)


def forward_kernel(name: str) -> Callable[..., Tensor]:
    checks = Checks(name)

    def fake(
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Any = _ONE,
        padding: Any = _ZERO,
        output_padding: Any = _ZERO,
        groups: Any = 1,
        dilation: Any = _ONE,
    ) -> Tensor:
        checks.tensor("input", input, 5, ACTIVATION)
        checks.tensor("weight", weight, 5, _WEIGHT)
        checks.dtype("input", input)
        checks.same_kind("weight", weight, "input", input)
        geometry = _Geometry.checked(checks, stride, padding, output_padding, groups, dilation)
        checks.weight(weight, groups)
        out_channels, kernel_size = weight.shape[1] * groups, weight.shape[2:]
        if bias is not None:
            checks.tensor("bias", bias, 1, "1-D (C_out)")
            checks.same_kind("bias", bias, "input", input)
            checks.that(
                bias.shape[0] == out_channels,
                lambda: f"bias must have C_out = {out_channels} elements, got shape {text_of(bias.shape)}",
            )
        checks.input(input, weight)
        output_size = geometry.output_size(input.shape[2:], kernel_size)
        for size in output_size:
            checks.that(
                size >= 1,
                lambda: (
                    f"the output size must be positive, got {text_of(output_size)} from input size "
                    f"{text_of(input.shape[2:])}, {geometry.describe(kernel_size)}"
                ),
            )
        return _empty([input.shape[0], out_channels, *output_size], input, weight)

    return fake


def _input_grad_kernel(
    grad_output: Tensor,
    weight: Tensor,
    relu_output: Tensor | None = None,
    stride: Any = _ONE,
    padding: Any = _ZERO,
    output_padding: Any = _ZERO,
    groups: Any = 1,
    dilation: Any = _ONE,
) -> Tensor:
    checks = Checks("conv_transpose3d_input_grad")
    checks.tensor("grad_output", grad_output, 5, ACTIVATION)
    checks.tensor("weight", weight, 5, _WEIGHT)
    checks.dtype("grad_output", grad_output)
    checks.same_kind("weight", weight, "grad_output", grad_output)
    checks.relu_output(relu_output, grad_output)
    geometry = _Geometry.checked(checks, stride, padding, output_padding, groups, dilation)
    checks.weight(weight, groups)
    in_channels, out_channels, kernel_size = weight.shape[0], weight.shape[1] * groups, weight.shape[2:]
    checks.that(
        grad_output.shape[1] == out_channels,
        lambda: (
            f"grad_output must have C_out = {out_channels} channels (the second dimension of weight, of shape "
            f"{text_of(weight.shape)}, times groups = {groups}), got shape {text_of(grad_output.shape)}"
        ),
    )
    checks.spatial("grad_output", grad_output)
    minimum = 0 if holds(grad_output.shape[0] == 0, when_unknown=False) else 1
    input_size = []
    for axis in range(3):
        steps = grad_output.shape[axis + 2] - geometry.offset(kernel_size, axis)
        size = steps // geometry.stride[axis] + 1

        def message(axis: int = axis) -> str:
            return (
                "grad_output must have the size of an output, (size-1)*stride - 2*padding + dilation*(kernel_size-1) + "
                f"output_padding + 1 for some input size >= {minimum}, got {_AXES[axis]} {grad_output.shape[axis + 2]} "
                f"with {geometry.describe(kernel_size)}"
            )

        checks.that(steps % geometry.stride[axis] == 0, message)
        checks.that(size >= minimum, message)
        input_size.append(size)
    return _empty([grad_output.shape[0], in_channels, *input_size], grad_output, weight)


def _weight_grad_kernel(
    grad_output: Tensor,
    input: Tensor,
    kernel_size: Any,
    relu_output: Tensor | None = None,
    stride: Any = _ONE,
    padding: Any = _ZERO,
    output_padding: Any = _ZERO,
    groups: Any = 1,
    dilation: Any = _ONE,
) -> Tensor:
    checks = Checks("conv_transpose3d_weight_grad")
    checks.tensor("grad_output", grad_output, 5, ACTIVATION)
    checks.tensor("input", input, 5, ACTIVATION)
    checks.dtype("grad_output", grad_output)
    checks.same_kind("input", input, "grad_output", grad_output)
    checks.relu_output(relu_output, grad_output)
    geometry = _Geometry.checked(checks, stride, padding, output_padding, groups, dilation)
    kernel_size = checks.triple("kernel_size", kernel_size, 1)
    in_channels, out_channels = input.shape[1], grad_output.shape[1]
    for name, tensor, label in (("input", input, "C_in"), ("grad_output", grad_output, "C_out")):
        channels = tensor.shape[1]

        def message(name: str = name, tensor: Tensor = tensor, label: str = label) -> str:
            return (
                f"{name} must have a positive number of channels ({label}) divisible by groups = {groups}, "
                f"got shape {text_of(tensor.shape)}"
            )

        checks.that(channels >= 1, message)
        checks.that(channels % groups == 0, message)
    checks.channels("input", input)
    checks.channels("grad_output", grad_output)
    checks.spatial("input", input)
    checks.spatial("grad_output", grad_output)
    checks.of_output(grad_output, input, kernel_size, out_channels, geometry)
    return _empty([in_channels, out_channels // groups, *kernel_size], grad_output, input)


def _bias_grad_kernel(grad_output: Tensor, relu_output: Tensor | None = None) -> Tensor:
    checks = Checks("conv_transpose3d_bias_grad")
    checks.tensor("grad_output", grad_output, 5, ACTIVATION)
    checks.dtype("grad_output", grad_output)
    checks.relu_output(relu_output, grad_output)
    checks.channels("grad_output", grad_output)
    checks.spatial("grad_output", grad_output)
    return grad_output.new_empty([grad_output.shape[1]])


def _backward_kernel(
    grad_output: Tensor,
    input: Tensor,
    weight: Tensor,
    relu_output: Tensor | None = None,
    stride: Any = _ONE,
    padding: Any = _ZERO,
    output_padding: Any = _ZERO,
    groups: Any = 1,
    dilation: Any = _ONE,
    output_mask: Sequence[bool] = (True, True, True),
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    checks = Checks("conv_transpose3d_backward")
    checks.tensor("grad_output", grad_output, 5, ACTIVATION)
    checks.tensor("input", input, 5, ACTIVATION)
    checks.tensor("weight", weight, 5, _WEIGHT)
    checks.dtype("grad_output", grad_output)
    checks.same_kind("input", input, "grad_output", grad_output)
    checks.same_kind("weight", weight, "grad_output", grad_output)
    checks.relu_output(relu_output, grad_output)
    geometry = _Geometry.checked(checks, stride, padding, output_padding, groups, dilation)
    checks.mask(output_mask)
    checks.weight(weight, groups)
    checks.input(input, weight)
    checks.spatial("grad_output", grad_output)
    out_channels = weight.shape[1] * groups
    checks.of_output(grad_output, input, weight.shape[2:], out_channels, geometry)
    operands = (grad_output, input, weight)
    return (
        _empty(input.shape, *operands) if output_mask[0] else None,
        _empty(weight.shape, *operands) if output_mask[1] else None,
        grad_output.new_empty([out_channels]) if output_mask[2] else None,
    )


def _register() -> None:
    kernels: dict[str, Callable[..., Any]] = {
        "conv_transpose3d": forward_kernel("conv_transpose3d"),
        "conv_transpose3d_relu": forward_kernel("conv_transpose3d_relu"),
        "conv_transpose3d_input_grad": _input_grad_kernel,
        "conv_transpose3d_weight_grad": _weight_grad_kernel,
        "conv_transpose3d_bias_grad": _bias_grad_kernel,
        "conv_transpose3d_backward": _backward_kernel,
    }
    for name, kernel in kernels.items():
        register_fake(name, kernel)


_register()
