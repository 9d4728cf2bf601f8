"""What TorchInductor makes of the operators.

**Below autograd.** Its code calls the operators where derivatives and autocast are done with, yet the dispatcher would
visit their Autograd kernels, which are in Python and take a third of the host's time of a call. So it calls the same
operators of another namespace, `convt3d_inductor`, that have none.

**Norms taken apart.** Applying a norm is pointwise, and TorchInductor fuses pointwise operations with whatever follows:
the cast of the float32 result that autocast asks for, the addition of a skip connection, the next activation. So
`conv_transpose3d_channel_norms` has the convolution and the norm of each channel, and the rest is PyTorch's operations:
each operation that is fused saves a pass over a layer's largest tensor. A norm stays whole where that is better:

- in a call without derivatives whose result has the convolution's dtype, which may take the convolution's place in
  memory, or never have it there (docs/dev/group-norm.md, "Three ways");
- where channels are contiguous: TorchInductor's code for this took up to twice as long there as in rows, on an H200;
- in float64, as the norms of channels are float32.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from convt3d._registrations import derivatives, norm_derivatives
from convt3d._registrations.at_import import when_imported
from convt3d._registrations.derivatives import completed
from convt3d._registrations.fake_norm import NUMBERS_OF_NORM
from convt3d._registrations.memory_format import result_memory_format
from convt3d._registrations.norm_derivatives import CONVOLUTION_ARGUMENTS
from convt3d._registrations.registry import compiled_ops, ops

# Whether it has the convolution's result among its own.
_NORMS = {"conv_transpose3d_group_norm": False, "conv_transpose3d_group_norm_forward": True}


def apply_norms(x: Tensor, norms: Tensor, negative_slope: float, dtype: torch.dtype) -> Tensor:
    """What the kernels do with the norms of channels [N * C, 4], and the activation behind them."""
    of_channels = norms.view(x.shape[0], x.shape[1], NUMBERS_OF_NORM, 1, 1, 1)
    center, scale, shift, _ = of_channels.unbind(2)
    values = (x.float() - center) * scale + shift
    if negative_slope == 0:
        values = values.relu()
    elif negative_slope != 1:
        values = torch.where(values > 0, values, values * negative_slope)
    return values.to(dtype)


def _taken_apart(name: str, *, keeps: bool) -> Callable[..., Any]:
    whole = getattr(compiled_ops, name).default
    rule, arity = norm_derivatives.RULES[name], len(whole._schema.arguments)

    def decomposition(*args: Any) -> Any:
        input, weight = args[:2]
        convolution, norm = args[:CONVOLUTION_ARGUMENTS], completed(rule, arity, args)[CONVOLUTION_ARGUMENTS:]
        *statistics, negative_slope, dtype = norm
        may_lie_in_place = not keeps and dtype in (None, input.dtype)
        is_channels_last = result_memory_format(input, weight) == torch.channels_last_3d
        if may_lie_in_place or is_channels_last or input.dtype == torch.float64:
            return whole(*args)
        x, norms, mean, rstd = compiled_ops.conv_transpose3d_channel_norms.default(*convolution, *statistics)
        output = apply_norms(x, norms, negative_slope, dtype or x.dtype)
        return (output, x, mean, rstd) if keeps else output

    return decomposition


def _below_autograd(name: str) -> Callable[..., Any]:
    op = getattr(compiled_ops, name).default

    def decomposition(*args: Any) -> Any:
        return op(*args)

    return decomposition


def _register(decomposition: Any) -> None:
    for name in (*derivatives.RULES, *norm_derivatives.RULES):
        function = _taken_apart(name, keeps=_NORMS[name]) if name in _NORMS else _below_autograd(name)
        decomposition.register_decomposition([getattr(ops, name).default])(function)
    remembered: Any = getattr(decomposition, "fast_random_decomps", None)
    if hasattr(remembered, "cache_clear"):  # a copy of the table, from what was compiled before this was imported
        remembered.cache_clear()


when_imported("torch._inductor.decomposition", _register)
