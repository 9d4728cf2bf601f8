"""Host time of one eager call without gradient: convt3d's function, operator and module beside PyTorch's own."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

import convt3d
from convt3d._layer import Layer

from .calls import DTYPES, precision_switches, random_operands

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .calls import Call

# Each of convt3d's calls, and the call of PyTorch that it replaces.
REPLACES: Mapping[str, str] = {
    "convt3d.conv_transpose3d": "F.conv_transpose3d",
    "torch.ops.convt3d.conv_transpose3d": "F.conv_transpose3d",
    "convt3d.nn.ConvTranspose3d": "torch.nn.ConvTranspose3d",
}

# So little work that the device is done before the host comes with the next call.
_TINY = Layer("tiny", 1, 8, 8, (4, 4, 4), (2, 2, 2), stride=(2, 2, 2), bias=True)
# A burst stays below what a CUDA stream queues (about a thousand launches): past that the host waits for the device.
_BURST = 100


def measure_overhead(precision: str, device: torch.device, *, bursts: int = 50) -> dict[str, float]:
    """Microseconds of the host per call: the median over ``bursts`` of 100 calls, all calls taking turns."""
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
            lines.append(f"{precision}  {name:34}  {value:7.2f} us{more}")
    return "\n".join(lines)


def _calls(precision: str, device: torch.device) -> dict[str, Call]:
    operands = random_operands(_TINY, precision, device)
    x, w, b = operands.input, operands.weight, operands.bias
    operator = torch.ops.convt3d.conv_transpose3d

    def module(kind: type[torch.nn.ConvTranspose3d]) -> torch.nn.ConvTranspose3d:
        return kind(8, 8, 2, stride=2, device=device, dtype=DTYPES[precision]).eval()

    ours, theirs = module(convt3d.nn.ConvTranspose3d), module(torch.nn.ConvTranspose3d)
    return {
        "F.conv_transpose3d": lambda: F.conv_transpose3d(x, w, b, 2),
        "convt3d.conv_transpose3d": lambda: convt3d.conv_transpose3d(x, w, b, 2),
        "torch.ops.convt3d.conv_transpose3d": lambda: operator(x, w, b, 2),
        "torch.nn.ConvTranspose3d": lambda: theirs(x),
        "convt3d.nn.ConvTranspose3d": lambda: ours(x),
    }


def _burst(call: Call, device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    start = time.perf_counter()
    for _ in range(_BURST):
        call()
    return 1e6 * (time.perf_counter() - start) / _BURST
