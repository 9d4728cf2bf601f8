"""Derivatives of the five operators.

With F, Dx, Dw the forward, the input gradient and the weight gradient, each is linear in each of its arguments and its
derivatives are the others, so that every rule below is a call of `torch.ops.convt3d` and any order of differentiation,
reverse or forward, needs no further kernel:

              with respect to   1st argument    2nd argument
    F(input, weight)            Dx              Dw
    Dx(grad_output, weight)     F               Dw
    Dw(grad_output, input)      F               Dx

`relu_output` only says where `grad_output` counts; as an indicator it has derivative zero.
"""

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor

from convt3d._errors import raise_if_out_of_memory
from convt3d._registrations import torch_internals
from convt3d._registrations.registry import library, ops

_conv_transpose3d = ops.conv_transpose3d.default
_input_grad = ops.conv_transpose3d_input_grad.default
_weight_grad = ops.conv_transpose3d_weight_grad.default
_bias_grad = ops.conv_transpose3d_bias_grad.default

Saved = tuple[Any, ...]
Gradients = tuple[Tensor | None, ...]
_NO_GEOMETRY_GRADIENT = (None,) * 5  # stride, padding, output_padding, groups, dilation
_GEOMETRY_DEFAULTS = ((1, 1, 1), (0, 0, 0), (0, 0, 0), 1, (1, 1, 1))


class Derivatives(Protocol):
    """What autograd has to know of one operator."""

    defaults: tuple[Any, ...]  # of the last arguments: the dispatcher drops arguments that equal their default

    def save(self, ctx: Any, args: tuple[Any, ...], output: Tensor) -> None:
        """Keeps what `backward` and `jvp` need."""

    def backward(self, ctx: Any, grad: Tensor) -> Gradients:
        """Gradients of the arguments, from the gradient of the output; None where none is needed."""

    def jvp(self, ctx: Any, saved: Saved, tangents: Saved) -> Tensor | None:
        """Tangent of the output, from those of the arguments."""


def _sum(*terms: Tensor | None) -> Tensor | None:
    total = None
    for term in terms:
        if term is not None:
            total = term if total is None else total + term
    return total


def _masked(value: Tensor | None, relu_output: Tensor | None) -> Tensor | None:
    """`value` where `relu_output` let it through, by PyTorch's rule for ReLU, which a NaN in the output passes."""
    if relu_output is None or value is None:
        return value
    masked: Tensor = torch.ops.aten.threshold_backward(value, relu_output, 0)
    return masked


def _forward(input: Tensor, weight: Tensor, geometry: Saved) -> Tensor:
    """The forward as a derivative, in the dtype of its arguments: autocast chose at the call that is differentiated."""
    with torch_internals.without_autocast(input.device.type):
        output: Tensor = _conv_transpose3d(input, weight, None, *geometry)
    return output


def _constant(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.detach()


class _ForwardDerivatives:
    """conv_transpose3d(input, weight, bias), or conv_transpose3d_relu."""

    defaults = (None, *_GEOMETRY_DEFAULTS)

    def __init__(self, has_relu: bool) -> None:
        self.has_relu = has_relu

    def save(self, ctx: Any, args: tuple[Any, ...], output: Tensor) -> None:
        input, weight, _, *ctx.geometry = args
        ctx.kernel_size = weight.shape[2:]
        needs_input_grad, needs_weight_grad = ctx.needs_input_grad[:2]
        ctx.save_for_backward(
            input if needs_weight_grad else None,
            weight if needs_input_grad else None,
            output if self.has_relu else None,
        )
        ctx.save_for_forward(input, weight, output)

    def backward(self, ctx: Any, grad: Tensor) -> Gradients:
        input, weight, relu_output = ctx.saved_tensors
        needs_input_grad, needs_weight_grad, needs_bias_grad = ctx.needs_input_grad[:3]
        mask = _constant(relu_output)
        return (
            _input_grad(grad, weight, mask, *ctx.geometry) if needs_input_grad else None,
            _weight_grad(grad, input, ctx.kernel_size, mask, *ctx.geometry) if needs_weight_grad else None,
            _bias_grad(grad, mask) if needs_bias_grad else None,
            *_NO_GEOMETRY_GRADIENT,
        )

    def jvp(self, ctx: Any, saved: Saved, tangents: Saved) -> Tensor | None:
        input, weight, output = saved
        input_tangent, weight_tangent, bias_tangent = tangents[:3]
        by_input = by_weight = by_bias = None
        if input_tangent is not None:
            by_input = _forward(input_tangent, weight, ctx.geometry)
        if weight_tangent is not None:
            by_weight = _forward(input, weight_tangent, ctx.geometry)
        if bias_tangent is not None:
            by_bias = bias_tangent.reshape(1, -1, 1, 1, 1).expand(output.shape)
        tangent = _sum(by_input, by_weight, by_bias)
        return _masked(tangent, _constant(output)) if self.has_relu else tangent


class _InputGradDerivatives:
    """conv_transpose3d_input_grad(grad_output, weight, relu_output)."""

    defaults = (None, *_GEOMETRY_DEFAULTS)

    def save(self, ctx: Any, args: tuple[Any, ...], output: Tensor) -> None:
        grad_output, weight, relu_output, *ctx.geometry = args
        ctx.kernel_size = weight.shape[2:]
        needs_grad_output_grad, needs_weight_grad = ctx.needs_input_grad[:2]
        ctx.save_for_backward(
            grad_output if needs_weight_grad else None, weight if needs_grad_output_grad else None, relu_output
        )
        ctx.save_for_forward(grad_output, weight, relu_output)

    def backward(self, ctx: Any, grad: Tensor) -> Gradients:
        grad_output, weight, relu_output = ctx.saved_tensors
        needs_grad_output_grad, needs_weight_grad = ctx.needs_input_grad[:2]
        mask = _constant(relu_output)
        by_grad_output = by_weight = None
        if needs_grad_output_grad:
            by_grad_output = _masked(_forward(grad, weight, ctx.geometry), mask)
        if needs_weight_grad:
            by_weight = _weight_grad(grad_output, grad, ctx.kernel_size, mask, *ctx.geometry)
        return by_grad_output, by_weight, None, *_NO_GEOMETRY_GRADIENT

    def jvp(self, ctx: Any, saved: Saved, tangents: Saved) -> Tensor | None:
        grad_output, weight, relu_output = saved
        grad_output_tangent, weight_tangent = tangents[:2]
        mask = _constant(relu_output)
        by_grad_output = by_weight = None
        if grad_output_tangent is not None:
            by_grad_output = _input_grad(grad_output_tangent, weight, mask, *ctx.geometry)
        if weight_tangent is not None:
            by_weight = _input_grad(grad_output, weight_tangent, mask, *ctx.geometry)
        return _sum(by_grad_output, by_weight)


class _WeightGradDerivatives:
    """conv_transpose3d_weight_grad(grad_output, input, kernel_size, relu_output)."""

    defaults = (None, *_GEOMETRY_DEFAULTS)

    def save(self, ctx: Any, args: tuple[Any, ...], output: Tensor) -> None:
        grad_output, input, ctx.kernel_size, relu_output, *ctx.geometry = args
        needs_grad_output_grad, needs_input_grad = ctx.needs_input_grad[:2]
        ctx.save_for_backward(
            grad_output if needs_input_grad else None, input if needs_grad_output_grad else None, relu_output
        )
        ctx.save_for_forward(grad_output, input, relu_output)

    def backward(self, ctx: Any, grad: Tensor) -> Gradients:
        grad_output, input, relu_output = ctx.saved_tensors
        needs_grad_output_grad, needs_input_grad = ctx.needs_input_grad[:2]
        mask = _constant(relu_output)
        by_grad_output = by_input = None
        if needs_grad_output_grad:
            by_grad_output = _masked(_forward(input, grad, ctx.geometry), mask)
        if needs_input_grad:
            by_input = _input_grad(grad_output, grad, mask, *ctx.geometry)
        return by_grad_output, by_input, None, None, *_NO_GEOMETRY_GRADIENT

    def jvp(self, ctx: Any, saved: Saved, tangents: Saved) -> Tensor | None:
        grad_output, input, relu_output = saved
        grad_output_tangent, input_tangent = tangents[:2]
        mask = _constant(relu_output)
        by_grad_output = by_input = None
        if grad_output_tangent is not None:
            by_grad_output = _weight_grad(grad_output_tangent, input, ctx.kernel_size, mask, *ctx.geometry)
        if input_tangent is not None:
            by_input = _weight_grad(grad_output, input_tangent, ctx.kernel_size, mask, *ctx.geometry)
        return _sum(by_grad_output, by_input)


class _BiasGradDerivatives:
    """conv_transpose3d_bias_grad(grad_output, relu_output)."""

    defaults = (None,)

    def save(self, ctx: Any, args: tuple[Any, ...], output: Tensor) -> None:
        grad_output, relu_output = args
        ctx.grad_output_shape = grad_output.shape
        ctx.save_for_backward(relu_output)
        ctx.save_for_forward(relu_output)

    def backward(self, ctx: Any, grad: Tensor) -> Gradients:
        (relu_output,) = ctx.saved_tensors
        spread = grad.reshape(1, -1, 1, 1, 1).expand(ctx.grad_output_shape)
        return _masked(spread, _constant(relu_output)), None

    def jvp(self, ctx: Any, saved: Saved, tangents: Saved) -> Tensor | None:
        (relu_output,) = saved
        return None if tangents[0] is None else _bias_grad(tangents[0], _constant(relu_output))


def _complete(derivatives: Derivatives, arity: int, args: tuple[Any, ...]) -> tuple[Any, ...]:
    missing = arity - len(args)
    return args + derivatives.defaults[len(derivatives.defaults) - missing :]


def _function_of(op: Any, derivatives: Derivatives) -> Any:
    """The autograd.Function of `op`; its last argument is the dispatcher's keyset."""
    arity = len(op._schema.arguments)

    def forward(ctx: Any, *args_and_keyset: Any) -> Tensor:
        *args, keyset = args_and_keyset
        output = torch_internals.redispatch_to_next_level(op, keyset, tuple(args))
        ctx.set_materialize_grads(False)
        derivatives.save(ctx, tuple(args), output)
        return output

    def backward(ctx: Any, grad: Tensor | None) -> Gradients:
        gradients = (None,) * arity if grad is None else derivatives.backward(ctx, grad)
        return *gradients, None

    def jvp(ctx: Any, *tangents: Any) -> Tensor | None:
        with torch_internals.outer_tangents_kept():
            return derivatives.jvp(ctx, torch_internals.primals(ctx.saved_tensors), tangents)

    name = "".join(part.capitalize() for part in op._opname.split("_"))  # what grad_fn shows
    body = {"forward": staticmethod(forward), "backward": staticmethod(backward), "jvp": staticmethod(jvp)}
    return type(name, (torch_internals.SingleLevelFunction,), body)


def _autograd_kernel(op: Any, derivatives: Derivatives) -> Callable[..., Tensor]:
    arity = len(op._schema.arguments)
    function = _function_of(op, derivatives)

    def kernel(keyset: Any, *args: Any) -> Tensor:
        try:
            if torch_internals.records_derivatives(args):
                return torch_internals.apply(function, (*_complete(derivatives, arity, args), keyset))
            return torch_internals.redispatch_below_autograd(op, keyset, args)
        except RuntimeError as error:
            raise_if_out_of_memory(error)
            raise

    return kernel


def _register_publicly(op: Any, derivatives: Derivatives) -> None:
    """The same derivatives without private helpers, and so without forward mode and `torch.func.grad`."""
    arity = len(op._schema.arguments)

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        derivatives.save(ctx, _complete(derivatives, arity, inputs), output)

    torch.library.register_autograd(op, derivatives.backward, setup_context=setup_context, lib=library)


def _register() -> None:
    rules: dict[str, Derivatives] = {
        "conv_transpose3d": _ForwardDerivatives(has_relu=False),
        "conv_transpose3d_relu": _ForwardDerivatives(has_relu=True),
        "conv_transpose3d_input_grad": _InputGradDerivatives(),
        "conv_transpose3d_weight_grad": _WeightGradDerivatives(),
        "conv_transpose3d_bias_grad": _BiasGradDerivatives(),
    }
    for name, derivatives in rules.items():
        op = getattr(ops, name).default
        if torch_internals.AVAILABLE:
            library.impl(name, _autograd_kernel(op, derivatives), "Autograd", with_keyset=True)
        else:
            _register_publicly(op, derivatives)


_register()
