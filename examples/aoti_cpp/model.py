"""A network that doubles the resolution of a volume twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

if TYPE_CHECKING:
    from torch import Tensor


class Upsampler(nn.Module):
    """Plain torch.nn; `convt3d.convert` puts its two transposed convolutions, and one ReLU, on convt3d."""

    def __init__(self, channels: int = 16) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv3d(1, channels, 3, padding=1),
            nn.ConvTranspose3d(channels, channels, 4, stride=2, padding=1),
            nn.GroupNorm(4, channels),
            nn.SiLU(),
            nn.ConvTranspose3d(channels, channels, 2, stride=2),
            nn.ReLU(),
            nn.Conv3d(channels, 1, 1),
        )

    def forward(self, input: Tensor) -> Tensor:
        """Volumes [N, 1, 4D, 4H, 4W] for volumes [N, 1, D, H, W]."""
        output: Tensor = self.layers(input)
        return output
