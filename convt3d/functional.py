"""Functions of the package: `torch.nn.functional.conv_transpose3d` and the same with ReLU."""

import operator
from collections.abc import Sequence
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch.overrides import handle_torch_function, has_torch_function_variadic

from convt3d._errors import raise_if_out_of_memory
from convt3d._registrations import autocast
from convt3d._registrations.registry import ops

__all__ = ["conv_transpose3d", "conv_transpose3d_relu"]

Ints = int | Sequence[int]


_THREE = "an int or 3 ints (depth, height, width)"


def _integer(name: str, valid: str, value: Any) -> int:
    """`value` as an int: also NumPy's integers and tensors of one integer, but nothing that is not a whole number."""
    if isinstance(value, (int, torch.SymInt)) and not isinstance(value, bool):
        return value  # type: ignore[return-value]
    if type(value).__name__ != "bool":  # Python's, and NumPy's
        try:
            return operator.index(value)
        except TypeError:
            pass
    raise TypeError(f"{name} must be {valid}, got {value!r} of type {type(value).__name__}")


def _ints(name: str, value: Any) -> Sequence[int]:
    """`value` as the dispatcher takes it, which checks the elements of a sequence itself."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return value
    size = _integer(name, _THREE, value)
    return size, size, size


def _triple(name: str, value: Sequence[int]) -> tuple[int, int, int]:
    if len(value) not in (1, 3):
        raise TypeError(f"{name} must be {_THREE}, got {value!r}")
    first, *others = value
    return (first, *others) if others else (first, first, first)  # type: ignore[return-value]


def _raise_not_tensor(op: Any, arguments: dict[str, Any]) -> NoReturn:
    name = next(name for name, value in arguments.items() if not isinstance(value, Tensor))
    raise TypeError(f"{op.__name__}: {name} must be a Tensor, got {type(arguments[name]).__name__}")


def _output_padding_for(
    output_size: Sequence[int],
    input: Tensor,
    weight: Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> tuple[int, ...]:
    """The output_padding that gives `output_size`; the checks of torch.nn.ConvTranspose3d."""
    leading = input.dim() - 3
    wanted = tuple(output_size[leading:]) if len(output_size) == leading + 3 else tuple(output_size)
    if len(wanted) != 3:
        raise ValueError(
            f"output_size must have 3 or {leading + 3} elements for {input.dim()}-D input, got {len(output_size)}"
        )
    steps, pads, spreads = _triple("stride", stride), _triple("padding", padding), _triple("dilation", dilation)
    smallest = tuple(
        (size - 1) * step - 2 * pad + spread * (kernel - 1) + 1
        for size, step, pad, spread, kernel in zip(
            input.shape[leading:], steps, pads, spreads, weight.shape[2:], strict=True
        )
    )
    largest = tuple(size + step - 1 for size, step in zip(smallest, steps, strict=True))
    for size, low, high in zip(wanted, smallest, largest, strict=True):
        if size < low or size > high:
            raise ValueError(
                f"output_size must be between {smallest} and {largest} for input of size "
                f"{tuple(input.shape[leading:])}, got {wanted}"
            )
    return tuple(size - low for size, low in zip(wanted, smallest, strict=True))


def _call(
    function: Any,
    op: Any,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Ints,
    padding: Ints,
    output_padding: Ints,
    groups: int,
    dilation: Ints,
    output_size: Sequence[int] | None,
) -> Tensor:
    if has_torch_function_variadic(
        input, weight, bias
    ):  # a subclass, a mode or torch.fx wants to see the function itself
        overridden: Tensor = handle_torch_function(
            function,
            (input, weight, bias),
            input,
            weight,
            bias,
            stride=stride,
            padding=padding,
            output_padding=output_padding,
            groups=groups,
            dilation=dilation,
            output_size=output_size,
        )
        return overridden
    if not (isinstance(input, Tensor) and isinstance(weight, Tensor) and (bias is None or isinstance(bias, Tensor))):
        _raise_not_tensor(op, {"input": input, "weight": weight, "bias": bias})
    rank = input.dim()
    if rank != 5 and rank != 4:
        raise RuntimeError(
            f"{op.__name__}: input must be 5-D (N, C, D, H, W) or 4-D (C, D, H, W), "
            f"got {rank}-D of shape {tuple(input.shape)}"
        )
    if type(stride) is not tuple:
        stride = _ints("stride", stride)
    if type(padding) is not tuple:
        padding = _ints("padding", padding)
    given_output_padding = output_padding
    if type(output_padding) is not tuple:
        output_padding = _ints("output_padding", output_padding)
    if type(dilation) is not tuple:
        dilation = _ints("dilation", dilation)
    if type(groups) is not int:
        groups = _integer("groups", "an int", groups)
    if output_size is not None:
        if any(_triple("output_padding", output_padding)):
            raise ValueError(f"output_padding must be 0 where output_size is given, got {given_output_padding}")
        output_padding = _output_padding_for(output_size, input, weight, stride, padding, dilation)
    if rank == 4:
        input = input.unsqueeze(0)
    try:
        output = autocast.call(op, (input, weight, bias, stride, padding, output_padding, groups, dilation))
    except RuntimeError as error:
        raise_if_out_of_memory(error)
        # The dispatcher's error for an element of the wrong type is a RuntimeError.
        values = {"stride": stride, "padding": padding, "output_padding": output_padding, "dilation": dilation}
        for name, triple in values.items():
            for value in triple:
                _integer(name, _THREE, value)
        raise
    return output.squeeze(0) if rank == 4 else output


def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = 1,
    padding: Ints = 0,
    output_padding: Ints = 0,
    groups: int = 1,
    dilation: Ints = 1,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """3D transposed convolution; equivalent to `torch.nn.functional.conv_transpose3d`, argument for argument.

    Args:
        input: (N, C_in, D, H, W), or (C_in, D, H, W) without a batch; float32, float64, float16 or bfloat16; any
            strides.
        weight: (C_in, C_out/groups, kD, kH, kW), of the same dtype and device.
        bias: (C_out), or None.
        stride: voxels between the contributions of neighbouring inputs, at least 1.
        padding: voxels cut off on either side of the output, at least 0.
        output_padding: voxels added at the far side of the output, at least 0 and smaller than stride or dilation.
        groups: number of blocks that input and output channels are split into; must divide C_in.
        dilation: voxels between the elements of the kernel, at least 1.
        output_size: size (D', H', W') wanted, optionally with the dimensions before it, in place of `output_padding`.

    `stride`, `padding`, `output_padding` and `dilation` are one int, or three for (depth, height, width).

    Returns:
        (N, C_out, D', H', W') (without N for an unbatched input), where in each dimension
        `D' = (D - 1)*stride - 2*padding + dilation*(kD - 1) + output_padding + 1`; channels_last_3d where input or
        weight is, and the dtype is not float64.

    Raises:
        RuntimeError: an argument is invalid; the text names it, its value and what would be valid.
        ValueError: `output_size` is out of range, or given together with an `output_padding`.
        torch.OutOfMemoryError: the GPU's memory does not suffice.
    """
    return _call(
        conv_transpose3d,
        ops.conv_transpose3d,
        input,
        weight,
        bias,
        stride,
        padding,
        output_padding,
        groups,
        dilation,
        output_size,
    )


def conv_transpose3d_relu(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = 1,
    padding: Ints = 0,
    output_padding: Ints = 0,
    groups: int = 1,
    dilation: Ints = 1,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """`relu(conv_transpose3d(...))` in one kernel: bias and ReLU are applied before the result is rounded and stored.

    Arguments, result and errors are those of :func:`conv_transpose3d`.
    """
    return _call(
        conv_transpose3d_relu,
        ops.conv_transpose3d_relu,
        input,
        weight,
        bias,
        stride,
        padding,
        output_padding,
        groups,
        dilation,
        output_size,
    )
