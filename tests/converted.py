"""Models with transposed convolutions that tests convert, and how they see what became of them."""

import torch
from torch import Tensor, nn

import convt3d


def up(inputs: int = 4, outputs: int = 6, **kwargs: object) -> nn.ConvTranspose3d:
    return nn.ConvTranspose3d(inputs, outputs, (3, 2, 4), (2, 1, 3), (1, 0, 2), (1, 0, 2), 2, True, (1, 2, 1), **kwargs)  # type: ignore[arg-type]


def random_input(channels: int = 4) -> Tensor:
    return torch.randn(2, channels, 2, 3, 2)


class Decoder(nn.Module):
    """Nested containers, a ReLU in another container than its layer, a layer without ReLU."""

    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.ModuleList([nn.Sequential(nn.Conv3d(4, 4, 1), nn.Sequential(up(4, 6))), up(6, 4)])
        self.activations = nn.ModuleDict({"first": nn.ReLU(inplace=True), "second": nn.PReLU()})
        self.last = nn.Sequential(up(4, 2), nn.Sequential(nn.ReLU(), nn.Conv3d(2, 3, 1)))

    def forward(self, x: Tensor) -> Tensor:
        x = self.activations["first"](self.stages[0](x))
        y: Tensor = self.last(self.activations["second"](self.stages[1](x)))
        return y


class OwnForward(nn.ConvTranspose3d):
    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        return super().forward(input, output_size) * 2


def results(model: nn.Module, input: Tensor) -> list[Tensor | None]:
    """Output and gradients, of the input and of all parameters."""
    model.zero_grad()
    leaf = input.clone().requires_grad_()
    output = model(leaf)
    output.sin().sum().backward()
    return [output, leaf.grad, *(parameter.grad for parameter in model.parameters())]


def assert_same(model: nn.Module, other: nn.Module, input: Tensor) -> None:
    torch.testing.assert_close(results(model, input), results(other, input), rtol=1e-4, atol=1e-5)


def actions(report: convt3d.Report) -> dict[str, str]:
    return {layer.name: layer.action for layer in report.layers}


def uses_convt3d(module: nn.Module) -> bool:
    return type(module).forward.__module__.startswith("convt3d")
