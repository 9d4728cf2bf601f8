"""Ways to copy, store and run a converted model."""

import copy
import io
import pickle
from collections.abc import Callable

import pytest
import torch
from converted import Decoder, actions, assert_same, random_input, up, uses_convt3d
from torch import Tensor, nn

import convt3d

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")


@pytest.mark.parametrize("pickled", [False, True], ids=["deepcopy", "pickle"])
def test_copies(pickled: bool) -> None:
    model = Decoder()
    convt3d.convert(model)
    other = pickle.loads(pickle.dumps(model)) if pickled else copy.deepcopy(model)
    assert [type(m) for m in other.modules()] == [type(m) for m in model.modules()]
    assert_same(other, model, random_input())
    convt3d.revert(other)
    assert not any(uses_convt3d(m) for m in other.modules())
    assert_same(other, model, random_input())


def test_torch_save() -> None:
    model = Decoder()
    convt3d.convert(model)
    buffer = io.BytesIO()
    torch.save(model, buffer)
    buffer.seek(0)
    assert_same(torch.load(buffer, weights_only=False), model, random_input())


@pytest.mark.parametrize("wrapper", [nn.DataParallel, lambda m: torch.compile(m, backend="eager")])
def test_wrapped_models(wrapper: Callable[[nn.Module], nn.Module], fresh_compiler: None) -> None:
    model = Decoder()
    original = copy.deepcopy(model)
    wrapped = wrapper(model)
    wrapped(random_input())
    report = convt3d.convert(wrapped)
    assert sorted(actions(report).values()) == ["converted", "fused", "fused"]
    assert {layer.name for layer in report.layers} <= {name for name, _ in wrapped.named_modules()}
    input = random_input()
    torch.testing.assert_close(wrapped(input), original(input), rtol=1e-4, atol=1e-5)


def test_a_compiled_model_sees_the_conversion(fresh_compiler: None) -> None:
    ran: list[bool] = []

    def backend(graph: torch.fx.GraphModule, _: list[Tensor]) -> Callable[..., object]:
        def run(*args: Tensor) -> object:
            ran.append("convt3d" in str(graph.graph))
            return graph.forward(*args)

        return run

    model = nn.Sequential(up(), nn.ReLU())
    compiled = torch.compile(model, backend=backend)
    for change in (lambda _: None, convt3d.convert, convt3d.revert):
        change(model)
        compiled(random_input())
    assert ran == [False, True, False]


@pytest.mark.parametrize("how", ["compile", "script", "trace", "export"])
def test_other_ways_to_run(how: str, fresh_compiler: None) -> None:
    model = Decoder()
    convt3d.convert(model)
    input = random_input()
    if how == "compile":
        other: Callable[[Tensor], Tensor] = torch.compile(model, fullgraph=True, backend="aot_eager")
    elif how == "script":
        other = torch.jit.script(model)
    elif how == "trace":
        other = torch.jit.trace(model, input)
    else:
        other = torch.export.export(model, (input,)).module()
    torch.testing.assert_close(other(input), model(input))
