"""Which layers convert takes: with parametrizations, lazy ones, subclasses and the package's own."""

import copy
import pickle
from collections.abc import Callable

import pytest
import torch
from converted import Decoder, OwnForward, actions, assert_same, random_input, results, up, uses_convt3d
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.utils import parametrizations, parametrize

import convt3d
from convt3d import _library

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")


@pytest.mark.parametrize(
    "parametrization", [parametrizations.spectral_norm, parametrizations.weight_norm, parametrizations.orthogonal]
)
def test_parametrizations(parametrization: Callable[[nn.Module], nn.Module]) -> None:
    model = nn.Sequential(up(), nn.ReLU(), up(6, 2))
    for layer in (model[0], model[2]):
        parametrization(layer)
    original = copy.deepcopy(model)
    untouched = copy.deepcopy(model)  # shares its classes with the model
    assert actions(convt3d.convert(model)) == {"0": "fused", "2": "converted"}
    assert list(model.state_dict()) == list(original.state_dict())
    assert not any(uses_convt3d(m) for m in untouched.modules())
    assert_same(model, original, random_input())
    assert_same(copy.deepcopy(model), copy.deepcopy(original), random_input())
    parametrize.remove_parametrizations(model[2], "weight")
    assert type(model[2]) is convt3d.nn.ConvTranspose3d
    convt3d.revert(model)
    assert type(model[2]) is nn.ConvTranspose3d
    parametrize.remove_parametrizations(model[0], "weight")
    assert type(model[0]) is nn.ConvTranspose3d
    assert type(model[1]) is nn.ReLU


@pytest.mark.filterwarnings("ignore:.*torch.nn.utils.weight_norm:FutureWarning")
def test_norms_by_hooks() -> None:
    model = nn.Sequential(nn.utils.weight_norm(up()), nn.ReLU(), nn.utils.spectral_norm(up(6, 2)))
    state = copy.deepcopy(model.state_dict())
    torch.manual_seed(1)
    expected = results(model, random_input())
    model.load_state_dict(state)
    assert actions(convt3d.convert(model)) == {"0": "fused", "2": "converted"}
    torch.manual_seed(1)
    torch.testing.assert_close(results(model, random_input()), expected, rtol=1e-4, atol=1e-5)


def test_lazy_layers_are_converted_at_their_first_call() -> None:
    model = nn.Sequential(nn.LazyConvTranspose3d(3, 2), nn.ReLU(), nn.LazyConvTranspose3d(2, 3))
    assert actions(convt3d.convert(model)) == {"0": "fused", "2": "converted"}
    torch.manual_seed(5)
    output = model(random_input())
    assert isinstance(model[0], convt3d.nn.ConvTranspose3dReLU)
    assert not isinstance(model[0], nn.modules.lazy.LazyModuleMixin)
    assert type(model[2]) is convt3d.nn.ConvTranspose3d
    assert actions(convt3d.revert(model)) == {"0": "reverted", "2": "reverted"}
    assert [type(module) for module in model] == [nn.ConvTranspose3d, nn.ReLU, nn.ConvTranspose3d]
    torch.manual_seed(5)
    torch.testing.assert_close(model(random_input()), output)


def test_lazy_layers_reverted_before_their_first_call() -> None:
    model = nn.Sequential(nn.LazyConvTranspose3d(3, 2), nn.ReLU())
    convt3d.convert(model)
    convt3d.revert(model)
    assert [type(module) for module in model] == [nn.LazyConvTranspose3d, nn.ReLU]
    model(random_input())
    assert type(model[0]) is nn.ConvTranspose3d


class OwnConstructor(nn.ConvTranspose3d):
    def __init__(self, channels: int) -> None:
        super().__init__(channels, channels, 2, stride=2)
        self.scale = 3

    def scaled(self, input: Tensor) -> Tensor:
        return self(input) * self.scale


@pytest.mark.parametrize(
    ("capability", "cuda", "action", "note"),
    [
        ((8, 6), "13.0", "converted", ""),
        (
            (8, 7),
            "13.0",
            "left",
            "this build of convt3d has kernels for sm_80 sm_86, which do not run there",
        ),
        (
            (7, 0),
            "13.0",
            "left",
            "no build of convt3d has kernels for GPUs before compute capability 7.5",
        ),
        (
            (8, 6),
            None,
            "left",
            "this build of convt3d is for the CPU only",
        ),
    ],
)
def test_layers_on_a_gpu_without_kernels_are_left_alone(
    capability: tuple[int, int], cuda: str | None, action: str, note: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: asked.append(device) or capability)
    info = _library.BuildInfo("0", "2.11", cuda, ("sm_80", "sm_86"))
    monkeypatch.setattr(_library, "build_info", lambda: info)
    # Its random numbers need a torch for GPUs.
    monkeypatch.setattr(nn.ConvTranspose3d, "reset_parameters", lambda layer: None)
    with FakeTensorMode():  # no GPU is needed
        model = nn.Sequential(up(), nn.ConvTranspose3d(6, 2, 3, device="cuda:1"))
        on_cpu, on_gpu = convt3d.convert(model).layers
        assert (on_cpu.action, on_cpu.note) == ("converted", "")
        assert on_gpu.action == action
        place = "it is on a GPU of compute capability {}.{}; ".format(*capability)
        assert on_gpu.note.startswith(place + note if note else "")
        assert bool(on_gpu.note) == bool(note)
        assert uses_convt3d(model[1]) == (action == "converted")
    assert asked == [torch.device("cuda:1")]


def test_subclass_with_its_own_forward_is_left_alone() -> None:
    model = nn.Sequential(OwnForward(4, 4, 2), nn.ReLU())
    replaced = nn.Sequential(up())
    replaced[0].forward = lambda input: input
    for m, name in ((model, "OwnForward"), (replaced, "ConvTranspose3d")):
        (layer,) = convt3d.convert(m).layers
        assert layer.action == "left"
        assert layer.note == f"{name} has a forward of its own"
        assert not uses_convt3d(m[0])
        assert convt3d.revert(m).layers == ()


def test_subclass_without_its_own_forward_stays_a_subclass() -> None:
    model = nn.Sequential(OwnConstructor(4), nn.ReLU(), OwnConstructor(4))
    original = copy.deepcopy(model)
    assert actions(convt3d.convert(model)) == {"0": "fused", "2": "converted"}
    for other in (model, copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert isinstance(other[0], OwnConstructor)
        assert isinstance(other[0], convt3d.nn.ConvTranspose3dReLU)
        assert type(other[2]) is type(model[2])
        assert_same(other, original, random_input())
    torch.testing.assert_close(model[2].scaled(random_input()).shape, original[2].scaled(random_input()).shape)
    torch.testing.assert_close(torch.jit.script(model)(random_input()).shape, original(random_input()).shape)
    parametrizations.weight_norm(model[2])
    convt3d.revert(model)
    parametrize.remove_parametrizations(model[2], "weight")
    assert [type(module) for module in model] == [OwnConstructor, nn.ReLU, OwnConstructor]


class OurOwnForward(convt3d.nn.ConvTranspose3d):
    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        return super().forward(input, output_size) * 2


class OurOwnConstructor(convt3d.nn.ConvTranspose3d):
    def __init__(self, channels: int) -> None:
        super().__init__(channels, channels, 2, stride=2)


def test_subclasses_of_the_package_and_back() -> None:
    model = nn.Sequential(OurOwnConstructor(4), nn.ReLU(), OurOwnForward(4, 4, 2))
    original = copy.deepcopy(model)
    assert actions(convt3d.convert(model)) == {"0": "fused", "2": "left"}
    assert isinstance(model[0], OurOwnConstructor)
    for other in (model, pickle.loads(pickle.dumps(model))):
        assert_same(other, original, random_input())
    report = convt3d.revert(model)
    assert actions(report) == {"0": "reverted", "2": "left"}
    assert report.layers[1].note == "OurOwnForward has a forward of its own"
    assert isinstance(model[0], OurOwnConstructor)
    assert type(model[0]).forward is nn.ConvTranspose3d.forward
    for other in (model, pickle.loads(pickle.dumps(model))):
        assert_same(other, original, random_input())
    assert actions(convt3d.convert(model)) == {"0": "fused", "2": "left"}


def test_modules_of_the_package_and_back() -> None:
    """A ReLU that came without a module stays where it is."""
    model = nn.Sequential(convt3d.nn.ConvTranspose3dReLU(4, 6, 2), convt3d.nn.LazyConvTranspose3dReLU(3, 2))
    assert set(actions(convt3d.convert(model)).values()) == {"kept"}
    model(random_input())
    original = copy.deepcopy(model)
    convt3d.revert(model)
    assert list(model.state_dict()) == list(original.state_dict())
    graph = torch.fx.symbolic_trace(model)
    assert not any("convt3d" in str(node.target) for node in graph.graph.nodes)
    assert_same(model, original, random_input())
    torch.testing.assert_close(torch.jit.script(model)(random_input()).shape, original(random_input()).shape)
    assert set(actions(convt3d.convert(model)).values()) == {"converted"}
    assert [type(m) for m in model] == [convt3d.nn.ConvTranspose3dReLU] * 2


def test_what_the_operators_cannot_compute_is_left() -> None:
    model = nn.Sequential(up(dtype=torch.complex64))
    (layer,) = convt3d.convert(model).layers
    assert layer.action == "left"
    assert "complex64" in layer.note
    assert type(model[0]) is nn.ConvTranspose3d


def test_torchscript_is_left() -> None:
    model = nn.Sequential(torch.jit.script(up()), up(6, 4))
    report = convt3d.convert(model)
    assert actions(report) == {"0": "left", "1": "converted"}
    assert "before torch.jit.script" in report.layers[0].note
    assert set(actions(convt3d.convert(torch.jit.script(Decoder()))).values()) == {"left"}
