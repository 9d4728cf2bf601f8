"""Transposed layers of networks of other packages (docs/clients.md), with the sizes that they have in use."""

from __future__ import annotations

import fnmatch
import functools
import json
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING

from .layers import parse_layer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from convt3d._layer import Layer


@dataclass(frozen=True)
class NetworkLayer:
    """A transposed convolution of a network.

    Attributes:
        network: as the table of docs/clients.md has it.
        module: the layer's name in the network.
        layer: its sizes, and for a name the spec by which records name it.
    """

    network: str
    module: str
    layer: Layer


@functools.cache
def networks() -> Mapping[str, tuple[NetworkLayer, ...]]:
    """The layers of every network of ``networks.json``, in the order in which they are called.

    The file is written by ``scripts/network_layers.py`` from the networks themselves.
    """
    text = resources.files(__package__).joinpath("networks.json").read_text(encoding="utf-8")
    found: dict[str, list[NetworkLayer]] = {}
    for entry in json.loads(text):
        layer = NetworkLayer(entry["network"], entry["module"], parse_layer(entry["layer"]))
        found.setdefault(layer.network, []).append(layer)
    return {network: tuple(layers) for network, layers in found.items()}


def select_networks(patterns: Sequence[str]) -> tuple[NetworkLayer, ...]:
    """The layers of networks given by globs, such as ``MONAI UNet`` or ``nnU-Net*``.

    Raises:
        ValueError: a pattern matches none; the text names all.
    """
    chosen: dict[str, tuple[NetworkLayer, ...]] = {}
    for pattern in patterns:
        matching = {name: layers for name, layers in networks().items() if fnmatch.fnmatchcase(name, pattern)}
        if not matching:
            raise ValueError(f"no network matches {pattern!r}; known: {'; '.join(networks())}")
        chosen |= matching
    return tuple(layer for layers in chosen.values() for layer in layers)
