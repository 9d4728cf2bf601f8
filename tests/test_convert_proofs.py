"""Ways to use a layer and a ReLU: what convert proves of each, and that the numbers stay whatever it says."""

import copy
import importlib.util
import itertools
import textwrap
import types
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from convert_programs import FUSED, FUSED_BELOW, NOT_FUSED, NOT_FUSED_BELOW, PROGRAM
from torch import nn

import convt3d


def program_of(body: str, directory: Path, program: str = PROGRAM) -> type[nn.Module]:
    """The class Model with these methods, from a file, as `convert` reads sources."""
    path = directory / "program.py"
    path.write_text(program + textwrap.indent(textwrap.dedent(body), "    "))
    spec = importlib.util.spec_from_file_location("program", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model: type[nn.Module] = module.Model
    return model


def _arguments() -> Iterator[tuple[object, ...]]:
    x = torch.linspace(-2, 2, 2 * 2 * 24).reshape(2, 2, 2, 3, 4)
    yield from ((x,), (-x,), (x, x.flip(0)), ([x, -x],), (x, None, True))


def _outputs(model: nn.Module) -> list[object]:
    """Whatever the model returns for all arguments that it takes, in both modes, with and without gradients."""
    outputs: list[object] = []
    for args, mode, grad in itertools.product(_arguments(), (True, False), (True, False)):
        torch.manual_seed(3)
        with torch.set_grad_enabled(grad):
            try:
                output = model.train(mode)(*copy.deepcopy(args))
                outputs.append(list(output) if isinstance(output, types.GeneratorType) else output)
            except (TypeError, AttributeError, RuntimeError):  # arguments that it does not take
                outputs.append(None)
    assert any(output is not None for output in outputs)
    return outputs


def assert_same(model: nn.Module, original: nn.Module) -> None:
    for mine, expected in zip(_outputs(model), _outputs(original), strict=True):
        assert (mine is None) == (expected is None)
        if expected is not None:
            torch.testing.assert_close(mine, expected, rtol=1e-4, atol=1e-6)


def layers_of(model: nn.Module) -> dict[str, convt3d.Layer]:
    return {layer.name: layer for layer in convt3d.convert(model).layers}


@pytest.mark.parametrize("body", FUSED.values(), ids=FUSED)
def test_fused(body: str, tmp_path: Path) -> None:
    original = program_of(body, tmp_path)()
    model = copy.deepcopy(original)
    layer = layers_of(model)["c"]
    assert (layer.action, layer.partners, layer.note) == ("fused", ("r",), "")
    assert_same(model, original)


@pytest.mark.parametrize(("body", "name", "relu"), FUSED_BELOW.values(), ids=FUSED_BELOW)
def test_fused_below(body: str, name: str, relu: str, tmp_path: Path) -> None:
    original = program_of(body, tmp_path)()
    model = copy.deepcopy(original)
    layer = layers_of(model)[name]
    assert (layer.action, layer.partners) == ("fused", (relu,)), layer.note
    assert_same(model, original)


@pytest.mark.parametrize(("body", "note"), NOT_FUSED.values(), ids=NOT_FUSED)
def test_not_fused(body: str, note: str, tmp_path: Path) -> None:
    original = program_of(body, tmp_path)()
    model = copy.deepcopy(original)
    model.setup()
    layer = layers_of(model)["c"]
    assert layer.action == "converted"
    assert note in layer.note
    assert bool(note) == bool(layer.note)
    assert_same(model, original)


@pytest.mark.parametrize(("expression", "name", "note"), NOT_FUSED_BELOW.values(), ids=NOT_FUSED_BELOW)
def test_not_fused_below(expression: str, name: str, note: str, tmp_path: Path) -> None:
    original = program_of(f"def forward(self, x): return {expression}", tmp_path)()
    model = copy.deepcopy(original)
    layer = layers_of(model)[name]
    assert layer.action == "converted"
    assert note in layer.note
    assert_same(model, original)
