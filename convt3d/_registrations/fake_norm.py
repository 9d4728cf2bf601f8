"""Fake kernels of the operators with a group norm; see `fake`. The checks are those of csrc/ops/norm_checks.cpp."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from convt3d._registrations.fake import ACTIVATION, Checks, dtype_name, forward_kernel, text_of
from convt3d._registrations.memory_format import has_channels_last_strides
from convt3d._registrations.registry import compiled_library, register_fake

NUMBERS_OF_NORM = 4  # of a channel: ChannelNorm in csrc/epilogue/epilogue.h


def _of_norm(checks: Checks, name: str, tensor: Tensor | None, input: Tensor, channels: Any) -> None:
    if tensor is None:
        return
    checks.that(
        tensor.device == input.device,
        lambda: f"{name} must be on the device of input, {input.device}, got {tensor.device}",
    )
    _goes_with(checks, name, tensor.dtype, input)
    checks.that(
        tensor.dim() == 1 and tensor.shape[0] == channels,
        lambda: f"{name} must be 1-D with C_out = {channels} elements, got shape {text_of(tensor.shape)}",
    )


def _goes_with(checks: Checks, name: str, dtype: torch.dtype, input: Tensor) -> None:
    half = input.dtype in (torch.float16, torch.bfloat16)
    valid = f"{dtype_name(input)}{' or float32' if half else ''}"
    checks.that(
        dtype == input.dtype or (half and dtype == torch.float32),
        lambda: (
            f"{name} must be of dtype {valid} beside input of {dtype_name(input)}, got "
            f"{str(dtype).removeprefix('torch.')}"
        ),
    )


def _norm_groups(checks: Checks, channels: Any, num_groups: Any) -> None:
    checks.that(num_groups >= 1, lambda: f"num_groups must be positive, got {num_groups}")
    checks.that(
        channels % num_groups == 0,
        lambda: f"num_groups must divide the channels of what is normalised, C_out = {channels}, got {num_groups}",
    )


def _slope(checks: Checks, negative_slope: float) -> None:
    checks.that(math.isfinite(negative_slope), lambda: f"negative_slope must be finite, got {negative_slope}")


def _channel_norms(name: str) -> Callable[..., tuple[Tensor, ...]]:
    checks = Checks(name)
    convolve = forward_kernel(name)

    def fake(
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        stride: Any,
        padding: Any,
        output_padding: Any,
        groups: Any,
        dilation: Any,
        num_groups: Any,
        norm_weight: Tensor | None = None,
        norm_bias: Tensor | None = None,
        eps: float = 1e-5,
        relu: bool = False,
    ) -> tuple[Tensor, ...]:
        x = convolve(input, weight, bias, stride, padding, output_padding, groups, dilation)
        batch, channels = x.shape[:2]
        _norm_groups(checks, channels, num_groups)
        _of_norm(checks, "norm_weight", norm_weight, input, channels)
        _of_norm(checks, "norm_bias", norm_bias, input, channels)
        if norm_weight is not None and norm_bias is not None:
            checks.that(
                norm_weight.dtype == norm_bias.dtype,
                lambda: (
                    f"norm_bias must have the dtype of norm_weight, {dtype_name(norm_weight)}, got "
                    f"{dtype_name(norm_bias)}"
                ),
            )
        checks.that(0 <= eps < math.inf, lambda: f"eps must be non-negative and finite, got {eps}")
        norms = x.new_empty([batch * channels, NUMBERS_OF_NORM], dtype=torch.float32)
        mean, rstd = (x.new_empty([batch, num_groups], dtype=torch.float64) for _ in range(2))
        return x, norms, mean, rstd

    return fake


def _norm_kernel(name: str, *, keeps: bool) -> Callable[..., Any]:
    checks = Checks(name)
    of_channels = _channel_norms(name)

    def fake(
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        stride: Any,
        padding: Any,
        output_padding: Any,
        groups: Any,
        dilation: Any,
        num_groups: Any,
        norm_weight: Tensor | None = None,
        norm_bias: Tensor | None = None,
        eps: float = 1e-5,
        relu: bool = False,
        negative_slope: float = 1.0,
        dtype: torch.dtype | None = None,
    ) -> Any:
        convolution = (input, weight, bias, stride, padding, output_padding, groups, dilation)
        x, _, *statistics = of_channels(*convolution, num_groups, norm_weight, norm_bias, eps, relu)
        _slope(checks, negative_slope)
        if dtype is not None:
            _goes_with(checks, "dtype", dtype, input)
        output = torch.empty_strided(x.shape, x.stride(), dtype=dtype or x.dtype, device=x.device)
        return (output, x, *statistics) if keeps else output

    return fake


def group_norm_backward(
    grad_output: Tensor,
    input: Tensor,
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    num_groups: Any,
    relu: bool = False,
    negative_slope: float = 1.0,
    output_mask: Any = (True, True, True),
    *,
    device: Any = None,
) -> tuple[Tensor | None, ...]:
    """Also what checks the arguments of the kernel on the CPU, with results on the `device` meta."""
    checks = Checks("group_norm_backward")
    for name, tensor in (("input", input), ("grad_output", grad_output)):
        checks.tensor(name, tensor, 5, ACTIVATION)
    checks.dtype("input", input)
    for size, expected in zip(grad_output.shape, input.shape, strict=True):
        checks.that(
            size == expected,
            lambda: (
                f"grad_output must have the shape of input, {text_of(input.shape)}, got {text_of(grad_output.shape)}"
            ),
        )
    checks.that(
        grad_output.device == input.device,
        lambda: f"grad_output must be on the device of input, {input.device}, got {grad_output.device}",
    )
    _goes_with(checks, "grad_output", grad_output.dtype, input)
    channels = input.shape[1]
    _norm_groups(checks, channels, num_groups)
    for name, statistic in (("mean", mean), ("rstd", rstd)):
        checks.that(
            statistic.dtype == torch.float64
            and statistic.dim() == 2
            and statistic.shape[0] == input.shape[0]
            and statistic.shape[1] == num_groups,
            lambda name=name, statistic=statistic: (  # type: ignore[misc]
                f"{name} must be a dense tensor (N, num_groups) of dtype float64, got shape "
                f"{text_of(statistic.shape)} of dtype {dtype_name(statistic)}"
            ),
        )
    _of_norm(checks, "weight", weight, input, channels)
    _of_norm(checks, "bias", bias, input, channels)
    _slope(checks, negative_slope)
    checks.mask(output_mask)
    affine = weight if weight is not None else bias
    wide = torch.float64 if input.dtype == torch.float64 else torch.float32
    vector_dtype = wide if affine is None else affine.dtype
    place = input.device if device is None else device
    last = has_channels_last_strides(input.shape, input.stride())
    memory_format = torch.channels_last_3d if last else torch.contiguous_format
    grad_input = torch.empty(input.shape, dtype=input.dtype, device=place, memory_format=memory_format)
    vectors = (torch.empty([channels], dtype=vector_dtype, device=place) for _ in range(2))
    return tuple(tensor if wanted else None for tensor, wanted in zip((grad_input, *vectors), output_mask, strict=True))


def _register() -> None:
    kernels: dict[str, Callable[..., Any]] = {
        "conv_transpose3d_relu_group_norm": _norm_kernel("conv_transpose3d_relu_group_norm", keeps=False),
        "conv_transpose3d_group_norm": _norm_kernel("conv_transpose3d_group_norm", keeps=False),
        "conv_transpose3d_group_norm_forward": _norm_kernel("conv_transpose3d_group_norm_forward", keeps=True),
        "group_norm_backward": group_norm_backward,
    }
    for name, kernel in kernels.items():
        register_fake(name, kernel)
    torch.library.register_fake(
        "convt3d_inductor::conv_transpose3d_channel_norms",
        _channel_norms("conv_transpose3d_channel_norms"),
        lib=compiled_library,
    )


_register()
