"""What a network of end_to_end.py needs for a pass over it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Workload(ABC):
    """A network with what one pass over it needs.

    Attributes:
        tiny: whether in a size for tests on the CPU.
    """

    tiny: bool = False

    max_gradient_norm: ClassVar[float] = 35.0
    inputs_need_gradients: ClassVar[bool] = True  # in training: another network makes them

    @abstractmethod
    def make(self, *, training: bool) -> nn.Module:
        """The network."""

    @abstractmethod
    def inputs(self, random: torch.Generator) -> tuple[Tensor, ...]:
        """What it is called with."""

    @abstractmethod
    def targets(self, random: torch.Generator) -> tuple[Tensor, ...]:
        """What `loss` compares its outputs with."""

    @abstractmethod
    def loss(self, outputs: tuple[Tensor, ...], targets: tuple[Tensor, ...]) -> Tensor:
        """The loss of a training step."""

    def optimizer(self, network: nn.Module) -> torch.optim.Optimizer:
        """SurroundOcc's."""
        return torch.optim.AdamW(network.parameters(), lr=2e-4, weight_decay=0.01)

    def _normal(self, random: torch.Generator, *shape: int) -> Tensor:
        return torch.randn(shape, generator=random, device=random.device)

    def _classes(self, random: torch.Generator, classes: int, *shape: int) -> Tensor:
        return torch.randint(classes, shape, generator=random, device=random.device)
