"""The phase map and the plans, without torch or a GPU: compiles tests/cpp/plan_test.cpp and runs it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def test_plans_follow_the_definition(tmp_path: Path) -> None:
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    program = tmp_path / "plan_test"
    sources = ["tests/cpp/plan_test.cpp", "csrc/plan.cpp", "csrc/phase_map.cpp"]
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-O1", "-Icsrc"]
    subprocess.run([compiler, *flags, *sources, "-o", str(program)], cwd=ROOT, check=True)
    result = subprocess.run([str(program)], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout
