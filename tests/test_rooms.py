"""The rooms of csrc/: includes go one way, and each room knows what it should."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CSRC = Path(__file__).resolve().parent.parent / "csrc"

# A file includes files of its own room and of the rooms above it.
ROOMS = ["core", "device", "epilogue", "norm", "engines", "planning", "kernels", "ops", "bindings.cpp"]
# The same within an engine that has rooms of its own; files beside them know all of them.
ROOMS_OF_ENGINES = {
    "mma": ["tile", "correlation", "weight_grad", "backward"],
    "wgmma": ["plan", "load", "store", "weight_grad"],
}
SUFFIXES = {".h", ".cuh", ".cpp", ".cu"}
FILES = sorted(path for path in CSRC.rglob("*") if path.suffix in SUFFIXES)
# Engines that kernels are written for; `instantiate` compiles them, a file each for an engine, an operator and a type.
ENGINES = sorted(path.name for path in (CSRC / "engines").iterdir() if path.name != "instantiate")


def includes(path: Path) -> list[str]:
    """The files of csrc/ that a file includes."""
    return re.findall(r'^#include "([^"]+)"', path.read_text(), re.MULTILINE)


def room(name: str) -> int:
    return ROOMS.index(name.split("/")[0])


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(CSRC)))
def test_includes_go_one_way(path: Path) -> None:
    own = str(path.relative_to(CSRC))
    for name in includes(path):
        assert (CSRC / name).exists(), f"{name} is no file of csrc/: headers are named from there"
        assert room(name) <= room(own), f"{own} includes {name}, of a room that builds on its own"
        if own.startswith("engines/") and name.startswith("engines/") and not own.startswith("engines/instantiate/"):
            engine = own.split("/")[1]
            assert name.split("/")[1] == engine, f"{own} includes {name}, of another engine"
            rooms = ROOMS_OF_ENGINES.get(engine, [])
            if own.split("/")[2] in rooms and name.split("/")[2] in rooms:
                before = rooms.index(name.split("/")[2]) <= rooms.index(own.split("/")[2])
                assert before, f"{own} includes {name}, of a room that builds on its own"


def test_engines_with_rooms_of_their_own() -> None:
    for engine in ENGINES:
        folders = {path.name for path in (CSRC / "engines" / engine).iterdir() if path.is_dir()}
        assert folders == set(ROOMS_OF_ENGINES.get(engine, []))


def test_no_cycles() -> None:
    graph = {str(path.relative_to(CSRC)): includes(path) for path in FILES}
    done: set[str] = set()

    def visit(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, " -> ".join([*above, name])
        if name not in done:
            for included in graph[name]:
                visit(included, (*above, name))
            done.add(name)

    for name in graph:
        visit(name, ())


def test_only_ops_and_bindings_know_torch() -> None:
    knowing = {
        path.relative_to(CSRC).parts[0] for path in FILES if re.search(r"#include <(torch|ATen)/", path.read_text())
    }
    assert knowing == {"ops", "bindings.cpp"}


def test_plans_know_no_cuda() -> None:
    """What .cpp files compile runs where there is no GPU: plans are made and tested there."""
    graph = {str(path.relative_to(CSRC)): path for path in FILES}
    for path in FILES:
        if path.suffix != ".cpp":
            continue
        seen, rest = set(), [path]
        while rest:
            current = rest.pop()
            assert not re.search(r"#include <cuda", current.read_text()), f"{path} includes {current}, which needs CUDA"
            new = [graph[name] for name in includes(current) if name not in seen]
            seen.update(includes(current))
            rest += new


def test_every_engine_type_and_operator_has_a_translation_unit() -> None:
    units = {path.stem for path in (CSRC / "engines" / "instantiate").glob("*.cu")}
    assert {unit.split("_")[0] for unit in units} == set(ENGINES)
    for unit in units:
        assert re.fullmatch(r"[a-z]+_[a-z_]+_(float32|float64|float16|bfloat16)", unit), unit


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(CSRC)))
def test_files_are_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 400


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(CSRC)))
def test_comments_stand_alone(path: Path) -> None:
    """A comment that begins with dots says nothing without its neighbour."""
    assert not re.findall(r"^.*// \.\.\..*$", path.read_text(), re.MULTILINE)
