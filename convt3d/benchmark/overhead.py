"""Host time of one eager call, without gradients and with: convt3d's functions and modules beside PyTorch's own."""

from __future__ import annotations

import statistics
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

import convt3d
from convt3d._layer import Layer

from .calls import DTYPES, precision_switches, random_operands

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor

    from .calls import Call, Operands, Result

STEP = ": forward and backward"  # of all three gradients
AUTOCAST = " in autocast"  # of float32 operands, to a precision of 16 bits

# Each of convt3d's calls, and the call of PyTorch that it replaces; those without a suffix record no derivatives.
REPLACES: Mapping[str, str] = {
    "convt3d.conv_transpose3d": "F.conv_transpose3d",
    "torch.ops.convt3d.conv_transpose3d": "F.conv_transpose3d",
    "convt3d.nn.ConvTranspose3d": "torch.nn.ConvTranspose3d",
    f"convt3d.conv_transpose3d{STEP}": f"F.conv_transpose3d{STEP}",
    f"convt3d.conv_transpose3d{STEP}{AUTOCAST}": f"F.conv_transpose3d{STEP}{AUTOCAST}",
}

# So little work that the device is done before the host comes with the next call.
_TINY = Layer("tiny", 1, 8, 8, (4, 4, 4), (2, 2, 2), stride=(2, 2, 2), bias=True)
# A burst stays below what a CUDA stream queues (about a thousand launches): past that the host waits for the device.
# A forward and backward in autocast launches some fifteen kernels.
_BURST = 50


def measure_overhead(precision: str, device: torch.device, *, bursts: int = 100) -> dict[str, float]:
    """Microseconds of the host per call: the median over ``bursts`` of 50 calls, all calls taking turns."""
    with precision_switches(precision), torch.no_grad():
        calls = _calls(precision, device)
        times: dict[str, list[float]] = {name: [] for name in calls}
        for call in calls.values():  # libraries load, algorithms and plans are found
            _burst(call, device)
        for _ in range(bursts):
            for name, call in calls.items():
                times[name].append(_burst(call, device))
    return {name: round(statistics.median(values), 2) for name, values in times.items()}


def format_overhead(microseconds: Mapping[str, Mapping[str, float]]) -> str:
    """A line for each precision and call, with what convt3d's calls take more than the one they replace."""
    lines = []
    for precision, of_call in microseconds.items():
        for name, value in of_call.items():
            more = f"  {value - of_call[REPLACES[name]]:+6.2f}" if name in REPLACES else ""
            lines.append(f"{precision}  {name:57}  {value:7.2f} us{more}")
    return "\n".join(lines)


def _calls(precision: str, device: torch.device) -> dict[str, Call]:
    operands = random_operands(_TINY, precision, device)
    x, w, b = operands.input, operands.weight, operands.bias
    operator = torch.ops.convt3d.conv_transpose3d

    def module(kind: type[torch.nn.ConvTranspose3d]) -> torch.nn.ConvTranspose3d:
        return kind(8, 8, 2, stride=2, device=device, dtype=DTYPES[precision]).eval()

    ours, theirs = module(convt3d.nn.ConvTranspose3d), module(torch.nn.ConvTranspose3d)
    functions: dict[str, Callable[..., Tensor]] = {
        "F.conv_transpose3d": F.conv_transpose3d,
        "convt3d.conv_transpose3d": convt3d.conv_transpose3d,
    }
    steps = {f"{name}{STEP}": _step(function, operands) for name, function in functions.items()}
    if DTYPES[precision] in (torch.float16, torch.bfloat16):
        wide = random_operands(_TINY, "fp32", device)
        for name, function in functions.items():
            step = _step(function, replace(wide, grad_output=operands.grad_output))
            steps[f"{name}{STEP}{AUTOCAST}"] = _in_autocast(step, device, DTYPES[precision])
    return {
        "F.conv_transpose3d": lambda: F.conv_transpose3d(x, w, b, 2),
        "convt3d.conv_transpose3d": lambda: convt3d.conv_transpose3d(x, w, b, 2),
        "torch.ops.convt3d.conv_transpose3d": lambda: operator(x, w, b, 2),
        "torch.nn.ConvTranspose3d": lambda: theirs(x),
        "convt3d.nn.ConvTranspose3d": lambda: ours(x),
        **steps,
    }


def _step(function: Callable[..., Tensor], operands: Operands) -> Call:
    """The forward in a precision and its gradients, from a grad_output that is there already."""
    tensors = (operands.input, operands.weight, operands.bias)
    leaves = tuple(tensor.detach().requires_grad_() for tensor in tensors if tensor is not None)

    def step() -> Tensor:
        with torch.enable_grad():
            return torch.autograd.grad(function(*leaves, 2), leaves, operands.grad_output)[0]

    return step


def _in_autocast(call: Call, device: torch.device, dtype: torch.dtype) -> Call:
    def autocast() -> Result:
        with torch.autocast(device.type, dtype):
            return call()

    return autocast


def _burst(call: Call, device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    start = time.perf_counter()
    for _ in range(_BURST):
        call()
    return 1e6 * (time.perf_counter() - start) / _BURST
