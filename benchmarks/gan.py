"""The generator of a 3D GAN, trained as behind a discriminator."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from workload import Workload


class Generator(nn.Module):
    """3D-GAN's generator: from a vector to voxels, each of 64 x 64 x 64 between 0 and 1.

    "Learning a Probabilistic Latent Space of Object Shapes via 3D Generative-Adversarial Modeling" (arXiv 1610.07584):
    five transposed convolutions with kernel 4, the first with stride 1, the others with stride 2 and padding 1; 512,
    256, 128, 64 and 1 channels; batch norm and ReLU behind all but the last, a sigmoid behind that. No layer before a
    batch norm has a bias.

    Args:
        latent: elements of the vector.
        width: channels of the last layer's input; those before it are its multiples.
    """

    def __init__(self, latent: int = 200, width: int = 64) -> None:
        super().__init__()
        channels = [latent, 8 * width, 4 * width, 2 * width, width]
        blocks: list[nn.Module] = []
        for index, (wide, narrow) in enumerate(pairwise(channels)):
            stride, padding = (2, 1) if index else (1, 0)
            blocks.append(nn.ConvTranspose3d(wide, narrow, 4, stride, padding, bias=False))
            blocks += [nn.BatchNorm3d(narrow), nn.ReLU(inplace=True)]
        self.layers = nn.Sequential(*blocks, nn.ConvTranspose3d(width, 1, 4, 2, 1), nn.Sigmoid())

    def forward(self, vectors: Tensor) -> Tensor:
        """Voxels of each vector: (N, latent) -> (N, 1, 64, 64, 64)."""
        voxels: Tensor = self.layers(vectors[..., None, None, None])
        return voxels


@dataclass(frozen=True)
class GeneratorWorkload(Workload):
    """:class:`Generator` with a batch of 64. What a discriminator hands back is given, as that is another network."""

    inputs_need_gradients = False

    def _batch(self) -> int:
        return 2 if self.tiny else 64

    def _latent(self) -> int:
        return 12 if self.tiny else 200

    def make(self, *, training: bool) -> nn.Module:
        """The generator."""
        return Generator(self._latent(), 2 if self.tiny else 64)

    def inputs(self, random: torch.Generator) -> tuple[Tensor, ...]:
        """Vectors."""
        return (self._normal(random, self._batch(), self._latent()),)

    def targets(self, random: torch.Generator) -> tuple[Tensor, ...]:
        """What a discriminator hands back for the voxels, by its scale."""
        return (self._normal(random, self._batch(), 1, 64, 64, 64),)

    def loss(self, outputs: tuple[Tensor, ...], targets: tuple[Tensor, ...]) -> Tensor:
        """The product with the discriminator's gradient, whose gradient that is."""
        return (outputs[0].float() * targets[0]).mean((1, 2, 3, 4)).sum()

    def optimizer(self, network: nn.Module) -> torch.optim.Optimizer:
        """3D-GAN's."""
        return torch.optim.Adam(network.parameters(), lr=2.5e-3, betas=(0.5, 0.999))
