"""benchmarks/plan_costs/costs.py: what needs no GPU."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tqdm", reason="of the extra `bench`")
sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks" / "plan_costs"))
import costs

from convt3d._explain.plan import known_device, layer_plan
from convt3d.benchmark.layers import LAYOUTS, select_layers

pytestmark = [
    pytest.mark.slow,
    pytest.mark.torch_free,
    pytest.mark.skipif(shutil.which("g++") is None and shutil.which("clang++") is None, reason="no C++ compiler"),
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> costs.Model:
    """Of the engine's best plans for two layers, as if they took what is expected, and of one that nobody knows."""
    device = known_device((9, 0))
    folder = tmp_path_factory.mktemp("plan_costs")
    times = folder / "times.txt"
    with times.open("w") as out:
        for layer in select_layers(["kb73", "nnunet_64_64"]):
            for precision in costs.PRECISIONS:
                for layout in LAYOUTS:
                    plan = layer_plan(layer, "forward", precision, layout, device, engine=costs.ENGINE).plan
                    clocks = float(plan.rpartition(" clocks=")[2])
                    out.write(f"{layer.name} {precision} {layout} {clocks / costs.CLOCKS_PER_MS} {plan}\n")
        out.write(f"{layer.name} fp32 NDHWC 1 halo terms=2 clocks=1\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(costs, "BUILD", folder / "build")
        return costs.Model([times])


def test_cases_are_all_layers() -> None:
    lines = costs.case_lines()
    assert len(lines) == 36 * 3 * 2
    assert lines["kb73", "fp16", "NDHWC"] == ("kb73 fp16 NDHWC 4 32 32 4 32 64 128 3 3 3 2 2 2 1 1 1 0 0 0 1 1 1 0")


def test_sweep_draws_the_chosen_plan_and_others_near_it() -> None:
    (layer,) = select_layers(["kb73"])
    key = layer, "fp16", "NDHWC"
    expected = costs.candidate_costs_on(key, known_device((9, 0)))
    assert expected[1:] == sorted(expected[1:])
    options = argparse.Namespace(count=30, jitter=0.15, seed=1)
    found = costs.drawn(key, expected, options)
    assert found[0] == 0
    assert len(set(found)) == 30
    assert 30 < max(found) < len(expected)
    assert costs.drawn(key, expected, options) == found
    assert costs.drawn(key, expected, argparse.Namespace(count=3, jitter=0, seed=1)) == [0, 1, 2]
    assert costs.drawn(key, [], options) == []


def test_model_expects_what_the_plan_does(model: costs.Model) -> None:
    assert model.unknown == 1
    assert len(model.ms) == len(model.keys) == 12
    np.testing.assert_allclose(model.predict(), model.ms, rtol=1e-5)
    assert model.objective() == pytest.approx(0, abs=1e-9)
    report = model.report()
    assert "measured: 12 of 12 cases" in report
    assert "tf32 NCDHW: 0.00% slower" in report


def test_fit_moves_wrong_constants_back(model: costs.Model) -> None:
    right = model.constants
    wrong = right.copy()
    fitted, fixed = (model.names.index(name) for name in ("kProductOverhead", "kThreadOutputClocks"))
    wrong[fitted] *= 3
    wrong[fixed] *= 1.5
    try:
        model.constants = wrong
        before = model.objective()
        assert before > 1e-3
        found = costs.anneal(model, seconds=2, seed=0, ridge=0)
        model.constants = found
        assert model.objective() < before / 2
        assert found[fixed] == wrong[fixed]
    finally:
        model.constants = right
