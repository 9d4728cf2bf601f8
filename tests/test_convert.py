"""convert and revert: the same numbers, the same parameters, the same objects, and what the report says."""

import copy
import pickle
from collections.abc import Callable

import pytest
import torch
from converted import Decoder, OwnForward, actions, assert_same, random_input, results, up, uses_convt3d
from torch import nn

import convt3d

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")


def test_same_outputs_and_gradients(device: str) -> None:
    original = Decoder().to(device)
    model = copy.deepcopy(original)
    report = convt3d.convert(model)
    assert actions(report) == {"stages.0.1.0": "fused", "stages.1": "converted", "last.0": "fused"}
    assert [layer.partners for layer in report.layers] == [("activations.first",), (), ("last.1.0",)]
    assert isinstance(model.activations["first"], nn.Identity)
    assert isinstance(model.last[1][0], nn.Identity)
    assert all(uses_convt3d(m) for m in model.modules() if isinstance(m, nn.ConvTranspose3d))
    for mode in (True, False):
        assert_same(model.train(mode), original.train(mode), random_input().to(device))


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
    assert set(actions(report).values()) == {"reverted"}
    assert len(report.layers) == 3
    assert [type(module) for module in model.modules()] == classes
    assert repr(model) == first
    assert convt3d.revert(model).layers == ()


def test_state_dict_round_trips() -> None:
    original, model = Decoder(), Decoder()
    convt3d.convert(model)
    assert list(model.state_dict()) == list(original.state_dict())
    model.load_state_dict(original.state_dict())
    assert_same(model, original, random_input())
    other = Decoder()
    other.load_state_dict(model.state_dict())
    assert_same(other, original, random_input())
    convt3d.revert(model)
    for name, value in original.state_dict().items():
        assert torch.equal(model.state_dict()[name], value)


def test_the_model_itself_can_be_the_layer() -> None:
    layer = up()
    original = copy.deepcopy(layer)
    report = convt3d.convert(layer)
    assert actions(report) == {"": "converted"}
    assert type(layer) is convt3d.nn.ConvTranspose3d
    assert "(the model)" in str(report)
    assert_same(layer, original, random_input())


def test_converting_twice_changes_nothing() -> None:
    model = Decoder()
    convt3d.convert(model)
    classes = [type(module) for module in model.modules()]
    assert set(actions(convt3d.convert(model)).values()) == {"kept"}
    assert [type(module) for module in model.modules()] == classes


def test_without_fusing_now_and_fused_later() -> None:
    model = nn.Sequential(up(), nn.ReLU())
    assert actions(convt3d.convert(model, fuse=False)) == {"0": "converted"}
    assert type(model[1]) is nn.ReLU
    assert actions(convt3d.convert(model)) == {"0": "fused"}
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
        input = random_input()
        for m, optimizer in zip((model, original), optimizers, strict=True):
            results(m, input)
            optimizer.step()
    for mine, theirs in zip(model.parameters(), original.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-5)


def test_hooks_stay() -> None:
    model = nn.Sequential(up(), nn.Tanh())
    seen: list[str] = []
    model[0].register_forward_pre_hook(lambda *_: seen.append("pre"))
    model[0].register_forward_hook(lambda *_: seen.append("forward"))
    model[0].register_full_backward_hook(lambda *_: seen.append("backward"))
    model[0].weight.register_hook(lambda _: seen.append("weight"))
    for change in (lambda _: None, convt3d.convert, convt3d.revert):
        change(model)
        results(model, random_input())
        assert sorted(seen) == ["backward", "forward", "pre", "weight"]
        seen.clear()


def test_tied_weights_stay_tied() -> None:
    model = nn.Sequential(up(4, 4), nn.ReLU(), up(4, 4))
    model[2].weight = model[0].weight
    original = copy.deepcopy(model)
    assert original[2].weight is original[0].weight
    convt3d.convert(model)
    assert model[2].weight is model[0].weight
    assert_same(model, original, random_input())


@pytest.mark.parametrize("function", [convt3d.convert, convt3d.revert])
def test_only_modules(function: Callable[[object], object]) -> None:
    with pytest.raises(TypeError, match=r"model must be a torch.nn.Module, got dict"):
        function({})


def test_report() -> None:
    report = convt3d.convert(nn.Sequential(up(), nn.ReLU(), OwnForward(6, 4, 2)))
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
        lambda report: report(random_input()),
        lambda report: report.train(),
        lambda report: report.eval(),
        lambda report: report.to("cpu"),
        lambda report: torch.optim.SGD(report.parameters(), 0.1),
        lambda report: report.load_state_dict({}),
        lambda report: report.named_modules(),
        lambda report: report.training,
        lambda report: report[0],
        lambda report: convt3d.convert(report),
        lambda report: convt3d.revert(report),
    ],
)
def test_the_report_is_no_model(use: Callable[[convt3d.Report], object]) -> None:
    report = convt3d.convert(nn.Sequential(up()))
    with pytest.raises((TypeError, AttributeError), match=r"write `report = convt3d.convert\(model\)` and go on with"):
        use(report)
    with pytest.raises(AttributeError, match=r"'Report' object has no attribute 'layer'$"):
        report.layer  # noqa: B018
    assert pickle.loads(pickle.dumps(report)) == copy.deepcopy(report) == report
