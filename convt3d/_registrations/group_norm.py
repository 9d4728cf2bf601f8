"""Derivatives, autocast and vmap of the transposed convolution with a group norm behind it, and its CPU backward.

Where derivatives are wanted, every operator here becomes `conv_transpose3d_group_norm_forward`, which also returns what
they need: x, the norm's input, and its statistics. Its backward is `group_norm_backward`, then the gradients of the
convolution. As x is an output with a gradient of its own, and `group_norm_backward` is differentiated through the
composite formula `_backward`, which takes the statistics for functions of x, any order of differentiation is right.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from convt3d._errors import raise_if_out_of_memory
from convt3d._registrations import fake_norm, torch_internals
from convt3d._registrations.autocast import cast_to_lower_precision
from convt3d._registrations.derivatives import convolution_gradients, convolution_tangent
from convt3d._registrations.registry import library, ops

_forward = ops.conv_transpose3d_group_norm_forward.default
_norm_backward = ops.group_norm_backward.default

_NORM_DEFAULTS = (None, None, 1e-5, False, 1.0, None)  # norm_weight, norm_bias, eps, relu, negative_slope, dtype
_CONVOLUTION_ARGUMENTS = 8  # before those of the norm
_FORWARD_ARGUMENTS = _CONVOLUTION_ARGUMENTS + 1 + len(_NORM_DEFAULTS)


def _complete(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """All arguments of a forward: the dispatcher drops those at the end that equal their default."""
    missing = _FORWARD_ARGUMENTS - len(args)
    return args + _NORM_DEFAULTS[len(_NORM_DEFAULTS) - missing :]


def _of_relu(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of `conv_transpose3d_relu_group_norm` as those of `conv_transpose3d_group_norm`."""
    completed = _complete(args)
    return *completed[:-3], True, 1.0, None


# ---- the norm as PyTorch's operations ----


class _Norm:
    """What the formulas share: x as [N, groups, channels of a group, positions], normalised."""

    def __init__(
        self,
        x: Tensor,
        mean: Tensor,
        rstd: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        num_groups: Any,
        *,
        differentiable: bool,
    ) -> None:
        self.shape = x.shape
        batch, channels = x.shape[:2]
        self.dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
        depth, height, width = x.shape[2:]
        self.split = (batch, num_groups, channels // num_groups, depth * height * width)
        values = self.grouped(x)
        if differentiable:  # the same numbers as functions of x
            center = values.mean((2, 3), keepdim=True)
            deviations = values - center
            variance = deviations.square().mean((2, 3), keepdim=True)
            known = rstd.detach().to(self.dtype)[:, :, None, None].pow(-2)  # variance + eps
            self.rstd = (variance + (known - variance.detach())).rsqrt()
        else:
            deviations = values - mean.to(self.dtype)[:, :, None, None]
            self.rstd = rstd.to(self.dtype)[:, :, None, None]
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


def _backward(
    grad_output: Tensor,
    input: Tensor,
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    num_groups: Any,
    relu: bool = False,
    negative_slope: float = 1.0,
    *,
    differentiable: bool = True,
) -> tuple[Tensor, Tensor, Tensor]:
    """`group_norm_backward` as PyTorch's operations."""
    norm = _Norm(input, mean, rstd, weight, bias, num_groups, differentiable=differentiable)
    grad = norm.past_activation(norm.grouped(grad_output), negative_slope)
    grad_input = norm.without_mean_and_deviation(norm.weighted(grad)).reshape(input.shape).to(input.dtype)
    if relu:
        grad_input = torch.ops.aten.threshold_backward(grad_input, input.detach(), 0)
    affine = weight if weight is not None else bias
    dtype = norm.dtype if affine is None else affine.dtype
    grad_weight = (grad * norm.normalised).sum((0, 3)).reshape(-1).to(dtype)
    return grad_input, grad_weight, grad.sum((0, 3)).reshape(-1).to(dtype)


def _cpu_backward(grad_output: Tensor, input: Tensor, *others: Any) -> tuple[Tensor, Tensor, Tensor]:
    expected = fake_norm.group_norm_backward(grad_output, input, *others, device="meta")
    results = _backward(grad_output, input, *others, differentiable=False)
    grad_input = torch.empty_strided(input.shape, expected[0].stride(), dtype=input.dtype)
    return grad_input.copy_(results[0]), results[1], results[2]


# ---- derivatives ----


class _ForwardDerivatives:
    """conv_transpose3d_group_norm_forward -> (output, x, mean, rstd)."""

    @staticmethod
    def save(ctx: Any, args: tuple[Any, ...], outputs: tuple[Tensor, ...]) -> None:
        input, weight, _, *geometry = args[:_CONVOLUTION_ARGUMENTS]
        num_groups, norm_weight, norm_bias, _, relu, negative_slope, _ = args[_CONVOLUTION_ARGUMENTS:]
        ctx.geometry, ctx.kernel_size = geometry, weight.shape[2:]
        ctx.norm = (num_groups, relu, negative_slope)
        _, x, mean, rstd = outputs
        ctx.mark_non_differentiable(mean, rstd)
        saved = (input, weight, norm_weight, norm_bias, x, mean, rstd)
        needs_input, needs_weight, needs_bias, *_ = ctx.needs_input_grad
        needs_both = needs_weight and needs_bias
        ctx.save_for_backward(
            input if needs_weight else None, weight if needs_input or needs_both else None, *saved[2:]
        )
        ctx.save_for_forward(*saved)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor | None, grad_x: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
        input, weight, norm_weight, norm_bias, x, mean, rstd = ctx.saved_tensors
        num_groups, relu, negative_slope = ctx.norm
        grad = grad_norm_weight = grad_norm_bias = None
        if grad_x is not None:
            grad = torch.ops.aten.threshold_backward(grad_x, x.detach(), 0) if relu else grad_x
        if grad_output is not None:
            by_norm, grad_norm_weight, grad_norm_bias = _norm_backward(
                grad_output, x, mean, rstd, norm_weight, norm_bias, num_groups, relu, negative_slope
            )
            grad = by_norm if grad is None else by_norm + grad
        of_convolution: tuple[Tensor | None, ...] = (None,) * (3 + len(ctx.geometry))
        if grad is not None and any(ctx.needs_input_grad[:3]):
            wanted = ctx.needs_input_grad[:3]
            of_convolution = (
                *convolution_gradients(grad, input, weight, ctx.kernel_size, None, tuple(ctx.geometry), wanted)[:3],
                *of_convolution[3:],
            )
        return (
            *of_convolution,
            None,
            None if norm_weight is None else grad_norm_weight,
            None if norm_bias is None else grad_norm_bias,
            *(None,) * 4,
        )

    @staticmethod
    def jvp(
        saved: tuple[Tensor, ...], tangents: tuple[Any, ...], geometry: Any, norm: Any
    ) -> tuple[Tensor | None, ...]:
        input, weight, norm_weight, norm_bias, x, mean, rstd = saved
        num_groups, relu, negative_slope = norm
        of_x = convolution_tangent(input, weight, tangents[:3], geometry, x.shape)
        if of_x is not None and relu:
            of_x = torch.ops.aten.threshold_backward(of_x, x.detach(), 0)
        values = _Norm(x, mean, rstd, norm_weight, norm_bias, num_groups, differentiable=True)
        of_weight, of_bias = tangents[_CONVOLUTION_ARGUMENTS + 1 : _CONVOLUTION_ARGUMENTS + 3]
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
        return of_output.reshape(x.shape), of_x, None, None


def _function() -> Any:
    """The autograd.Function of the forward; its last argument is the dispatcher's keyset."""

    def forward(ctx: Any, *args_and_keyset: Any) -> tuple[Tensor, ...]:
        *args, keyset = args_and_keyset
        outputs: Any = torch_internals.redispatch_to_next_level(_forward, keyset, tuple(args))
        ctx.set_materialize_grads(False)
        ctx.result_dtype = outputs[0].dtype
        _ForwardDerivatives.save(ctx, tuple(args), outputs)
        return tuple(outputs)

    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        return *_ForwardDerivatives.backward(ctx, *grads), None

    def jvp(ctx: Any, *tangents: Any) -> tuple[Tensor | None, ...]:
        with torch_internals.outer_tangents_kept():
            saved: Any = torch_internals.primals(ctx.saved_tensors)
            of_output, *others = _ForwardDerivatives.jvp(saved, tangents, ctx.geometry, ctx.norm)
        return None if of_output is None else of_output.to(ctx.result_dtype), *others

    body = {"forward": staticmethod(forward), "backward": staticmethod(backward), "jvp": staticmethod(jvp)}
    return type("ConvTranspose3dGroupNorm", (torch_internals.SingleLevelFunction,), body)


def _forward_kernel() -> Callable[..., Any]:
    function = _function()

    def kernel(keyset: Any, *args: Any) -> Any:
        try:
            if torch_internals.records_derivatives(args):
                return torch_internals.apply(function, (*_complete(args), keyset))
            return torch_internals.redispatch_below_autograd(_forward, keyset, args)
        except RuntimeError as error:
            raise_if_out_of_memory(error)
            raise

    return kernel


def _result_kernel(op: Any, as_forward: Callable[[tuple[Any, ...]], tuple[Any, ...]]) -> Callable[..., Any]:
    """Of an operator that returns the result alone."""

    def kernel(keyset: Any, *args: Any) -> Any:
        try:
            if torch_internals.records_derivatives(args):
                return _forward(*as_forward(args))[0]
            return torch_internals.redispatch_below_autograd(op, keyset, args)
        except RuntimeError as error:
            raise_if_out_of_memory(error)
            raise

    return kernel


def _backward_kernel(keyset: Any, *args: Any) -> Any:
    try:
        if torch_internals.records_derivatives(args):
            return _backward(*args)
        return torch_internals.redispatch_below_autograd(_norm_backward, keyset, args)
    except RuntimeError as error:
        raise_if_out_of_memory(error)
        raise


# ---- autocast ----


def _autocast_kernel(op: Any, device_type: str, *, has_dtype: bool) -> Callable[..., Any]:
    """The convolution in lower precision; the norm, on CUDA alone, in float32: the lists of PyTorch's autocast."""

    def kernel(*args: Any) -> Any:
        convolution = cast_to_lower_precision(args[:_CONVOLUTION_ARGUMENTS], device_type)
        norm = args[_CONVOLUTION_ARGUMENTS:]
        target = op
        if device_type == "cuda":
            norm = tuple(
                arg.float() if isinstance(arg, Tensor) and arg.dtype in (torch.float16, torch.bfloat16) else arg
                for arg in norm
            )
            if convolution[0].dtype != torch.float64:
                completed = _complete(args) if has_dtype else _of_relu(args)
                norm = (*norm, *completed[_CONVOLUTION_ARGUMENTS + len(norm) :])
                norm = (*norm[:-1], torch.float32 if norm[-1] is None else norm[-1])
                target = op if has_dtype else ops.conv_transpose3d_group_norm.default
        with torch_internals.without_autocast(device_type):
            return target(*convolution, *norm)

    return kernel


# ---- vmap ----


def _mapped_first(tensor: Tensor, dim: int | None, size: int) -> Tensor:
    return tensor.expand(size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)


def _into(position: int, tensor: Tensor | None, dim: int | None, size: int) -> Tensor | None:
    """The mapped dimension becomes the slower part of the one at `position`."""
    if tensor is None:
        return None
    return _mapped_first(tensor, dim, size).movedim(0, position).flatten(position, position + 1)


def _split(tensor: Tensor, position: int, size: int) -> Tensor:
    shape = tensor.shape
    return tensor.reshape(*shape[:position], size, shape[position] // size, *shape[position + 1 :])


def _forward_rule(op: Any, *, several: bool) -> Callable[..., Any]:
    def rule(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        size = info.batch_size
        dims = (*in_dims, *(None,) * (len(args) - len(in_dims)))
        tensors = {i: dims[i] for i, arg in enumerate(args) if isinstance(arg, Tensor)}
        given = list(args)
        # Images of the same weights are one larger batch, others have channels and groups of their own.
        position = 0 if all(dim is None for i, dim in tensors.items() if i > 0) else 1
        given[0] = _into(position, args[0], dims[0], size)
        if position == 1:
            for i in tensors:
                if i > 0:
                    given[i] = _into(0, args[i], dims[i], size)
            given[6] = args[6] * size  # groups
            given[_CONVOLUTION_ARGUMENTS] = args[_CONVOLUTION_ARGUMENTS] * size  # num_groups
        results = op(*given)
        if not several:
            return _split(results, position, size), position
        return tuple(_split(result, position, size) for result in results), (position,) * len(results)

    return rule


def _backward_rule(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
    size = info.batch_size
    grad_output, input, mean, rstd = (_into(1, args[i], in_dims[i], size) for i in range(4))
    weight, bias = (_into(0, args[i], in_dims[i], size) for i in (4, 5))
    results = _norm_backward(grad_output, input, mean, rstd, weight, bias, args[6] * size, *args[7:])
    positions = (1, 0, 0)
    return tuple(_split(*item, size) for item in zip(results, positions, strict=True)), positions


def _register() -> None:
    results = {
        "conv_transpose3d_relu_group_norm": (_of_relu, False),
        "conv_transpose3d_group_norm": (_complete, True),
    }
    for name, (as_forward, has_dtype) in results.items():
        op = getattr(ops, name).default
        if torch_internals.AVAILABLE:
            library.impl(name, _result_kernel(op, as_forward), "Autograd", with_keyset=True)
        for device_type, key in (("cpu", "AutocastCPU"), ("cuda", "AutocastCUDA")):
            library.impl(name, _autocast_kernel(op, device_type, has_dtype=has_dtype), key)
        torch.library.register_vmap(f"convt3d::{name}", _forward_rule(op, several=False), lib=library)
    name = "conv_transpose3d_group_norm_forward"
    for device_type, key in (("cpu", "AutocastCPU"), ("cuda", "AutocastCUDA")):
        library.impl(name, _autocast_kernel(_forward, device_type, has_dtype=True), key)
    torch.library.register_vmap(f"convt3d::{name}", _forward_rule(_forward, several=True), lib=library)
    torch.library.register_vmap("convt3d::group_norm_backward", _backward_rule, lib=library)
    library.impl("group_norm_backward", _cpu_backward, "CPU")
    if torch_internals.AVAILABLE:
        library.impl(name, _forward_kernel(), "Autograd", with_keyset=True)
        library.impl("group_norm_backward", _backward_kernel, "Autograd", with_keyset=True)


_register()
