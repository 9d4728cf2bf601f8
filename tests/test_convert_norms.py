"""Norms behind transposed convolutions: what convert fuses and what not, and that the numbers stay."""

from __future__ import annotations

import copy
import io
import pickle
from typing import TYPE_CHECKING, Any

import pytest
import torch
from converted import assert_same, results, up
from torch import Tensor, fx, nn

import convt3d

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")

Chain = list[nn.Module]


def _leaky(slope: float = 0.3, inplace: bool = False) -> nn.Module:
    return nn.LeakyReLU(slope, inplace=inplace)


# What is behind a convolution with 6 output channels, and the positions of what is fused.
CHAINS: dict[str, tuple[Callable[[], Chain], tuple[int, ...]]] = {
    "ReLU, GroupNorm": (lambda: [nn.ReLU(), nn.GroupNorm(3, 6)], (1, 2)),
    "GroupNorm, ReLU": (lambda: [nn.GroupNorm(2, 6, eps=0.1), nn.ReLU(inplace=True)], (1, 2)),
    "GroupNorm": (lambda: [nn.GroupNorm(1, 6), nn.Tanh()], (1,)),
    "GroupNorm without affine": (lambda: [nn.GroupNorm(6, 6, affine=False)], (1,)),
    "GroupNorm, LeakyReLU": (lambda: [nn.GroupNorm(3, 6), _leaky(inplace=True)], (1, 2)),
    "ReLU, GroupNorm, LeakyReLU": (lambda: [nn.ReLU(), nn.GroupNorm(3, 6), _leaky()], (1, 2, 3)),
    "InstanceNorm": (lambda: [nn.InstanceNorm3d(6)], (1,)),
    "InstanceNorm, ReLU": (lambda: [nn.InstanceNorm3d(6, eps=0.2), nn.ReLU()], (1, 2)),
    "InstanceNorm with affine, LeakyReLU": (lambda: [nn.InstanceNorm3d(6, affine=True), _leaky(0.1)], (1, 2)),
    "ReLU, InstanceNorm": (lambda: [nn.ReLU(), nn.InstanceNorm3d(6)], (1, 2)),
    "nested": (lambda: [nn.Identity(), nn.Sequential(nn.ReLU(), nn.Identity(), nn.GroupNorm(3, 6))], (2,)),
    "activation past a dropout": (lambda: [nn.GroupNorm(3, 6), nn.Dropout(0.4), _leaky()], (1, 3)),
}

# Likewise, and the note.
PARTLY: dict[str, tuple[Callable[[], Chain], tuple[int, ...], str]] = {
    "running statistics": (
        lambda: [nn.InstanceNorm3d(6, track_running_stats=True), nn.ReLU()],
        (),
        "InstanceNorm3d not fused: it has running statistics, which a group norm has not",
    ),
    "ReLU, running statistics": (
        lambda: [nn.ReLU(), nn.InstanceNorm3d(6, track_running_stats=True)],
        (1,),
        "InstanceNorm3d not fused: it has running statistics",
    ),
    "other channels": (
        lambda: [nn.InstanceNorm3d(5)],
        (),
        "InstanceNorm3d not fused: it is for 5 channels and gets 6",
    ),
    "LeakyReLU, GroupNorm": (
        lambda: [nn.LeakyReLU(), nn.GroupNorm(3, 6)],
        (),
        "GroupNorm not fused: convt3d has no LeakyReLU before a norm",
    ),
    "LeakyReLU alone": (lambda: [nn.LeakyReLU()], (), ""),
    "dropout before the norm": (lambda: [nn.Dropout(0.4), nn.GroupNorm(3, 6)], (), ""),
    "dropout before ReLU and norm": (lambda: [nn.Dropout(0.4), nn.ReLU(), nn.GroupNorm(3, 6)], (2,), ""),
    "dropout between ReLU and norm": (lambda: [nn.ReLU(), nn.Dropout(0.4), nn.GroupNorm(3, 6)], (1,), ""),
    "two ReLUs": (lambda: [nn.ReLU(), nn.ReLU(), nn.GroupNorm(3, 6)], (1,), ""),
    "computed weight": (
        lambda: [nn.utils.weight_norm(nn.GroupNorm(3, 6), dim=None)],
        (),
        "GroupNorm not fused: its parameters are computed at each call",
    ),
    "LayerNorm": (lambda: [nn.LayerNorm([7, 3, 8])], (), ""),
}


def _model(chain: Chain) -> nn.Sequential:
    """With parameters of the norms that matter."""
    model = nn.Sequential(up(4, 6), *chain)
    for module in model.modules():
        if isinstance(module, (nn.GroupNorm, nn.InstanceNorm3d)):
            for parameter in module.parameters():
                nn.init.normal_(parameter, 0.5)
    return model.double()  # of a bias before a norm, the gradient is a sum of terms that cancel


def _input() -> Tensor:
    return torch.randn(2, 4, 3, 4, 3, dtype=torch.float64)


def _twice(make: Callable[[], nn.Sequential]) -> list[nn.Sequential]:
    """The same model twice; some cannot be copied."""
    models = []
    for _ in range(2):
        torch.manual_seed(4)
        models.append(make())
    return models


@pytest.fixture(params=CHAINS)
def original(request: pytest.FixtureRequest) -> nn.Sequential:
    return _model(CHAINS[request.param][0]())


@pytest.fixture
def model(original: nn.Sequential) -> nn.Sequential:
    model = copy.deepcopy(original)
    (layer,) = convt3d.convert(model).layers
    assert (layer.action, layer.note) == ("fused", "")
    return model


def _assert_same_in_both_modes(model: nn.Module, original: nn.Module) -> None:
    input = _input()
    for mode in (True, False):
        given = []
        for module in (model, original):
            torch.manual_seed(1)
            given.append(results(module.train(mode), input))
        torch.testing.assert_close(*given)


@pytest.mark.parametrize("name", CHAINS)
def test_fused(name: str) -> None:
    make, positions = CHAINS[name]
    original = _model(make())
    model = copy.deepcopy(original)
    modules = list(model.modules())
    (layer,) = convt3d.convert(model).layers
    if name != "nested":
        assert layer.partners == tuple(map(str, positions))
    else:
        assert layer.partners == ("2.0", "2.2")
    assert all(one is other for one, other in zip(model.modules(), modules, strict=True))
    assert list(model.state_dict()) == list(original.state_dict())
    _assert_same_in_both_modes(model, original)
    assert convt3d.convert(model).layers[0].action == "kept"
    _assert_same_in_both_modes(model, original)
    convt3d.revert(model)
    assert [type(module) for module in model.modules()] == [type(module) for module in original.modules()]
    _assert_same_in_both_modes(model, original)


@pytest.mark.parametrize("name", PARTLY)
def test_fused_in_part_or_not_at_all(name: str) -> None:
    make, positions, note = PARTLY[name]
    original, model = _twice(lambda: _model(make()))
    (layer,) = convt3d.convert(model).layers
    assert layer.action == ("fused" if positions else "converted")
    assert layer.partners == tuple(map(str, positions))
    assert layer.note.startswith(note)
    assert bool(note) == bool(layer.note)
    if name != "LayerNorm":
        _assert_same_in_both_modes(model, original)


def test_one_operator_computes_it(model: nn.Sequential) -> None:
    (call,) = convt3d.explain(model, _input(), measure=False).calls
    assert call.norm_groups is not None
    assert call.name == "0"


# ---- hooks ----


def test_hooks_prevent_it() -> None:
    for position in range(4):
        model = _model([nn.ReLU(), nn.GroupNorm(3, 6), nn.LeakyReLU()])
        model[position].register_forward_hook(lambda module, args, output: output * 2)
        original = copy.deepcopy(model)
        (layer,) = convt3d.convert(model).layers
        expected: dict[int, tuple[str, ...]] = {0: (), 1: (), 2: ("1",), 3: ("1", "2")}
        assert layer.partners == expected[position]
        assert f"a hook on {position}" in layer.note
        assert_same(model, original, _input())


@pytest.mark.parametrize("position", range(4))
def test_a_later_hook_separates(position: int) -> None:
    model = _model([nn.ReLU(), nn.GroupNorm(3, 6), nn.LeakyReLU()])
    original = copy.deepcopy(model)
    convt3d.convert(model)
    seen: list[list[Tensor]] = [[], []]
    with pytest.warns(UserWarning, match="modules of their own again"):
        model[position].register_forward_hook(lambda module, args, output: seen[0].append(output))
    original[position].register_forward_hook(lambda module, args, output: seen[1].append(output))
    input = _input()
    torch.testing.assert_close(model(input), original(input), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(*seen, rtol=1e-4, atol=1e-5)
    assert [type(module) for module in model][1:] == [type(module) for module in original][1:]


# ---- what modules do besides ----


def test_settings_and_parameters_are_those_of_each_call(model: nn.Sequential, original: nn.Sequential) -> None:
    for one in (model, original):
        for module in one.modules():
            if isinstance(module, (nn.GroupNorm, nn.InstanceNorm3d)):
                module.eps = 0.5
            if isinstance(module, nn.LeakyReLU):
                module.negative_slope = 0.7
    state = {name: value + 0.5 for name, value in original.state_dict().items()}
    model.load_state_dict(state)
    original.load_state_dict(state)
    _assert_same_in_both_modes(model, original)
    other = {name: torch.randn_like(value) for name, value in state.items()}
    input = _input()
    given = [torch.func.functional_call(module.eval(), other, (input,)) for module in (model, original)]
    torch.testing.assert_close(*given, rtol=1e-4, atol=1e-4)


def _outcome(model: nn.Module, input: Tensor) -> Any:
    try:
        return model(input)
    except (RuntimeError, ValueError) as error:
        return type(error), str(error).partition(":")[0].partition(", got")[0]


@pytest.mark.parametrize("shape", [(4, 3, 4, 3), (4, 1, 1, 1), (1, 4, 1, 1, 1), (2, 4, 1, 1, 1)], ids=str)
@pytest.mark.parametrize("channels", [6, 3])
def test_small_and_unbatched_inputs(shape: tuple[int, ...], channels: int) -> None:
    """PyTorch's group norm takes the first of four dimensions for the batch; both norms refuse one element."""
    input = torch.randn(shape)
    chains: list[Chain] = [
        [nn.ReLU(), nn.GroupNorm(channels, channels), nn.LeakyReLU(0.2)],
        [nn.GroupNorm(channels, channels, affine=False), nn.ReLU()],
        [nn.InstanceNorm3d(channels), nn.ReLU()],
        [nn.InstanceNorm3d(channels, affine=True)],
    ]
    for chain in chains:
        original = nn.Sequential(nn.ConvTranspose3d(4, channels, 1), *chain)
        model = copy.deepcopy(original)
        assert convt3d.convert(model).names("fused") == ("0",)
        actual, expected = _outcome(model, input), _outcome(original, input)
        if isinstance(expected, Tensor):
            torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)
        else:
            assert actual == expected


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_autocast(dtype: torch.dtype, device: str, model: nn.Sequential, original: nn.Sequential) -> None:
    input = _input().float().to(device)
    original, model = original.float(), model.float()
    with torch.autocast(device, dtype=dtype):
        torch.manual_seed(1)
        expected = original.to(device)(input)
        torch.manual_seed(1)
        actual = model.to(device)(input)
    assert actual.dtype == expected.dtype
    assert (actual.float() - expected.float()).norm() <= 0.05 * expected.float().norm()


def _scripted(model: nn.Module, input: Tensor) -> Any:
    return torch.jit.script(model)


def _loaded(model: nn.Module, input: Tensor) -> Any:
    buffer = io.BytesIO()
    torch.save(model, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=False)


WAYS: dict[str, Callable[[nn.Module, Tensor], Any]] = {
    "deepcopy": lambda model, _: copy.deepcopy(model),
    "pickle": lambda model, _: pickle.loads(pickle.dumps(model)),
    "torch.save": _loaded,
    "script": _scripted,
    "trace": torch.jit.trace,
    "compile": lambda model, _: torch.compile(model, fullgraph=True, backend="aot_eager"),
    "export": lambda model, input: torch.export.export(model, (input,)).module(),
    "symbolic_trace": lambda model, _: fx.symbolic_trace(model),
    "DataParallel": lambda model, _: nn.DataParallel(model),
}


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("way", WAYS)
def test_other_ways_to_run(way: str, model: nn.Sequential, original: nn.Sequential) -> None:
    # DataParallel takes the GPUs that there are.
    device = "cuda" if way == "DataParallel" and torch.cuda.is_available() else "cpu"
    model, original, input = model.to(device), original.to(device), _input().to(device)
    other = WAYS[way](model.eval(), input)
    torch.testing.assert_close(other(input), original.eval()(input), rtol=1e-4, atol=1e-4)
    if way in ("deepcopy", "pickle", "torch.save"):
        _assert_same_in_both_modes(other, original)
        convt3d.revert(other)
        assert [type(module) for module in other.modules()] == [type(module) for module in original.modules()]
    elif way in ("script", "compile", "DataParallel"):
        gradients = []
        for run, owner in ((other, model), (original, original)):
            run(input).square().sum().backward()
            gradients.append([parameter.grad for parameter in owner.parameters()])
        torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-3)


class _Subclass(nn.ConvTranspose3d):
    """Without a forward of its own."""


def test_subclasses_and_parametrized_layers() -> None:
    for make in (
        lambda: _Subclass(4, 6, 2),
        lambda: nn.utils.parametrizations.weight_norm(nn.ConvTranspose3d(4, 6, 2)),
        lambda: nn.utils.weight_norm(nn.ConvTranspose3d(4, 6, 2)),
    ):
        original, model = _twice(lambda make=make: nn.Sequential(make(), nn.GroupNorm(3, 6), nn.ReLU()).double())  # type: ignore[misc]
        assert convt3d.convert(model).names("fused") == ("0",)
        assert isinstance(model[0], type(original[0]).__mro__[1])
        _assert_same_in_both_modes(model, original)
        convt3d.revert(model)
        _assert_same_in_both_modes(model, original)


def test_lazy_layers_keep_their_norm() -> None:
    model = nn.Sequential(nn.LazyConvTranspose3d(6, 2), nn.GroupNorm(3, 6))
    (layer,) = convt3d.convert(model).layers
    assert layer.action == "converted"
    assert "GroupNorm not fused: the weight of the convolution is not known yet" in layer.note
    assert model(_input().float()).shape == (2, 6, 4, 5, 4)


class _NormedSubclass(convt3d.nn.ConvTranspose3dGroupNorm):
    """Without a forward of its own."""


def test_modules_of_the_package_are_kept_and_reverted() -> None:
    modules = [
        convt3d.nn.ConvTranspose3dReLUGroupNorm(4, 6, 2, num_groups=3),
        convt3d.nn.ConvTranspose3dGroupNorm(6, 4, 2, num_groups=2, negative_slope=0.2, affine=False),
        _NormedSubclass(4, 4, 2, num_groups=2, eps=0.1),
    ]
    model = nn.Sequential(*modules).double()
    report = convt3d.convert(model)
    assert {(layer.action, layer.note) for layer in report.layers} == {("kept", "it is a module of convt3d already")}
    original = copy.deepcopy(model)
    assert len(convt3d.revert(model).names("reverted")) == 3
    assert not any(type(module).forward.__module__ == "convt3d.nn" for module in model)
    assert list(model.state_dict()) == list(original.state_dict())
    _assert_same_in_both_modes(model, original)
    unbatched = _input()[0]
    torch.testing.assert_close(model(unbatched), original(unbatched))
    assert len(convt3d.convert(model).names("converted")) == 3
    assert [type(module) for module in model] == [type(module) for module in original]
