"""Measures recorded calls: convt3d beside PyTorch, which is cuDNN on a GPU.

On a GPU with the clock of the benchmark; on the CPU with the host's.
"""

from __future__ import annotations

import contextlib
import functools
import statistics
import time
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from convt3d._explain.call import precision_of
from convt3d._library import why_not_on
from convt3d._registrations.registry import ops
from convt3d.benchmark.calls import exhaustive_cudnn
from convt3d.benchmark.timing import Repetitions, Timer, warm_up

if TYPE_CHECKING:
    from collections.abc import Callable

    from convt3d._explain.recording import RecordedCall

_HOST_CALLS, _HOST_BUDGET_MS = 20, 200.0
Times = tuple["float | None", "float | None", str]  # of convt3d, of PyTorch, and why one is missing


class Measurements:
    """Times of calls; equal calls are measured once.

    With `training`, of the forward and all gradients together; with `on_host`, of calls on the CPU too.
    """

    def __init__(self, *, training: bool = False, on_host: bool = False) -> None:
        self._training, self._on_host = training, on_host
        self._known: dict[object, Times] = {}
        self._timers: dict[torch.device, Timer] = {}

    def times(self, call: RecordedCall) -> Times:
        """Milliseconds of convt3d and of PyTorch, None with a reason where there is none."""
        if reason := _why_not(call, on_host=self._on_host):
            return None, None, f"not measured: {reason}"
        layouts = tuple((t.shape, t.stride(), t.storage_offset(), t.dtype) for t in _tensors(call) if t is not None)
        norm = None if call.norm is None else tuple(str(value) for value in call.norm)
        key = (call.relu, layouts, str(call.parameters), call.device, norm)
        if key not in self._known:
            self._known[key] = self._measured(call)
        return self._known[key]

    def _measured(self, call: RecordedCall) -> Times:
        reasons = []
        results: list[float | None] = []
        for name, prepare, gradients in (
            ("convt3d", _convt3d, _convt3d_gradients),
            ("cuDNN" if call.device.type == "cuda" else "torch", _torch, _torch_gradients),
        ):
            milliseconds = None
            try:
                with _current(call.device), torch.no_grad(), exhaustive_cudnn():
                    operands = [None if tensor is None else _random(tensor, call.device) for tensor in _tensors(call)]
                    timed = prepare(call, operands)
                    if self._training:
                        timed = _step(timed, gradients(call, operands))
                    milliseconds = self._time(call.device, timed)
            except Exception as failure:  # what fails is reported, and the rest of the table still shown
                first_line = (str(failure).strip().splitlines() or [""])[0]
                reasons.append(f"{name} not measured: {type(failure).__name__}: {first_line[:200]}")
            results.append(milliseconds)
        return results[0], results[1], "; ".join(reasons)

    def _time(self, device: torch.device, timed: Callable[[], Tensor]) -> float:
        return self._timer(device).time(timed)[0] if device.type == "cuda" else _host_time(timed)

    def _timer(self, device: torch.device) -> Timer:
        """The timer of the current device, once its clocks have risen."""
        if device not in self._timers:
            timer = Timer(Repetitions())
            warm_up()
            self._timers[device] = timer
        return self._timers[device]


def _current(device: torch.device) -> contextlib.AbstractContextManager[Any]:
    return torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext()


def _host_time(timed: Callable[[], Tensor]) -> float:
    """Milliseconds of one call on the CPU: the median."""
    timed()
    times: list[float] = []
    while len(times) < _HOST_CALLS and (len(times) < 3 or sum(times) < _HOST_BUDGET_MS):
        start = time.perf_counter()
        timed()
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)


def _why_not(call: RecordedCall, *, on_host: bool) -> str:
    if call.precision is None:
        return f"its dtype is {str(call.input.dtype).removeprefix('torch.')}"
    if on_host and call.device.type == "cpu":
        return "the batch is empty" if call.input.numel() == 0 else ""
    if call.device.type != "cuda":
        return f"it is on the device {call.device.type}"
    if reason := why_not_on(torch.cuda.get_device_capability(call.device)):
        return reason
    if call.input.numel() == 0:
        return "the batch is empty"
    if call.precision != precision_of(call.input.dtype):
        return "the model switches TF32 by itself"
    return ""


def _tensors(call: RecordedCall) -> tuple[Tensor, Tensor, Tensor | None]:
    return call.input, call.weight, call.bias


def _random(like: Tensor, device: torch.device) -> Tensor:
    """Random values in the shape, strides and alignment of a meta tensor, which may overlap."""
    offset = int(like.storage_offset())
    extent = 1 + sum((size - 1) * stride for size, stride in zip(like.shape, like.stride(), strict=True))
    return torch.randn(offset + extent, dtype=like.dtype, device=device).as_strided(like.shape, like.stride(), offset)


def _convt3d(call: RecordedCall, operands: list[Tensor | None]) -> Callable[[], Tensor]:
    if call.norm is not None:
        return functools.partial(
            ops.conv_transpose3d_group_norm, *operands, *call.parameters, *_norm_arguments(call, call.norm)
        )
    return functools.partial(
        ops.conv_transpose3d_relu if call.relu else ops.conv_transpose3d, *operands, *call.parameters
    )


def _torch(call: RecordedCall, operands: list[Tensor | None]) -> Callable[[], Tensor]:
    convolution: Callable[[], Tensor] = functools.partial(F.conv_transpose3d, *operands, *call.parameters)  # type: ignore[arg-type]
    if call.norm is None:
        return (lambda: F.relu(convolution(), inplace=True)) if call.relu else convolution
    groups, weight, bias, eps, relu, negative_slope, dtype = _norm_arguments(call, call.norm)

    def chain() -> Tensor:
        output = F.relu(convolution(), inplace=True) if relu else convolution()
        output = F.group_norm(output if dtype is None else output.to(dtype), groups, weight, bias, eps)
        return output if negative_slope == 1 else F.leaky_relu(output, negative_slope, inplace=True)

    return chain


def _norm_arguments(call: RecordedCall, norm: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(_random(value, call.device) if isinstance(value, Tensor) else value for value in norm)


def _step(forward: Callable[[], Tensor], gradients: Callable[[Tensor], Tensor]) -> Callable[[], Tensor]:
    """A call and its gradients; the call's own output stands for that of its gradient, as the values do not matter."""
    return lambda: gradients(forward())


def _convt3d_gradients(call: RecordedCall, operands: list[Tensor | None]) -> Callable[[Tensor], Tensor]:
    input, weight, bias = operands
    output_mask = (True, True, bias is not None)

    def gradients(grad_output: Tensor) -> Tensor:
        results: tuple[Tensor, ...] = ops.conv_transpose3d_backward(
            grad_output, input, weight, None, *call.parameters, output_mask
        )
        return results[1]

    return gradients


def _torch_gradients(call: RecordedCall, operands: list[Tensor | None]) -> Callable[[Tensor], Tensor]:
    input, weight, bias = operands
    stride, padding, output_padding, groups, dilation = call.parameters
    sizes = None if bias is None else list(bias.shape)

    def gradients(grad_output: Tensor) -> Tensor:
        results: tuple[Tensor, ...] = torch.ops.aten.convolution_backward(
            grad_output,
            input,
            weight,
            sizes,
            stride,
            padding,
            dilation,
            True,
            output_padding,
            groups,
            [True, True, bias is not None],
        )
        return results[1]

    return gradients
