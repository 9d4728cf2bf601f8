"""The operators of the compiled library, and the handles through which Python adds kernels to them."""

from collections.abc import Callable
from typing import Any

import torch

from convt3d import _library

_library.load()

ops: Any = torch.ops.convt3d
# The same for code that TorchInductor has compiled, without Autograd and autocast kernels; see `inductor`.
compiled_ops: Any = torch.ops.convt3d_inductor

# One handle for the life of the process: a Library that is collected takes its kernels with it.
_Library: Any = torch.library.Library
library: Any = _Library("convt3d", "IMPL")
compiled_library: Any = _Library("convt3d_inductor", "IMPL")


def register_fake(name: str, kernel: Callable[..., Any]) -> None:
    """Registers a fake kernel for an operator in both namespaces."""
    torch.library.register_fake(f"convt3d::{name}", kernel, lib=library)
    torch.library.register_fake(f"convt3d_inductor::{name}", kernel, lib=compiled_library)
