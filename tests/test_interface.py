"""What `convt3d` shows: its names, its operators' types, the path of its library."""

from __future__ import annotations

import ast
import ctypes
import pydoc
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from reference import environment

import convt3d
from convt3d import _library

STUB = Path(convt3d.__file__).with_name("ops.pyi")
TYPES = {
    "Tensor": "Tensor",
    "Optional[Tensor]": "Tensor | None",
    "List[int]": "int | Sequence[int]",
    "int": "int",
    "List[bool]": "Sequence[bool]",
    "float": "float",
    "bool": "bool",
    "Optional[int]": "_dtype | None",  # PyTorch's name of `ScalarType?`
}


def test_dir_is_the_interface() -> None:
    assert dir(convt3d) == sorted(convt3d.__all__)
    assert all(hasattr(convt3d, name) for name in dir(convt3d))
    assert [name for name in dir(convt3d) if name.startswith("_")] == ["__version__"]


def test_ops_are_the_operators() -> None:
    registered: dict[str, set[str]] = {"convt3d": set(), "convt3d_inductor": set()}
    for namespace, name in (name.split("::") for name in torch._C._dispatch_get_all_op_names() if "convt3d" in name):
        registered[namespace].add(name)
    assert registered["convt3d"] == set(convt3d.ops.__all__)
    assert registered["convt3d_inductor"] == registered["convt3d"] | {"conv_transpose3d_channel_norms"}
    for name in registered["convt3d"]:
        assert getattr(convt3d.ops, name) is getattr(torch.ops.convt3d, name)


@pytest.mark.parametrize("name", convt3d.ops.__all__)
def test_stub_says_what_the_schema_says(name: str) -> None:
    functions = {node.name: node for node in ast.parse(STUB.read_text()).body if isinstance(node, ast.FunctionDef)}
    given = functions[name].args
    defaults = [None] * (len(given.args) - len(given.defaults)) + [ast.literal_eval(node) for node in given.defaults]
    stub = [
        (argument.arg, ast.unparse(argument.annotation), default)
        for argument, default in zip(given.args, defaults, strict=True)
        if argument.annotation is not None
    ]
    schema = getattr(torch.ops.convt3d, name).default._schema
    expected = [
        (argument.name, TYPES[str(argument.type)], _as_written(argument.default_value)) for argument in schema.arguments
    ]
    assert stub == expected
    assert ast.get_docstring(functions[name])


@pytest.mark.parametrize("name", convt3d.ops.__all__)
def test_help_shows_the_stub(name: str) -> None:
    functions = {node.name: node for node in ast.parse(STUB.read_text()).body if isinstance(node, ast.FunctionDef)}
    shown = pydoc.render_doc(getattr(convt3d.ops, name), renderer=pydoc.plaintext)
    assert f"{name}({ast.unparse(functions[name].args)}) -> " in shown
    described = ast.get_docstring(functions[name])
    assert described
    for line in described.splitlines():
        assert line in shown


def _as_written(default: object) -> object:
    """A default such as [1, 1, 1] as the one int that the schema was given; bools have to be given one by one."""
    if not isinstance(default, list):
        return default
    return tuple(default) if isinstance(default[0], bool) else default[0]


USER = """\
import convt3d
from torch import Tensor
def f(x: Tensor) -> Tensor:
    convt3d.ops.conv_transpose3d(x, x, strides=1)
    convt3d.ops.conv_transpose3d(x)
    convt3d.ops.conv_transpose3d(x, x, stride=(1, 2, 1))
    return convt3d.ops.conv_transpose3d_bias_grad(x)
"""


@pytest.mark.slow
def test_type_checkers_know_the_operators(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    (tmp_path / "user.py").write_text(USER)
    result = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "user.py"],
        cwd=tmp_path,
        env={**environment(), "MYPYPATH": str(Path(convt3d.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    first, second = [line for line in result.stdout.splitlines() if " error: " in line]
    assert first.startswith("user.py:4: error: Unexpected keyword argument")
    assert second.startswith("user.py:5: error: Missing positional argument")


def test_library_path_is_the_loaded_library() -> None:
    path = convt3d.library_path()
    assert path == _library.LIBRARY_PATH
    assert str(path) in {str(Path(loaded).resolve()) for loaded in torch.ops.loaded_libraries}
    assert ctypes.CDLL(str(path)).convt3d_build_info
