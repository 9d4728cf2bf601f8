"""Derivatives of the operators with a group norm behind the convolution; see `derivatives`.

The operators that return the result alone become `conv_transpose3d_group_norm_forward`, which also returns what
derivatives need: x, the norm's input, and its statistics. Its backward is `group_norm_backward`, then the gradients of
the convolution. As x is an output with a gradient of its own, and `group_norm_backward` is differentiated through the
composite formula `norm_gradients`, which takes the statistics for functions of x, any order of differentiation is
right.
"""

from typing import Any

import torch
from torch import Tensor

from convt3d._registrations import torch_internals
from convt3d._registrations.derivatives import (
    Composite,
    Derivatives,
    Gradients,
    Saved,
    added,
    convolution_gradients,
    convolution_tangent,
    masked,
)
from convt3d._registrations.registry import ops

_forward = ops.conv_transpose3d_group_norm_forward.default
_norm_backward = ops.group_norm_backward.default

CONVOLUTION_ARGUMENTS = 8  # of the forwards, before those of the norm
_DEFAULTS = (None, None, 1e-5, False, 1.0, None)  # norm_weight, norm_bias, eps, relu, negative_slope, dtype


# ---- the norm as PyTorch's operations ----


class _Norm:
    """What the formulas share: x as [N, groups, channels of a group, positions], normalised."""

    def __init__(
        self,
        x: Tensor,
        rstd: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        num_groups: Any,
    ) -> None:
        self.shape = x.shape
        batch, channels = x.shape[:2]
        self.dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
        depth, height, width = x.shape[2:]
        self.split = (batch, num_groups, channels // num_groups, depth * height * width)
        values = self.grouped(x)
        # The statistics as functions of x.
        deviations = values - values.mean((2, 3), keepdim=True)
        variance = deviations.square().mean((2, 3), keepdim=True)
        known = rstd.detach().to(self.dtype)[:, :, None, None].pow(-2)  # variance + eps
        self.rstd = (variance + (known - variance.detach())).rsqrt()
        self.normalised = deviations * self.rstd
        self.weight = None if weight is None else self.of_channels(weight)
        self.bias = None if bias is None else self.of_channels(bias)

    def grouped(self, tensor: Tensor) -> Tensor:
        # In rows, as PyTorch adds what is not contiguous one after another, with an error that grows.
        return tensor.to(self.dtype).reshape(self.split).contiguous()

    def of_channels(self, vector: Tensor) -> Tensor:
        return vector.to(self.dtype).reshape(1, *self.split[1:3], 1)

    def weighted(self, tensor: Tensor) -> Tensor:
        return tensor if self.weight is None else tensor * self.weight

    def past_activation(self, change: Tensor, negative_slope: float) -> Tensor:
        """A tangent or a gradient on the other side of the activation."""
        if negative_slope == 1:
            return change
        value = self.weighted(self.normalised).detach()
        if self.bias is not None:
            value = value + self.bias.detach()
        return torch.where(value <= 0, 0 if negative_slope == 0 else change * negative_slope, change)

    def without_mean_and_deviation(self, change: Tensor) -> Tensor:
        """How a change of x moves the normalised values: the linear map that is its own adjoint."""
        mean = change.mean((2, 3), keepdim=True)
        projection = (change * self.normalised).mean((2, 3), keepdim=True)
        return self.rstd * (change - mean - self.normalised * projection)


def norm_gradients(
    grad_output: Tensor,
    input: Tensor,
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    num_groups: Any,
    relu: bool,
    negative_slope: float,
    output_mask: Any,
) -> Gradients:
    """`group_norm_backward` as PyTorch's operations."""
    norm = _Norm(input, rstd, weight, bias, num_groups)
    grad = norm.past_activation(norm.grouped(grad_output), negative_slope)
    affine = weight if weight is not None else bias
    dtype = norm.dtype if affine is None else affine.dtype
    grad_input = grad_weight = grad_bias = None
    if output_mask[0]:
        grad_input = norm.without_mean_and_deviation(norm.weighted(grad)).reshape(input.shape).to(input.dtype)
        grad_input = masked(grad_input, input.detach() if relu else None)
    if output_mask[1]:
        grad_weight = (grad * norm.normalised).sum((0, 3)).reshape(-1).to(dtype)
    if output_mask[2]:
        grad_bias = grad.sum((0, 3)).reshape(-1).to(dtype)
    return grad_input, grad_weight, grad_bias


# ---- the rules ----


class _ForwardDerivatives:
    """conv_transpose3d_group_norm_forward -> (output, x, mean, rstd)."""

    defaults = _DEFAULTS

    def save(self, ctx: Any, args: Saved, output: Any) -> tuple[Gradients, Gradients]:
        input, weight, _, *geometry = args[:CONVOLUTION_ARGUMENTS]
        num_groups, norm_weight, norm_bias, _, relu, negative_slope, _ = args[CONVOLUTION_ARGUMENTS:]
        result, x, mean, rstd = output
        ctx.geometry, ctx.kernel_size = tuple(geometry), weight.shape[2:]
        ctx.norm, ctx.result_dtype = (num_groups, relu, negative_slope), result.dtype
        ctx.mark_non_differentiable(mean, rstd)
        of_norm = (norm_weight, norm_bias, x, mean, rstd)
        needs_input, needs_weight, needs_bias = ctx.needs_input_grad[:3]
        for_backward = (
            input if needs_weight else None,
            weight if needs_input or (needs_weight and needs_bias) else None,
            *of_norm,
        )
        return for_backward, (input, weight, *of_norm)

    def backward(self, ctx: Any, *grads: Tensor | None) -> Gradients:
        grad_output, grad_x = grads[:2]
        input, weight, norm_weight, norm_bias, x, mean, rstd = ctx.saved_tensors
        num_groups, relu, negative_slope = ctx.norm
        of_convolution = tuple(ctx.needs_input_grad[:3])
        of_affine = tuple(ctx.needs_input_grad[CONVOLUTION_ARGUMENTS + 1 : CONVOLUTION_ARGUMENTS + 3])
        by_x = by_weight = by_bias = None
        if grad_output is not None:
            wanted = (any(of_convolution), *of_affine)
            args = (grad_output, x, mean, rstd, norm_weight, norm_bias, num_groups, relu, negative_slope, wanted)
            by_x, by_weight, by_bias = torch_internals.call(_norm_backward, args)
        if grad_x is not None:
            by_x = added(by_x, masked(grad_x, x.detach() if relu else None))
        gradients: Gradients = (None, None, None)
        if by_x is not None and any(of_convolution):
            gradients = convolution_gradients(by_x, input, weight, ctx.kernel_size, None, ctx.geometry, of_convolution)
        return *gradients, *(None,) * (CONVOLUTION_ARGUMENTS - 2), by_weight, by_bias

    def jvp(self, ctx: Any, saved: Saved, tangents: Saved) -> Any:
        input, weight, norm_weight, norm_bias, x, _, rstd = saved
        num_groups, relu, negative_slope = ctx.norm
        of_x = masked(
            convolution_tangent(input, weight, tangents[:3], ctx.geometry, x.shape), x.detach() if relu else None
        )
        values = _Norm(x, rstd, norm_weight, norm_bias, num_groups)
        of_weight, of_bias = tangents[CONVOLUTION_ARGUMENTS + 1 : CONVOLUTION_ARGUMENTS + 3]
        terms = []
        if of_x is not None:
            terms.append(values.weighted(values.without_mean_and_deviation(values.grouped(of_x))))
        if of_weight is not None:
            terms.append(values.of_channels(of_weight) * values.normalised)
        if of_bias is not None:
            terms.append(values.of_channels(of_bias).expand_as(values.normalised))
        if not terms:
            return None, of_x, None, None
        of_output = values.past_activation(sum(terms[1:], terms[0]), negative_slope)
        return of_output.reshape(x.shape).to(ctx.result_dtype), of_x, None, None


def _result(*args: Any) -> Any:
    return _forward(*args)[0]


def _result_behind_relu(*args: Any) -> Any:
    return _forward(*args, True)[0]


RULES: dict[str, Derivatives | Composite] = {
    "conv_transpose3d_relu_group_norm": Composite(_DEFAULTS[:3], _result_behind_relu),
    "conv_transpose3d_group_norm": Composite(_DEFAULTS, _result),
    "conv_transpose3d_group_norm_forward": _ForwardDerivatives(),
    "group_norm_backward": Composite((False, 1.0, (True, True, True)), norm_gradients),
}
