"""Autograd kernels of the operators, from the rules of `derivatives`.

An operator's kernel under the Autograd key applies the operator's autograd.Function where something records
derivatives, and else goes on below autograd. A call from Python can apply the function itself (`torch_internals.call`),
without the dispatcher's way to a Python kernel.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from convt3d._errors import raise_if_out_of_memory
from convt3d._registrations import derivatives, norm_derivatives, torch_internals
from convt3d._registrations.derivatives import Composite, Derivatives, Gradients, Saved, completed
from convt3d._registrations.registry import library, ops


def _function_of(op: Any, rule: Derivatives) -> Any:
    """The autograd.Function of `op`; its last argument is the dispatcher's keyset, None in a call from Python."""
    arity = len(op._schema.arguments)
    no_gradients = (None,) * (arity + 1)

    def forward(ctx: Any, *args_and_keyset: Any) -> Any:
        args, keyset = args_and_keyset[:-1], args_and_keyset[-1]
        if keyset is None:
            output = torch_internals.call_below_autograd(op, args)
        else:
            output = torch_internals.redispatch_to_next_level(op, keyset, args)
        ctx.set_materialize_grads(False)
        for_backward, for_forward = rule.save(ctx, args, output)
        ctx.save_for_backward(*for_backward)
        if torch_internals.records_tangents():
            ctx.save_for_forward(*for_forward)
        return output

    def backward(ctx: Any, *grads: Tensor | None) -> Gradients:
        if grads[0] is None and all(grad is None for grad in grads):
            return no_gradients
        try:
            gradients = rule.backward(ctx, *grads)
        except RuntimeError as error:
            raise_if_out_of_memory(error)
            raise
        return gradients + no_gradients[len(gradients) :]

    def jvp(ctx: Any, *tangents: Any) -> Any:
        with torch_internals.outer_tangents_kept():
            return rule.jvp(ctx, torch_internals.primals(ctx.saved_tensors), tangents)

    name = "".join(part.capitalize() for part in op._opname.split("_"))  # what grad_fn shows
    body = {"forward": staticmethod(forward), "backward": staticmethod(backward), "jvp": staticmethod(jvp)}
    return type(name, (torch_internals.SingleLevelFunction,), body)


def _autograd_kernel(op: Any, rule: Derivatives | Composite) -> Callable[..., Any]:
    arity = len(op._schema.arguments)
    function = None if isinstance(rule, Composite) else FUNCTIONS[op.overloadpacket]

    def kernel(keyset: Any, *args: Any) -> Any:
        try:
            if not torch_internals.records_derivatives(args):
                return torch_internals.redispatch_below_autograd(op, keyset, args)
            args = completed(rule, arity, args)
            if isinstance(rule, Composite):
                return rule.function(*args)
            return torch_internals.apply(function, (*args, keyset))
        except RuntimeError as error:
            raise_if_out_of_memory(error)
            raise

    return kernel


class _OfComposite:
    """The derivatives of a `Composite` as `Derivatives`: the backward computes the function again, differentiably."""

    def __init__(self, rule: Composite) -> None:
        self.defaults, self._function = rule.defaults, rule.function

    def save(self, ctx: Any, args: Saved, output: Any) -> tuple[Gradients, Gradients]:
        is_tensor = [isinstance(arg, Tensor) for arg in args]
        ctx.args = [None if tensor else arg for arg, tensor in zip(args, is_tensor, strict=True)]
        ctx.positions = [position for position, tensor in enumerate(is_tensor) if tensor]
        return tuple(args[position] for position in ctx.positions), ()

    def backward(self, ctx: Any, *grads: Tensor | None) -> Gradients:
        args, needed = list(ctx.args), ctx.needs_input_grad
        is_differentiated_again = torch.is_grad_enabled()
        with torch.enable_grad():
            for position, tensor in zip(ctx.positions, ctx.saved_tensors, strict=True):
                args[position] = tensor.view_as(tensor)  # one argument may be computed from another
            results = self._function(*args)
        results = (results,) if isinstance(results, Tensor) else results
        known = [(one, grad) for one, grad in zip(results, grads, strict=True) if one is not None and grad is not None]
        gradients = torch.autograd.grad(
            [result for result, _ in known],
            [arg for arg, wanted in zip(args, needed, strict=False) if wanted],
            [grad for _, grad in known],
            create_graph=is_differentiated_again,
            allow_unused=True,
        )
        found = iter(gradients)
        return tuple(next(found) if wanted else None for wanted in needed)

    def jvp(self, ctx: Any, saved: Saved, tangents: Saved) -> Any:
        raise NotImplementedError


def _register_publicly(op: Any, rule: Derivatives) -> None:
    """The same derivatives without private helpers, and so without forward mode and `torch.func.grad`."""
    arity = len(op._schema.arguments)
    no_gradients = (None,) * arity

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        for_backward, _ = rule.save(ctx, completed(rule, arity, inputs), output)
        ctx.save_for_backward(*for_backward)

    def backward(ctx: Any, *grads: Tensor | None) -> Gradients:
        gradients = rule.backward(ctx, *grads)
        return gradients + no_gradients[len(gradients) :]

    torch.library.register_autograd(op, backward, setup_context=setup_context, lib=library)


FUNCTIONS: dict[Any, Any] = {}  # of operators of `ops` that have derivatives of their own, for `torch_internals.call`


def _register() -> None:
    for name, rule in {**derivatives.RULES, **norm_derivatives.RULES}.items():
        packet = getattr(ops, name)
        op = packet.default
        if not torch_internals.AVAILABLE:
            _register_publicly(op, _OfComposite(rule) if isinstance(rule, Composite) else rule)
            continue
        if not isinstance(rule, Composite):
            FUNCTIONS[packet] = _function_of(op, rule)
        library.impl(name, _autograd_kernel(op, rule), "Autograd", with_keyset=True)


_register()
