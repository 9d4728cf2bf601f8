"""convert and revert: the same numbers, the same parameters, and only what is proved is fused."""

import copy
import io
import pickle
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize

import convt3d

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")


def _up(inputs: int = 4, outputs: int = 6, **kwargs: object) -> nn.ConvTranspose3d:
    return nn.ConvTranspose3d(inputs, outputs, (3, 2, 4), (2, 1, 3), (1, 0, 2), (1, 0, 2), 2, True, (1, 2, 1), **kwargs)  # type: ignore[arg-type]


def _input(channels: int = 4) -> Tensor:
    return torch.randn(2, channels, 2, 3, 2)


class Decoder(nn.Module):
    """Nested containers, a ReLU in another container than its layer, a layer without ReLU."""

    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.ModuleList([nn.Sequential(nn.Conv3d(4, 4, 1), nn.Sequential(_up(4, 6))), _up(6, 4)])
        self.activations = nn.ModuleDict({"first": nn.ReLU(inplace=True), "second": nn.PReLU()})
        self.last = nn.Sequential(_up(4, 2), nn.Sequential(nn.ReLU(), nn.Conv3d(2, 3, 1)))

    def forward(self, x: Tensor) -> Tensor:
        x = self.activations["first"](self.stages[0](x))
        y: Tensor = self.last(self.activations["second"](self.stages[1](x)))
        return y


def _results(model: nn.Module, input: Tensor) -> list[Tensor | None]:
    """Output and gradients, of the input and of all parameters."""
    model.zero_grad()
    leaf = input.clone().requires_grad_()
    output = model(leaf)
    output.sin().sum().backward()
    return [output, leaf.grad, *(parameter.grad for parameter in model.parameters())]


def _assert_same(model: nn.Module, other: nn.Module, input: Tensor) -> None:
    torch.testing.assert_close(_results(model, input), _results(other, input), rtol=1e-4, atol=1e-5)


def _actions(report: convt3d.Report) -> dict[str, str]:
    return {layer.name: layer.action for layer in report.layers}


def _uses_convt3d(module: nn.Module) -> bool:
    return type(module).forward.__module__.startswith("convt3d")


def test_same_outputs_and_gradients(device: str) -> None:
    original = Decoder().to(device)
    model = copy.deepcopy(original)
    report = convt3d.convert(model)
    assert _actions(report) == {"stages.0.1.0": "fused", "stages.1": "converted", "last.0": "fused"}
    assert [layer.partners for layer in report.layers] == [("activations.first",), (), ("last.1.0",)]
    assert isinstance(model.activations["first"], nn.Identity)
    assert isinstance(model.last[1][0], nn.Identity)
    assert all(_uses_convt3d(m) for m in model.modules() if isinstance(m, nn.ConvTranspose3d))
    for mode in (True, False):
        _assert_same(model.train(mode), original.train(mode), _input().to(device))


def test_objects_stay_the_same() -> None:
    """Parameters, modules, names, flags: all that optimizers, hooks and other code hold on to."""
    model = Decoder()
    model.stages[1].eval()
    model.stages[1].weight.requires_grad_(False)
    model.double()
    modules, parameters = dict(model.named_modules()), dict(model.named_parameters())
    flags = {name: module.training for name, module in modules.items()}
    attributes = {name: set(vars(module)) for name, module in modules.items()}
    for change in (convt3d.convert, convt3d.revert):
        change(model)
        assert list(modules.items()) == list(model.named_modules())
        assert all(new is old for new, old in zip(model.parameters(), parameters.values(), strict=True))
        assert [name for name, _ in model.named_parameters()] == list(parameters)
        assert {name: module.training for name, module in model.named_modules()} == flags
    assert not model.stages[1].weight.requires_grad
    assert model.stages[1].weight.dtype == torch.float64
    assert {name: set(vars(module)) for name, module in model.named_modules()} == attributes


def test_revert_restores_every_class() -> None:
    model = Decoder()
    classes = [type(module) for module in model.modules()]
    first = repr(model)
    convt3d.convert(model)
    assert [type(module) for module in model.modules()] != classes
    report = convt3d.revert(model)
    assert set(_actions(report).values()) == {"reverted"}
    assert len(report.layers) == 3
    assert [type(module) for module in model.modules()] == classes
    assert repr(model) == first
    assert convt3d.revert(model).layers == ()


def test_state_dict_round_trips() -> None:
    original, model = Decoder(), Decoder()
    convt3d.convert(model)
    assert list(model.state_dict()) == list(original.state_dict())
    model.load_state_dict(original.state_dict())
    _assert_same(model, original, _input())
    other = Decoder()
    other.load_state_dict(model.state_dict())
    _assert_same(other, original, _input())
    convt3d.revert(model)
    for name, value in original.state_dict().items():
        assert torch.equal(model.state_dict()[name], value)


def test_the_model_itself_can_be_the_layer() -> None:
    layer = _up()
    original = copy.deepcopy(layer)
    report = convt3d.convert(layer)
    assert _actions(report) == {"": "converted"}
    assert type(layer) is convt3d.nn.ConvTranspose3d
    assert "(the model)" in str(report)
    _assert_same(layer, original, _input())


def test_converting_twice_changes_nothing() -> None:
    model = Decoder()
    convt3d.convert(model)
    classes = [type(module) for module in model.modules()]
    assert set(_actions(convt3d.convert(model)).values()) == {"kept"}
    assert [type(module) for module in model.modules()] == classes


def test_without_fusing_now_and_fused_later() -> None:
    model = nn.Sequential(_up(), nn.ReLU())
    assert _actions(convt3d.convert(model, fuse=False)) == {"0": "converted"}
    assert type(model[1]) is nn.ReLU
    assert _actions(convt3d.convert(model)) == {"0": "fused"}
    convt3d.revert(model)
    assert [type(module) for module in model] == [nn.ConvTranspose3d, nn.ReLU]


def test_optimizer_goes_on() -> None:
    """Adam with the momenta of steps before, between and after the conversions, beside the model left alone."""
    original = Decoder()
    model = copy.deepcopy(original)
    optimizers = [torch.optim.Adam(m.parameters(), lr=1e-3) for m in (model, original)]
    for step in range(6):
        if step == 2:
            convt3d.convert(model)
        if step == 4:
            convt3d.revert(model)
        input = _input()
        for m, optimizer in zip((model, original), optimizers, strict=True):
            _results(m, input)
            optimizer.step()
    for mine, theirs in zip(model.parameters(), original.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-5)


def test_hooks_stay() -> None:
    model = nn.Sequential(_up(), nn.Tanh())
    seen: list[str] = []
    model[0].register_forward_pre_hook(lambda *_: seen.append("pre"))
    model[0].register_forward_hook(lambda *_: seen.append("forward"))
    model[0].register_full_backward_hook(lambda *_: seen.append("backward"))
    model[0].weight.register_hook(lambda _: seen.append("weight"))
    for change in (lambda _: None, convt3d.convert, convt3d.revert):
        change(model)
        _results(model, _input())
        assert sorted(seen) == ["backward", "forward", "pre", "weight"]
        seen.clear()


def test_tied_weights_stay_tied() -> None:
    model = nn.Sequential(_up(4, 4), nn.ReLU(), _up(4, 4))
    model[2].weight = model[0].weight
    original = copy.deepcopy(model)
    assert original[2].weight is original[0].weight
    convt3d.convert(model)
    assert model[2].weight is model[0].weight
    _assert_same(model, original, _input())


@pytest.mark.parametrize("pickled", [False, True], ids=["deepcopy", "pickle"])
def test_copies(pickled: bool) -> None:
    model = Decoder()
    convt3d.convert(model)
    other = pickle.loads(pickle.dumps(model)) if pickled else copy.deepcopy(model)
    assert [type(m) for m in other.modules()] == [type(m) for m in model.modules()]
    _assert_same(other, model, _input())
    convt3d.revert(other)
    assert not any(_uses_convt3d(m) for m in other.modules())
    _assert_same(other, model, _input())


def test_torch_save() -> None:
    model = Decoder()
    convt3d.convert(model)
    buffer = io.BytesIO()
    torch.save(model, buffer)
    buffer.seek(0)
    _assert_same(torch.load(buffer, weights_only=False), model, _input())


@pytest.mark.parametrize(
    "parametrization", [parametrizations.spectral_norm, parametrizations.weight_norm, parametrizations.orthogonal]
)
def test_parametrizations(parametrization: Callable[[nn.Module], nn.Module]) -> None:
    model = nn.Sequential(_up(), nn.ReLU(), _up(6, 2))
    for layer in (model[0], model[2]):
        parametrization(layer)
    original = copy.deepcopy(model)
    untouched = copy.deepcopy(model)  # shares its classes with the model
    assert _actions(convt3d.convert(model)) == {"0": "fused", "2": "converted"}
    assert list(model.state_dict()) == list(original.state_dict())
    assert not any(_uses_convt3d(m) for m in untouched.modules())
    _assert_same(model, original, _input())
    _assert_same(copy.deepcopy(model), copy.deepcopy(original), _input())
    parametrize.remove_parametrizations(model[2], "weight")
    assert type(model[2]) is convt3d.nn.ConvTranspose3d
    convt3d.revert(model)
    assert type(model[2]) is nn.ConvTranspose3d
    parametrize.remove_parametrizations(model[0], "weight")
    assert type(model[0]) is nn.ConvTranspose3d
    assert type(model[1]) is nn.ReLU


@pytest.mark.filterwarnings("ignore:.*torch.nn.utils.weight_norm:FutureWarning")
def test_norms_by_hooks() -> None:
    model = nn.Sequential(nn.utils.weight_norm(_up()), nn.ReLU(), nn.utils.spectral_norm(_up(6, 2)))
    state = copy.deepcopy(model.state_dict())
    torch.manual_seed(1)
    expected = _results(model, _input())
    model.load_state_dict(state)
    assert _actions(convt3d.convert(model)) == {"0": "fused", "2": "converted"}
    torch.manual_seed(1)
    torch.testing.assert_close(_results(model, _input()), expected, rtol=1e-4, atol=1e-5)


def test_lazy_layers_are_converted_at_their_first_call() -> None:
    model = nn.Sequential(nn.LazyConvTranspose3d(3, 2), nn.ReLU(), nn.LazyConvTranspose3d(2, 3))
    assert _actions(convt3d.convert(model)) == {"0": "fused", "2": "converted"}
    torch.manual_seed(5)
    output = model(_input())
    assert isinstance(model[0], convt3d.nn.ConvTranspose3dReLU)
    assert not isinstance(model[0], nn.modules.lazy.LazyModuleMixin)
    assert type(model[2]) is convt3d.nn.ConvTranspose3d
    assert _actions(convt3d.revert(model)) == {"0": "reverted", "2": "reverted"}
    assert [type(module) for module in model] == [nn.ConvTranspose3d, nn.ReLU, nn.ConvTranspose3d]
    torch.manual_seed(5)
    torch.testing.assert_close(model(_input()), output)


def test_lazy_layers_reverted_before_their_first_call() -> None:
    model = nn.Sequential(nn.LazyConvTranspose3d(3, 2), nn.ReLU())
    convt3d.convert(model)
    convt3d.revert(model)
    assert [type(module) for module in model] == [nn.LazyConvTranspose3d, nn.ReLU]
    model(_input())
    assert type(model[0]) is nn.ConvTranspose3d


class OwnForward(nn.ConvTranspose3d):
    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        return super().forward(input, output_size) * 2


class OwnConstructor(nn.ConvTranspose3d):
    def __init__(self, channels: int) -> None:
        super().__init__(channels, channels, 2, stride=2)
        self.scale = 3

    def scaled(self, input: Tensor) -> Tensor:
        return self(input) * self.scale


def test_subclass_with_its_own_forward_is_left_alone() -> None:
    model = nn.Sequential(OwnForward(4, 4, 2), nn.ReLU())
    replaced = nn.Sequential(_up())
    replaced[0].forward = lambda input: input
    for m, name in ((model, "OwnForward"), (replaced, "ConvTranspose3d")):
        (layer,) = convt3d.convert(m).layers
        assert layer.action == "left"
        assert layer.note == f"{name} has a forward of its own"
        assert not _uses_convt3d(m[0])
        assert convt3d.revert(m).layers == ()


def test_subclass_without_its_own_forward_stays_a_subclass() -> None:
    model = nn.Sequential(OwnConstructor(4), nn.ReLU(), OwnConstructor(4))
    original = copy.deepcopy(model)
    assert _actions(convt3d.convert(model)) == {"0": "fused", "2": "converted"}
    for other in (model, copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert isinstance(other[0], OwnConstructor)
        assert isinstance(other[0], convt3d.nn.ConvTranspose3dReLU)
        assert type(other[2]) is type(model[2])
        _assert_same(other, original, _input())
    torch.testing.assert_close(model[2].scaled(_input()).shape, original[2].scaled(_input()).shape)
    torch.testing.assert_close(torch.jit.script(model)(_input()).shape, original(_input()).shape)
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
    assert _actions(convt3d.convert(model)) == {"0": "fused", "2": "left"}
    assert isinstance(model[0], OurOwnConstructor)
    for other in (model, pickle.loads(pickle.dumps(model))):
        _assert_same(other, original, _input())
    report = convt3d.revert(model)
    assert _actions(report) == {"0": "reverted", "2": "left"}
    assert report.layers[1].note == "OurOwnForward has a forward of its own"
    assert isinstance(model[0], OurOwnConstructor)
    assert type(model[0]).forward is nn.ConvTranspose3d.forward
    for other in (model, pickle.loads(pickle.dumps(model))):
        _assert_same(other, original, _input())
    assert _actions(convt3d.convert(model)) == {"0": "fused", "2": "left"}


def test_modules_of_the_package_and_back() -> None:
    """A ReLU that came without a module stays where it is."""
    model = nn.Sequential(convt3d.nn.ConvTranspose3dReLU(4, 6, 2), convt3d.nn.LazyConvTranspose3dReLU(3, 2))
    assert set(_actions(convt3d.convert(model)).values()) == {"kept"}
    model(_input())
    original = copy.deepcopy(model)
    convt3d.revert(model)
    assert list(model.state_dict()) == list(original.state_dict())
    graph = torch.fx.symbolic_trace(model)
    assert not any("convt3d" in str(node.target) for node in graph.graph.nodes)
    _assert_same(model, original, _input())
    torch.testing.assert_close(torch.jit.script(model)(_input()).shape, original(_input()).shape)
    assert set(_actions(convt3d.convert(model)).values()) == {"converted"}
    assert [type(m) for m in model] == [convt3d.nn.ConvTranspose3dReLU] * 2


def test_what_the_operators_cannot_compute_is_left() -> None:
    model = nn.Sequential(_up(dtype=torch.complex64))
    (layer,) = convt3d.convert(model).layers
    assert layer.action == "left"
    assert "complex64" in layer.note
    assert type(model[0]) is nn.ConvTranspose3d


def test_torchscript_is_left() -> None:
    model = nn.Sequential(torch.jit.script(_up()), _up(6, 4))
    report = convt3d.convert(model)
    assert _actions(report) == {"0": "left", "1": "converted"}
    assert "before torch.jit.script" in report.layers[0].note
    assert set(_actions(convt3d.convert(torch.jit.script(Decoder()))).values()) == {"left"}


@pytest.mark.parametrize("function", [convt3d.convert, convt3d.revert])
def test_only_modules(function: Callable[[object], object]) -> None:
    with pytest.raises(TypeError, match=r"model must be a torch.nn.Module, got dict"):
        function({})


def test_report() -> None:
    report = convt3d.convert(nn.Sequential(_up(), nn.ReLU(), OwnForward(6, 4, 2)))
    assert str(report).splitlines() == [
        "layer  action  with  note",
        "0      fused   1",
        "2      left    -     OwnForward has a forward of its own",
        "1 fused, 1 left",
    ]
    assert report.names("fused", "left") == ("0", "2")
    assert str(convt3d.convert(nn.ReLU())) == "no transposed 3D convolution in the model"
    with pytest.raises(AttributeError):
        report.layers = ()  # type: ignore[misc]


@pytest.mark.parametrize(
    "use",
    [
        lambda report: report(_input()),
        lambda report: report.train(),
        lambda report: report.eval(),
        lambda report: report.to("cpu"),
        lambda report: torch.optim.SGD(report.parameters(), 0.1),
        lambda report: report.load_state_dict({}),
        lambda report: report.named_modules(),
    ],
)
def test_the_report_is_no_model(use: Callable[[convt3d.Report], object]) -> None:
    report = convt3d.convert(nn.Sequential(_up()))
    with pytest.raises((TypeError, AttributeError), match=r"write `report = convt3d.convert\(model\)` and go on with"):
        use(report)
    with pytest.raises(AttributeError, match=r"'Report' object has no attribute 'layer'$"):
        report.layer  # noqa: B018
    assert pickle.loads(pickle.dumps(report)) == copy.deepcopy(report) == report


@pytest.mark.parametrize("wrapper", [nn.DataParallel, lambda m: torch.compile(m, backend="eager")])
def test_wrapped_models(wrapper: Callable[[nn.Module], nn.Module], fresh_compiler: None) -> None:
    model = Decoder()
    original = copy.deepcopy(model)
    wrapped = wrapper(model)
    wrapped(_input())
    report = convt3d.convert(wrapped)
    assert sorted(_actions(report).values()) == ["converted", "fused", "fused"]
    assert {layer.name for layer in report.layers} <= {name for name, _ in wrapped.named_modules()}
    input = _input()
    torch.testing.assert_close(wrapped(input), original(input), rtol=1e-4, atol=1e-5)


def test_a_compiled_model_sees_the_conversion(fresh_compiler: None) -> None:
    ran: list[bool] = []

    def backend(graph: torch.fx.GraphModule, _: list[Tensor]) -> Callable[..., object]:
        def run(*args: Tensor) -> object:
            ran.append("convt3d" in str(graph.graph))
            return graph.forward(*args)

        return run

    model = nn.Sequential(_up(), nn.ReLU())
    compiled = torch.compile(model, backend=backend)
    for change in (lambda _: None, convt3d.convert, convt3d.revert):
        change(model)
        compiled(_input())
    assert ran == [False, True, False]


@pytest.mark.parametrize("how", ["compile", "script", "trace", "export"])
def test_other_ways_to_run(how: str, fresh_compiler: None) -> None:
    model = Decoder()
    convt3d.convert(model)
    input = _input()
    if how == "compile":
        other: Callable[[Tensor], Tensor] = torch.compile(model, fullgraph=True, backend="aot_eager")
    elif how == "script":
        other = torch.jit.script(model)
    elif how == "trace":
        other = torch.jit.trace(model, input)
    else:
        other = torch.export.export(model, (input,)).module()
    torch.testing.assert_close(other(input), model(input))
