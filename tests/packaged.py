"""Models as packages of AOTInductor, which a new process loads and calls."""

import os
import shlex
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from reference import run_python
from torch import Tensor
from torch.export import ExportedProgram

LOADED = """
import sys
import torch
import torch._inductor.codecache  # torch 2.10 uses it while loading, but does not import it
import convt3d

package, cases = sys.argv[1:]
model = torch._inductor.aoti_load_package(package)
for inputs, expected in torch.load(cases):
    torch.testing.assert_close(model(*inputs), expected)
print("close")
"""

# A package brings its own std::regex code; without -Bsymbolic the loader may join it with libtorch's, built by another
# compiler, and the package, of any model, then crashes while it is loaded (seen with torch 2.11 and GCC 13).
COMPILER = """#!/bin/sh
case " $* " in
  *" -shared "*) exec {compiler} "$@" -Wl,-Bsymbolic ;;
  *) exec {compiler} "$@" ;;
esac
"""


def _compiler() -> Path:
    """A C++ compiler under the same name in every test: PyTorch compiles its headers once for each name."""
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("AOTInductor needs a C++ compiler")
    folder = Path(tempfile.gettempdir(), f"convt3d-compiler-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=folder, delete=False) as file:
        file.write(COMPILER.format(compiler=shlex.quote(compiler)))
    unfinished = Path(file.name)
    unfinished.chmod(0o755)
    return unfinished.replace(folder / "c++")  # test processes side by side see a whole one


def assert_same_packaged(
    program: ExportedProgram, function: Callable[..., Any], calls: list[tuple[Tensor, ...]], folder: Path
) -> None:
    """Compiles an exported program into a package, which a new process loads and calls."""
    with torch.no_grad(), torch._inductor.config.patch({"cpp.cxx": (None, str(_compiler()))}):
        package = torch._inductor.aoti_compile_and_package(program, package_path=str(folder / "program.pt2"))
    cases = folder / "cases.pt"
    torch.save([(inputs, function(*inputs)) for inputs in calls], cases)
    assert run_python(LOADED, package, str(cases)) == "close"
