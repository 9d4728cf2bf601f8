"""Layers of the benchmark: sizes, exact amount of work, and the time that the hardware allows at best."""

from __future__ import annotations

import fnmatch
import json
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

PASSES = ("forward", "backward_input", "backward_weight")
PRECISIONS = ("fp32", "tf32", "fp16", "bf16")
LAYOUTS = ("NCDHW", "NDHWC")

Int3 = tuple[int, int, int]

# Measured on one NVIDIA H200: a device copy, and GEMM 8192^3 through cuBLAS. fp32 is a third of TF32's rate: three TF32
# products make an fp32 one on the tensor cores, which beats the 50 TFLOP/s of the plain fp32 units.
COPY_BYTES_PER_SECOND = 4.25e12
PEAK_FLOPS_PER_SECOND: Mapping[str, float] = {"fp32": 133e12, "tf32": 400e12, "fp16": 743e12, "bf16": 771e12}
ELEMENT_BYTES: Mapping[str, int] = {"fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2}


@dataclass(frozen=True)
class Layer:
    """One transposed convolution in the terms of ``torch.nn.ConvTranspose3d``; sizes are (depth, height, width)."""

    name: str
    batch: int
    in_channels: int
    out_channels: int
    input_size: Int3
    kernel_size: Int3
    stride: Int3 = (1, 1, 1)
    padding: Int3 = (0, 0, 0)
    output_padding: Int3 = (0, 0, 0)
    dilation: Int3 = (1, 1, 1)
    groups: int = 1
    bias: bool = False

    @property
    def output_size(self) -> Int3:
        """D', H', W' of the output."""
        depth, height, width = (self._output_length(axis) for axis in range(3))
        return depth, height, width

    @property
    def input_shape(self) -> tuple[int, ...]:
        """N, C_in, D, H, W."""
        return (self.batch, self.in_channels, *self.input_size)

    @property
    def weight_shape(self) -> tuple[int, ...]:
        """C_in, C_out/groups, kD, kH, kW."""
        return (self.in_channels, self.out_channels // self.groups, *self.kernel_size)

    @property
    def output_shape(self) -> tuple[int, ...]:
        """N, C_out, D', H', W'."""
        return (self.batch, self.out_channels, *self.output_size)

    @property
    def multiply_adds(self) -> int:
        """Products whose output position is in range: what any implementation has to compute, and no more."""
        pairs = 1
        for axis in range(3):
            pairs *= self._pairs_in_range(axis)
        return self.batch * self.in_channels * (self.out_channels // self.groups) * pairs

    @property
    def gflop(self) -> float:
        """Floating-point operations of one pass in 10^9: two for each multiply-add in range."""
        return 2e-9 * self.multiply_adds

    def limit_ms(self, precision: str) -> float:
        """Milliseconds at best: each tensor moved once, or the arithmetic at peak, whichever takes longer.

        The backward passes move the same three tensors and do the same multiply-adds, so the limit is theirs too.
        """
        elements = sum(_product(shape) for shape in (self.input_shape, self.weight_shape, self.output_shape))
        seconds_moving = elements * ELEMENT_BYTES[precision] / COPY_BYTES_PER_SECOND
        seconds_computing = 2 * self.multiply_adds / PEAK_FLOPS_PER_SECOND[precision]
        return 1e3 * max(seconds_moving, seconds_computing)

    def _output_length(self, axis: int) -> int:
        return (
            (self.input_size[axis] - 1) * self.stride[axis]
            - 2 * self.padding[axis]
            + self.dilation[axis] * (self.kernel_size[axis] - 1)
            + self.output_padding[axis]
            + 1
        )

    def _pairs_in_range(self, axis: int) -> int:
        """Pairs (input i, tap k) of one dimension with 0 <= i*stride - padding + k*dilation < output length."""
        length, output_length = self.input_size[axis], self._output_length(axis)
        stride, pairs = self.stride[axis], 0
        for tap in range(self.kernel_size[axis]):
            shift = self.padding[axis] - tap * self.dilation[axis]  # i*stride is in [shift, shift + output_length)
            first = max(0, -(-shift // stride))
            last = min(length - 1, (shift + output_length - 1) // stride)
            pairs += max(0, last - first + 1)
        return pairs


def suite() -> tuple[Layer, ...]:
    """The layers of the public suite, in order."""
    text = resources.files(__package__).joinpath("layers.json").read_text(encoding="utf-8")
    return tuple(layer_from_json(entry) for entry in json.loads(text))


def layer_from_json(entry: Mapping[str, Any]) -> Layer:
    """A layer from its entry in ``layers.json``; a missing or unknown key is a ``ValueError`` that names it."""
    unknown = sorted(set(entry) - set(_FIELD_OF_KEY))
    if unknown:
        raise ValueError(f"unknown key {unknown[0]!r} in a layer; valid: {', '.join(_FIELD_OF_KEY)}")
    missing = [key for key in _REQUIRED_KEYS if key not in entry]
    if missing:
        raise ValueError(f"a layer needs {missing[0]!r}; got {', '.join(entry) or 'nothing'}")
    values: dict[str, Any] = {
        _FIELD_OF_KEY[key]: _triple(key, value) if key in _TRIPLE_KEYS else value for key, value in entry.items()
    }
    layer = Layer(**values)
    _check(layer)
    return layer


def parse_layer(spec: str) -> Layer:
    """A layer from text such as ``N=2,C_in=64,C_out=32,input=16x32x32,kernel=2,stride=2`` (keys as in ``layers.json``).

    One number for a size is meant for all three dimensions. Raises ``ValueError`` for anything that is not a layer.
    """
    entry: dict[str, Any] = {"layer": spec}
    for item in spec.split(","):
        key, separator, text = item.strip().partition("=")
        if not separator:
            raise ValueError(f"{item!r} in layer {spec!r} is not KEY=VALUE")
        entry[key] = text if key == "layer" else _numbers(key, text)
    entry["bias"] = bool(entry.get("bias", False))
    return layer_from_json(entry)


def select_layers(patterns: Sequence[str]) -> tuple[Layer, ...]:
    """Layers given by globs over the suite's names or as specs (with a ``=``); the whole suite for no pattern."""
    known = suite()
    if not patterns:
        return known
    chosen: dict[str, Layer] = {}
    for pattern in patterns:
        if "=" in pattern:
            layers: Iterable[Layer] = [parse_layer(pattern)]
        else:
            layers = [layer for layer in known if fnmatch.fnmatchcase(layer.name, pattern)]
            if not layers:
                raise ValueError(f"no layer matches {pattern!r}; known: {', '.join(layer.name for layer in known)}")
        chosen.update((layer.name, layer) for layer in layers)
    return tuple(chosen.values())


_FIELD_OF_KEY: Mapping[str, str] = {
    "layer": "name",
    "N": "batch",
    "C_in": "in_channels",
    "C_out": "out_channels",
    "input": "input_size",
    "kernel": "kernel_size",
    "stride": "stride",
    "padding": "padding",
    "output_padding": "output_padding",
    "dilation": "dilation",
    "groups": "groups",
    "bias": "bias",
}
_REQUIRED_KEYS = ("layer", "N", "C_in", "C_out", "input", "kernel")
_TRIPLE_KEYS = frozenset({"input", "kernel", "stride", "padding", "output_padding", "dilation"})


def _numbers(key: str, text: str) -> int | list[int]:
    try:
        numbers = [int(part) for part in text.split("x")]
    except ValueError:
        raise ValueError(f"{key} must be an integer or three joined by 'x', got {text!r}") from None
    return numbers if len(numbers) > 1 else numbers[0]


def _triple(key: str, value: int | Sequence[int]) -> Int3:
    values = (value, value, value) if isinstance(value, int) else tuple(value)
    if len(values) != 3:
        raise ValueError(f"{key} must be one or three numbers, got {value!r}")
    return values[0], values[1], values[2]


def _check(layer: Layer) -> None:
    if layer.groups < 1 or layer.in_channels % layer.groups or layer.out_channels % layer.groups:
        raise ValueError(f"groups={layer.groups} must divide C_in={layer.in_channels} and C_out={layer.out_channels}")
    if min(*layer.input_shape, *layer.weight_shape, *layer.stride, *layer.dilation) < 1:
        raise ValueError(f"sizes, stride and dilation must be positive in layer {layer.name!r}")
    if min(*layer.padding, *layer.output_padding) < 0:
        raise ValueError(f"padding and output_padding must not be negative in layer {layer.name!r}")
    if min(layer.output_size) < 1:
        raise ValueError(f"the output size {layer.output_size} of layer {layer.name!r} is not positive")


def _product(shape: Iterable[int]) -> int:
    product = 1
    for length in shape:
        product *= length
    return product
