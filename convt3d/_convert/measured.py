"""Times of a model's transposed convolutions, with PyTorch's kernels and with convt3d's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from convt3d._explain.measuring import Measurements
from convt3d._explain.recording import RecordedCall, record
from convt3d._wrappers import unwrapped

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True)
class LayerTimes:
    """Milliseconds of all calls of one layer, and why it is better left to PyTorch; empty where it is not."""

    torch_ms: float | None = None
    convt3d_ms: float | None = None
    reason: str = ""


def measure_layers(model: nn.Module, example: Tensor | tuple[Any, ...]) -> dict[str, LayerTimes]:
    """The times of every layer that the model calls on the example, by its name in `model.named_modules()`."""
    tensors = (*model.parameters(), *model.buffers(), *(example if isinstance(example, tuple) else (example,)))
    gpus = {tensor.get_device() for tensor in tensors if isinstance(tensor, Tensor) and tensor.is_cuda}
    inner, prefix = unwrapped(model)
    modules = {prefix + name: module for name, module in inner.named_modules()}
    with torch.random.fork_rng(sorted(gpus)):
        calls: dict[str, list[RecordedCall]] = {}
        for call in record(model, example, function="convt3d.convert"):
            calls.setdefault(call.name, []).append(call)
        measurements = {training: Measurements(training=training, on_host=True) for training in (False, True)}
        return {name: _layer_times(calls[name], measurements[modules[name].training]) for name in calls}


def _layer_times(calls: Iterable[RecordedCall], measurements: Measurements) -> LayerTimes:
    times = [(call, *measurements.times(call)) for call in calls]
    for _, convt3d_ms, torch_ms, reason in times:
        if convt3d_ms is None or torch_ms is None:
            return LayerTimes(reason=reason)
    total = LayerTimes(sum(torch_ms or 0 for *_, torch_ms, _ in times), sum(ms or 0 for _, ms, *_ in times))
    assert total.torch_ms is not None
    assert total.convt3d_ms is not None
    # On the CPU the operators call PyTorch's, and times are the host's: they decide nothing.
    if total.convt3d_ms >= total.torch_ms and any(call.device.type == "cuda" for call, *_ in times):
        return LayerTimes(total.torch_ms, total.convt3d_ms, "PyTorch's kernels are as fast or faster here")
    return total
