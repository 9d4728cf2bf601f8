"""Times plans of the engine on mma.sync against cuDNN, and compares what both compute with float64.

    PYTHONPATH=. python scripts/force_mma.py [--layer PATTERN] [--pass forward|input_grad|weight_grad] [--type fp16]
                                             [--layout NDHWC] [--plans 5] [--mask]

For each layer, pass, type and layout: the time of cuDNN (the faster of both layouts), then of the first plans in the
order of the engine's own costs. Times are medians, with the L2 flushed before each run.
"""

from __future__ import annotations

import argparse
import ctypes
import fnmatch
import itertools
import json
import statistics
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch.nn.functional import conv_transpose3d

from convt3d._library import LIBRARY_PATH

if TYPE_CHECKING:
    from collections.abc import Callable

DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
NUMBERS = {torch.float32: 0, torch.float16: 2, torch.bfloat16: 3}
FORMATS = {"NCDHW": torch.contiguous_format, "NDHWC": torch.channels_last_3d}
PASSES = ["forward", "input_grad", "weight_grad"]


def times(run: Callable[[], object], flush: torch.Tensor, repeats: int = 15) -> float:
    """The median, in milliseconds."""
    for _ in range(3):
        run()
    result = []
    for _ in range(repeats):
        flush.zero_()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(2_000_000)  # the launches are in the queue before the first one runs
        begin.record()
        run()
        end.record()
        end.synchronize()
        result.append(begin.elapsed_time(end))
    return statistics.median(result)


def tensor_numbers(tensor: torch.Tensor | None) -> list[int]:
    """Strides and address."""
    if tensor is None:
        return [0] * 6
    strides = list(tensor.stride())
    return [*strides, *[0] * (5 - len(strides)), tensor.data_ptr()]


class Forced:
    """A call of the engine, by one of its plans."""

    def __init__(
        self,
        layer: dict,
        operator: str,
        dtype: torch.dtype,
        tf32: bool,
        plan: int,
        first: torch.Tensor,
        mask: torch.Tensor | None,
        second: torch.Tensor,
        bias: torch.Tensor | None,
        result: torch.Tensor,
    ) -> None:
        problem = [layer["N"], layer["C_in"], layer["C_out"], layer["groups"], *layer["input"]]
        for key in ("kernel", "stride", "padding", "output_padding", "dilation"):
            problem += layer[key]
        tensors = [number for t in (first, second, mask, bias, result) for number in tensor_numbers(t)]
        self.tensors = (first, second, mask, bias, result)
        self.entry = ctypes.CDLL(str(LIBRARY_PATH)).convt3d_force_mma
        self.entry.restype = ctypes.c_int64
        self.text = ctypes.create_string_buffer(2000)
        head = [*problem, *tensors, PASSES.index(operator), NUMBERS[dtype], int(tf32), 0, plan]
        bytes_needed = self._call([*head, 0, -1, 0])
        if bytes_needed < 0:
            raise RuntimeError(self.plan())
        self.workspace = torch.empty(bytes_needed, dtype=torch.uint8, device=first.device)
        stream = torch.cuda.current_stream().cuda_stream
        self.numbers = [*head, self.workspace.data_ptr(), bytes_needed, stream]

    def plan(self) -> str:
        """The plan as text."""
        return self.text.value.decode()

    def _call(self, numbers: list[int]) -> int:
        return int(self.entry((ctypes.c_int64 * len(numbers))(*numbers), self.text, len(self.text)))

    def __call__(self) -> None:
        """Launches."""
        if self._call(self.numbers) < 0:
            raise RuntimeError(self.plan())


def measure(
    layer: dict, operator: str, type_name: str, layout: str, plans: int, masked: bool, flush: torch.Tensor
) -> None:
    """Prints the times of one layer."""
    grad = operator != "forward"
    by_weight = operator == "weight_grad"
    dtype = DTYPES[type_name]
    tf32 = type_name == "tf32"
    torch.backends.cudnn.allow_tf32 = tf32
    torch.manual_seed(0)
    x = torch.randn(layer["N"], layer["C_in"], *layer["input"], device="cuda", dtype=dtype)
    w = torch.randn(layer["C_in"], layer["C_out"] // layer["groups"], *layer["kernel"], device="cuda", dtype=dtype)
    b = torch.randn(layer["C_out"], device="cuda", dtype=dtype) if layer["bias"] and not grad else None
    keys = {key: layer[key] for key in ("stride", "padding", "output_padding", "groups", "dilation")}
    y = conv_transpose3d(x, w, **keys)
    gy = torch.randn_like(y)
    mask = (torch.rand_like(y) > 0.5).to(dtype) if masked and grad else None

    def cudnn(memory_format: torch.memory_format) -> Callable[[], torch.Tensor]:
        x_, w_, gy_ = (t.contiguous(memory_format=memory_format) for t in (x, w, gy))
        m_ = None if mask is None else mask.contiguous(memory_format=memory_format)
        if not grad:
            return lambda: conv_transpose3d(x_, w_, b, **keys)
        size = [layer["stride"], layer["padding"], layer["dilation"], True, layer["output_padding"], layer["groups"]]
        select = [not by_weight, by_weight, False]

        def backward() -> torch.Tensor:
            g = gy_ if m_ is None else gy_ * m_
            return torch.ops.aten.convolution_backward(g, x_, w_, None, *size, select)[1 if by_weight else 0]

        return backward

    peers = {name: times(cudnn(memory_format), flush) for name, memory_format in FORMATS.items()}
    peer = min(peers.values())
    memory_format = FORMATS[layout]
    first = (gy if grad else x).contiguous(memory_format=memory_format)
    mask = None if mask is None else mask.contiguous(memory_format=memory_format)
    second = x.contiguous(memory_format=memory_format) if by_weight else w
    result = torch.empty_like(w if by_weight else x if grad else y, memory_format=memory_format)
    few = w.shape[0] if by_weight else min(2, layer["N"])  # of the reference, images
    if by_weight:
        # By cuDNN in float64: in chunks of images, which bounds its memory.
        exact = torch.zeros_like(w, dtype=torch.float64)
        for image in range(layer["N"]):
            one = slice(image, image + 1)
            g = gy[one].double() * (1 if mask is None else (mask[one] > 0).double())
            exact += torch.ops.aten.convolution_backward(
                g,
                x[one].double(),
                w.double(),
                None,
                layer["stride"],
                layer["padding"],
                layer["dilation"],
                True,
                layer["output_padding"],
                layer["groups"],
                [False, True, False],
            )[1]
    elif grad:
        g = gy[:few].double() * (1 if mask is None else mask[:few].double())
        exact = torch.nn.functional.conv3d(
            g, w.double(), None, layer["stride"], layer["padding"], layer["dilation"], layer["groups"]
        )[:, :, : x.shape[2], : x.shape[3], : x.shape[4]]
    else:
        exact = conv_transpose3d(x[:few].double(), w.double(), None if b is None else b.double(), **keys)
    label = f"{layer['layer']} {operator} {type_name} {layout}{' masked' if mask is not None else ''}"
    print(f"{label}: cudnn {peer:.4f} ({', '.join(f'{name} {ms:.4f}' for name, ms in peers.items())})")
    for plan in range(plans):
        try:
            forced = Forced(layer, operator, dtype, tf32, plan, first, mask, second, b, result)
        except RuntimeError as error:
            print(f"  {plan}: {error}")
            return
        result.fill_(float("nan"))
        forced()
        error = ((result[:few].double() - exact).norm() / exact.norm()).item()
        ms = times(forced, flush)
        print(f"  {plan}: {ms:.4f} ms, {peer / ms:.2f} x, error {error:.1e}, {forced.plan()}", flush=True)


def main() -> None:
    """Measures what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layer", default="*")
    parser.add_argument("--pass", dest="passes", nargs="*", default=PASSES)
    parser.add_argument("--type", nargs="*", default=["fp16"])
    parser.add_argument("--layout", nargs="*", default=list(FORMATS))
    parser.add_argument("--plans", type=int, default=1)
    parser.add_argument("--mask", action="store_true")
    parser.add_argument("--layers", type=Path, default=Path(__file__).parents[1] / "convt3d/benchmark/layers.json")
    arguments = parser.parse_args()
    read = json.loads(arguments.layers.read_text())
    layers = read if isinstance(read, list) else read["layers"]
    flush = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    torch.backends.cudnn.benchmark = True
    for layer, operator, type_name, layout in itertools.product(
        layers, arguments.passes, arguments.type, arguments.layout
    ):
        if fnmatch.fnmatch(layer["layer"], arguments.layer) and "depthwise" not in layer["layer"]:
            try:
                measure(layer, operator, type_name, layout, arguments.plans, arguments.mask, flush)
            except RuntimeError as error:  # the next layer may do
                print(f"{layer['layer']} {operator} {type_name} {layout}: {error}")


if __name__ == "__main__":
    main()
