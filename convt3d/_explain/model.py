"""Explains every transposed 3D convolution that a model calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from convt3d._explain.call import DTYPES, Explanation, check_capability, explain_call
from convt3d._explain.measuring import Measurements
from convt3d._explain.recording import RecordedCall, record
from convt3d._explain.report import ExplainedCall, ModelExplanation

if TYPE_CHECKING:
    from torch import nn


def explain_model(
    model: nn.Module,
    example_input: Any,
    *,
    device_capability: tuple[int, int] | None = None,
    measure: bool | None = None,
) -> ModelExplanation:
    """What :func:`convt3d.explain` says about a model."""
    if device_capability is not None:
        check_capability(device_capability)
    inputs = example_input if isinstance(example_input, tuple) else (example_input,)
    tensors = (*model.parameters(), *model.buffers(), *(value for value in inputs if isinstance(value, Tensor)))
    gpus = {tensor.get_device() for tensor in tensors if tensor.is_cuda}
    with torch.random.fork_rng(sorted(gpus)):
        recorded = record(model, example_input)
        if measure is None:
            measure = device_capability is None and any(call.device.type == "cuda" for call in recorded)
        measurements = Measurements() if measure else None
        return ModelExplanation(tuple(_explained(call, device_capability, measurements) for call in recorded))


def _backward(call: RecordedCall, device_capability: tuple[int, int] | None) -> Explanation:
    """All gradients, with that of the bias where there is one."""
    return explain_call(
        call.input,
        call.weight,
        call.bias,
        *call.parameters,
        device_capability=device_capability,
        operator="backward",
        relu=call.relu and call.norm_groups is None,  # else the norm's gradient has the mask
        device=call.device,
        precision=call.precision,
    )


def _explained(
    call: RecordedCall, device_capability: tuple[int, int] | None, measurements: Measurements | None
) -> ExplainedCall:
    explanation: Explanation | None = None
    backward: Explanation | None = None
    convt3d_ms = cudnn_ms = None
    if call.precision is None:
        dtypes = ", ".join(str(dtype).removeprefix("torch.") for dtype in DTYPES)
        note = f"its dtype is {str(call.input.dtype).removeprefix('torch.')}; convt3d has {dtypes}"
    else:
        try:
            explanation = explain_call(
                call.input,
                call.weight,
                call.bias,
                *call.parameters,
                device_capability=device_capability,
                device=call.device,
                precision=call.precision,
                norm_dtype=None if call.norm is None else call.norm[-1] or call.input.dtype,
            )
            backward = _backward(call, device_capability)
            note = ""
        except RuntimeError as error:  # PyTorch accepted these arguments, and convt3d does not
            note = str(error).partition("\n")[0]
        else:
            if measurements is not None:
                convt3d_ms, cudnn_ms, note = measurements.times(call)
    return ExplainedCall(
        name=call.name,
        computed_by="convt3d" if call.ours else "torch",
        relu=call.relu,
        norm_groups=call.norm_groups,
        input_shape=tuple(call.input.shape),
        weight_shape=tuple(call.weight.shape),
        explanation=explanation,
        backward=backward,
        convt3d_ms=convt3d_ms,
        cudnn_ms=cudnn_ms,
        note=note,
    )
