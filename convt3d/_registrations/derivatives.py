"""Derivatives of the operators, as calls of the operators: what `autograd` registers.

With F, Dx, Dw the forward, the input gradient and the weight gradient, each is linear in each of its arguments and its
derivatives are the others, so that every rule below is a call of `torch.ops.convt3d` and any order of differentiation,
reverse or forward, needs no further kernel:

              with respect to   1st argument    2nd argument
    F(input, weight)            Dx              Dw
    Dx(grad_output, weight)     F               Dw
    Dw(grad_output, input)      F               Dx

`conv_transpose3d_backward` computes Dx and Dw of one grad_output (and its sum, the bias's gradient); so it is the
derivative where more than one of them is asked for.
`relu_output` only says where `grad_output` counts; as an indicator it has derivative zero.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from convt3d._registrations import torch_internals
from convt3d._registrations.registry import ops

_conv_transpose3d = ops.conv_transpose3d.default
_input_grad = ops.conv_transpose3d_input_grad.default
_weight_grad = ops.conv_transpose3d_weight_grad.default
_bias_grad = ops.conv_transpose3d_bias_grad.default
_backward = ops.conv_transpose3d_backward.default
_call = torch_internals.call

Saved = tuple[Any, ...]
Gradients = tuple[Tensor | None, ...]
_GEOMETRY_DEFAULTS = (
    (1, 1, 1),
    (0, 0, 0),
    (0, 0, 0),
    1,
    (1, 1, 1),
)  # stride, padding, output_padding, groups, dilation


class Derivatives(Protocol):
    """What autograd has to know of one operator."""

    defaults: tuple[Any, ...]  # of the last arguments: the dispatcher drops arguments that equal their default

    def save(self, ctx: Any, args: Saved, output: Any) -> tuple[Gradients, Gradients]:
        """Keeps in `ctx` what is no tensor; returns the tensors that `backward` and `jvp` need."""

    def backward(self, ctx: Any, *grads: Tensor | None) -> Gradients:
        """Gradients of the first arguments, from those of the results; None where none is needed, as for the others."""

    def jvp(self, ctx: Any, saved: Saved, tangents: Saved) -> Any:
        """Tangents of the results, from those of the arguments."""


@dataclass(frozen=True)
class Composite:
    """Of an operator that has no derivatives of its own: `function`, of operators that have them, computes the same."""

    defaults: Saved  # as of `Derivatives`
    function: Callable[..., Any]


def completed(rule: Derivatives | Composite, arity: int, args: Saved) -> Saved:
    """All arguments of a call."""
    missing = arity - len(args)
    return args + rule.defaults[len(rule.defaults) - missing :] if missing else args


def added(*terms: Tensor | None) -> Tensor | None:
    total = None
    for term in terms:
        if term is not None:
            total = term if total is None else total + term
    return total


def masked(value: Tensor | None, relu_output: Tensor | None) -> Tensor | None:
    """`value` where `relu_output` let it through, by PyTorch's rule for ReLU, which a NaN in the output passes."""
    if relu_output is None or value is None:
        return value
    result: Tensor = torch.ops.aten.threshold_backward(value, relu_output, 0)
    return result


def _forward(input: Tensor, weight: Tensor, geometry: Saved) -> Tensor:
    """The forward as a derivative, in the dtype of its arguments: autocast chose at the call that is differentiated."""
    with torch_internals.without_autocast(input.device.type):
        output: Tensor = _conv_transpose3d(input, weight, None, *geometry)
    return output


def _constant(tensor: Tensor | None) -> Tensor | None:
    return tensor.detach() if tensor is not None and torch.is_grad_enabled() else tensor


def _spread(grad_bias: Tensor, shape: Any) -> Tensor:
    return grad_bias.reshape(1, -1, 1, 1, 1).expand(shape)


def convolution_gradients(
    grad_output: Tensor,
    input: Tensor | None,
    weight: Tensor | None,
    kernel_size: Any,
    relu_output: Tensor | None,
    geometry: Saved,
    wanted: tuple[bool, bool, bool],
) -> Gradients:
    """Dx(grad_output, weight), Dw(grad_output, input) and the bias's gradient, those that are wanted.

    `weight` and `input` are None where what is wanted does not need them; with both, one operator computes all, unless
    `torch.jit.trace` records it, which refuses a list of bools.
    """
    if input is not None and weight is not None and not torch_internals.is_traced():
        last = geometry if all(wanted) else (*geometry, *_GEOMETRY_DEFAULTS[len(geometry) :], wanted)
        gradients: Gradients = _call(_backward, (grad_output, input, weight, relu_output, *last))
        return gradients
    return (
        _call(_input_grad, (grad_output, weight, relu_output, *geometry)) if wanted[0] else None,
        _call(_weight_grad, (grad_output, input, kernel_size, relu_output, *geometry)) if wanted[1] else None,
        _call(_bias_grad, (grad_output, relu_output)) if wanted[2] else None,
    )


def convolution_tangent(input: Tensor, weight: Tensor, tangents: Saved, geometry: Saved, shape: Any) -> Tensor | None:
    """Of the convolution's result, of that shape, from the tangents of input, weight and bias."""
    of_input, of_weight, of_bias = tangents
    return added(
        None if of_input is None else _forward(of_input, weight, geometry),
        None if of_weight is None else _forward(input, of_weight, geometry),
        None if of_bias is None else _spread(of_bias, shape),
    )


class _ForwardDerivatives:
    """conv_transpose3d(input, weight, bias), or conv_transpose3d_relu."""

    defaults = (None, *_GEOMETRY_DEFAULTS)

    def __init__(self, has_relu: bool) -> None:
        self.has_relu = has_relu

    def save(self, ctx: Any, args: Saved, output: Any) -> tuple[Gradients, Gradients]:
        input, weight = args[:2]
        ctx.geometry = args[3:]
        ctx.kernel_size = weight.shape[2:]
        needs_input_grad, needs_weight_grad, needs_bias_grad = ctx.needs_input_grad[:3]
        for_backward = (
            input if needs_weight_grad else None,
            weight if needs_input_grad or (needs_weight_grad and needs_bias_grad) else None,
            output if self.has_relu else None,
        )
        return for_backward, (input, weight, output)

    def backward(self, ctx: Any, *grads: Tensor | None) -> Gradients:
        (grad,) = grads
        assert grad is not None
        input, weight, relu_output = ctx.saved_tensors
        mask = _constant(relu_output)
        return convolution_gradients(grad, input, weight, ctx.kernel_size, mask, ctx.geometry, ctx.needs_input_grad[:3])

    def jvp(self, ctx: Any, saved: Saved, tangents: Saved) -> Any:
        input, weight, output = saved
        tangent = convolution_tangent(input, weight, tangents[:3], ctx.geometry, output.shape)
        return masked(tangent, _constant(output)) if self.has_relu else tangent


class _InputGradDerivatives:
    """conv_transpose3d_input_grad(grad_output, weight, relu_output)."""

    defaults = (None, *_GEOMETRY_DEFAULTS)

    def save(self, ctx: Any, args: Saved, output: Any) -> tuple[Gradients, Gradients]:
        grad_output, weight, relu_output = args[:3]
        ctx.geometry = args[3:]
        ctx.kernel_size = weight.shape[2:]
        needs_grad_output_grad, needs_weight_grad = ctx.needs_input_grad[:2]
        for_backward = (
            grad_output if needs_weight_grad else None,
            weight if needs_grad_output_grad else None,
            relu_output,
        )
        return for_backward, (grad_output, weight, relu_output)

    def backward(self, ctx: Any, *grads: Tensor | None) -> Gradients:
        (grad,) = grads
        assert grad is not None
        grad_output, weight, relu_output = ctx.saved_tensors
        needs_grad_output_grad, needs_weight_grad = ctx.needs_input_grad[:2]
        mask = _constant(relu_output)
        by_grad_output = by_weight = None
        if needs_grad_output_grad:
            by_grad_output = masked(_forward(grad, weight, ctx.geometry), mask)
        if needs_weight_grad:
            by_weight = _call(_weight_grad, (grad_output, grad, ctx.kernel_size, mask, *ctx.geometry))
        return by_grad_output, by_weight

    def jvp(self, ctx: Any, saved: Saved, tangents: Saved) -> Any:
        grad_output, weight, relu_output = saved
        grad_output_tangent, weight_tangent = tangents[:2]
        mask = _constant(relu_output)
        by_grad_output = by_weight = None
        if grad_output_tangent is not None:
            by_grad_output = _input_grad(grad_output_tangent, weight, mask, *ctx.geometry)
        if weight_tangent is not None:
            by_weight = _input_grad(grad_output, weight_tangent, mask, *ctx.geometry)
        return added(by_grad_output, by_weight)


class _WeightGradDerivatives:
    """conv_transpose3d_weight_grad(grad_output, input, kernel_size, relu_output)."""

    defaults = (None, *_GEOMETRY_DEFAULTS)

    def save(self, ctx: Any, args: Saved, output: Any) -> tuple[Gradients, Gradients]:
        grad_output, input, ctx.kernel_size, relu_output = args[:4]
        ctx.geometry = args[4:]
        needs_grad_output_grad, needs_input_grad = ctx.needs_input_grad[:2]
        for_backward = (
            grad_output if needs_input_grad else None,
            input if needs_grad_output_grad else None,
            relu_output,
        )
        return for_backward, (grad_output, input, relu_output)

    def backward(self, ctx: Any, *grads: Tensor | None) -> Gradients:
        (grad,) = grads
        assert grad is not None
        grad_output, input, relu_output = ctx.saved_tensors
        needs_grad_output_grad, needs_input_grad = ctx.needs_input_grad[:2]
        mask = _constant(relu_output)
        by_grad_output = by_input = None
        if needs_grad_output_grad:
            by_grad_output = masked(_forward(input, grad, ctx.geometry), mask)
        if needs_input_grad:
            by_input = _call(_input_grad, (grad_output, grad, mask, *ctx.geometry))
        return by_grad_output, by_input

    def jvp(self, ctx: Any, saved: Saved, tangents: Saved) -> Any:
        grad_output, input, relu_output = saved
        grad_output_tangent, input_tangent = tangents[:2]
        mask = _constant(relu_output)
        by_grad_output = by_input = None
        if grad_output_tangent is not None:
            by_grad_output = _weight_grad(grad_output_tangent, input, ctx.kernel_size, mask, *ctx.geometry)
        if input_tangent is not None:
            by_input = _weight_grad(grad_output, input_tangent, ctx.kernel_size, mask, *ctx.geometry)
        return added(by_grad_output, by_input)


class _BiasGradDerivatives:
    """conv_transpose3d_bias_grad(grad_output, relu_output)."""

    defaults = (None,)

    def save(self, ctx: Any, args: Saved, output: Any) -> tuple[Gradients, Gradients]:
        grad_output, relu_output = args
        ctx.grad_output_shape = grad_output.shape
        return (relu_output,), (relu_output,)

    def backward(self, ctx: Any, *grads: Tensor | None) -> Gradients:
        (grad,) = grads
        assert grad is not None
        (relu_output,) = ctx.saved_tensors
        return (masked(_spread(grad, ctx.grad_output_shape), _constant(relu_output)),)

    def jvp(self, ctx: Any, saved: Saved, tangents: Saved) -> Any:
        (relu_output,) = saved
        return None if tangents[0] is None else _bias_grad(tangents[0], _constant(relu_output))


class _BackwardDerivatives:
    """conv_transpose3d_backward(grad_output, input, weight, relu_output, ..., output_mask).

    Its results Dx(grad_output, weight) and Dw(grad_output, input) depend on the weight and the input crosswise, so that
    the gradients of input and weight are the same operator of grad_output and of the results' gradients.
    """

    defaults = (None, *_GEOMETRY_DEFAULTS, (True, True, True))

    def save(self, ctx: Any, args: Saved, output: Any) -> tuple[Gradients, Gradients]:
        grad_output, input, weight, relu_output = args[:4]
        ctx.geometry, ctx.output_mask = args[4:-1], args[-1]
        ctx.grad_output_shape, ctx.kernel_size = grad_output.shape, weight.shape[2:]
        needs_grad_output_grad, needs_input_grad, needs_weight_grad = ctx.needs_input_grad[:3]
        has_input_grad, has_weight_grad, _ = ctx.output_mask
        needs_grad_output = (needs_input_grad and has_weight_grad) or (needs_weight_grad and has_input_grad)
        for_backward = (
            grad_output if needs_grad_output else None,
            input if needs_grad_output_grad and has_weight_grad else None,
            weight if needs_grad_output_grad and has_input_grad else None,
            relu_output,
        )
        return for_backward, (grad_output, input, weight, relu_output)

    def backward(self, ctx: Any, *grads: Tensor | None) -> Gradients:
        of_input_grad, of_weight_grad, of_bias_grad = grads
        grad_output, input, weight, relu_output = ctx.saved_tensors
        needs_grad_output_grad, needs_input_grad, needs_weight_grad = ctx.needs_input_grad[:3]
        mask = _constant(relu_output)
        by_grad_output = None
        if needs_grad_output_grad:
            by_grad_output = masked(
                added(
                    None if of_input_grad is None else _forward(of_input_grad, weight, ctx.geometry),
                    None if of_weight_grad is None else _forward(input, of_weight_grad, ctx.geometry),
                    None if of_bias_grad is None else _spread(of_bias_grad, ctx.grad_output_shape),
                ),
                mask,
            )
        return by_grad_output, *self._crosswise(
            ctx,
            grad_output,
            of_input_grad if needs_weight_grad else None,
            of_weight_grad if needs_input_grad else None,
            mask,
        )

    def jvp(self, ctx: Any, saved: Saved, tangents: Saved) -> Any:
        grad_output, input, weight, relu_output = saved
        grad_output_tangent, input_tangent, weight_tangent = tangents[:3]
        has_input_grad, has_weight_grad, _ = ctx.output_mask
        mask = _constant(relu_output)
        by_grad_output: Gradients = (None, None, None)
        if grad_output_tangent is not None:
            by_grad_output = _backward(grad_output_tangent, input, weight, mask, *ctx.geometry, ctx.output_mask)
        by_others = self._crosswise(
            ctx,
            grad_output,
            input_tangent if has_weight_grad else None,
            weight_tangent if has_input_grad else None,
            mask,
        )
        tangents = tuple(added(*terms) for terms in zip(by_grad_output, (*by_others, None), strict=True))
        shapes = (input.shape, weight.shape, (grad_output.shape[1],))
        return tuple(  # PyTorch takes None only of what is no tensor
            grad_output.new_zeros(shape) if wanted and tangent is None else tangent
            for tangent, shape, wanted in zip(tangents, shapes, ctx.output_mask, strict=True)
        )

    def _crosswise(
        self, ctx: Any, grad_output: Tensor, input: Tensor | None, weight: Tensor | None, mask: Tensor | None
    ) -> Gradients:
        """Dx(grad_output, weight) and Dw(grad_output, input), of those that are given."""
        wanted = (weight is not None, input is not None, False)
        return convolution_gradients(grad_output, input, weight, ctx.kernel_size, mask, ctx.geometry, wanted)[:2]


RULES: dict[str, Derivatives | Composite] = {
    "conv_transpose3d": _ForwardDerivatives(has_relu=False),
    "conv_transpose3d_relu": _ForwardDerivatives(has_relu=True),
    "conv_transpose3d_input_grad": _InputGradDerivatives(),
    "conv_transpose3d_weight_grad": _WeightGradDerivatives(),
    "conv_transpose3d_bias_grad": _BiasGradDerivatives(),
    "conv_transpose3d_backward": _BackwardDerivatives(),
}
