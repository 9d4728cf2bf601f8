"""The operators themselves, `torch.ops.convt3d.*`, with their types.

Each name here is the operator of the same name in `torch.ops.convt3d`, which exists as soon as `convt3d` has been
imported. :func:`convt3d.conv_transpose3d` and :func:`convt3d.conv_transpose3d_relu` are what most code should call:
they add the unbatched input and `output_size`. The operators take and return tensors with five dimensions, are
differentiable any number of times, and check their arguments: RuntimeError names the argument, its value and what would
be valid.

`stride`, `padding`, `output_padding`, `dilation` and `kernel_size` are three ints for (depth, height, width), or one.
"""

from collections.abc import Sequence

from torch import Tensor
from torch import dtype as _dtype

__all__ = [
    "conv_transpose3d",
    "conv_transpose3d_backward",
    "conv_transpose3d_bias_grad",
    "conv_transpose3d_group_norm",
    "conv_transpose3d_group_norm_forward",
    "conv_transpose3d_input_grad",
    "conv_transpose3d_relu",
    "conv_transpose3d_relu_group_norm",
    "conv_transpose3d_weight_grad",
    "group_norm_backward",
]

def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
) -> Tensor:
    """The transposed convolution.

    Args:
        input: (N, C_in, D, H, W).
        weight: (C_in, C_out/groups, kD, kH, kW).
        bias: (C_out), or None.
        stride: steps of the output for one of the input.
        padding: voxels cut off on either side of the output.
        output_padding: voxels added at its far side.
        groups: number of blocks that the channels are split into.
        dilation: voxels between the elements of the kernel.

    Returns:
        (N, C_out, D', H', W').
    """

def conv_transpose3d_relu(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
) -> Tensor:
    """The transposed convolution followed by a ReLU, in one kernel; arguments as of `conv_transpose3d`."""

def conv_transpose3d_input_grad(
    grad_output: Tensor,
    weight: Tensor,
    relu_output: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
) -> Tensor:
    """The gradient of the input, from that of the output.

    Args:
        grad_output: (N, C_out, D', H', W').
        weight: of the forward.
        relu_output: the output of `conv_transpose3d_relu`: `grad_output` counts only where it is not <= 0. None for
            `conv_transpose3d`.
        stride: as in the forward, as all that follow.
        padding: see stride.
        output_padding: see stride.
        groups: see stride.
        dilation: see stride.

    Returns:
        (N, C_in, D, H, W); the sizes follow exactly from those of `grad_output`.
    """

def conv_transpose3d_weight_grad(
    grad_output: Tensor,
    input: Tensor,
    kernel_size: int | Sequence[int],
    relu_output: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
) -> Tensor:
    """The gradient of the weight, from that of the output.

    Args:
        grad_output: (N, C_out, D', H', W').
        input: of the forward.
        kernel_size: (kD, kH, kW).
        relu_output: as in `conv_transpose3d_input_grad`.
        stride: as in the forward, as all that follow.
        padding: see stride.
        output_padding: see stride.
        groups: see stride.
        dilation: see stride.

    Returns:
        (C_in, C_out/groups, kD, kH, kW).
    """

def conv_transpose3d_bias_grad(grad_output: Tensor, relu_output: Tensor | None = None) -> Tensor:
    """The gradient of the bias, from that of the output.

    Args:
        grad_output: (N, C_out, D', H', W').
        relu_output: as in `conv_transpose3d_input_grad`.

    Returns:
        (C_out).
    """

def conv_transpose3d_backward(
    grad_output: Tensor,
    input: Tensor,
    weight: Tensor,
    relu_output: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
    output_mask: Sequence[bool] = (True, True, True),
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """The gradients of input, weight and bias in one call, those that are asked for.

    Args:
        grad_output: (N, C_out, D', H', W'), with any strides: a slice of a larger tensor is read where it is.
        input: of the forward.
        weight: of the forward.
        relu_output: as in `conv_transpose3d_input_grad`.
        stride: as in the forward, as all that follow up to dilation.
        padding: see stride.
        output_padding: see stride.
        groups: see stride.
        dilation: see stride.
        output_mask: which of the three gradients to compute.

    Returns:
        (N, C_in, D, H, W), (C_in, C_out/groups, kD, kH, kW) and (C_out), with None in the place of what is not asked
        for.
    """

def conv_transpose3d_relu_group_norm(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: int | Sequence[int],
    padding: int | Sequence[int],
    output_padding: int | Sequence[int],
    groups: int,
    dilation: int | Sequence[int],
    num_groups: int,
    norm_weight: Tensor | None = None,
    norm_bias: Tensor | None = None,
    eps: float = 1e-05,
) -> Tensor:
    """The transposed convolution, a ReLU and a group norm; see :func:`convt3d.conv_transpose3d_relu_group_norm`.

    Args:
        input: this and all up to `dilation` as of `conv_transpose3d`.
        weight: see input.
        bias: see input.
        stride: see input.
        padding: see input.
        output_padding: see input.
        groups: of the convolution.
        dilation: see input.
        num_groups: of the norm; must divide C_out.
        norm_weight: (C_out), or None.
        norm_bias: (C_out), or None.
        eps: added to the variance.

    Returns:
        (N, C_out, D', H', W').
    """

def conv_transpose3d_group_norm(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: int | Sequence[int],
    padding: int | Sequence[int],
    output_padding: int | Sequence[int],
    groups: int,
    dilation: int | Sequence[int],
    num_groups: int,
    norm_weight: Tensor | None = None,
    norm_bias: Tensor | None = None,
    eps: float = 1e-05,
    relu: bool = False,
    negative_slope: float = 1.0,
    dtype: _dtype | None = None,
) -> Tensor:
    """The transposed convolution and a group norm, with activations; see :func:`convt3d.conv_transpose3d_group_norm`.

    Args:
        input: this and all up to `eps` as of `conv_transpose3d_relu_group_norm`.
        weight: see input.
        bias: see input.
        stride: see input.
        padding: see input.
        output_padding: see input.
        groups: see input.
        dilation: see input.
        num_groups: see input.
        norm_weight: see input.
        norm_bias: see input.
        eps: see input.
        relu: whether there is a ReLU between convolution and norm.
        negative_slope: of the LeakyReLU behind the norm: 0 is a ReLU, 1 none.
        dtype: of the result: that of the input (None), or float32 beside 16 bits.

    Returns:
        (N, C_out, D', H', W').
    """

def conv_transpose3d_group_norm_forward(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: int | Sequence[int],
    padding: int | Sequence[int],
    output_padding: int | Sequence[int],
    groups: int,
    dilation: int | Sequence[int],
    num_groups: int,
    norm_weight: Tensor | None = None,
    norm_bias: Tensor | None = None,
    eps: float = 1e-05,
    relu: bool = False,
    negative_slope: float = 1.0,
    dtype: _dtype | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """`conv_transpose3d_group_norm`, and what its derivatives need. Arguments as there.

    Returns:
        the result, the norm's input (the convolution's output, after its ReLU if there is one), and the mean and the
        inverse standard deviation (N, num_groups) in float64, which are not differentiable.
    """

def group_norm_backward(
    grad_output: Tensor,
    input: Tensor,
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    num_groups: int,
    relu: bool = False,
    negative_slope: float = 1.0,
    output_mask: Sequence[bool] = (True, True, True),
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """The gradients of a group norm with an activation behind it.

    Args:
        grad_output: (N, C, D, H, W), of any strides.
        input: of the norm.
        mean: (N, num_groups), in float64.
        rstd: the inverse standard deviation, in float64.
        weight: (C), or None.
        bias: (C), or None; it decides where the activation's argument is negative.
        num_groups: of the norm.
        relu: whether the input is a ReLU's output, whose argument's gradient is wanted in place of the input's.
        negative_slope: of the activation behind the norm.
        output_mask: which of the gradients of input, weight and bias are computed.

    Returns:
        the gradients of input, weight and bias, None for those that are not asked for; the last two also where there is
        no weight or bias.
    """
