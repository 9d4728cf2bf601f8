"""Networks of MONAI that tell the classes of voxels, with Dice and cross entropy."""

from __future__ import annotations

import importlib
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from workload import Workload


@dataclass(frozen=True)
class SegmentationWorkload(Workload):
    """Patches of one channel and three classes, in batches of two.

    Attributes:
        patch: voxels along each side of the patch.
    """

    patch: int = 96

    inputs_need_gradients = False
    batch = 2
    classes = 3
    tiny_size: ClassVar[tuple[int, int, int]] = (16, 8, 8)

    def _size(self) -> tuple[int, ...]:
        return self.tiny_size if self.tiny else (self.patch,) * 3

    def inputs(self, random: torch.Generator) -> tuple[Tensor, ...]:
        """One channel of noise."""
        return (self._normal(random, self.batch, 1, *self._size()),)

    def targets(self, random: torch.Generator) -> tuple[Tensor, ...]:
        """A class for each voxel, and the same as one channel a class."""
        labels = self._classes(random, self.classes, self.batch, *self._size())
        return labels, F.one_hot(labels, self.classes).movedim(-1, 1).float()

    def loss(self, outputs: tuple[Tensor, ...], targets: tuple[Tensor, ...]) -> Tensor:
        """Dice and cross entropy of each output, the finest with the largest weight."""
        labels, one_hot = targets
        by_depth = self._by_depth(outputs)
        weights = [0.5**depth for depth in range(len(by_depth))]
        losses = []
        for weight, logits in zip(weights, by_depth, strict=True):
            foreground, truth = logits.softmax(1)[:, 1:], one_hot[:, 1:]
            overlap, total = (foreground * truth).sum((2, 3, 4)), (foreground + truth).sum((2, 3, 4))
            dice = (2 * overlap + 1e-5) / (total + 1e-5)
            losses.append(weight / sum(weights) * (F.cross_entropy(logits, labels) - dice.mean()))
        return torch.stack(losses).sum()

    def _by_depth(self, outputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Outputs in the patch's size, the finest first."""
        return outputs


@dataclass(frozen=True)
class DynUNetWorkload(SegmentationWorkload):
    """MONAI's DynUNet as nnU-Net plans and trains it.

    Kernels of 3, instance norm and leaky ReLU; 32 channels, doubled at each stage up to 320; as many stages as bring a
    patch to 4 voxels a side. Training with deep supervision (the coarsest output, which nnU-Net weights with 0, left
    out), Dice and cross entropy, SGD with Nesterov momentum, gradients clipped; inference without deep supervision.
    MONAI brings the deep outputs to the patch's size, where nnU-Net shrinks the labels.
    """

    max_gradient_norm = 12.0

    def _filters(self) -> list[int]:
        if self.tiny:
            return [4, 8, 12, 12]
        stages = self.patch.bit_length() - 2  # 4 * 2**(stages - 1) == patch
        return [min(32 << stage, 320) for stage in range(stages)]

    def make(self, *, training: bool) -> nn.Module:
        """The network, with deep supervision for training only."""
        filters = self._filters()
        strides = [1] + [2] * (len(filters) - 1)
        deep_outputs = len(filters) - 3 if training else 1
        network: nn.Module = _monai().DynUNet(
            *(3, 1, self.classes, [3] * len(filters), strides, strides[1:], filters),
            deep_supervision=training,
            deep_supr_num=deep_outputs,
        )
        return network

    def _by_depth(self, outputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return outputs[0].unbind(1)

    def optimizer(self, network: nn.Module) -> torch.optim.Optimizer:
        """nnU-Net's."""
        return torch.optim.SGD(network.parameters(), lr=1e-2, momentum=0.99, nesterov=True, weight_decay=3e-5)


@dataclass(frozen=True)
class MonaiWorkload(SegmentationWorkload):
    """A network of MONAI as its documentation sets it up, without dropout, as that of two runs differs."""

    network: ClassVar[str]  # the class's name

    @abstractmethod
    def arguments(self) -> dict[str, Any]:
        """Of the network's class, by their names."""

    def make(self, *, training: bool) -> nn.Module:
        """The network."""
        made: nn.Module = getattr(_monai(), self.network)(**self.arguments())
        return made

    def optimizer(self, network: nn.Module) -> torch.optim.Optimizer:
        """That of MONAI's tutorials."""
        return torch.optim.Adam(network.parameters(), lr=1e-4)


@dataclass(frozen=True)
class UNetWorkload(MonaiWorkload):
    """Residual units and instance norm, 32 channels doubled at each stage up to 512."""

    network = "UNet"

    def arguments(self) -> dict[str, Any]:
        """Five stages."""
        channels = (4, 8, 12) if self.tiny else (32, 64, 128, 256, 512)
        strides = (2,) * (len(channels) - 1)
        channels_of = {"in_channels": 1, "out_channels": self.classes, "channels": channels}
        return {"spatial_dims": 3, **channels_of, "strides": strides, "num_res_units": 2}


@dataclass(frozen=True)
class MedNeXtWorkload(MonaiWorkload):
    """MedNeXt-S with kernels of 3: depthwise convolutions, which the up-sampling layers transpose."""

    network = "MedNeXt"

    def arguments(self) -> dict[str, Any]:
        """Those of MONAI's MedNeXtS, which takes no others."""
        blocks = (1, 1) if self.tiny else (2, 2, 2, 2)
        return {
            "spatial_dims": 3,
            "init_filters": 4 if self.tiny else 32,
            "in_channels": 1,
            "out_channels": self.classes,
            **dict.fromkeys(("encoder_expansion_ratio", "decoder_expansion_ratio", "bottleneck_expansion_ratio"), 2),
            "kernel_size": 3,
            "blocks_down": blocks,
            "blocks_bottleneck": blocks[0],
            "blocks_up": blocks,
            "use_residual_connection": True,
            "norm_type": "group",
            "global_resp_norm": False,
        }

    def optimizer(self, network: nn.Module) -> torch.optim.Optimizer:
        """Its authors'."""
        return torch.optim.AdamW(network.parameters(), lr=1e-3)


@dataclass(frozen=True)
class VNetWorkload(MonaiWorkload):
    """16 channels doubled at each stage up to 256, whatever the size."""

    network = "VNet"
    tiny_size = (16, 16, 16)

    def arguments(self) -> dict[str, Any]:
        """All that is not said is the class's own."""
        none = {"dropout_prob_down": 0.0, "dropout_prob_up": (0.0, 0.0)}
        return {"spatial_dims": 3, "in_channels": 1, "out_channels": self.classes, **none}


@dataclass(frozen=True)
class SwinUNETRWorkload(MonaiWorkload):
    """Transformers that encode, 48 features; convolutions that decode."""

    network = "SwinUNETR"
    tiny_size = (32, 64, 32)

    def arguments(self) -> dict[str, Any]:
        """Its authors' for BTCV."""
        tiny = {"feature_size": 12, "depths": (1,) * 4, "num_heads": (1,) * 4}
        return {"in_channels": 1, "out_channels": self.classes, **(tiny if self.tiny else {"feature_size": 48})}


def _monai() -> Any:
    """Imported late: it takes a second or more, and is an extra that the other networks do not need."""
    return importlib.import_module("monai.networks.nets")
