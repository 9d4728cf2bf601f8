"""`torch.vmap` of the operators.

Where all slices share the weight, the mapped dimension joins the batch; where each has its own, as in the weight's
gradient, it multiplies the groups. One call of the operator does the whole map.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from convt3d._registrations.registry import library, ops

_Dim = int | None  # the mapped dimension of an argument
_Mapped = tuple[Tensor, int]  # a result and its mapped dimension
_Gradient = Tensor | None
_GEOMETRY_DEFAULTS = ((1, 1, 1), (0, 0, 0), (0, 0, 0), 1, (1, 1, 1))
_BACKWARD_DEFAULTS = (*_GEOMETRY_DEFAULTS, (True, True, True))


def _mapped_first(tensor: Tensor, dim: _Dim, size: int) -> Tensor:
    return tensor.expand(size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)


def _into_first(tensor: Tensor | None, dim: _Dim, size: int) -> Tensor | None:
    """[A, ...] -> [size * A, ...]."""
    return None if tensor is None else _mapped_first(tensor, dim, size).flatten(0, 1)


def _into_second(tensor: Tensor | None, dim: _Dim, size: int) -> Tensor | None:
    """[A, B, ...] -> [A, size * B, ...]."""
    return None if tensor is None else _mapped_first(tensor, dim, size).movedim(0, 1).flatten(1, 2)


def _split(result: Tensor, dim: int, size: int) -> Tensor:
    shape = result.shape
    return result.reshape(*shape[:dim], size, shape[dim] // size, *shape[dim + 1 :])


def _geometry(given: tuple[Any, ...], factor: int) -> tuple[Any, ...]:
    """The five parameters, with `factor` times the groups."""
    stride, padding, output_padding, groups, dilation = given + _GEOMETRY_DEFAULTS[len(given) :]
    return stride, padding, output_padding, groups * factor, dilation


def _forward_rule(op: Any) -> Callable[..., _Mapped]:
    def rule(
        info: Any, in_dims: tuple[_Dim, ...], input: Tensor, weight: Tensor, bias: Tensor | None = None, *geometry: Any
    ) -> _Mapped:
        size = info.batch_size
        input_dim, weight_dim, bias_dim = (*in_dims, None)[:3]
        if weight_dim is None and bias_dim is None:
            output = op(_into_first(input, input_dim, size), weight, bias, *geometry)
            return _split(output, 0, size), 0
        output = op(
            _into_second(input, input_dim, size),
            _into_first(weight, weight_dim, size),
            _into_first(bias, bias_dim, size),
            *_geometry(geometry, size),
        )
        return _split(output, 1, size), 1

    return rule


def _input_grad_rule(
    info: Any,
    in_dims: tuple[_Dim, ...],
    grad_output: Tensor,
    weight: Tensor,
    relu_output: Tensor | None = None,
    *geometry: Any,
) -> _Mapped:
    size = info.batch_size
    grad_output_dim, weight_dim, relu_output_dim = (*in_dims, None)[:3]
    if weight_dim is None:
        grad_input = ops.conv_transpose3d_input_grad(
            _into_first(grad_output, grad_output_dim, size),
            weight,
            _into_first(relu_output, relu_output_dim, size),
            *geometry,
        )
        return _split(grad_input, 0, size), 0
    grad_input = ops.conv_transpose3d_input_grad(
        _into_second(grad_output, grad_output_dim, size),
        _into_first(weight, weight_dim, size),
        _into_second(relu_output, relu_output_dim, size),
        *_geometry(geometry, size),
    )
    return _split(grad_input, 1, size), 1


def _weight_grad_rule(
    info: Any,
    in_dims: tuple[_Dim, ...],
    grad_output: Tensor,
    input: Tensor,
    kernel_size: Any,
    relu_output: Tensor | None = None,
    *geometry: Any,
) -> _Mapped:
    size = info.batch_size
    grad_output_dim, input_dim, _, relu_output_dim = (*in_dims, None)[:4]
    grad_weight = ops.conv_transpose3d_weight_grad(
        _into_second(grad_output, grad_output_dim, size),
        _into_second(input, input_dim, size),
        kernel_size,
        _into_second(relu_output, relu_output_dim, size),
        *_geometry(geometry, size),
    )
    return _split(grad_weight, 0, size), 0


def _bias_grad_rule(
    info: Any, in_dims: tuple[_Dim, ...], grad_output: Tensor, relu_output: Tensor | None = None
) -> _Mapped:
    size = info.batch_size
    grad_output_dim, relu_output_dim = (*in_dims, None)[:2]
    grad_bias = ops.conv_transpose3d_bias_grad(
        _into_second(grad_output, grad_output_dim, size), _into_second(relu_output, relu_output_dim, size)
    )
    return _split(grad_bias, 0, size), 0


def _backward_rule(
    info: Any,
    in_dims: tuple[_Dim, ...],
    grad_output: Tensor,
    input: Tensor,
    weight: Tensor,
    relu_output: Tensor | None = None,
    *others: Any,
) -> tuple[tuple[_Gradient, ...], tuple[_Dim, ...]]:
    size = info.batch_size
    grad_output_dim, input_dim, weight_dim, relu_output_dim = (*in_dims, None)[:4]
    others += _BACKWARD_DEFAULTS[len(others) :]
    geometry, output_mask = others[:-1], others[-1]
    if weight_dim is None:  # then the mapped dimension of one gradient is the batch's, of the others a factor of groups
        mask, mask_dim = relu_output, relu_output_dim
        of_input = (grad_output_dim, weight_dim, mask_dim)
        of_weight = (grad_output_dim, input_dim, None, mask_dim)
        of_bias = (grad_output_dim, mask_dim)
        kernel_size = weight.shape[2:]
        results = [
            _input_grad_rule(info, of_input, grad_output, weight, mask, *geometry) if output_mask[0] else (None, None),
            _weight_grad_rule(info, of_weight, grad_output, input, kernel_size, mask, *geometry)
            if output_mask[1]
            else (None, None),
            _bias_grad_rule(info, of_bias, grad_output, mask) if output_mask[2] else (None, None),
        ]
        gradients, dims = zip(*results, strict=True)
        return gradients, dims
    together = ops.conv_transpose3d_backward(
        _into_second(grad_output, grad_output_dim, size),
        _into_second(input, input_dim, size),
        _into_first(weight, weight_dim, size),
        _into_second(relu_output, relu_output_dim, size),
        *_geometry(geometry, size),
        output_mask,
    )
    dims = tuple(dim if wanted else None for dim, wanted in zip((1, 0, 0), output_mask, strict=True))
    return tuple(
        None if dim is None else _split(gradient, dim, size) for gradient, dim in zip(together, dims, strict=True)
    ), dims


def _register() -> None:
    rules: dict[str, Callable[..., Any]] = {
        "conv_transpose3d": _forward_rule(ops.conv_transpose3d),
        "conv_transpose3d_relu": _forward_rule(ops.conv_transpose3d_relu),
        "conv_transpose3d_input_grad": _input_grad_rule,
        "conv_transpose3d_weight_grad": _weight_grad_rule,
        "conv_transpose3d_bias_grad": _bias_grad_rule,
        "conv_transpose3d_backward": _backward_rule,
    }
    for name, rule in rules.items():
        torch.library.register_vmap(f"convt3d::{name}", rule, lib=library)


_register()
