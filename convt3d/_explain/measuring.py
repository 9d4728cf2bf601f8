"""Measures recorded calls on their GPU: convt3d beside cuDNN, with the clock of the benchmark."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

from convt3d._explain.call import precision_of
from convt3d._library import build_info
from convt3d._registry import ops
from convt3d.benchmark.calls import exhaustive_cudnn
from convt3d.benchmark.timing import Repetitions, Timer, warm_up

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from convt3d._explain.recording import RecordedCall

Times = tuple["float | None", "float | None", str]  # of convt3d, of cuDNN, and why one is missing


class Measurements:
    """Times of calls; equal calls are measured once."""

    def __init__(self) -> None:
        self._known: dict[object, Times] = {}
        self._timers: dict[torch.device, Timer] = {}

    def times(self, call: RecordedCall) -> Times:
        """Milliseconds of convt3d and of cuDNN, None with a reason where there is none."""
        if reason := _why_not(call):
            return None, None, f"not measured: {reason}"
        layouts = tuple((t.shape, t.stride(), t.dtype) for t in _tensors(call) if t is not None)
        key = (call.relu, layouts, str(call.parameters), call.device)
        if key not in self._known:
            self._known[key] = self._measured(call)
        return self._known[key]

    def _measured(self, call: RecordedCall) -> Times:
        reasons = []
        results: list[float | None] = []
        for name, prepare in (("convt3d", _convt3d), ("cuDNN", _cudnn)):
            milliseconds = None
            try:
                with torch.cuda.device(call.device), torch.no_grad(), exhaustive_cudnn():
                    operands = [None if tensor is None else _random(tensor, call.device) for tensor in _tensors(call)]
                    milliseconds = self._timer(call.device).time(prepare(call, operands))[0]
            except Exception as failure:  # what fails is reported, and the rest of the table still shown
                first_line = (str(failure).strip().splitlines() or [""])[0]
                reasons.append(f"{name} not measured: {type(failure).__name__}: {first_line[:200]}")
            results.append(milliseconds)
        return results[0], results[1], "; ".join(reasons)

    def _timer(self, device: torch.device) -> Timer:
        """The timer of the current device, once its clocks have risen."""
        if device not in self._timers:
            timer = Timer(Repetitions())
            warm_up()
            self._timers[device] = timer
        return self._timers[device]


def _why_not(call: RecordedCall) -> str:
    if call.device.type != "cuda":
        return f"it is on the device {call.device.type}"
    if build_info().cuda is None:
        return "this build of convt3d is for the CPU only"
    if call.input.numel() == 0:
        return "the batch is empty"
    if call.precision != precision_of(call.input.dtype):
        return "the model switches TF32 by itself"
    return ""


def _tensors(call: RecordedCall) -> tuple[Tensor, Tensor, Tensor | None]:
    return call.input, call.weight, call.bias


def _random(like: Tensor, device: torch.device) -> Tensor:
    """Random values in the shape and strides of a meta tensor, which may overlap."""
    extent = 1 + sum((size - 1) * stride for size, stride in zip(like.shape, like.stride(), strict=True))
    return torch.randn(extent, dtype=like.dtype, device=device).as_strided(like.shape, like.stride())


def _convt3d(call: RecordedCall, operands: list[Tensor | None]) -> Callable[[], Tensor]:
    return functools.partial(
        ops.conv_transpose3d_relu if call.relu else ops.conv_transpose3d, *operands, *call.parameters
    )


def _cudnn(call: RecordedCall, operands: list[Tensor | None]) -> Callable[[], Tensor]:
    convolution: Callable[[], Tensor] = functools.partial(F.conv_transpose3d, *operands, *call.parameters)  # type: ignore[arg-type]
    return (lambda: F.relu(convolution(), inplace=True)) if call.relu else convolution
