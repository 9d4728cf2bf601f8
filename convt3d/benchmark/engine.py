"""Which kind of kernel convt3d runs, as the records have it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from convt3d._explain import forward_plan, has_wgmma

if TYPE_CHECKING:
    from convt3d._layer import Layer


def engine(layer: Layer, pass_: str, precision: str, layout: str) -> str:
    """The name of the engine on the current device."""
    if pass_ != "forward":
        return "simt"
    wgmma = torch.cuda.is_available() and has_wgmma(torch.device("cuda", torch.cuda.current_device()))
    return forward_plan(layer, precision, layout, has_wgmma=wgmma).engine
