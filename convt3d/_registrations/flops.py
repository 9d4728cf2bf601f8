"""Floating-point operations of the operators for `torch.utils.flop_counter.FlopCounterMode`, by PyTorch's formula.

PyTorch's module of flop counters imports Triton where that is installed, so it is not imported from here: the formulas
are registered when somebody else imports it.
"""

import math
from collections.abc import Sequence
from typing import Any

from convt3d._registrations.at_import import when_imported
from convt3d._registrations.registry import ops


def _flops(input: Sequence[int], weight: Sequence[int]) -> int:
    """Two for each input voxel and element of the weight, also where padding cuts the product off, as in PyTorch."""
    batch, _, *size = input
    return 2 * batch * math.prod(size) * math.prod(weight)


def _forward(input: Sequence[int], weight: Sequence[int], *_args: Any, out_shape: Any = None, **_kwargs: Any) -> int:
    return _flops(input, weight)


def _input_grad(
    grad_output: Sequence[int], weight: Sequence[int], *_args: Any, out_shape: Any = None, **_kwargs: Any
) -> int:
    return _flops(out_shape, weight)


def _weight_grad(
    grad_output: Sequence[int], input: Sequence[int], *_args: Any, out_shape: Any = None, **_kwargs: Any
) -> int:
    return _flops(input, out_shape)


def _backward(
    grad_output: Sequence[int],
    input: Sequence[int],
    weight: Sequence[int],
    *args: Any,
    out_shape: Any = None,
    **kwargs: Any,
) -> int:
    input_grad, weight_grad, _ = out_shape
    return _flops(input, weight) * ((input_grad is not None) + (weight_grad is not None))


def _register(flop_counter: Any) -> None:
    register = flop_counter.register_flop_formula
    forwards = [ops.conv_transpose3d, ops.conv_transpose3d_relu]
    # A norm counts nothing, as in PyTorch.
    forwards += [ops.conv_transpose3d_relu_group_norm, ops.conv_transpose3d_group_norm]
    register([*forwards, ops.conv_transpose3d_group_norm_forward])(_forward)
    register(ops.conv_transpose3d_input_grad)(_input_grad)
    register(ops.conv_transpose3d_weight_grad)(_weight_grad)
    register(ops.conv_transpose3d_backward)(_backward)


when_imported("torch.utils.flop_counter", _register)
