"""The network and its training."""

from __future__ import annotations

import statistics
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from monai.losses import DiceCELoss
from monai.networks.nets import DynUNet
from tqdm import tqdm

from .phantoms import CLASSES, dice

if TYPE_CHECKING:
    from torch import Tensor, nn

LEARNING_RATE = 1e-2
STEPS_UNTIMED = 5  # algorithms are chosen and memory is allocated in the first ones
AUTOCAST = {"fp16": torch.float16, "bf16": torch.bfloat16}


@dataclass(frozen=True)
class Settings:
    """How to train.

    Attributes:
        device: where.
        precision: a key of AUTOCAST, or ``"fp32"`` for no autocast.
        steps: optimizer steps.
        batch: volumes a step.
    """

    device: torch.device
    precision: str
    steps: int
    batch: int = 2

    def autocast(self) -> torch.autocast:
        """The context that forward passes run in."""
        dtype = AUTOCAST.get(self.precision)
        return torch.autocast(self.device.type, dtype, enabled=dtype is not None)


@dataclass(frozen=True)
class Run:
    """What a training did: the loss of every step, and a step's median time."""

    losses: list[float]
    step_ms: float


def make_network(filters: list[int]) -> nn.Module:
    """A DynUNet with kernels of 3 that halves its volumes at each stage after the first."""
    strides = [1] + [2] * (len(filters) - 1)
    network: nn.Module = DynUNet(3, 1, CLASSES, [3] * len(filters), strides, strides[1:], filters=filters)
    return network


def train(network: nn.Module, images: Tensor, labels: Tensor, settings: Settings, title: str) -> Run:
    """Fit ``network`` in place to random batches, the same ones at every call."""
    random = torch.Generator().manual_seed(0)
    optimizer = torch.optim.AdamW(network.parameters(), lr=LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=LEARNING_RATE, total_steps=settings.steps)
    scaler = torch.amp.GradScaler(settings.device.type, enabled=settings.precision == "fp16")
    loss_function = DiceCELoss(to_onehot_y=True, softmax=True)
    losses, times = [], []
    network.train()
    interval = 0.1 if sys.stderr.isatty() else 10.0  # seconds between two updates: a log file wants few
    with tqdm(range(settings.steps), desc=title, unit="step", mininterval=interval) as progress:
        for _ in progress:
            chosen = torch.randint(len(images), (settings.batch,), generator=random)
            image, label = images[chosen].to(settings.device), labels[chosen].unsqueeze(1).to(settings.device)
            start = time.perf_counter()
            optimizer.zero_grad(set_to_none=True)
            with settings.autocast():
                loss = loss_function(network(image), label)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            losses.append(loss.item())  # waits for the device
            times.append(1e3 * (time.perf_counter() - start))
            schedule.step()
            progress.set_postfix(loss=f"{losses[-1]:.3f}", refresh=False)
    return Run(losses, statistics.median(times[STEPS_UNTIMED:] or times))


@torch.no_grad()
def validate(network: nn.Module, images: Tensor, labels: Tensor, settings: Settings) -> float:
    """Dice coefficient over all volumes."""
    network.eval()
    predictions = []
    for image in images.split(settings.batch):
        with settings.autocast():
            predictions.append(network(image.to(settings.device)).argmax(1).cpu())
    return dice(torch.cat(predictions), labels)
