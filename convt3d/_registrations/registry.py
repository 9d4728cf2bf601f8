"""The operators of the compiled library, and the handle through which Python adds kernels to them."""

from typing import Any

import torch

from convt3d import _library

_library.load()

ops: Any = torch.ops.convt3d

# One handle for the life of the process: a Library that is collected takes its kernels with it.
_Library: Any = torch.library.Library
library: Any = _Library("convt3d", "IMPL")
