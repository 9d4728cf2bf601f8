"""Training on random crops of the training slices."""

import sys

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm import tqdm

from .data import low_resolution, random_crops

CROPS_PER_STEP = 4
CROP_SIZE = (8, 48, 48)  # full resolution: depth, height, width
LEARNING_RATE = 3e-3


def train(model: nn.Module, volume: Tensor, steps: int, seed: int = 0) -> list[float]:
    """Fits `model` to [1, 1, D, H, W] in place; returns the loss (mean squared error) of every step."""
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=LEARNING_RATE, total_steps=steps)
    losses = []
    model.train()
    interval = 0.1 if sys.stderr.isatty() else 10.0  # seconds between two updates: a log file wants few
    with tqdm(range(steps), desc="training", unit="step", mininterval=interval) as progress:
        for _ in progress:
            truth = random_crops(volume, CROPS_PER_STEP, CROP_SIZE, generator)
            loss = F.mse_loss(model(low_resolution(truth)), truth)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            scheduler.step()
            losses.append(loss.item())
            progress.set_postfix(loss=f"{sum(losses[-50:]) / len(losses[-50:]):.5f}", refresh=False)
    return losses
