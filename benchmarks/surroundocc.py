"""The decoder of SurroundOcc's occupancy head, and its transposed convolutions by themselves."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from workload import Workload


def _with_norm(layer: nn.Module, channels: int) -> nn.Sequential:
    return nn.Sequential(layer, nn.GroupNorm(16, channels), nn.ReLU(inplace=True))


class SurroundOccDecoder(nn.Module):
    """The decoder of SurroundOcc's occupancy head, from image features in three volumes to classes in four sizes.

    Written after https://github.com/weiyithu/SurroundOcc: `deblocks` and `occ` of `OccHead` in
    `projects/mmdet3d_plugin/surroundocc/dense_heads/occ_head.py` with the numbers of
    `projects/configs/surroundocc/surroundocc.py`:

        conv_input       = [512, 256, 256, 128, 128, 64, 64]
        conv_output      = [256, 256, 128, 128, 64, 64, 32]
        upsample_strides = [1, 2, 1, 2, 1, 2, 1]
        volume sizes     = 25 x 25 x 2 (512 channels), 50 x 50 x 4 (256), 100 x 100 x 8 (128), batch size 1

    Where the stride is 2, a layer is a transposed convolution with kernel 2, else a convolution with kernel 3;
    GroupNorm with 16 groups and ReLU follow each. No convolution has a bias.

    Args:
        width: channels of the finest output, 32 in the configuration; the others are its multiples.
        classes: classes of a voxel.
    """

    def __init__(self, width: int = 32, classes: int = 17) -> None:
        super().__init__()
        inputs, outputs = [16, 8, 8, 4, 4, 2, 2], [8, 8, 4, 4, 2, 2, 1]
        self.deblocks = nn.ModuleList()
        for index, (wide, narrow) in enumerate(zip(inputs, outputs, strict=True)):
            channels = wide * width, narrow * width
            layer = (
                nn.ConvTranspose3d(*channels, kernel_size=2, stride=2, bias=False)
                if index % 2
                else nn.Conv3d(*channels, kernel_size=3, padding=1, bias=False)
            )
            self.deblocks.append(_with_norm(layer, narrow * width))
        self.occ = nn.ModuleList(nn.Conv3d(narrow * width, classes, 1, bias=False) for narrow in outputs[::2])

    def forward(self, coarse: Tensor, middle: Tensor, fine: Tensor) -> tuple[Tensor, ...]:
        """Class scores in four sizes, the coarsest first."""
        skipped = {1: middle, 3: fine}
        predictions = []
        result = coarse
        for index, deblock in enumerate(self.deblocks):
            result = deblock(result)
            if index % 2 == 0:
                predictions.append(self.occ[index // 2](result))
            elif index in skipped:
                result = result + skipped[index]
        return tuple(predictions)


class SurroundOccUpsampling(nn.Module):
    """The transposed convolutions of :class:`SurroundOccDecoder` with their GroupNorm and ReLU, each by itself."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.deblocks = nn.ModuleList(
            _with_norm(nn.ConvTranspose3d(channels, channels, kernel_size=2, stride=2, bias=False), channels)
            for channels in (8 * width, 4 * width, 2 * width)
        )

    def forward(self, coarse: Tensor, middle: Tensor, fine: Tensor) -> tuple[Tensor, ...]:
        """The up-sampled volumes."""
        inputs = (coarse, middle, fine)
        return tuple(deblock(input) for deblock, input in zip(self.deblocks, inputs, strict=True))


@dataclass(frozen=True)
class SurroundOccWorkload(Workload):
    """:class:`SurroundOccDecoder`, trained with cross entropy at each size, as the head is.

    The head's two further losses, which compare the classes' frequencies, are left out: they are no part of a decoder.
    """

    classes = 17

    def _width(self) -> int:
        return 16 if self.tiny else 32

    def _volume(self, level: int) -> tuple[int, int, int]:
        across, up = (2, 1) if self.tiny else (25, 2)
        return across << level, across << level, up << level

    def make(self, *, training: bool) -> nn.Module:
        """The decoder."""
        return SurroundOccDecoder(self._width(), self.classes)

    def inputs(self, random: torch.Generator) -> tuple[Tensor, ...]:
        """Features in three volumes."""
        channels = [16 * self._width(), 8 * self._width(), 4 * self._width()]
        return tuple(self._normal(random, 1, channels[level], *self._volume(level)) for level in range(3))

    def targets(self, random: torch.Generator) -> tuple[Tensor, ...]:
        """A class for each voxel, in four sizes."""
        return tuple(self._classes(random, self.classes, 1, *self._volume(level)) for level in range(4))

    def loss(self, outputs: tuple[Tensor, ...], targets: tuple[Tensor, ...]) -> Tensor:
        """Cross entropy, the finest size with the largest weight."""
        losses = [F.cross_entropy(scores, labels) for scores, labels in zip(outputs, targets, strict=True)]
        return torch.stack([loss * 0.5 ** (3 - level) for level, loss in enumerate(losses)]).sum()


@dataclass(frozen=True)
class SurroundOccUpsamplingWorkload(SurroundOccWorkload):
    """:class:`SurroundOccUpsampling`, with the volumes that reach its layers in the decoder."""

    def make(self, *, training: bool) -> nn.Module:
        """The three layers."""
        return SurroundOccUpsampling(self._width())

    def inputs(self, random: torch.Generator) -> tuple[Tensor, ...]:
        """The input of each layer."""
        channels = [8 * self._width(), 4 * self._width(), 2 * self._width()]
        return tuple(self._normal(random, 1, channels[level], *self._volume(level)) for level in range(3))

    def targets(self, random: torch.Generator) -> tuple[Tensor, ...]:
        """Values for each output."""
        channels = [8 * self._width(), 4 * self._width(), 2 * self._width()]
        return tuple(self._normal(random, 1, channels[level], *self._volume(level + 1)) for level in range(3))

    def loss(self, outputs: tuple[Tensor, ...], targets: tuple[Tensor, ...]) -> Tensor:
        """Mean squared difference."""
        losses = [F.mse_loss(output, target) for output, target in zip(outputs, targets, strict=True)]
        return torch.stack(losses).sum()
