"""A valid call of each operator, and how tests see that another one is refused."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]
# "meta" runs the fake kernels, whose checks mirror the compiled ones.
DEVICES_AND_FAKE = [*DEVICES, "meta"]

# A valid layer whose parameters differ in every dimension where they can.
STRIDE, PADDING, OUTPUT_PADDING, GROUPS, DILATION = (2, 3, 1), (1, 0, 2), (1, 2, 0), 2, (1, 2, 3)
PARAMETERS = {
    "stride": STRIDE,
    "padding": PADDING,
    "output_padding": OUTPUT_PADDING,
    "groups": GROUPS,
    "dilation": DILATION,
}
INPUT, WEIGHT, KERNEL, OUTPUT = (2, 4, 5, 6, 7), (4, 3, 3, 2, 4), (3, 2, 4), (2, 6, 10, 20, 12)


class Shape(tuple[int, ...]):
    """Stands for a tensor of this shape on the device under test."""

    dtype = torch.float32


def tensor_of(dtype: torch.dtype, shape: tuple[int, ...]) -> Shape:
    result = Shape(shape)
    result.dtype = dtype
    return result


def realize(value: Any, device: str) -> Any:
    return torch.ones(value, dtype=value.dtype, device=device) if isinstance(value, Shape) else value


def rejects(op: str, message: str, device: str, arguments: dict[str, Any], capfd: pytest.CaptureFixture[str]) -> None:
    realized = {name: realize(value, device) for name, value in arguments.items()}
    with pytest.raises(RuntimeError, match=f"^{re.escape(f'{op}: {message}')}"):
        getattr(torch.ops.convt3d, op)(**realized)
    assert capfd.readouterr() == ("", "")
