"""Networks of other packages that use transposed convolutions, in their authors' sizes and in sizes for tests."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from monai.networks import nets
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
from gan import Generator

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Client:
    """A network, as its package's documentation or planner sets it up, and small.

    Attributes:
        name: what the tables call it.
        make: the network in full size.
        small: the network in a size for tests on the CPU.
        input_size: batch size, depth, height and width of an input of the small one, which has one channel; or, of a
            network that takes vectors, batch size and elements.
        full_input_size: the same of the network in full size: what the benchmark gives it.
    """

    name: str
    make: Callable[[], nn.Module]
    small: Callable[[], nn.Module]
    input_size: tuple[int, ...] = (2, 8, 8, 16)
    full_input_size: tuple[int, ...] = (2, 128, 128, 128)

    def input(self, *, full: bool = False) -> torch.Tensor:
        batch, *size = self.full_input_size if full else self.input_size
        return torch.randn(batch, *size) if len(size) == 1 else torch.randn(batch, 1, *size)


def _unet(channels: tuple[int, ...], **kwargs: Any) -> nn.Module:
    strides = (2,) * (len(channels) - 1)
    return nets.UNet(3, 1, 2, channels, strides, num_res_units=2, **kwargs)


def _dynunet(filters: tuple[int, ...], **kwargs: Any) -> nn.Module:
    strides = (1,) + (2,) * (len(filters) - 1)
    return nets.DynUNet(
        3, 1, 2, (3,) * len(filters), strides, strides[1:], filters=filters, deep_supervision=True, **kwargs
    )


def _mednext(features: int, blocks: tuple[int, ...]) -> nn.Module:
    """MONAI's MedNeXtS, whose widths and depths are not arguments."""
    return nets.MedNeXt(
        init_filters=features,
        encoder_expansion_ratio=2,
        decoder_expansion_ratio=2,
        bottleneck_expansion_ratio=2,
        kernel_size=3,
        blocks_down=blocks,
        blocks_bottleneck=blocks[0],
        blocks_up=blocks,
    )


def nnunet(name: str) -> Any:
    """A class of nnU-Net's networks, imported only now: the package needs torchvision, which fits one torch."""
    return getattr(importlib.import_module("dynamic_network_architectures.architectures.unet"), name)


def _nnunet(name: str, features: tuple[int, ...], blocks: str) -> nn.Module:
    stages = len(features)
    network: nn.Module = nnunet(name)(
        input_channels=1,
        n_stages=stages,
        features_per_stage=features,
        conv_op=nn.Conv3d,
        kernel_sizes=3,
        strides=(1,) + (2,) * (stages - 1),
        num_classes=2,
        n_conv_per_stage_decoder=1,
        conv_bias=True,
        norm_op=nn.InstanceNorm3d,
        norm_op_kwargs={"eps": 1e-5, "affine": True},
        nonlin=nn.LeakyReLU,
        nonlin_kwargs={"inplace": True},
        deep_supervision=True,
        **{blocks: 2},
    )
    return network


_FULL = (32, 64, 128, 256, 320, 320)
_SMALL = (4, 8, 12)
_BATCH_RELU = {"norm": "batch", "act": "relu"}

CLIENTS = [
    Client("MONAI UNet", lambda: _unet((16, 32, 64, 128, 256)), lambda: _unet(_SMALL)),
    Client(
        "MONAI UNet, BatchNorm and ReLU",
        lambda: _unet((16, 32, 64, 128, 256), **_BATCH_RELU),
        lambda: _unet(_SMALL, **_BATCH_RELU),
    ),
    Client(
        "MONAI UNet, no norm, ReLU",
        lambda: _unet((16, 32, 64, 128, 256), norm=None, act="relu"),
        lambda: _unet(_SMALL, norm=None, act="relu"),
    ),
    Client("MONAI DynUNet", lambda: _dynunet(_FULL, deep_supr_num=3), lambda: _dynunet(_SMALL)),
    Client(
        "MONAI MedNeXt-S",
        lambda: nets.MedNeXtS(spatial_dims=3),
        lambda: _mednext(4, (1, 1)),
        full_input_size=(2, 96, 96, 96),
    ),
    Client("MONAI VNet", lambda: nets.VNet(3, 1, 2), lambda: nets.VNet(3, 1, 2), (2, 16, 16, 16), (2, 96, 96, 96)),
    Client(
        "MONAI SwinUNETR",
        lambda: nets.SwinUNETR(1, 2),
        lambda: nets.SwinUNETR(1, 2, feature_size=12, depths=(1, 1, 1, 1), num_heads=(1, 1, 1, 1)),
        (1, 32, 64, 32),
        (1, 96, 96, 96),
    ),
    Client(
        "MONAI UNETR",
        lambda: nets.UNETR(1, 2, (96, 96, 96)),
        lambda: nets.UNETR(1, 2, (32, 32, 32), feature_size=4, hidden_size=24, mlp_dim=32, num_heads=2),
        (1, 32, 32, 32),
        (1, 96, 96, 96),
    ),
    Client(
        "nnU-Net PlainConvUNet",
        lambda: _nnunet("PlainConvUNet", _FULL, "n_conv_per_stage"),
        lambda: _nnunet("PlainConvUNet", _SMALL, "n_conv_per_stage"),
    ),
    Client(
        "nnU-Net ResidualEncoderUNet",
        lambda: _nnunet("ResidualEncoderUNet", _FULL, "n_blocks_per_stage"),
        lambda: _nnunet("ResidualEncoderUNet", _SMALL, "n_blocks_per_stage"),
    ),
    Client("3D-GAN generator", lambda: Generator(), lambda: Generator(12, 2), (2, 12), (64, 200)),
]
