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
from convt3d._registrations import torch_internals
from convt3d._registrations.derivatives import RULES, Derivatives, Gradients
from convt3d._registrations.registry import library, ops


def _complete(derivatives: Derivatives, arity: int, args: tuple[Any, ...]) -> tuple[Any, ...]:
    missing = arity - len(args)
    return args + derivatives.defaults[len(derivatives.defaults) - missing :] if missing else args


def _function_of(op: Any, derivatives: Derivatives) -> Any:
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
        for_backward, for_forward = derivatives.save(ctx, args, output)
        ctx.save_for_backward(*for_backward)
        if torch_internals.records_tangents():
            ctx.save_for_forward(*for_forward)
        return output

    def backward(ctx: Any, *grads: Tensor | None) -> Gradients:
        if grads[0] is None and all(grad is None for grad in grads):
            return no_gradients
        try:
            gradients = derivatives.backward(ctx, *grads)
        except RuntimeError as error:
            raise_if_out_of_memory(error)
            raise
        return gradients + no_gradients[len(gradients) :]

    def jvp(ctx: Any, *tangents: Any) -> Any:
        with torch_internals.outer_tangents_kept():
            return derivatives.jvp(ctx, torch_internals.primals(ctx.saved_tensors), tangents)

    name = "".join(part.capitalize() for part in op._opname.split("_"))  # what grad_fn shows
    body = {"forward": staticmethod(forward), "backward": staticmethod(backward), "jvp": staticmethod(jvp)}
    return type(name, (torch_internals.SingleLevelFunction,), body)


def _autograd_kernel(op: Any, derivatives: Derivatives, function: Any) -> Callable[..., Any]:
    arity = len(op._schema.arguments)

    def kernel(keyset: Any, *args: Any) -> Any:
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
    no_gradients = (None,) * arity

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        for_backward, _ = derivatives.save(ctx, _complete(derivatives, arity, inputs), output)
        ctx.save_for_backward(*for_backward)

    def backward(ctx: Any, *grads: Tensor | None) -> Gradients:
        gradients = derivatives.backward(ctx, *grads)
        return gradients + no_gradients[len(gradients) :]

    torch.library.register_autograd(op, backward, setup_context=setup_context, lib=library)


FUNCTIONS: dict[Any, Any] = {}  # of each operator of `ops`, for `torch_internals.call`


def _register() -> None:
    for name, derivatives in RULES.items():
        packet = getattr(ops, name)
        op = packet.default
        if torch_internals.AVAILABLE:
            function = FUNCTIONS[packet] = _function_of(op, derivatives)
            library.impl(name, _autograd_kernel(op, derivatives, function), "Autograd", with_keyset=True)
        else:
            _register_publicly(op, derivatives)


_register()
