"""Python in the root of a source checkout, where the folder `convt3d` hides the installed package."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import convt3d
from convt3d import _library

PACKAGE = Path(convt3d.__file__).resolve().parent


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout whose source says that it is another version, not built in place."""
    root = tmp_path / "checkout"
    shutil.copytree(PACKAGE, root / "convt3d", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    (root / "convt3d" / "_version.py").write_text('__version__ = "0.0.0+source"\n', encoding="utf-8")
    (root / "setup.py").touch()
    (root / "csrc").mkdir()
    return root


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """What an installation has, on the path of every Python that a test runs."""
    folder = tmp_path / "site-packages"
    shutil.copytree(PACKAGE, folder / "convt3d", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def run(checkout: Path, *command: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(path or "")}
    return subprocess.run(
        [sys.executable, *command], cwd=checkout, env=environment, capture_output=True, text=True, check=False
    )


def test_installed_package_is_used(checkout: Path, installed: Path) -> None:
    code = "import convt3d, convt3d.nn as n; print(convt3d.__file__, n.__file__, convt3d.__version__)"
    result = run(checkout, "-c", f"{code}\nimport convt3d._checkout as c; print(c.__file__)", path=installed)
    assert result.returncode == 0, result.stderr
    *files, version, own = result.stdout.split()
    assert [Path(file).parent for file in (*files, own)] == [installed / "convt3d"] * 3
    assert version == convt3d.__version__


def test_collect_env_runs_with_the_installed_package(checkout: Path, installed: Path) -> None:
    result = run(checkout, "-m", "convt3d.collect_env", path=installed)
    assert result.returncode == 0, result.stdout + result.stderr
    assert str(installed / "convt3d" / _library.LIBRARY_PATH.name) in result.stdout
    assert "passed" in result.stdout


def test_library_built_in_place_comes_first(checkout: Path, installed: Path) -> None:
    shutil.copy(_library.LIBRARY_PATH, checkout / "convt3d")
    result = run(checkout, "-c", "import convt3d; print(convt3d.__version__)", path=installed)
    assert result.stdout.strip() == "0.0.0+source"


def test_without_an_installation_the_error_says_what_to_do(checkout: Path, installed: Path) -> None:
    (installed / "convt3d" / _library.LIBRARY_PATH.name).unlink()
    # Where the package that is tested is installed beside torch, the checkout must not find it either.
    program = f"""
from importlib.machinery import PathFinder
find = PathFinder.find_spec
def find_spec(name, path=None, target=None):
    if name == "convt3d" and path is not None:
        path = [entry for entry in path if entry == {str(installed)!r}]
    return find(name, path, target)
PathFinder.find_spec = find_spec
import convt3d
"""
    result = run(checkout, "-c", program, path=installed)
    assert result.returncode == 1
    (error,) = [line for line in result.stderr.splitlines() if line.startswith("ImportError: ")]
    assert str(checkout / "convt3d" / _library.LIBRARY_PATH.name) in error
    assert "install a convt3d wheel or, in a source checkout, run `python setup.py build_ext --inplace`" in error
