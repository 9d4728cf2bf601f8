"""A model with transposed convolutions, and what `convt3d.explain` says about one."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

import convt3d


class Decoder(nn.Module):
    """Two levels with a skip connection, a layer used twice, and one called with an output_size."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Sequential(nn.ConvTranspose3d(8, 4, 2, stride=2), nn.ReLU(), nn.BatchNorm3d(4))
        self.same = nn.ConvTranspose3d(4, 4, 3, padding=1, groups=2, bias=False)
        self.last = nn.ConvTranspose3d(4, 2, (3, 2, 1), stride=(2, 1, 2))
        self.other = nn.Conv3d(2, 2, 1)

    def forward(self, x: Tensor, skip: Tensor) -> Tensor:
        x = self.same(self.same(self.up(x) + skip))
        output: Tensor = self.other(self.last(x, output_size=(14, 9, 20)))
        return output


def inputs(device: str = "cpu", dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    return (
        torch.randn(2, 8, 3, 4, 5, device=device, dtype=dtype),
        torch.randn(2, 4, 6, 8, 10, device=device, dtype=dtype),
    )


def explained(model: nn.Module, example: Any, **kwargs: Any) -> convt3d.ModelExplanation:
    result = convt3d.explain(model, example, **kwargs)
    assert isinstance(result, convt3d.ModelExplanation)
    return result


def names(result: convt3d.ModelExplanation) -> list[str]:
    return [call.name for call in result.calls]
