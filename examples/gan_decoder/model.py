"""The generator of 3D-GAN (Wu et al., 2016): from a latent vector to the occupancy of 64^3 voxels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

if TYPE_CHECKING:
    from torch import Tensor


class Decoder(nn.Module):
    """Five transposed convolutions, BatchNorm and ReLU between them, and a sigmoid: 1^3 -> 4^3 -> 8^3 ... -> 64^3.

    Args:
        latent: size of the latent vector.
        channels: of the volumes from 4^3 on; each has half the channels of the one before, and the last one has one.
    """

    def __init__(self, latent: int = 200, channels: int = 512) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.ConvTranspose3d(latent, channels, 4, bias=False)]
        for _ in range(3):
            layers += [nn.BatchNorm3d(channels), nn.ReLU()]
            layers.append(nn.ConvTranspose3d(channels, channels // 2, 4, stride=2, padding=1, bias=False))
            channels //= 2
        layers += [nn.BatchNorm3d(channels), nn.ReLU()]
        layers.append(nn.ConvTranspose3d(channels, 1, 4, stride=2, padding=1))
        self.layers = nn.Sequential(*layers)

    def forward(self, latent: Tensor) -> Tensor:
        """Probabilities [N, 1, 64, 64, 64] that a voxel is filled, for latent vectors [N, latent]."""
        volume: Tensor = self.layers(latent[:, :, None, None, None])
        return volume.sigmoid()
