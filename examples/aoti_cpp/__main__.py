"""Export a converted model, compile it into an AOTInductor package, run it from C++ and compare with Python."""

from __future__ import annotations

import argparse
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

import convt3d
from convt3d._library import default_device

from .model import Upsampler

if TYPE_CHECKING:
    from collections.abc import Sequence

# Relative to the largest output; compiled code may add in another order, and TF32 rounds to 11 bits.
TOLERANCE = {"cpu": 1e-5, "cuda": 5e-3}

# A package brings its own std::regex code; without -Bsymbolic the loader may join it with libtorch's, built by another
# compiler, and the package, of any model, then crashes while it is loaded (seen with torch 2.11 and GCC 13).
COMPILER = """#!/bin/sh
case " $* " in
  *" -shared "*) exec {compiler} "$@" -Wl,-Bsymbolic ;;
  *) exec {compiler} "$@" ;;
esac
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the example; returns 1 if the outputs differ or a tool is missing, else 0."""
    options = _parser().parse_args(arguments)
    device = torch.device(options.device or default_device())
    compiler = shutil.which("g++") or shutil.which("clang++")
    for tool, found in [("cmake", shutil.which("cmake")), ("g++ or clang++", compiler)]:
        if found is None:
            print(f"FAILED: {tool} is needed, and not on PATH", file=sys.stderr)
            return 1
    folder = options.output.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    print(f"convt3d {convt3d.__version__}, torch {torch.__version__}, {device}")

    torch.manual_seed(0)
    model = Upsampler().to(device).eval()
    input = torch.randn(3, 1, 8, 10, 12, device=device)
    with torch.no_grad():
        expected = model(input)
        print(f"\n{convt3d.convert(model)}\n")
        package = make_package(model, input[:2], folder, str(compiler))
    torch.save(input.cpu(), folder / "input.pt")
    program = build_program(folder)
    paths = [package, folder / "input.pt", folder / "output.pt"]
    _execute(program, convt3d.library_path(), paths[0], device, *paths[1:])

    output = torch.load(folder / "output.pt", weights_only=True)
    difference = ((output - expected.cpu()).abs().max() / expected.abs().max().cpu()).item()
    print(f"C++ beside Python's unconverted model: largest difference {difference:.1e} of the largest output")
    if not difference <= TOLERANCE[device.type]:
        print(f"FAILED: the difference is more than {TOLERANCE[device.type]:g}", file=sys.stderr)
        return 1
    return 0


def make_package(model: torch.nn.Module, example: Tensor, folder: Path, compiler: str) -> Path:
    """The model, exported for batches of 1 to 8 and compiled, as ``folder/upsampler.pt2``."""
    wrapper = folder / "c++"
    wrapper.write_text(COMPILER.format(compiler=shlex.quote(compiler)))
    wrapper.chmod(0o755)
    batch = torch.export.Dim("batch", min=1, max=8)
    program = torch.export.export(model, (example,), dynamic_shapes=({0: batch},))
    package = folder / "upsampler.pt2"
    with torch._inductor.config.patch({"cpp.cxx": (None, str(wrapper))}):
        torch._inductor.aoti_compile_and_package(program, package_path=str(package))
    return package


def build_program(folder: Path) -> Path:
    """run_package.cpp, built in ``folder/build`` against the libtorch of this Python's torch."""
    build = folder / "build"
    torch_root = f"-DTORCH_ROOT={Path(torch.__file__).parent}"
    _execute("cmake", "-S", Path(__file__).parent, "-B", build, torch_root)
    _execute("cmake", "--build", build)
    return build / "run_package"


def _execute(*command: object) -> None:
    words = [str(word) for word in command]
    print(f"$ {shlex.join(words)}", flush=True)
    subprocess.run(words, check=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="aoti_cpp", description=__doc__)
    parser.add_argument("--device", help="default: cuda where possible, else cpu")
    parser.add_argument("--output", type=Path, default=Path("output"), help="folder for the package and the program")
    return parser


if __name__ == "__main__":
    sys.exit(main())
