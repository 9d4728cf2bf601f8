"""The programs of test_convert_proofs.py with norms in the place of the ReLU: what convert proves of each."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import pytest
from convert_programs import FUSED, FUSED_BELOW, NOT_FUSED, NOT_FUSED_BELOW, PROGRAM
from test_convert_proofs import assert_same, layers_of, program_of

if TYPE_CHECKING:
    from pathlib import Path

NORMS = {
    "GroupNorm": "nn.GroupNorm(1, 2)",
    "InstanceNorm3d": "nn.InstanceNorm3d(2, affine=True)",
    "Sequential": "nn.Sequential(nn.ReLU(), nn.GroupNorm(2, 2), nn.LeakyReLU(0.1))",
}


@pytest.fixture(params=NORMS)
def kind(request: pytest.FixtureRequest) -> str:
    value: str = request.param
    return value


def _with_norm(kind: str) -> str:
    return PROGRAM.replace("nn.ReLU()", NORMS[kind])


def _partners(name: str, kind: str) -> tuple[str, ...]:
    return tuple(f"{name}.{i}" for i in range(3)) if kind == "Sequential" else (name,)


@pytest.mark.parametrize("body", [body for name, body in FUSED.items() if "dropout" not in name])
def test_fused_programs(body: str, kind: str, tmp_path: Path) -> None:
    original = program_of(body, tmp_path, _with_norm(kind))()
    model = copy.deepcopy(original)
    layer = layers_of(model)["c"]
    assert (layer.action, layer.partners, layer.note) == ("fused", _partners("r", kind), "")
    assert_same(model, original)


@pytest.mark.parametrize(("body", "name", "norm"), FUSED_BELOW.values(), ids=FUSED_BELOW)
def test_fused_programs_below(body: str, name: str, norm: str, kind: str, tmp_path: Path) -> None:
    original = program_of(body, tmp_path, _with_norm(kind))()
    model = copy.deepcopy(original)
    layer = layers_of(model)[name]
    assert (layer.action, layer.partners) == ("fused", _partners(norm, kind)), layer.note
    assert_same(model, original)


@pytest.mark.parametrize(("body", "note"), NOT_FUSED.values(), ids=NOT_FUSED)
def test_not_fused_programs(body: str, note: str, kind: str, tmp_path: Path) -> None:
    original = program_of(body, tmp_path, _with_norm(kind))()
    model = copy.deepcopy(original)
    model.setup()
    layer = layers_of(model)["c"]
    assert layer.action == "converted"
    assert note.replace("r (ReLU)", f"r ({kind})") in layer.note
    assert bool(note) == bool(layer.note)
    assert_same(model, original)


@pytest.mark.parametrize("body", [body for body, _ in NOT_FUSED.values()], ids=NOT_FUSED)
def test_not_fused_behind_a_relu(body: str, tmp_path: Path) -> None:
    """The convolution and its ReLU are one module, which the program calls; the norm is another."""
    program = _with_norm("GroupNorm").replace(
        "self.c, self.r, self.d, self.tanh = nn.ConvTranspose3d(2, 2, 1)",
        "self.c, self.r, self.d, self.tanh = nn.Sequential(nn.ConvTranspose3d(2, 2, 1), nn.ReLU())",
    )
    assert program.count("nn.ReLU())") == 1
    original = program_of(body, tmp_path, program)()
    model = copy.deepcopy(original)
    model.setup()
    layer = layers_of(model)["c.0"]
    assert layer.partners in ((), ("c.1",))
    assert_same(model, original)


@pytest.mark.parametrize(("expression", "name", "note"), NOT_FUSED_BELOW.values(), ids=NOT_FUSED_BELOW)
def test_not_fused_programs_below(expression: str, name: str, note: str, kind: str, tmp_path: Path) -> None:
    original = program_of(f"def forward(self, x): return {expression}", tmp_path, _with_norm(kind))()
    model = copy.deepcopy(original)
    layer = layers_of(model)[name]
    assert layer.action == "converted"
    assert note in layer.note
    assert_same(model, original)
