"""What convert fuses, and above all what it must not."""

import copy
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import convt3d


class Block(nn.Module):
    """A layer and a ReLU; the subclasses say how they are used."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.ConvTranspose3d(2, 4, (3, 2, 1), (2, 1, 2))
        self.relu = nn.ReLU()
        self.other = nn.Conv3d(4, 4, 1)
        self.deep = False

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.other(self.relu(self.up(x)))
        return y


class CalledTwice(Block):
    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.relu(self.up(x)) + self.relu(self.up(x * 2))
        return y


class KeepsShape(Block):
    def forward(self, x: Tensor, scale: Tensor | None = None, double: bool = False) -> Tensor:
        y: Tensor = self.relu(self.up(x))
        if scale is not None:
            y = y * scale
        return y * 2 if double else y


class BehindDropout(Block):
    def __init__(self) -> None:
        super().__init__()
        self.pause = nn.Sequential(nn.Identity(), nn.Sequential(nn.Dropout3d(), nn.Dropout(0.2)))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.relu(self.pause(self.up(x)))
        return y


class Checkpointed(Block):
    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = checkpoint(self._part, x, use_reentrant=False)
        return y

    def _part(self, x: Tensor) -> Tensor:
        y: Tensor = self.relu(self.up(x))
        return y


class ReadTwice(Block):
    def forward(self, x: Tensor) -> Tensor:
        y = self.up(x)
        z: Tensor = self.relu(y) + y
        return z


class ReadByShape(Block):
    def forward(self, x: Tensor) -> Tensor:
        y = self.up(x)
        z: Tensor = self.relu(y) * y.shape[0]
        return z


class Returned(Block):
    def forward(self, x: Tensor) -> list[Tensor]:
        y = self.up(x)
        return [self.relu(y), y]


class ReturnedInTraining(Block):
    def forward(self, x: Tensor) -> Tensor | list[Tensor]:
        y = self.up(x)
        z: Tensor = self.relu(y)
        return [z, y] if self.training else z


class ReturnedIfAsked(Block):
    def forward(self, x: Tensor, raw: bool = False) -> Tensor:
        y: Tensor = self.up(x)
        return y if raw else self.relu(y)


class RawWithoutSkip(Block):
    def forward(self, x: Tensor, skip: Tensor | None = None) -> Tensor:
        y: Tensor = self.up(x)
        if skip is None:
            return y
        return self.relu(y) + skip


class ReadBehindDropout(Block):
    def __init__(self) -> None:
        super().__init__()
        self.pause = nn.Dropout(0.2)

    def forward(self, x: Tensor) -> Tensor:
        y = self.pause(self.up(x))
        z: Tensor = self.relu(y) - y
        return z


class ReluOnBoth(Block):
    def forward(self, x: Tensor) -> Tensor:
        y = self.up(x)
        z: Tensor = self.relu(y) + self.relu(y)
        return z


class ReluElsewhereToo(Block):
    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.relu(self.other(self.relu(self.up(x))))
        return y


class UpElsewhereToo(Block):
    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.relu(self.up(x)) + self.other(self.up(x + 1))
        return y


class Keeps(Block):
    def forward(self, x: Tensor) -> Tensor:
        self.features = self.up(x)
        y: Tensor = self.relu(self.features)
        return y


class KeepsInList(Block):
    def __init__(self) -> None:
        super().__init__()
        self.features: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        self.features.append(self.up(x))
        y: Tensor = self.relu(self.features[-1])
        return y


class Branches(Block):
    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.up(x)
        return self.relu(y) if x.sum() > 0 else y


class Functional(Block):
    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = F.relu(self.up(x))
        return y


class FunctionOfVariable(nn.Module):
    """A model without any module to fuse."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.ConvTranspose3d(2, 4, 2)
        self.relu = nn.Tanh()

    def forward(self, x: Tensor) -> Tensor:
        x = self.up(x)
        y: Tensor = torch.relu_(x)
        return y


class Method(Block):
    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.up(x).relu()
        return y


class Hooked(Block):
    def __init__(self) -> None:
        super().__init__()
        self.up.register_forward_hook(lambda module, args, output: output * 2)


class ReluHooked(Block):
    def __init__(self) -> None:
        super().__init__()
        self.relu.register_forward_pre_hook(lambda module, args: (args[0] * 2,))


class GradientHooked(Block):
    def __init__(self) -> None:
        super().__init__()
        self.up.register_full_backward_hook(lambda module, grads, outputs: (grads[0] * 2,))


class ReachesIn(nn.Module):
    """Takes a layer out of a Sequential, which by itself looks like a pair."""

    def __init__(self) -> None:
        super().__init__()
        self.part = nn.Sequential(nn.ConvTranspose3d(2, 4, 2), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.part(x) + self.part[0](x)
        return y


class Iterates(ReachesIn):
    def forward(self, x: Tensor) -> list[Tensor]:
        outputs = []
        for module in self.part:
            x = module(x)
            outputs.append(x)
        return outputs


class BranchesAbove(ReachesIn):
    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.part(x) if x.sum() > 0 else self.part[0](x)
        return y


class InTwoPlaces(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        up = nn.ConvTranspose3d(2, 4, 2)
        self.part = nn.Sequential(up, nn.ReLU())
        self.sharp = nn.Sequential(up, nn.Tanh())

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.part(x) + self.sharp(x)
        return y


class BorrowedRelu(nn.Module):
    """The ReLU of another module, which uses it itself."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.ConvTranspose3d(2, 4, 2)
        self.part = nn.Sequential(nn.Conv3d(4, 4, 1), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.part(self.part[1](self.up(x)))
        return y


class HookedContainer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.part = nn.Sequential(nn.Sequential(nn.ConvTranspose3d(2, 4, 2)), nn.ReLU())
        self.part[0].register_forward_hook(lambda module, args, output: output * 2)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.part(x)
        return y


class SometimesPassing(nn.Module):
    """What comes before the ReLU is not always the layer."""

    class Inner(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up = nn.ConvTranspose3d(2, 2, 1)
            self.skip = False

        def forward(self, x: Tensor) -> Tensor:
            return x if self.training else self.up(x)

    def __init__(self) -> None:
        super().__init__()
        self.part = nn.Sequential(self.Inner(), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.part(x)
        return y


def _input() -> Tensor:
    return torch.randn(2, 2, 3, 4, 5)


def _outputs(model: nn.Module, input: Tensor) -> list[object]:
    torch.manual_seed(3)
    return [model.train(mode)(input) for mode in (True, False)]


def _assert_same(model: nn.Module, original: nn.Module) -> None:
    input = _input()
    for sign in (1, -1):
        torch.testing.assert_close(
            _outputs(model, input.abs() * sign), _outputs(original, input.abs() * sign), rtol=1e-4, atol=1e-5
        )


@pytest.mark.parametrize("make", [Block, CalledTwice, KeepsShape, BehindDropout, Checkpointed])
def test_fused(make: Callable[[], nn.Module]) -> None:
    original = make()
    model = copy.deepcopy(original)
    (layer,) = convt3d.convert(model).layers
    assert (layer.action, layer.partners, layer.note) == ("fused", ("relu",), "")
    assert isinstance(model.relu, nn.Identity)
    _assert_same(model, original)
    convt3d.revert(model)
    assert type(model.relu) is nn.ReLU
    _assert_same(model, original)


@pytest.mark.parametrize(
    ("make", "note"),
    [
        (ReadTwice, "to relu (ReLU) alone"),
        (ReadByShape, "to relu (ReLU) alone"),
        (Returned, "to relu (ReLU) alone"),
        (ReturnedInTraining, "to relu (ReLU) alone"),
        (ReturnedIfAsked, "to relu (ReLU) alone"),
        (RawWithoutSkip, "to relu (ReLU) alone"),
        (ReadBehindDropout, "pass the output of pause (Dropout) to relu (ReLU) alone"),
        (ReluOnBoth, "to relu (ReLU) alone"),
        (ReluElsewhereToo, "calls relu (ReLU) in another place too"),
        (UpElsewhereToo, "to relu (ReLU) alone"),
        (Keeps, ""),
        (KeepsInList, ""),
        (Branches, "to relu (ReLU) alone"),
        (Functional, "calls ReLU as a function"),
        (Method, "calls ReLU as a function"),
        (Hooked, "a hook on up (ConvTranspose3d)"),
        (ReluHooked, "a hook on relu (ReLU)"),
        (GradientHooked, "a hook on up (ConvTranspose3d)"),
        (ReachesIn, "forward of the model (ReachesIn) reaches into a module for self.part[0]"),
        (Iterates, "forward of the model (Iterates) uses self.part other than by calling it"),
        (BranchesAbove, "forward of the model (BranchesAbove) reaches into a module for self.part[0]"),
        (InTwoPlaces, "part.0 (ConvTranspose3d) is registered in more than one place"),
        (BorrowedRelu, ""),
        (HookedContainer, "a hook on part.0 (Sequential)"),
        (SometimesPassing, ""),
    ],
)
def test_not_fused(make: Callable[[], nn.Module], note: str) -> None:
    original = make()
    model = copy.deepcopy(original)
    (layer,) = convt3d.convert(model).layers
    assert layer.action == "converted"
    assert note in layer.note
    assert bool(layer.note) == bool(note)
    assert [type(m) for m in model.modules() if isinstance(m, (nn.ReLU, nn.Identity))] == [nn.ReLU]
    assert type(model.get_submodule(layer.name)) is convt3d.nn.ConvTranspose3d
    _assert_same(model, original)


def test_note_on_a_function_in_a_model_without_relu_modules() -> None:
    (layer,) = convt3d.convert(FunctionOfVariable()).layers
    assert "forward of the model (FunctionOfVariable) calls ReLU as a function" in layer.note


def test_forward_replaced_on_a_container() -> None:
    model = nn.Sequential(nn.Sequential(nn.ConvTranspose3d(2, 4, 2), nn.ReLU()))
    model[0].forward = lambda x: model[0][0](x)
    (layer,) = convt3d.convert(model).layers
    assert layer.action == "converted"
    assert "replaced on the object" in layer.note


def test_one_part_that_cannot_be_followed_does_not_spoil_another() -> None:
    model = nn.Sequential(Iterates(), nn.ConvTranspose3d(4, 4, 2), nn.ReLU())
    report = convt3d.convert(model)
    assert [layer.action for layer in report.layers] == ["converted", "fused"]
