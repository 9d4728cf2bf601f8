"""The private parts of PyTorch that this package uses, all in one place.

`torch.library.register_autograd` cannot express what the Autograd kernels of `autograd` do (compose with
`torch.func.grad`, carry forward-mode tangents), so these reach one level deeper. PyTorch may move any of it:
`AVAILABLE` tells whether this release has it all; where it is False, `autograd` falls back to the public one.
"""

import dataclasses
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

# As Any: PyTorch's annotations of these differ from release to release, or are missing.
_C: Any = torch._C
_jit: Any = torch.jit
_forward_ad: Any = forward_ad
_function: Any = torch.autograd.function
try:
    from torch._functorch import utils

    _functorch_utils: Any = utils
except ImportError:
    _functorch_utils = None


def _has(module: Any, *names: str) -> bool:
    return all(hasattr(module, name) for name in names)


AVAILABLE = (
    _has(_C, "_after_autograd_keyset", "_any_requires_grad", "_AutoDispatchBelowAutograd", "_functorch")
    and _has(_C, "_dispatch_tls_is_dispatch_key_excluded")
    and _has(_C.DispatchKey, "AutogradFunctionality")
    and _has(_C._functorch, "peek_interpreter_stack")
    and _has(_forward_ad, "_current_level", "_set_fwd_grad_enabled")
    and _has(_function, "_SingleLevelFunction")
    and _has(_functorch_utils, "enable_single_level_autograd_function")
    and _has(torch._ops.OpOverload, "redispatch")
)

_AUTOGRAD: Any = getattr(_C.DispatchKey, "AutogradFunctionality", None)

# An autograd.Function that acts on one level only: under functorch each level runs its own Autograd kernel.
SingleLevelFunction: Any = getattr(_function, "_SingleLevelFunction", torch.autograd.Function)


def in_function_transform() -> bool:
    """Whether a `torch.func` transform is being interpreted."""
    return _C._functorch.peek_interpreter_stack() is not None


# Whether `torch.jit.trace` is recording; the private one is called by the other, in Python.
is_traced: Any = getattr(_C, "_is_tracing", _jit.is_tracing)


def records_tangents() -> bool:
    """Whether forward-mode differentiation, or a `torch.func` transform of either mode, must see a call."""
    return _forward_ad._current_level >= 0 or _C._functorch.peek_interpreter_stack() is not None


def records_derivatives(args: tuple[Any, ...]) -> bool:
    """Whether a call with these arguments must be seen by reverse- or forward-mode differentiation."""
    return (torch.is_grad_enabled() and _C._any_requires_grad(*args)) or records_tangents()


def call(op: Any, args: tuple[Any, ...], function: Any = None) -> Any:
    """Calls `op` as `op(*args)` does, where that is the same past its Autograd kernel, which is a way through Python.

    Where nothing records derivatives, that is below autograd; where only reverse mode does, `function`, the operator's
    `SingleLevelFunction` without a keyset, where it is given.
    """
    if not AVAILABLE or torch.compiler.is_compiling() or records_tangents():
        return op(*args)
    if torch.is_grad_enabled() and _C._any_requires_grad(*args):
        if function is None or is_traced() or _C._dispatch_tls_is_dispatch_key_excluded(_AUTOGRAD):
            return op(*args)
        return function.apply(*args, None)
    return call_below_autograd(op, args)


def call_below_autograd(op: Any, args: tuple[Any, ...]) -> Any:
    """Calls `op` past its Autograd kernel."""
    with _C._AutoDispatchBelowAutograd():
        return op(*args)


def redispatch_below_autograd(op: Any, keyset: Any, args: tuple[Any, ...]) -> Any:
    """Calls the next kernel of `op` under the Autograd key."""
    with _C._AutoDispatchBelowAutograd():
        return op.redispatch(keyset & _C._after_autograd_keyset, *args)


def redispatch_to_next_level(op: Any, keyset: Any, args: tuple[Any, ...]) -> Any:
    """The same from inside `SingleLevelFunction.forward`.

    PyTorch switches both modes of differentiation off around it: right for the level at hand, wrong for the levels of a
    function transform further out.
    """
    if not in_function_transform():
        return redispatch_below_autograd(op, keyset, args)
    with torch.enable_grad(), outer_tangents_kept():
        return redispatch_below_autograd(op, keyset, args)


def apply(function: Any, args: tuple[Any, ...]) -> Any:
    """Applies a `SingleLevelFunction`, also under a function transform."""
    if in_function_transform():
        with _functorch_utils.enable_single_level_autograd_function():
            return function.apply(*args)
    return function.apply(*args)


def outer_tangents_kept() -> AbstractContextManager[None]:
    """Context for the body of `SingleLevelFunction.jvp`.

    PyTorch switches forward mode off around it: right for the level at hand, wrong for those further out. With
    `primals` in place of the saved tensors, nothing is left to switch off at this level.
    """
    context: AbstractContextManager[None] = _forward_ad._set_fwd_grad_enabled(True)
    return context


def primals(tensors: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
    """The tensors without their tangents at the level at hand."""
    return tuple(None if tensor is None else _forward_ad.unpack_dual(tensor, level=0).primal for tensor in tensors)


def _true() -> bool:
    return True


# Whether autocast is enabled for any type of device: True where PyTorch has no quick answer.
some_autocast_is_enabled: Any = getattr(_C, "_is_any_autocast_enabled", _true)


def without_autocast(device_type: str) -> AbstractContextManager[Any]:
    """Below autocast. `torch.autocast(enabled=False)` does the same and takes the host several times as long."""
    guard: Any = getattr(_C, "_DisableAutocast", None)
    return torch.autocast(device_type, enabled=False) if guard is None else guard()


class ShardingCache:
    """The shardings that DTensor remembers from earlier calls."""

    def __init__(self, dtensor: Any) -> None:
        self._infos = dtensor.DTensor._op_dispatcher.sharding_propagator.op_to_schema_info

    def distinguish_all_arguments(self, op: Any) -> None:
        """Tells calls of `op` apart by every argument, after `register_sharding(op)`.

        That would do it from the first int on, so that calls which differ in a list of ints, the stride, share the
        shape of one result.
        """
        is_tensor = ["Tensor" in str(argument.type) for argument in op._schema.arguments]
        first = is_tensor.index(False) if False in is_tensor else len(is_tensor)
        # No argument is a list of tensors, which is what pytrees are for: they take the host as long as the operator.
        self._infos[op] = dataclasses.replace(self._infos[op], static_argnum=first, needs_pytree=False)
