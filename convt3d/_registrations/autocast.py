"""`torch.autocast` for the two forward operators: PyTorch's lower-precision list, which holds its own convolutions."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from convt3d._registrations import torch_internals
from convt3d._registrations.autograd import FUNCTIONS
from convt3d._registrations.derivatives import RULES
from convt3d._registrations.registry import library, ops

_KEYS = {"cpu": "AutocastCPU", "cuda": "AutocastCUDA"}
_DEFAULTS = (None, None, *RULES["conv_transpose3d"].defaults)


def cast_to_lower_precision(args: tuple[Any, ...], device_type: str) -> tuple[Any, ...]:
    """The arguments as autocast hands them to a convolution."""
    dtype = torch.get_autocast_dtype(device_type)  # the one asked for; torch.library.register_autocast fixes one

    def cast(arg: Any) -> Any:
        # PyTorch's own rule: float64 was asked for on purpose and stays
        eligible = (
            isinstance(arg, Tensor)
            and arg.device.type == device_type
            and arg.is_floating_point()
            and arg.dtype != torch.float64
        )
        return arg.to(dtype) if eligible else arg

    return tuple(cast(arg) for arg in args)


def call(op: Any, args: tuple[Any, ...]) -> Tensor:
    """Calls one of the two operators on all its arguments as `op(*args)` does, in less of the host's time.

    The dispatcher converts each list of ints and calls kernels in Python: this leaves out arguments at the end that
    have their default value, and casts under autocast itself.
    """
    output: Tensor
    if torch.compiler.is_compiling():
        output = op(*args)
        return output
    end = len(args)
    while end > 3 and args[end - 1] == _DEFAULTS[end - 1]:
        end -= 1
    args, function = args[:end], FUNCTIONS.get(op)
    if torch_internals.some_autocast_is_enabled():
        device_type = args[0].device.type
        if device_type in _KEYS and torch.is_autocast_enabled(device_type):
            args = cast_to_lower_precision(args, device_type)
            with torch_internals.without_autocast(device_type):
                output = torch_internals.call(op, args, function)
            return output
    output = torch_internals.call(op, args, function)
    return output


def _autocast_kernel(op: Any, device_type: str) -> Callable[..., Tensor]:
    def kernel(*args: Any) -> Tensor:
        args = cast_to_lower_precision(args, device_type)
        with torch_internals.without_autocast(device_type):
            output: Tensor = op(*args)
        return output

    return kernel


def _register() -> None:
    for name in ("conv_transpose3d", "conv_transpose3d_relu"):
        op = getattr(ops, name).default
        for device_type, key in _KEYS.items():
            library.impl(name, _autocast_kernel(op, device_type), key)


_register()
