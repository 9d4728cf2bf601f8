"""The phase map, the plans and their cache, without torch or a GPU: compiles the tests in tests/cpp and runs them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from convt3d._explain import forward_plan
from convt3d._layer import Layer

ROOT = Path(__file__).resolve().parent.parent


PLANS = ["csrc/plan.cpp", "csrc/halo_plan.cpp", "csrc/phase_map.cpp"]


@pytest.mark.parametrize(
    ("test", "sources"),
    [
        ("plan_test", PLANS),
        ("plan_cache_test", [*PLANS, "csrc/forward_plan.cpp", "csrc/forward_plan_cache.cpp"]),
    ],
)
def test_in_cpp(test: str, sources: list[str], tmp_path: Path) -> None:
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    program = tmp_path / test
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-O1", "-pthread", "-Icsrc"]
    subprocess.run([compiler, *flags, f"tests/cpp/{test}.cpp", *sources, "-o", str(program)], cwd=ROOT, check=True)
    result = subprocess.run([str(program)], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    ("precision", "has_wgmma", "expected"),
    [("tf32", True, "halo_wgmma"), ("bf16", True, "halo_wgmma"), ("fp32", True, "simt"), ("bf16", False, "simt")],
)
def test_engine_of_a_forward(precision: str, has_wgmma: bool, expected: str) -> None:
    layer = Layer("", 2, 24, 40, (5, 6, 17), (3, 2, 4), (2, 1, 2), (1, 0, 1), groups=2)
    plan = forward_plan(layer, precision, "NCDHW", has_wgmma=has_wgmma)
    assert plan.engine == expected
    assert "tile=" in plan.plan


def test_engine_of_a_large_stride() -> None:
    layer = Layer("", 1, 16, 16, (3, 3, 3), (3, 3, 3), (3, 1, 1))
    assert forward_plan(layer, "bf16", "NDHWC", has_wgmma=True).engine == "simt"
