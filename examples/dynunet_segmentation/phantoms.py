"""Phantoms: noisy volumes of ellipsoids in three kinds of tissue, and their labels."""

from __future__ import annotations

import torch
from torch import Tensor

CLASSES = 4  # background and three tissues
ELLIPSOIDS = 6  # in each volume; later ones cover earlier ones
INTENSITIES = (0.0, 0.4, 0.7, 1.0)  # of each class
NOISE = 0.2  # standard deviation


def phantoms(count: int, side: int, seed: int) -> tuple[Tensor, Tensor]:
    """Volumes [count, 1, side, side, side] and the class of each voxel [count, side, side, side]."""
    random = torch.Generator().manual_seed(seed)
    axis = torch.linspace(-1, 1, side)
    points = torch.stack(torch.meshgrid(axis, axis, axis, indexing="ij"), dim=-1)  # [side, side, side, 3]
    labels = torch.zeros(count, side, side, side, dtype=torch.long)
    for volume in labels:
        for number in range(ELLIPSOIDS):
            centre = 1.2 * torch.rand(3, generator=random) - 0.6
            radii = 0.15 + 0.35 * torch.rand(3, generator=random)
            rotation, _ = torch.linalg.qr(torch.randn(3, 3, generator=random))
            inside = ((points - centre) @ rotation / radii).square().sum(-1) < 1
            volume[inside] = 1 + number % (CLASSES - 1)
    clean = torch.tensor(INTENSITIES)[labels]
    return (clean + NOISE * torch.randn(clean.shape, generator=random)).unsqueeze(1), labels


def dice(prediction: Tensor, labels: Tensor) -> float:
    """Dice coefficient of predicted classes, the mean over the tissues: 1 where all agree, 0 where nothing overlaps."""
    scores = []
    for tissue in range(1, CLASSES):
        predicted, true = prediction == tissue, labels == tissue
        scores.append(2 * (predicted & true).sum() / (predicted.sum() + true.sum()).clamp(min=1))
    return torch.stack(scores).mean().item()
