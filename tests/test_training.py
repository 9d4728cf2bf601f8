"""Training: a small 3D U-Net, step by step, on PyTorch's transposed layers and on convt3d's.

Two runs of one training differ by rounding, which 200 steps let grow. How far, PyTorch's own runs show. In each of
them the network has its hidden channels in another order, so that every sum is taken in another order, and its
transposed layers round otherwise: all of an input by one factor, as if it were cut off where another run rounds it, and
each output by at most one rounding of the type. What these runs end with is a sample, of the loss and of how far each
parameter of the transposed layers has moved. convt3d's run has to end with what the next of these runs could have ended
with: Student's t, with one in 10,000 left outside.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace
from statistics import mean, stdev

import pytest
import torch
import torch.nn.functional as F
from reference import LAYOUTS
from torch import Tensor, nn

import convt3d

RUNS = 8  # of PyTorch
STUDENT_T = 7.885  # two-sided, 1 in 10,000, RUNS - 1 degrees of freedom
SIZE = (8, 12, 16)


class UNet(nn.Module):
    """Three resolutions; kernel == stride and a kernel that overlaps, with and without a ReLU that can be fused."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Conv3d(1, 8, 3, padding=1)
        self.down1 = nn.Conv3d(8, 16, 3, stride=2, padding=1)
        self.down2 = nn.Conv3d(16, 24, 3, stride=2, padding=1)
        self.up2 = nn.Sequential(nn.ConvTranspose3d(24, 16, 2, stride=2), nn.ReLU())
        self.merge2 = nn.Conv3d(32, 16, 3, padding=1)
        self.up1 = nn.ConvTranspose3d(16, 8, 3, stride=2, padding=1, output_padding=1)
        self.merge1 = nn.Conv3d(16, 8, 3, padding=1)
        self.last = nn.Conv3d(8, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        fine = self.enter(x).relu()
        middle = self.down1(fine).relu()
        coarse = self.down2(middle).relu()
        middle = self.merge2(torch.cat((self.up2(coarse), middle), 1)).relu()
        fine = self.merge1(torch.cat((self.up1(middle), fine), 1)).relu()
        logits: Tensor = self.last(fine)
        return logits

    @torch.no_grad()
    def reorder(self, generator: torch.Generator) -> None:
        """Another order of the hidden channels: the same function but for rounding."""
        fine, middle, coarse, up2, merged2, up1, merged1 = (
            torch.randperm(channels, generator=generator) for channels in (8, 16, 24, 16, 16, 8, 8)
        )
        one = torch.arange(1)
        for layer, inputs, outputs in (
            (self.enter, one, fine),
            (self.down1, fine, middle),
            (self.down2, middle, coarse),
            (self.up2[0], coarse, up2),
            (self.merge2, torch.cat((up2, 16 + middle)), merged2),
            (self.up1, merged2, up1),
            (self.merge1, torch.cat((up1, 8 + fine)), merged1),
            (self.last, merged1, one),
        ):
            transposed = isinstance(layer, nn.ConvTranspose3d)
            first, second = (inputs, outputs) if transposed else (outputs, inputs)
            layer.weight.copy_(layer.weight[first][:, second])
            layer.bias.copy_(layer.bias[outputs])


@dataclass(frozen=True)
class Setting:
    """How both train.

    Attributes:
        device: where.
        steps: of the optimiser.
        layout: of the volumes.
        rounding: of an operand or a result, relative to it.
        autocast: that type, where autocast chooses it.
        tf32: whether float32 may be TF32.
    """

    device: str
    steps: int
    layout: str
    rounding: float
    autocast: torch.dtype | None = None
    tf32: bool = False


def _batch(generator: torch.Generator, setting: Setting) -> tuple[Tensor, Tensor]:
    """Blobs, and a noisy picture of them."""
    coarse = torch.randn(2, 1, *(size // 4 for size in SIZE), generator=generator)
    blobs = F.interpolate(coarse, SIZE, mode="trilinear").gt(0).float()
    picture = blobs + torch.randn(blobs.shape, generator=generator)
    return picture.to(setting.device, memory_format=LAYOUTS[setting.layout]), blobs.to(setting.device)


def _end(model: UNet, setting: Setting) -> dict[str, float]:
    """The loss of volumes that the training has not seen, and how far the transposed layers' parameters moved."""
    model = model.to(setting.device, memory_format=LAYOUTS[setting.layout])
    begin = copy.deepcopy(model.state_dict())
    generator = torch.Generator().manual_seed(3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scaler = torch.amp.GradScaler(setting.device, init_scale=256.0, enabled=setting.autocast == torch.float16)

    def loss_of(picture: Tensor, blobs: Tensor) -> Tensor:
        with torch.autocast(setting.device, setting.autocast, enabled=setting.autocast is not None):
            logits = model(picture)
        return F.binary_cross_entropy_with_logits(logits.float(), blobs)

    with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=setting.tf32):
        for _ in range(setting.steps):
            optimizer.zero_grad()
            scaler.scale(loss_of(*_batch(generator, setting))).backward()
            scaler.step(optimizer)
            scaler.update()
        with torch.no_grad():
            loss = mean(loss_of(*_batch(generator, setting)).item() for _ in range(8))
    end = model.state_dict()
    return {"loss": loss} | {name: (end[name] - begin[name]).norm().item() for name in end if name.startswith("up")}


def _rounded_otherwise(model: UNet, rounding: float, seed: int) -> UNet:
    """The same network in another order of its channels, with other roundings in its transposed layers."""
    other, generator = copy.deepcopy(model), torch.Generator().manual_seed(seed)
    other.reorder(generator)

    def off(*shape: int) -> Tensor:
        return rounding * (2 * torch.rand(shape, generator=generator) - 1)

    for layer in other.modules():
        if isinstance(layer, nn.ConvTranspose3d):
            factor = 1 + 2 * off().item()  # of both operands
            layer.register_forward_pre_hook(lambda _, inputs, factor=factor: (inputs[0] * factor,))
            layer.register_forward_hook(
                lambda _, inputs, output: (output.float() * (1 + off(*output.shape).to(output.device))).to(output.dtype)
            )
    return other


def _model() -> UNet:
    torch.manual_seed(0)
    return UNet()


def _outside(setting: Setting, model: UNet) -> dict[str, float]:
    """What the model ends with that no run of PyTorch's could have, and how far outside that is."""
    runs = [_end(_rounded_otherwise(_model(), setting.rounding, seed), setting) for seed in range(RUNS)]
    untrained = _end(_model(), replace(setting, steps=0))["loss"]
    assert mean(run["loss"] for run in runs) < 0.7 * untrained  # else nothing was learned
    end = _end(model, setting)
    outside = {}
    for name in end:
        sample = [run[name] for run in runs]
        room = STUDENT_T * math.sqrt(1 + 1 / RUNS) * stdev(sample)
        if not abs(end[name] - mean(sample)) <= room:
            outside[name] = (end[name] - mean(sample)) / room
    return outside


def _converted() -> UNet:
    model = _model()
    report = convt3d.convert(model)
    assert [layer.action for layer in report.layers] == ["fused", "converted"]
    return model


SHORT = Setting("cpu", 40, "NCDHW", 2**-24)


def test_some_steps_on_the_cpu() -> None:
    assert not _outside(SHORT, _converted())


@pytest.mark.parametrize("name", ["weight", "bias"])
def test_a_gradient_that_is_off_by_a_hundredth_shows(name: str) -> None:
    model = _model()
    getattr(model.up1, name).register_hook(lambda grad: 1.01 * grad)
    assert f"up1.{name}" in _outside(SHORT, model)


@pytest.mark.slow
@pytest.mark.cuda
@pytest.mark.parametrize(
    "setting",
    [
        Setting("cuda", 200, "NCDHW", 2**-20),  # what two terms of TF32 may leave out of a product
        Setting("cuda", 200, "NDHWC", 2**-11, tf32=True),
        Setting("cuda", 200, "NDHWC", 2**-11, torch.float16),
        Setting("cuda", 200, "NCDHW", 2**-8, torch.bfloat16),
    ],
    ids=["fp32", "tf32", "fp16", "bf16"],
)
def test_two_hundred_steps(setting: Setting) -> None:
    assert not _outside(setting, _converted())
