"""Sizes beyond what the operators count with and results beyond the device's memory are refused; nothing is left."""

from __future__ import annotations

import pytest
import torch
from rejection import DEVICES, INPUT, PARAMETERS, WEIGHT, Shape, rejects

import convt3d


def expanded(shape: tuple[int, ...], device: str) -> torch.Tensor:
    """A tensor of any size over a single element."""
    return torch.ones((1,) * len(shape), device=device).expand(shape)


LIMIT = 2**31


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["stride", "padding", "output_padding", "dilation"])
def test_parameter_past_31_bits(name: str, device: str, capfd: pytest.CaptureFixture[str]) -> None:
    arguments = {"input": Shape(INPUT), "weight": Shape(WEIGHT), **PARAMETERS, name: (1, LIMIT, 1)}
    rejects("conv_transpose3d", f"{name} must be less than 2^31, got (1, {LIMIT}, 1)", device, arguments, capfd)


@pytest.mark.parametrize("device", DEVICES)
def test_size_past_31_bits(device: str, capfd: pytest.CaptureFixture[str]) -> None:
    arguments = {"input": expanded((1, 1, 1, 1, LIMIT), device), "weight": Shape((1, 1, 1, 1, 1))}
    message = f"input must have a depth, height and width less than 2^31, got shape (1, 1, 1, 1, {LIMIT})"
    rejects("conv_transpose3d", message, device, arguments, capfd)


@pytest.mark.parametrize("device", DEVICES)
def test_padded_extent_past_31_bits(device: str, capfd: pytest.CaptureFixture[str]) -> None:
    # The output itself is small: padding cuts the extent off again.
    arguments = {"input": Shape((1, 1, 1, 3, 1)), "weight": Shape((1, 1, 1, 2, 1)), "stride": (1, 2**30, 1)}
    arguments |= {"dilation": (1, 7, 1), "padding": (0, 2**30 + 1, 0)}
    message = (
        "input must give a padded output size (size-1)*stride + dilation*(kernel_size-1) + output_padding + 1 less "
        f"than 2^31, got {2**31 + 8} in height "
    )
    rejects("conv_transpose3d", message, device, arguments, capfd)


@pytest.mark.parametrize("device", DEVICES)
def test_result_past_63_bits(device: str, capfd: pytest.CaptureFixture[str]) -> None:
    arguments = {"input": expanded((2**40, 1, 2, 2, 2), device), "weight": expanded((1, 2**20, 1, 1, 1), device)}
    message = f"the result must take less than 2^63 bytes, got shape ({2**40}, {2**20}, 2, 2, 2)"
    rejects("conv_transpose3d", message, device, arguments, capfd)


@pytest.mark.cuda
@pytest.mark.parametrize("through", ["function", "operator"])
def test_allocation_larger_than_the_device(through: str, capfd: pytest.CaptureFixture[str]) -> None:
    input = torch.ones(1, 1, 2, 2, 2, device="cuda")
    side = 1
    while 4 * side**3 <= torch.cuda.get_device_properties(0).total_memory:
        side *= 2
    function = convt3d.conv_transpose3d if through == "function" else torch.ops.convt3d.conv_transpose3d
    with pytest.raises(
        torch.OutOfMemoryError, match=r"^conv_transpose3d: CUDA out of memory: tried to allocate \d+ bytes"
    ):
        function(input, torch.ones(1, 1, 2, 2, 2, device="cuda"), dilation=side)
    assert capfd.readouterr() == ("", "")
    torch.testing.assert_close(function(input, torch.ones_like(input)).sum().cpu(), torch.tensor(64.0))


@pytest.mark.cuda
@pytest.mark.device_memory
def test_allocation_larger_than_what_is_free() -> None:
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info()
    taken = torch.empty(max(0, free - total // 4), dtype=torch.uint8, device="cuda")
    input = torch.ones(1, 1, 2, 2, 2, device="cuda")
    channels, voxels = 64, 2 * 2
    width = int(0.6 * total) // (4 * channels * voxels)
    with pytest.raises(torch.OutOfMemoryError, match="CUDA out of memory"):
        convt3d.conv_transpose3d(input, torch.ones(1, channels, 1, 1, 2, device="cuda"), dilation=(1, 1, width))
    del taken
    torch.testing.assert_close(convt3d.conv_transpose3d(input, input).sum().cpu(), torch.tensor(64.0))
