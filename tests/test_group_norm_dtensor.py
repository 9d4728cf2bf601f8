"""On DTensors the convolution with a norm computes what it computes on whole tensors, however they are placed."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
import torch
from processes import run_group
from torch import Tensor
from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.debug import CommDebugMode

import convt3d

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="torch has no gloo"),
]

INPUT = (Replicate(), Shard(0), Shard(1), Shard(2))
PARAMETER = (Replicate(), Shard(0))


def tensors() -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = ((3, 4, 2, 3, 5), (4, 6, 2, 3, 1), (6,), (6,), (6,))
    return [torch.randn(shape, dtype=torch.float64, generator=generator) for shape in shapes]


def results(place: Callable[[int, Tensor], Tensor]) -> tuple[list[Tensor], Any]:
    """The result and all gradients, and the placement of the result."""
    input, weight, bias, norm_weight, norm_bias = given = [
        place(i, tensor).requires_grad_() for i, tensor in enumerate(tensors())
    ]
    with CommDebugMode() as communication:
        output = convt3d.conv_transpose3d_group_norm(
            input, weight, bias, (2, 1, 3), (1, 0, 0), num_groups=3, norm_weight=norm_weight, norm_bias=norm_bias,
            relu=True, negative_slope=0.2,
        )  # fmt: skip
    gradients = torch.autograd.grad(output.square().sum(), given)
    placed = (getattr(output, "placements", None), communication.get_total_counts())
    whole = [value.full_tensor() if hasattr(value, "full_tensor") else value for value in (output, *gradients)]
    return [value.detach() for value in whole], placed


def everything(device: str) -> Any:
    """In one of two processes."""
    mesh = torch.distributed.init_device_mesh(device, (2,))

    def of(input: Any, parameter: Any) -> tuple[list[Tensor], Any]:
        return results(lambda i, tensor: distribute_tensor(tensor, mesh, [parameter if i else input]))

    return [of(*placements) for placements in itertools.product(INPUT, PARAMETER)]


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def test_results_are_those_of_whole_tensors(device: str, tmp_path: Path) -> None:
    torch.serialization.add_safe_globals([Shard, Replicate, Partial])
    expected, _ = results(lambda _, tensor: tensor)
    placements = itertools.product(INPUT, PARAMETER)
    for (input, parameter), (actual, (placed, communications)) in zip(
        placements, run_group(everything, device, tmp_path), strict=True
    ):
        for one, other in zip(actual, expected, strict=True):
            torch.testing.assert_close(one, other)
        if input == Shard(0) and parameter == Replicate():
            assert (placed, communications) == ((Shard(0),), 0)
