"""Which kind of kernel convt3d runs, asked of the compiled library."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import torch

from convt3d._library import LIBRARY_PATH

if TYPE_CHECKING:
    from .layers import Layer

_ELEMENT_BYTES = {"fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2}


def forward_plan(layer: Layer, precision: str, layout: str, *, has_wgmma: bool) -> str:
    """The engine and plan of a forward, such as ``"halo_wgmma: m_tiles=..."``.

    Args:
        layer: the problem.
        precision: ``"fp32"``, ``"tf32"``, ``"fp16"`` or ``"bf16"``.
        layout: of input and output, ``"NCDHW"`` or ``"NDHWC"``.
        has_wgmma: whether the device has compute capability 9.0 and the library its machine code.
    """
    triples = (
        layer.input_size,
        layer.kernel_size,
        layer.stride,
        layer.padding,
        layer.output_padding,
        layer.dilation,
    )
    flat = [
        layer.batch,
        layer.in_channels,
        layer.out_channels,
        layer.groups,
        *(size for triple in triples for size in triple),
    ]
    sizes = (ctypes.c_int64 * len(flat))(*flat)
    text = ctypes.create_string_buffer(1024)
    ctypes.CDLL(str(LIBRARY_PATH)).convt3d_explain_forward(
        sizes, _ELEMENT_BYTES[precision], precision == "tf32", layout == "NDHWC", has_wgmma, text, len(text)
    )
    return text.value.decode()


def engine(layer: Layer, pass_: str, precision: str, layout: str) -> str:
    """The name of the engine, as the records have it, on the current device."""
    if pass_ != "forward":
        return "simt"
    has_wgmma = torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)
    return forward_plan(layer, precision, layout, has_wgmma=has_wgmma).split(":")[0]
