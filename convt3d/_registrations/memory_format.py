"""The memory format of a result: PyTorch's rule for cuDNN, the same as in csrc/ops, on every device.

The results of an operator are channels_last_3d where one of its operands has such strides and the dtype is not
float64, else contiguous. "Such strides" is what `Tensor.suggest_memory_format` tests in C++, which Python
does not offer.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from convt3d._registrations.symbolic import holds


def has_channels_last_strides(sizes: Sequence[Any], strides: Sequence[Any]) -> bool:
    """Whether 5-D sizes and strides are channels_last_3d to PyTorch (`is_channels_last_strides_3d`).

    From the innermost dimension out, each stride has to be at least the extent of the dimension before. A contiguous
    tensor of one channel fits both formats; then the stride of the batch decides.
    """
    if holds(strides[1] == 0, when_unknown=False):
        return False
    extent: Any = 0
    for dim in (1, 4, 3, 2, 0):
        if holds(sizes[dim] == 0, when_unknown=False) or holds(strides[dim] < extent, when_unknown=True):
            return False
        if dim == 0 and holds(extent == strides[1], when_unknown=False):
            return False
        extent = strides[dim] * sizes[dim]
    return True


def result_memory_format(*operands: Tensor) -> torch.memory_format:
    """Memory format of the results of an operator on these 5-D operands."""
    if operands[0].dtype != torch.float64 and any(
        has_channels_last_strides(tensor.shape, tensor.stride()) for tensor in operands
    ):
        return torch.channels_last_3d
    return torch.contiguous_format
