"""What convert proves of modules that were changed as objects: by hooks, a `forward` of their own, their class."""

import copy
import warnings
from collections.abc import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import convt3d

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")


def _model() -> nn.Sequential:
    """A ReLU behind a layer, and one behind a BatchNorm, an Identity and a Dropout."""
    model = nn.Sequential(
        nn.ConvTranspose3d(3, 4, 2),
        nn.ReLU(),
        nn.ConvTranspose3d(4, 5, (1, 2, 1)),
        nn.Sequential(nn.BatchNorm3d(5), nn.Identity(), nn.Dropout(0.2)),
        nn.ReLU(),
    )
    with torch.no_grad():
        model[3][0].running_mean.uniform_(-1, 1)
        model[3][0].running_var.uniform_(0.5, 2)
    return model.eval()


def _convert(model: nn.Module) -> tuple[convt3d.Layer, ...]:
    return convt3d.convert(model, fold_batchnorm=True).layers


def _assert_same(model: nn.Module, original: nn.Module) -> None:
    input = torch.randn(2, 3, 2, 3, 4)
    with torch.no_grad():
        torch.testing.assert_close(model(input), original(input), rtol=1e-4, atol=1e-5)


def test_fused_as_it_is() -> None:
    original = _model()
    model = copy.deepcopy(original)
    assert [(layer.action, layer.partners) for layer in _convert(model)] == [
        ("fused", ("1",)),
        ("folded", ("3.0", "4")),
    ]
    _assert_same(model, original)


def _leaky(module: nn.Module) -> None:
    module.forward = lambda t: F.leaky_relu(t, 0.2)


def _wrapped(module: nn.Module) -> None:
    forward = module.forward
    module.forward = lambda t: forward(t) + 1


def _called(module: nn.Module) -> None:
    module._call_impl = lambda t: t + 1


# The module that is changed, the layer that must not be fused with it, and what is fused of it in its place.
@pytest.mark.parametrize(
    ("name", "layer", "partners"),
    [("1", 0, ()), ("3.0", 1, ()), ("3.1", 1, ("3.0",)), ("3.2", 1, ("3.0",)), ("4", 1, ("3.0",)), ("3", 1, ())],
)
@pytest.mark.parametrize("change", [_leaky, _wrapped, _called])
def test_forward_replaced_on_the_object(
    change: Callable[[nn.Module], None], name: str, layer: int, partners: tuple[str, ...]
) -> None:
    original, model = _model(), _model()
    model.load_state_dict(original.state_dict())
    for m in (original, model):
        change(m.get_submodule(name))
    report = _convert(model)
    assert report[layer].partners == partners
    assert ("was replaced on the object" in report[layer].note) == (name != "3")
    _assert_same(model, original)


def test_forward_wrapped_after_folding() -> None:
    """A wrapper holds the method of the class that the module had: it folds nothing a second time."""
    original, model = _model(), _model()
    model.load_state_dict(original.state_dict())
    for m in (original, model):
        _wrapped(m[3][0])
    for _ in range(2):
        _convert(model)
        _assert_same(model, original)


HOOKS: dict[str, Callable[[nn.Module], object]] = {
    "forward": lambda m: m.register_forward_hook(lambda module, args, output: output + 1),
    "forward_pre": lambda m: m.register_forward_pre_hook(lambda module, args: (args[0] + 1,)),
    "backward": lambda m: m.register_full_backward_hook(lambda *_: None),
    "backward_pre": lambda m: m.register_full_backward_pre_hook(lambda *_: None),
    "state_dict": lambda m: m.register_state_dict_post_hook(lambda *_: None),
    "state_dict_pre": lambda m: m.register_state_dict_pre_hook(lambda *_: None),
    "load_pre": lambda m: m.register_load_state_dict_pre_hook(lambda *_: None),
    "load_post": lambda m: m.register_load_state_dict_post_hook(lambda *_: None),
}


@pytest.mark.parametrize("kind", HOOKS)
@pytest.mark.parametrize(("name", "layer"), [("0", 0), ("1", 0), ("2", 1), ("3", 1), ("3.0", 1), ("", 0), ("", 1)])
def test_hooks(kind: str, name: str, layer: int) -> None:
    original, model = _model(), _model()
    model.load_state_dict(original.state_dict())
    for m in (original, model):
        HOOKS[kind](m.get_submodule(name))
    report = _convert(model)
    assert report[layer].action == "converted"
    assert "a hook on" in report[layer].note
    _assert_same(model, original)


@pytest.mark.parametrize("kind", ["forward_hook", "forward_pre_hook", "full_backward_hook"])
def test_global_hooks(kind: str) -> None:
    model = _model()
    handle = getattr(nn.modules.module, f"register_module_{kind}")(lambda *_: None)
    try:
        assert [layer.action for layer in _convert(model)] == ["converted", "converted"]
    finally:
        handle.remove()
    assert [layer.action for layer in _convert(model)] == ["fused", "folded"]


def test_class_patched(monkeypatch: pytest.MonkeyPatch) -> None:
    model = _model()
    original = copy.deepcopy(model)
    monkeypatch.setattr(nn.ReLU, "forward", lambda self, t: F.leaky_relu(t, 0.2))
    report = _convert(model)
    assert report[0].action == "converted"
    assert report[1].partners == ("3.0",)
    assert "forward of the class was replaced" in report[0].note
    _assert_same(model, original)


class Reversed(nn.Sequential):
    def __iter__(self) -> Iterator[nn.Module]:
        return iter([self[0], nn.Tanh(), self[1]])


class Doubled(nn.Sequential):
    def __call__(self, input: Tensor) -> Tensor:
        return self[0](input) + super().__call__(input)


class OwnForward(nn.Sequential):
    def forward(self, input: Tensor) -> Tensor:
        return self[1](self[0](input)) + self[0](input)


class Named(nn.Sequential):
    def extra_repr(self) -> str:
        return "of a name"


class LeakyReLU(nn.ReLU):
    def forward(self, input: Tensor) -> Tensor:
        return F.leaky_relu(input, 0.2)


@pytest.mark.parametrize(
    ("make", "fused"), [(Reversed, False), (Doubled, False), (OwnForward, False), (Named, True), (nn.Sequential, True)]
)
def test_subclasses_of_sequential(make: Callable[..., nn.Module], fused: bool) -> None:
    original = nn.Sequential(make(nn.ConvTranspose3d(3, 4, 2), nn.ReLU()))
    model = copy.deepcopy(original)
    (layer,) = _convert(model)
    assert layer.action == ("fused" if fused else "converted")
    _assert_same(model, original)


@pytest.mark.parametrize("relu", [LeakyReLU(), nn.ReLU6(), nn.LeakyReLU(), torch.jit.script(nn.ReLU())])
def test_other_activations(relu: nn.Module) -> None:
    original = nn.Sequential(nn.ConvTranspose3d(3, 4, 2), relu)
    model = nn.Sequential(copy.deepcopy(original[0]), relu)
    assert _convert(model)[0].action == "converted"
    _assert_same(model, original)


def test_shared_modules() -> None:
    relu = nn.ReLU()
    twice = nn.Sequential(nn.ConvTranspose3d(3, 3, 2), relu, nn.Conv3d(3, 3, 1), relu)
    layer = nn.ConvTranspose3d(3, 3, 2)
    again = nn.Sequential(layer, nn.ReLU(), layer, nn.Tanh())
    part = nn.Sequential(nn.ConvTranspose3d(3, 3, 2), nn.ReLU())
    nested = nn.Sequential(part, nn.Sequential(part))
    for original in (twice, again, nested):
        model = copy.deepcopy(original)
        (report,) = _convert(model)
        assert report.action == "converted"
        assert "is registered in more than one place" in report.note
        _assert_same(model, original)


def test_code_without_source() -> None:
    """What cannot be read is not fused; what needs no reading is."""
    namespace: dict[str, type[nn.Module]] = {}
    exec(
        "from torch import nn\n"
        "class Model(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.up, self.relu = nn.ConvTranspose3d(3, 4, 2), nn.ReLU()\n"
        "    def forward(self, x):\n"
        "        return self.relu(self.up(x))\n",
        namespace,
    )
    model = nn.Sequential(namespace["Model"](), nn.ConvTranspose3d(4, 4, 2), nn.ReLU())
    first, second = _convert(model)
    assert "forward of 0 (Model) cannot be followed: its source is not available" in first.note
    assert second.action == "fused"


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.relu = nn.ConvTranspose3d(3, 4, 2), nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.relu(self.up(x))


def _other_forward(self: nn.Module, x: Tensor) -> Tensor:
    y = self.up(x)
    return self.relu(y) + y


def test_forward_replaced_on_the_class(monkeypatch: pytest.MonkeyPatch) -> None:
    """The function that runs is read, and not the text of the class."""
    original = Pair()
    monkeypatch.setattr(Pair, "forward", _other_forward)
    model = copy.deepcopy(original)
    assert _convert(model)[0].action == "converted"
    _assert_same(model, original)


def test_source_that_is_not_what_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    code = _other_forward.__code__.replace(co_name="forward", co_firstlineno=Pair.forward.__code__.co_firstlineno)
    monkeypatch.setattr(_other_forward, "__code__", code)
    monkeypatch.setattr(Pair, "forward", _other_forward)
    model = Pair()
    (layer,) = _convert(model)
    assert layer.action == "converted"
    assert "its source is not what runs" in layer.note


def test_held_by_a_generator() -> None:
    model = nn.Sequential(nn.ConvTranspose3d(3, 4, 2), nn.ReLU())
    model.kept = (layer(torch.ones(3, 1, 1, 1)) for layer in [model[0]])
    (layer,) = _convert(model)
    assert "0 (ConvTranspose3d) is also held by the attribute kept of the model (Sequential)" in layer.note
    assert layer.action == "converted"


@pytest.mark.parametrize("kind", ["forward", "backward", "backward_pre"])
@pytest.mark.parametrize("name", ["0", "1", "2", "3.0", "4"])
def test_a_hook_added_later_sees_what_it_should(kind: str, name: str) -> None:
    original = _model().requires_grad_(False)
    model = copy.deepcopy(original)
    _convert(model)
    seen: list[list[Tensor]] = []
    for m in (original, model):
        values: list[Tensor] = []
        register = {
            "forward": m.get_submodule(name).register_forward_hook,
            "backward": m.get_submodule(name).register_full_backward_hook,
            "backward_pre": m.get_submodule(name).register_full_backward_pre_hook,
        }[kind]

        def hook(module: nn.Module, *args: object, values: list[Tensor] = values) -> None:
            values.extend(
                tensor.clone() for value in args for tensor in (value if isinstance(value, tuple) else [value])
            )

        if m is model:
            with pytest.warns(UserWarning, match="on a module that convt3d.convert fused"):
                handle = register(hook)
        else:
            handle = register(hook)
        torch.manual_seed(1)
        m(torch.randn(2, 3, 2, 3, 4).requires_grad_()).square().sum().backward()
        handle.remove()
        seen.append(values)
    assert seen[0]
    torch.testing.assert_close(seen[1], seen[0], rtol=1e-4, atol=1e-5)
    assert [layer.action for layer in _convert(model) if layer.action != "kept"] == [
        "folded" if name > "1" else "fused"
    ]
    convt3d.revert(model)
    assert [type(module) for module in model.modules()] == [type(module) for module in original.modules()]


def test_explaining_keeps_what_is_fused() -> None:
    model = _model()
    _convert(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        calls = convt3d.explain(model, torch.randn(1, 3, 2, 3, 4)).calls
    assert [call.relu for call in calls] == [True, True]
    assert [layer.action for layer in _convert(model)] == ["kept", "kept"]
