"""The model inside what PyTorch wraps around it."""

from __future__ import annotations

import torch
from torch import nn


def unwrapped(model: nn.Module) -> tuple[nn.Module, str]:
    """The model inside DistributedDataParallel, DataParallel and torch.compile, and what that adds to the names."""
    prefix = ""
    while not isinstance(model, torch.jit.ScriptModule):
        wrapped = isinstance(model, (nn.parallel.DistributedDataParallel, nn.DataParallel))
        name = "module" if wrapped else "_orig_mod"  # the second is torch.compile's
        inner = model._modules.get(name)
        if inner is None:
            break
        model, prefix = inner, f"{prefix}{name}."
    return model, prefix
