"""Builds the emulator: the kernels of csrc/ for the CPU, and the program that checks them. Prints the program's path.

    python tests/emulator/build.py [--sanitize]

g++ (or what CXX names) is all that it needs. What is compiled is kept, by the contents of all that it was
compiled from.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

HERE = Path(__file__).resolve().parent
CSRC = HERE.parents[1] / "csrc"
INCLUDES = [f"-I{HERE}", f"-I{HERE / 'cuda'}", f"-I{CSRC}"]  # the emulator's headers come first
# Kernels read memory as whatever type suits them.
COMMON = ["-std=c++17", "-g1", "-march=native", "-fno-strict-aliasing", "-fcf-protection=none", *INCLUDES]
# Of the device's code g++ knows neither the pragmas nor the precedences that its authors know.
KERNELS = [*COMMON, "-w", "-Wno-psabi", "-x", "c++", "-include", "cuda_runtime.h", '-DCONVT3D_ARCHS="sm_90a"']
PROGRAM = [*COMMON, "-O3", "-Wall", "-Wextra", "-Werror"]
# What plans calls: without CUDA's headers, and for any processor, as in the library. Tests of plans link it, too.
PLANNER = ["-std=c++17", "-g1", "-O2", "-fPIC", "-pthread", "-Wall", "-Wextra", "-Werror", f"-I{CSRC}"]
# Kernels whose compilation takes longest, by the beginnings of their files' names.
LONGEST = ("wgmma", "mma")
PLANNER_ROOMS = ("core", "engines", "norm", "planning")
# Headers that no kernel includes: what they change, kernels need not be compiled anew for.
UNSEEN = {
    *HERE.glob("check/*.h"),
    *(HERE / "machine" / name for name in ("block.h", "fiber.h", "memory.h", "tensor_map.h")),
}
SANITIZE = ["-fsanitize=undefined", "-fno-sanitize-recover=undefined"]


def compiler() -> str | None:
    """The C++ compiler; None if there is none."""
    return shutil.which(os.environ.get("CXX", "g++"))


def is_of_planner(source: Path) -> bool:
    return source.suffix == ".cpp" and any(source.is_relative_to(CSRC / room) for room in PLANNER_ROOMS)


def sources(*, sanitize: bool = False) -> dict[Path, list[str]]:
    """Every file that is compiled, the longest compilation first, and its flags."""
    kernels = sorted(CSRC.rglob("*.cu"), key=lambda path: not path.name.startswith(LONGEST))
    program = [
        *sorted(HERE.glob("*/*.cpp")),
        *(path for path in sorted(CSRC.rglob("*.cpp")) if path.stem != "bindings" and path.parent.name != "ops"),
    ]
    # The checks make kernels compile three times as long, which leaving out the optimization makes up for.
    of_kernels = [*KERNELS, "-O0" if sanitize else "-O1"]
    flags = dict.fromkeys(kernels, of_kernels) | {path: PLANNER if is_of_planner(path) else PROGRAM for path in program}
    return {path: [*words, *SANITIZE] if sanitize else words for path, words in flags.items()}


def machine() -> str:
    """What -march=native depends on."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return os.uname().machine
    return next((line for line in lines if line.startswith(("flags", "Features"))), os.uname().machine)


def digest(*parts: bytes) -> str:
    result = hashlib.sha256()
    for part in parts:
        result.update(hashlib.sha256(part).digest())
    return result.hexdigest()[:24]


def build(folder: Path, *, sanitize: bool = False) -> Path:
    """The program, built in a folder that may have parts of it from before."""
    objects = compiled(sources(sanitize=sanitize), folder)
    program = folder / f"emulate-{digest(*(path.name.encode() for path in objects))}"
    with locked(folder, "link"):
        if not program.exists():
            _run([needed_compiler(), *(SANITIZE if sanitize else []), *map(str, objects), "-o"], program)
    return program


def planner_objects(paths: Iterable[Path], folder: Path) -> list[Path]:
    """Object files of sources of the planner, which link into programs and libraries."""
    return compiled(dict.fromkeys(paths, PLANNER), folder)


def needed_compiler() -> str:
    cxx = compiler()
    if cxx is None:
        raise RuntimeError("the emulator needs a C++ compiler: install g++, or let CXX name one")
    return cxx


@contextlib.contextmanager
def locked(folder: Path, name: str) -> Iterator[None]:
    """One process at a time."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def compiled(items: dict[Path, list[str]], folder: Path) -> list[Path]:
    """The object file of each source. Processes side by side compile different ones."""
    cxx = needed_compiler()
    version = subprocess.run([cxx, "--version"], capture_output=True, check=True).stdout
    headers = [path for root in (HERE, CSRC) for path in sorted(root.rglob("*")) if path.suffix in (".h", ".cuh")]
    of_kernels = digest(*(path.read_bytes() for path in headers if path not in UNSEEN))
    of_planner = digest(*(path.read_bytes() for path in headers if path.is_relative_to(CSRC)))
    of_program = digest(*(path.read_bytes() for path in headers))

    def compile_one(item: tuple[Path, list[str]]) -> Path:
        source, flags = item
        of_headers = of_kernels if source.suffix == ".cu" else of_planner if is_of_planner(source) else of_program
        settings = f"{version.decode()} {machine()} {of_headers} {flags}"
        name = f"{source.stem}-{digest(settings.encode(), source.read_bytes())}"
        target = folder / f"{name}.o"
        with locked(folder, name):
            if not target.exists():
                _run([cxx, *flags, "-c", str(source), "-o"], target)
        return target

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(compile_one, items.items()))


def _run(command: list[str], target: Path) -> None:
    """Runs a command that writes the file that its last argument names; nobody sees a half-written one."""
    with tempfile.TemporaryDirectory(dir=target.parent) as temporary:
        unfinished = Path(temporary, target.name)
        subprocess.run([*command, str(unfinished)], check=True)
        unfinished.replace(target)


def cache() -> Path:
    return Path(tempfile.gettempdir(), f"convt3d-emulator-{os.getuid()}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sanitize", action="store_true", help="stop at what C++ does not define")
    parser.add_argument("--folder", type=Path, default=cache(), help="where what is compiled is kept")
    arguments = parser.parse_args()
    print(build(arguments.folder, sanitize=arguments.sanitize))


if __name__ == "__main__":
    main()
