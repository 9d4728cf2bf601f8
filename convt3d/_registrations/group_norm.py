"""Autocast and vmap of the transposed convolution with a group norm behind it, and its CPU backward."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from convt3d._registrations import fake_norm, torch_internals
from convt3d._registrations.autocast import cast_to_lower_precision
from convt3d._registrations.derivatives import Gradients, completed, masked
from convt3d._registrations.norm_derivatives import CONVOLUTION_ARGUMENTS, RULES
from convt3d._registrations.registry import compiled_library, library, ops

_norm_backward = ops.group_norm_backward.default
_BACKWARD_ARGUMENTS = len(_norm_backward._schema.arguments)


def _cpu_backward(grad_output: Tensor, input: Tensor, *others: Any) -> Gradients:
    """By ATen's kernel, of deviations from the mean: of x itself it loses what a large mean leaves of them."""
    expected = fake_norm.group_norm_backward(grad_output, input, *others, device="meta")
    results = [
        None if one is None else torch.empty_strided(one.shape, one.stride(), dtype=one.dtype) for one in expected
    ]
    if input.numel() == 0:
        return tuple(None if result is None else result.zero_() for result in results)
    args = completed(RULES["group_norm_backward"], _BACKWARD_ARGUMENTS, (grad_output, input, *others))
    _, _, mean, rstd, weight, bias, num_groups, relu, negative_slope, output_mask = args
    wide = torch.float64 if input.dtype == torch.float64 else torch.float32
    batch, channels = input.shape[:2]
    groups = (batch, num_groups, input.numel() // (batch * num_groups))
    scale = torch.ones(channels, dtype=wide) if weight is None else weight.to(wide)
    deviations = input.to(wide).contiguous().view(groups) - mean.to(wide)[:, :, None]
    grad = grad_output.to(wide).contiguous()
    if negative_slope != 1:
        value = (deviations * rstd.to(wide)[:, :, None]).view(input.shape) * scale.view(1, channels, 1, 1, 1)
        if bias is not None:
            value += bias.to(wide).view(1, channels, 1, 1, 1)
        grad = torch.where(value <= 0, 0 if negative_slope == 0 else grad * negative_slope, grad)
    gradients = torch.ops.aten.native_group_norm_backward(
        grad,
        deviations.view(input.shape),
        torch.zeros_like(mean, dtype=wide),
        rstd.to(wide),
        scale,
        batch,
        channels,
        input[0, 0].numel(),
        num_groups,
        [*output_mask],
    )
    grad_input = masked(gradients[0] if output_mask[0] else None, input if relu else None)
    return tuple(
        None if result is None else result.copy_(gradient)
        for result, gradient in zip(results, (grad_input, *gradients[1:]), strict=True)
    )


# ---- autocast ----


def _autocast_kernel(op: Any, device_type: str, *, has_dtype: bool) -> Callable[..., Any]:
    """The convolution in lower precision; the norm, on CUDA alone, in float32: the lists of PyTorch's autocast."""
    rule = RULES[op._opname]

    def kernel(*args: Any) -> Any:
        convolution = cast_to_lower_precision(args[:CONVOLUTION_ARGUMENTS], device_type)
        norm = args[CONVOLUTION_ARGUMENTS:]
        target = op
        if device_type == "cuda":
            norm = tuple(
                arg.float() if isinstance(arg, Tensor) and arg.dtype in (torch.float16, torch.bfloat16) else arg
                for arg in norm
            )
            if convolution[0].dtype != torch.float64:
                norm = completed(rule, len(op._schema.arguments), (*convolution, *norm))[CONVOLUTION_ARGUMENTS:]
                norm, dtype = (norm[:-1], norm[-1]) if has_dtype else ((*norm, True, 1.0), None)
                norm = (*norm, torch.float32 if dtype is None else dtype)
                target = op if has_dtype else ops.conv_transpose3d_group_norm.default
        with torch_internals.without_autocast(device_type):
            return target(*convolution, *norm)

    return kernel


# ---- vmap ----


def _mapped_first(tensor: Tensor, dim: int | None, size: int) -> Tensor:
    return tensor.expand(size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)


def _into(position: int, tensor: Tensor | None, dim: int | None, size: int) -> Tensor | None:
    """The mapped dimension becomes the slower part of the one at `position`."""
    if tensor is None:
        return None
    return _mapped_first(tensor, dim, size).movedim(0, position).flatten(position, position + 1)


def _split(tensor: Tensor, position: int, size: int) -> Tensor:
    shape = tensor.shape
    return tensor.reshape(*shape[:position], size, shape[position] // size, *shape[position + 1 :])


def _forward_rule(op: Any, *, several: bool) -> Callable[..., Any]:
    def rule(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        size = info.batch_size
        dims = (*in_dims, *(None,) * (len(args) - len(in_dims)))
        tensors = {i: dims[i] for i, arg in enumerate(args) if isinstance(arg, Tensor)}
        given = list(args)
        # Images of the same weights are one larger batch, others have channels and groups of their own.
        position = 0 if all(dim is None for i, dim in tensors.items() if i > 0) else 1
        given[0] = _into(position, args[0], dims[0], size)
        if position == 1:
            for i in tensors:
                if i > 0:
                    given[i] = _into(0, args[i], dims[i], size)
            given[6] = args[6] * size  # groups
            given[CONVOLUTION_ARGUMENTS] = args[CONVOLUTION_ARGUMENTS] * size  # num_groups
        results = op(*given)
        if not several:
            return _split(results, position, size), position
        return tuple(_split(result, position, size) for result in results), (position,) * len(results)

    return rule


def _backward_rule(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
    size = info.batch_size
    grad_output, input, mean, rstd = (_into(1, args[i], in_dims[i], size) for i in range(4))
    weight, bias = (_into(0, args[i], in_dims[i], size) for i in (4, 5))
    results = _norm_backward(grad_output, input, mean, rstd, weight, bias, args[6] * size, *args[7:])
    positions = tuple(None if result is None else dim for result, dim in zip(results, (1, 0, 0), strict=True))
    return tuple(
        None if dim is None else _split(result, dim, size) for result, dim in zip(results, positions, strict=True)
    ), positions


def _register() -> None:
    forwards = {
        "conv_transpose3d_relu_group_norm": {"has_dtype": False, "several": False},
        "conv_transpose3d_group_norm": {"has_dtype": True, "several": False},
        "conv_transpose3d_group_norm_forward": {"has_dtype": True, "several": True},
    }
    for name, traits in forwards.items():
        op = getattr(ops, name).default
        for device_type, key in (("cpu", "AutocastCPU"), ("cuda", "AutocastCUDA")):
            library.impl(name, _autocast_kernel(op, device_type, has_dtype=traits["has_dtype"]), key)
        torch.library.register_vmap(f"convt3d::{name}", _forward_rule(op, several=traits["several"]), lib=library)
    torch.library.register_vmap("convt3d::group_norm_backward", _backward_rule, lib=library)
    for one in (library, compiled_library):
        one.impl("group_norm_backward", _cpu_backward, "CPU")


_register()
