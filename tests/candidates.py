"""Pairs of traits that only plans have which the search of the tensor-core engine passed over.

python tests/candidates.py --cases 1000
"""

from __future__ import annotations

import argparse
import ctypes
import subprocess
import sys
import tempfile
from pathlib import Path

from trait_coverage import Coverage, read

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "emulator"))

import build  # noqa: E402

_NOT_OF_PLANS = {"explain", "traits_of_call", "plan_cache"}


def candidate_library(folder: Path) -> ctypes.CDLL:
    """The library of tests/cpp/candidate_traits.cpp."""
    rooms = [ROOT / "csrc" / room for room in ("core", "engines", "planning")]
    sources = [path for room in rooms for path in sorted(room.rglob("*.cpp")) if path.stem not in _NOT_OF_PLANS]
    library = folder / "candidates.so"
    objects = build.planner_objects(sources, build.cache())
    flags = ["-std=c++17", "-O2", "-shared", "-fPIC", f"-I{ROOT / 'csrc'}", "-o", str(library)]
    command = [build.needed_compiler(), *flags, str(ROOT / "tests/cpp/candidate_traits.cpp"), *map(str, objects)]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(library))


def main() -> None:
    """Prints the pairs, and how many there are of either kind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, help="of the covering set, from its beginning; default: all")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        library = candidate_library(Path(folder))
    chosen, all_plans = Coverage(), Coverage()
    plans = 0
    for number, case in enumerate(read()):
        if case.op != "forward":
            continue
        chosen.add(chosen.numbers(case.traits()))
        if options.cases is None or number < options.cases:
            for traits in case.candidate_traits(library):
                all_plans.add(all_plans.numbers(traits))
                plans += 1
    known = {frozenset(pair[:2]) for pair in chosen.pairs()}
    only = [pair for pair in all_plans.pairs() if frozenset(pair[:2]) not in known]
    for first, second, count in only:
        print(f"{count}\t{first}\t{second}")
    values, pairs, _ = all_plans.totals()
    print(f"{plans} plans with {values} values and {pairs} pairs, of which {len(only)} are of no plan that is chosen")


if __name__ == "__main__":
    main()
