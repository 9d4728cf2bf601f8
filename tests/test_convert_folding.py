"""Folding a BatchNorm: for inference, and undone exactly."""

import copy
import pickle
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import convt3d

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")


class Normed(nn.Module):
    def __init__(self, affine: bool = True, bias: bool = True, groups: int = 3) -> None:
        super().__init__()
        self.up = nn.ConvTranspose3d(6, 9, (3, 2, 1), (2, 1, 3), bias=bias, groups=groups)
        self.norm = nn.BatchNorm3d(9, affine=affine)
        self.act = nn.ReLU()
        self.last = nn.Conv3d(9, 2, 1)
        with torch.no_grad():
            for value in (*self.norm.parameters(), self.norm.running_mean):
                value.uniform_(-1, 1)
            self.norm.running_var.uniform_(0.2, 2)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.last(self.act(self.norm(self.up(x))))
        return y


class DroppedBefore(Normed):
    """Not the BatchNorm of the layer's output in training mode; left alone in both."""

    def __init__(self) -> None:
        super().__init__()
        self.pause = nn.Dropout(0.3)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.last(self.act(self.norm(self.pause(self.up(x)))))
        return y


class NormedWithoutRelu(Normed):
    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.last(self.norm(self.up(x)))
        return y


class NormReadTwice(Normed):
    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.up(x))
        z: Tensor = self.last(self.act(y) + y)
        return z


def _normed_input() -> Tensor:
    return torch.randn(2, 6, 3, 4, 5)


@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("make", [Normed, NormedWithoutRelu, NormReadTwice])
def test_folded(make: type[Normed], affine: bool, bias: bool, groups: int, device: str) -> None:
    original = make(affine, bias, groups).eval().to(device)
    model = copy.deepcopy(original)
    (layer,) = convt3d.convert(model, fold_batchnorm=True).layers
    assert layer.action == "folded"
    assert layer.partners == (("norm", "act") if make is Normed else ("norm",))
    assert ("ReLU not fused" in layer.note) == (make is NormReadTwice)
    input = _normed_input().to(device)
    with torch.no_grad():
        torch.testing.assert_close(model(input), original(input), rtol=1e-4, atol=1e-5)
        assert model.norm(input) is input
        torch.testing.assert_close(model.double()(input.double()), original.double()(input.double()))
        torch.testing.assert_close(model.bfloat16()(input.bfloat16()).shape, original(input.double()).shape)


def test_folding_keeps_the_state_dict_and_is_undone_exactly() -> None:
    original = Normed().eval()
    model = copy.deepcopy(original)
    attributes = {name: set(vars(module)) for name, module in model.named_modules()}
    parameters = list(model.parameters())
    convt3d.convert(model, fold_batchnorm=True)
    for folded in (True, False):
        assert list(model.state_dict()) == list(original.state_dict())
        for name, value in original.state_dict().items():
            assert torch.equal(model.state_dict()[name], value)
        assert all(mine is other for mine, other in zip(model.parameters(), parameters, strict=True))
        if folded:
            convt3d.revert(model)
    assert [type(m) for m in model.modules()] == [type(m) for m in original.modules()]
    assert {name: set(vars(module)) for name, module in model.named_modules()} == attributes
    assert dict(model.named_buffers()).keys() == dict(original.named_buffers()).keys()
    for mode in (True, False):
        input = _normed_input()
        assert torch.equal(model.train(mode)(input), original.train(mode)(input))


@pytest.mark.parametrize("assign", [False, True])
def test_folded_layers_follow_load_state_dict(assign: bool) -> None:
    other, model = Normed().eval(), Normed().eval()
    convt3d.convert(model, fold_batchnorm=True)
    model.load_state_dict(other.state_dict(), assign=assign)
    with torch.no_grad():
        input = _normed_input()
        torch.testing.assert_close(model(input), other(input), rtol=1e-4, atol=1e-5)
        for parameter in (*model.up.parameters(), *model.norm.parameters()):
            parameter.mul_(1.5)
        assert convt3d.convert(model).layers[0].action == "kept"
        reverted = copy.deepcopy(model)
        convt3d.revert(reverted)
        torch.testing.assert_close(model(input), reverted(input), rtol=1e-4, atol=1e-5)


def test_folded_layers_refuse_to_train() -> None:
    model = Normed().eval()
    convt3d.convert(model, fold_batchnorm=True)
    input = _normed_input()
    with pytest.raises(RuntimeError, match=r"for inference: call model.eval\(\) and run it under torch.no_grad\(\)"):
        model(input)
    with torch.no_grad(), pytest.raises(RuntimeError, match="for inference"):
        model.train()(input)
    model.eval()
    model.norm.train()
    with torch.no_grad(), pytest.raises(RuntimeError, match="a folded BatchNorm is for inference"):
        model(input)
    model.eval().requires_grad_(False)
    leaf = input.clone().requires_grad_()
    model(leaf).sum().backward()
    reverted = copy.deepcopy(model)
    convt3d.revert(reverted)
    other = input.clone().requires_grad_()
    reverted(other).sum().backward()
    torch.testing.assert_close(leaf.grad, other.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("how", ["deepcopy", "pickle", "compile", "script", "export"])
def test_folded_models_elsewhere(how: str, fresh_compiler: None) -> None:
    original = Normed().eval()
    model = copy.deepcopy(original)
    convt3d.convert(model, fold_batchnorm=True)
    input = _normed_input()
    other: Callable[[Tensor], Tensor]
    with torch.no_grad():
        if how in ("deepcopy", "pickle"):
            copied = copy.deepcopy(model) if how == "deepcopy" else pickle.loads(pickle.dumps(model))
            copied.load_state_dict(original.state_dict())
            other = copied
        elif how == "compile":
            other = torch.compile(model, fullgraph=True, backend="aot_eager")
        elif how == "script":
            other = torch.jit.script(model)
        else:
            other = torch.export.export(model, (input,)).module()
        torch.testing.assert_close(other(input), original(input), rtol=1e-4, atol=1e-5)


def _without_statistics(model: Normed) -> None:
    model.norm = nn.BatchNorm3d(9, track_running_stats=False).eval()


@pytest.mark.parametrize(
    ("change", "note"),
    [
        (lambda model: model.train(), "call model.eval() first"),
        (lambda model: model.norm.train(), "call model.eval() first"),
        (_without_statistics, "has no running statistics"),
        (lambda model: nn.utils.parametrizations.weight_norm(model.up), "its weight is computed at each call"),
        (lambda model: model.up.register_forward_hook(lambda *_: None), "a hook on up"),
    ],
)
def test_not_folded(change: Callable[[Normed], object], note: str) -> None:
    model = Normed().eval()
    change(model)
    original = copy.deepcopy(model)
    (layer,) = convt3d.convert(model, fold_batchnorm=True).layers
    assert layer.action == "converted"
    assert note in layer.note
    assert type(model.norm) is nn.BatchNorm3d
    assert type(model.act) is nn.ReLU
    input = _normed_input()
    torch.testing.assert_close(model(input), original(input), rtol=1e-4, atol=1e-5)


def test_not_folded_behind_dropout() -> None:
    assert convt3d.convert(DroppedBefore().eval(), fold_batchnorm=True).layers[0].action == "converted"


def test_folding_is_asked_for() -> None:
    model = Normed().eval()
    assert convt3d.convert(model).layers[0].action == "converted"
    assert convt3d.convert(model, fuse=False, fold_batchnorm=True).layers[0].partners == ("norm",)
    assert type(model.act) is nn.ReLU


def _scaled(model: Normed, factor: float) -> dict[str, Tensor]:
    state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    return {name: value.detach() * factor for name, value in state.items() if value.is_floating_point()}


def test_functional_call_computes_with_its_parameters() -> None:
    original = Normed().eval()
    model = copy.deepcopy(original)
    convt3d.convert(model, fold_batchnorm=True)
    input, call = _normed_input(), torch.func.functional_call
    with torch.no_grad():
        for factor in (1.3, 0.7):
            state = _scaled(original, factor)
            torch.testing.assert_close(call(model, state, input), call(original, state, input), rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(model(input), original(input), rtol=1e-4, atol=1e-5)
        states = [_scaled(original, factor) for factor in (1.0, 1.3)]
        stacked = {name: torch.stack([state[name] for state in states]) for name in states[0]}
        outputs = torch.vmap(lambda state: call(model, state, input))(stacked)
        expected = torch.stack([call(original, state, input) for state in states])
        torch.testing.assert_close(outputs, expected, rtol=1e-4, atol=1e-5)
    state = {name: value.requires_grad_() for name, value in _scaled(original, 1.3).items()}
    with pytest.raises(RuntimeError, match="for inference"):
        call(model, state, input)


@pytest.mark.parametrize("name", ["up.weight", "up.bias", "norm.weight", "norm.bias"])
def test_one_parameter_that_trains(name: str) -> None:
    model = Normed().eval()
    convt3d.convert(model, fold_batchnorm=True)
    model.requires_grad_(False)
    model.get_parameter(name).requires_grad_(True)
    for called in (model, model.up):
        with pytest.raises(RuntimeError, match="a folded BatchNorm is for inference"):
            called(_normed_input())


@pytest.mark.parametrize("first", ["load", "convert"])
def test_into_a_meta_model(first: str) -> None:
    original = Normed().eval()
    with torch.device("meta"):
        model = Normed().eval()
    if first == "convert":
        convt3d.convert(model, fold_batchnorm=True)
    model.load_state_dict(original.state_dict(), assign=True)
    assert convt3d.convert(model, fold_batchnorm=True).names("folded", "kept") == ("up",)
    input = _normed_input()
    with torch.no_grad():
        torch.testing.assert_close(model(input), original(input), rtol=1e-4, atol=1e-5)


def test_symbolic_trace_computes_with_the_parameters() -> None:
    """The graph folds at each call, so that it can train, and gradients are those of the original in eval mode."""
    original = Normed().eval()
    model = copy.deepcopy(original)
    convt3d.convert(model, fold_batchnorm=True)
    traced = torch.fx.symbolic_trace(model)
    input = _normed_input()
    with torch.no_grad():
        for m in (original, model):
            m.up.weight.mul_(1.3)
            m.norm.bias.add_(0.2)
    traced.load_state_dict(model.state_dict(), strict=False)
    outputs = [m(input) for m in (traced, original)]
    torch.testing.assert_close(*outputs, rtol=1e-4, atol=1e-5)
    for output in outputs:
        output.square().sum().backward()
    gradients = {name: parameter.grad for name, parameter in traced.named_parameters()}
    assert len(gradients) == 6
    for name, parameter in original.named_parameters():
        torch.testing.assert_close(gradients[name], parameter.grad, rtol=1e-3, atol=1e-3)


def _in_place(model: Normed) -> None:
    model.norm.running_mean.add_(0.5)
    model.norm.weight.mul_(1.2)
    model.up.weight.mul_(0.8)
    model.up.bias.add_(0.3)


def _other_tensors(model: Normed) -> None:
    model.norm.running_var = model.norm.running_var * 2
    model.up.weight = nn.Parameter(model.up.weight * 0.5)


def _other_data(model: Normed) -> None:
    model.norm.bias.data = model.norm.bias.data + 1
    model.up.weight.data = model.up.weight.data * 2


def _updated(model: Normed) -> None:
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    torch.optim.SGD(model.parameters(), 0.1).step()


def _statistics(model: Normed) -> None:
    model.norm.reset_running_stats()


def _eps(model: Normed) -> None:
    model.norm.eps = 2.0


@pytest.mark.parametrize("how", ["call", "compile", "script"])
@pytest.mark.parametrize("change", [_in_place, _other_tensors, _other_data, _updated, _statistics, _eps])
def test_parameters_that_change(change: Callable[[Normed], None], how: str, fresh_compiler: None) -> None:
    """Seen at the next call; torch.jit.script takes them as they are then."""
    original = Normed().eval()
    model = copy.deepcopy(original)
    convt3d.convert(model, fold_batchnorm=True)
    input = _normed_input()
    called = torch.compile(model, backend="aot_eager") if how == "compile" else model
    with torch.no_grad():
        called(input)
        before = original(input)
        for m in (model, original):
            change(m)
        called = torch.jit.script(model) if how == "script" else called
        torch.testing.assert_close(called(input), original(input), rtol=1e-4, atol=1e-5)
        assert not torch.allclose(original(input), before, rtol=1e-2, atol=1e-2)


def test_folds_only_when_something_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Normed().eval()
    convt3d.convert(model, fold_batchnorm=True)
    folded: list[None] = []
    fold = type(model.up).fold
    monkeypatch.setattr(type(model.up), "fold", lambda self: (folded.append(None), fold(self)))
    with torch.no_grad():
        for _ in range(3):
            model(_normed_input())
        assert len(folded) == 0
        model.double()
        for _ in range(3):
            model(_normed_input().double())
        assert len(folded) == 1


def test_converting_again_folds_what_was_written_through_data() -> None:
    original = Normed().eval()
    model = copy.deepcopy(original)
    convt3d.convert(model, fold_batchnorm=True)
    for m in (model, original):
        m.up.weight.data.mul_(2)
    assert convt3d.convert(model).layers[0].action == "kept"
    input = _normed_input()
    with torch.no_grad():
        torch.testing.assert_close(model(input), original(input), rtol=1e-4, atol=1e-5)


def test_folding_in_inference_mode() -> None:
    """Nothing tells when an inference tensor changes."""
    with torch.inference_mode():
        original = Normed().eval()
        model = copy.deepcopy(original)
        convt3d.convert(model, fold_batchnorm=True)
        for m in (model, original):
            m.up.weight.mul_(2)
        torch.testing.assert_close(
            model(_normed_input() * 0 + 1), original(_normed_input() * 0 + 1), rtol=1e-4, atol=1e-5
        )


def test_folded_weights_keep_the_memory_format() -> None:
    original = Normed(groups=1).eval().to(memory_format=torch.channels_last_3d)
    model = copy.deepcopy(original)
    convt3d.convert(model, fold_batchnorm=True)
    with torch.no_grad():
        torch.testing.assert_close(model.up(_normed_input()).stride(), original.up(_normed_input()).stride())
