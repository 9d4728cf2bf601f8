"""`torch.autocast` for the two forward operators: PyTorch's lower-precision list, which holds its own convolutions."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from convt3d._registry import library, ops

_KEYS = {"cpu": "AutocastCPU", "cuda": "AutocastCUDA"}


def _autocast_kernel(op: Any, device_type: str) -> Callable[..., Tensor]:
    def cast(arg: Any, dtype: torch.dtype) -> Any:
        # PyTorch's own rule: float64 was asked for on purpose and stays
        eligible = (
            isinstance(arg, Tensor)
            and arg.device.type == device_type
            and arg.is_floating_point()
            and arg.dtype != torch.float64
        )
        return arg.to(dtype) if eligible else arg

    def kernel(*args: Any) -> Tensor:
        dtype = torch.get_autocast_dtype(device_type)  # the one asked for; torch.library.register_autocast fixes one
        with torch.autocast(device_type, enabled=False):
            output: Tensor = op(*(cast(arg, dtype) for arg in args))
        return output

    return kernel


def _register() -> None:
    for name in ("conv_transpose3d", "conv_transpose3d_relu"):
        op = getattr(ops, name).default
        for device_type, key in _KEYS.items():
            library.impl(name, _autocast_kernel(op, device_type), key)


_register()
