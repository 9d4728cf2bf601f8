"""Functions of the package: `torch.nn.functional.conv_transpose3d`, and the same with ReLU and a group norm."""

from collections.abc import Sequence
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch.overrides import handle_torch_function, has_torch_function_variadic

from convt3d._arguments import THREE, Ints, integer, ints, output_padding_for, output_size_of, triple
from convt3d._errors import raise_if_out_of_memory
from convt3d._registrations import autocast, torch_internals
from convt3d._registrations.registry import ops

__all__ = [
    "conv_transpose3d",
    "conv_transpose3d_group_norm",
    "conv_transpose3d_relu",
    "conv_transpose3d_relu_group_norm",
]


def _raise_not_tensor(op: Any, arguments: dict[str, Any]) -> NoReturn:
    name = next(name for name, value in arguments.items() if not isinstance(value, Tensor))
    raise TypeError(f"{op.__name__}: {name} must be a Tensor, got {type(arguments[name]).__name__}")


def _check_several_values(size: tuple[int, ...], num_groups: int) -> None:
    """PyTorch's error of a norm of one element, of one image: its result is the bias, whatever the input is."""
    if size == (1, 1, 1):
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size {[1, num_groups, *size]}: there "
            f"must be more elements to normalise than num_groups, {num_groups}"
        )


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
    norm: dict[str, Any] | None = None,
) -> Tensor:
    """Calls `op`, with the arguments of a norm behind those of the convolution, in the operator's order."""
    relevant = (input, weight, bias) if norm is None else (input, weight, bias, norm["norm_weight"], norm["norm_bias"])
    if has_torch_function_variadic(*relevant):  # a subclass, a mode or torch.fx wants to see the function itself
        overridden: Tensor = handle_torch_function(
            function,
            relevant,
            input,
            weight,
            bias,
            stride=stride,
            padding=padding,
            output_padding=output_padding,
            groups=groups,
            dilation=dilation,
            output_size=output_size,
            **(norm or {}),
        )
        return overridden
    if not (isinstance(input, Tensor) and isinstance(weight, Tensor) and (bias is None or isinstance(bias, Tensor))):
        _raise_not_tensor(op, {"input": input, "weight": weight, "bias": bias})
    behind: tuple[Any, ...] = ()
    if norm is not None:
        given = {name: norm[name] for name in ("norm_weight", "norm_bias") if norm[name] is not None}
        if not all(isinstance(value, Tensor) for value in given.values()):
            _raise_not_tensor(op, given)
        behind = (integer("num_groups", "an int", norm["num_groups"]), *list(norm.values())[1:])
    rank = input.dim()
    if rank != 5 and rank != 4:
        raise RuntimeError(
            f"{op.__name__}: input must be 5-D (N, C, D, H, W) or 4-D (C, D, H, W), "
            f"got {rank}-D of shape {tuple(input.shape)}"
        )
    if type(stride) is not tuple:
        stride = ints("stride", stride)
    if type(padding) is not tuple:
        padding = ints("padding", padding)
    given_output_padding = output_padding
    if type(output_padding) is not tuple:
        output_padding = ints("output_padding", output_padding)
    if type(dilation) is not tuple:
        dilation = ints("dilation", dilation)
    if type(groups) is not int:
        groups = integer("groups", "an int", groups)
    if output_size is not None:
        if any(triple("output_padding", output_padding)):
            raise ValueError(f"output_padding must be 0 where output_size is given, got {given_output_padding}")
        output_padding = output_padding_for(output_size, input, weight, stride, padding, dilation)
    if rank == 4:
        input = input.unsqueeze(0)
    args = (input, weight, bias, stride, padding, output_padding, groups, dilation)
    if norm is not None and input.shape[0] == 1 and weight.dim() == 5 and weight.shape[1] * groups == behind[0]:
        _check_several_values(output_size_of(*args), behind[0])
    try:
        output = autocast.call(op, args) if norm is None else torch_internals.call(op, (*args, *behind))
    except RuntimeError as error:
        raise_if_out_of_memory(error)
        # The dispatcher's error for an element of the wrong type is a RuntimeError.
        values = {"stride": stride, "padding": padding, "output_padding": output_padding, "dilation": dilation}
        for name, three in values.items():
            for value in three:
                integer(name, THREE, value)
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


def conv_transpose3d_relu_group_norm(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = 1,
    padding: Ints = 0,
    output_padding: Ints = 0,
    groups: int = 1,
    dilation: Ints = 1,
    output_size: Sequence[int] | None = None,
    *,
    num_groups: int,
    norm_weight: Tensor | None = None,
    norm_bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """`F.group_norm(relu(conv_transpose3d(...)), num_groups, norm_weight, norm_bias, eps)` as one operator.

    Without gradients the norm overwrites the convolution's output, so that there is one tensor of that size. With them,
    what the backward keeps of that size is the norm's input alone.

    Args:
        input: this and all up to `output_size` as in :func:`conv_transpose3d`.
        weight: see input.
        bias: see input.
        stride: see input.
        padding: see input.
        output_padding: see input.
        groups: of the convolution; see input.
        dilation: see input.
        output_size: see input.
        num_groups: of the norm; must divide C_out. C_out makes it an instance norm.
        norm_weight: (C_out), or None; of input's dtype, or float32 beside 16 bits.
        norm_bias: (C_out), or None; of the dtype of `norm_weight`.
        eps: added to the variance, at least 0.

    Returns:
        (N, C_out, D', H', W'), in the layout of the convolution's result. The norm is that of
        :class:`torch.nn.GroupNorm`, `(x - mean) / sqrt(variance + eps) * norm_weight + norm_bias` with the mean and the
        biased variance of each image and norm group (Wu and He, Group Normalization, 2018). Under autocast it has the
        dtype that :func:`torch.nn.functional.group_norm` has there: float32 on CUDA, the convolution's on the CPU.

    Raises:
        RuntimeError: an argument is invalid; the text names it, its value and what would be valid.
        ValueError: `output_size` is out of range, or given together with an `output_padding`; or each norm group has a
            single element, of one image, as in PyTorch.
        torch.OutOfMemoryError: the GPU's memory does not suffice.
    """
    return _call(
        conv_transpose3d_relu_group_norm,
        ops.conv_transpose3d_relu_group_norm,
        input,
        weight,
        bias,
        stride,
        padding,
        output_padding,
        groups,
        dilation,
        output_size,
        {"num_groups": num_groups, "norm_weight": norm_weight, "norm_bias": norm_bias, "eps": eps},
    )


def conv_transpose3d_group_norm(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = 1,
    padding: Ints = 0,
    output_padding: Ints = 0,
    groups: int = 1,
    dilation: Ints = 1,
    output_size: Sequence[int] | None = None,
    *,
    num_groups: int,
    norm_weight: Tensor | None = None,
    norm_bias: Tensor | None = None,
    eps: float = 1e-5,
    relu: bool = False,
    negative_slope: float = 1.0,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """:func:`conv_transpose3d_relu_group_norm` with the activation where it is wanted.

    Args:
        input: this and all up to `eps` as in :func:`conv_transpose3d_relu_group_norm`.
        weight: see input.
        bias: see input.
        stride: see input.
        padding: see input.
        output_padding: see input.
        groups: see input.
        dilation: see input.
        output_size: see input.
        num_groups: see input.
        norm_weight: see input.
        norm_bias: see input.
        eps: see input.
        relu: whether there is a ReLU between convolution and norm.
        negative_slope: of a LeakyReLU behind the norm: it multiplies what is negative. 0 makes it a ReLU, 1 leaves the
            norm alone.
        dtype: of the result: None for that of the input (under autocast see :func:`conv_transpose3d_relu_group_norm`),
            or float32 of a convolution in 16 bits.

    Returns:
        (N, C_out, D', H', W'), as :func:`conv_transpose3d_relu_group_norm`.

    Raises:
        RuntimeError: an argument is invalid; the text names it, its value and what would be valid.
        ValueError: `output_size` is out of range, or given together with an `output_padding`; or each norm group has a
            single element, of one image, as in PyTorch.
        torch.OutOfMemoryError: the GPU's memory does not suffice.
    """
    return _call(
        conv_transpose3d_group_norm,
        ops.conv_transpose3d_group_norm,
        input,
        weight,
        bias,
        stride,
        padding,
        output_padding,
        groups,
        dilation,
        output_size,
        {
            "num_groups": num_groups,
            "norm_weight": norm_weight,
            "norm_bias": norm_bias,
            "eps": eps,
            "relu": relu,
            "negative_slope": negative_slope,
            "dtype": dtype,
        },
    )
