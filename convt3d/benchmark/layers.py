"""Layers of the benchmark: the groups of ``layers.json``, and layers given on the command line."""

from __future__ import annotations

import fnmatch
import functools
import json
from importlib import resources
from typing import TYPE_CHECKING, Any

from convt3d._layer import Int3, Layer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

PRECISIONS = ("fp32", "tf32", "fp16", "bf16")
LAYOUTS = ("NCDHW", "NDHWC")
GROUPS = ("suite", "use")
GIVEN = "given"  # the group of layers that are in none of those


@functools.cache
def groups() -> Mapping[str, tuple[Layer, ...]]:
    """The layers of ``layers.json`` by group.

    ``suite``: the public suite, large and even; ``use``: as published networks run them, with small batches, uneven
    sizes, few output channels and strides past 2.
    """
    text = resources.files(__package__).joinpath("layers.json").read_text(encoding="utf-8")
    found: dict[str, list[Layer]] = {group: [] for group in GROUPS}
    for entry in json.loads(text):
        found[entry.pop("group")].append(layer_from_json(entry))
    return {group: tuple(layers) for group, layers in found.items()}


def known_layers() -> tuple[Layer, ...]:
    """The layers of every group, in order."""
    return tuple(layer for of_group in groups().values() for layer in of_group)


def group_of(name: str) -> str:
    """The group of the layer that a record names, one of `GROUPS` or `GIVEN`."""
    return next((group for group, layers in groups().items() if any(layer.name == name for layer in layers)), GIVEN)


def is_meant(name: str, patterns: Sequence[str]) -> bool:
    """Whether a glob matches a layer's name, alone or after its group and a slash; each does where there is none."""
    names = (name, f"{group_of(name)}/{name}")
    return not patterns or any(fnmatch.fnmatchcase(text, pattern) for text in names for pattern in patterns)


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


def spec_of(layer: Layer) -> str:
    """Text from which `parse_layer` makes a layer with these sizes; what has its default is left out."""
    triples = {key: getattr(layer, _FIELD_OF_KEY[key]) for key in _FIELD_OF_KEY if key in _TRIPLE_KEYS}
    numbers = {"N": layer.batch, "C_in": layer.in_channels, "C_out": layer.out_channels}
    items = [f"{key}={number}" for key, number in numbers.items()]
    items += [
        f"{key}={three[0] if len(set(three)) == 1 else 'x'.join(map(str, three))}"
        for key, three in triples.items()
        if key in _REQUIRED_KEYS or three != getattr(Layer, _FIELD_OF_KEY[key])
    ]
    items += [f"groups={layer.groups}"] if layer.groups > 1 else []
    return ",".join([*items, "bias=1"] if layer.bias else items)


def chosen(of_option: Sequence[str] | None, every: Sequence[str]) -> list[str]:
    """Those of ``every`` that a repeatable option names; all where it was not given."""
    return [value for value in every if value in (of_option or every)]


def select_layers(patterns: Sequence[str]) -> tuple[Layer, ...]:
    """Layers given by globs, such as ``use/*`` or ``kb*``, or as specs (with a ``=``); all groups for no pattern."""
    known = known_layers()
    if not patterns:
        return known
    chosen: dict[str, Layer] = {}
    for pattern in patterns:
        if "=" in pattern:
            layers: Iterable[Layer] = [parse_layer(pattern)]
        else:
            layers = [layer for layer in known if is_meant(layer.name, [pattern])]
            if not layers:
                names = ", ".join(f"{group_of(layer.name)}/{layer.name}" for layer in known)
                raise ValueError(f"no layer matches {pattern!r}; known: {names}")
        chosen.update((layer.name, layer) for layer in layers)
    return tuple(chosen.values())


def find_layer(name: str) -> Layer | None:
    """The layer that a record names: one of a group, or the spec itself; None for a name given to a spec."""
    for layer in known_layers():
        if layer.name == name:
            return layer
    try:
        return parse_layer(name)
    except ValueError:
        return None


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
