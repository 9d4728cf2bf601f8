"""The syntax tree of a function, where it is proved to be what the function runs."""

from __future__ import annotations

import ast
import functools
import itertools
import linecache
import types
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class UnreadableError(Exception):
    """Why a function's source cannot be used; the text is for the report."""


def definition(function: object) -> ast.FunctionDef:
    """The definition of `function`.

    A file may have changed since it was imported, and tools rewrite what they import: what the source compiles to must
    be the function's own bytecode. It is compiled as a whole, as the bytecode depends on what surrounds a function.
    """
    if not isinstance(function, types.FunctionType):
        raise UnreadableError("it is not a plain Python function")
    code = function.__code__
    linecache.checkcache(code.co_filename)
    try:
        nodes, codes = _compiled("".join(linecache.getlines(code.co_filename, function.__globals__)))
    except (SyntaxError, ValueError):
        nodes, codes = {}, {}
    key = (code.co_name, code.co_firstlineno)
    if len(nodes.get(key, ())) != 1:
        raise UnreadableError("its source is not available")
    if not any(_same_code(code, other) for other in codes.get(key, ())):
        raise UnreadableError("its source is not what runs")
    return nodes[key][0]


_Key = tuple[str, int]


@functools.lru_cache(maxsize=32)
def _compiled(source: str) -> tuple[dict[_Key, list[ast.FunctionDef]], dict[_Key, list[types.CodeType]]]:
    """The functions of a file by name and first line, as syntax and as bytecode."""
    nodes: dict[_Key, list[ast.FunctionDef]] = {}
    codes: dict[_Key, list[types.CodeType]] = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            nodes.setdefault((node.name, first), []).append(node)
    for code in _codes(compile(source, "<convt3d>", "exec", dont_inherit=True)):
        codes.setdefault((code.co_name, code.co_firstlineno), []).append(code)
    return nodes, codes


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _same_code(code: types.CodeType, other: types.CodeType) -> bool:
    names = ("co_code", "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_flags", "co_argcount")
    return (
        all(getattr(code, name) == getattr(other, name) for name in names)
        and len(code.co_consts) == len(other.co_consts)
        and all(_same_constant(*pair) for pair in zip(code.co_consts, other.co_consts, strict=True))
    )


def _same_constant(constant: object, other: object) -> bool:
    if isinstance(constant, types.CodeType) and isinstance(other, types.CodeType):
        return _same_code(constant, other)
    return type(constant) is type(other) and repr(constant) == repr(other)


def parents_of(nodes: Iterable[ast.AST]) -> dict[ast.AST, ast.AST]:
    """The parent of every node below these."""
    return {child: parent for node in nodes for parent in ast.walk(node) for child in ast.iter_child_nodes(parent)}


def statement_after(statement: ast.AST, parents: dict[ast.AST, ast.AST], body: list[ast.stmt]) -> ast.stmt | None:
    """The statement that runs directly after this one, in the same block."""
    parent = parents.get(statement)
    blocks = [body] if parent is None else [value for _, value in ast.iter_fields(parent) if isinstance(value, list)]
    for block in blocks:
        for current, following in itertools.pairwise(block):
            if current is statement:
                following_statement: ast.stmt = following
                return following_statement
    return None
