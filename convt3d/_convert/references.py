"""Which modules of a model are held elsewhere than where they are registered, by anything its code can reach.

Code that holds a module can call it by itself. Followed are the attributes of all modules, whatever they hold, and of
all functions and classes that are not PyTorch's or Python's own: closures, defaults and the global variables that they
name.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import gc
import sys
import types
import weakref
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from torch.nn.modules.lazy import LazyModuleMixin
from torch.utils.hooks import RemovableHandle

if TYPE_CHECKING:
    from collections.abc import Iterator

_LIBRARIES = {*sys.stdlib_module_names, "torch", "numpy", "convt3d"}
_LAZY_HOOKS = (LazyModuleMixin._infer_parameters, LazyModuleMixin._lazy_load_hook)
_LIMIT = 200_000
_LEAVES = (
    str,
    bytes,
    int,
    float,
    complex,
    type(None),
    RemovableHandle,
    types.CodeType,
    types.BuiltinFunctionType,
)


class TooManyError(Exception):
    """The model refers to more objects than are looked at."""


def held_elsewhere(model: nn.Module, ignored: tuple[str, ...]) -> dict[nn.Module, str]:
    """For each module that is held elsewhere, by what; attributes in `ignored` do not count.

    Raises:
        TooManyError: as it says.
    """
    modules = {module: name for name, module in model.named_modules()}
    held: dict[nn.Module, str] = {}
    seen: set[int] = set()
    kept: list[object] = []  # so that no id is used twice
    for module, name in modules.items():
        title = f"{name or 'the model'} ({type(module).__name__})"
        starts = [
            (f"the attribute {key} of {title}", value)
            for key, value in vars(module).items()
            if key not in ("_modules", *ignored)
        ]
        starts += [(f"what the code of {cls.__name__} refers to", cls) for cls in type(module).__mro__]
        for where, start in starts:
            pending = [start]
            while pending:
                value = pending.pop()
                if issubclass(type(value), nn.Module) and value in modules:
                    held.setdefault(value, where)
                elif not issubclass(type(value), _LEAVES) and id(value) not in seen:
                    seen.add(id(value))
                    kept.append(value)
                    if len(kept) > _LIMIT:
                        raise TooManyError(f"{where} leads to more than {_LIMIT} objects")
                    pending.extend(_referred(value))
    return held


def _is_library(name: object) -> bool:
    return isinstance(name, str) and name.partition(".")[0] in _LIBRARIES


def _referred(value: Any) -> Iterator[Any]:
    if type(value) in weakref.ProxyTypes:
        with contextlib.suppress(ReferenceError):  # it is gone
            yield value.__repr__.__self__
    elif isinstance(value, types.FunctionType):
        yield from (value.__defaults__ or (), value.__kwdefaults__ or {}, vars(value))
        yield from _cells(value)
        if not _is_library(value.__globals__.get("__name__")):
            yield from _named_globals(value)
    elif isinstance(value, type):
        if not _is_library(value.__module__):
            yield from vars(value).values()
            yield from value.__mro__[1:]
    elif isinstance(value, types.MethodType):
        if value.__func__ not in _LAZY_HOOKS:
            yield from (value.__self__, value.__func__)
    elif isinstance(value, (staticmethod, classmethod)):
        yield value.__func__
    elif isinstance(value, property):
        yield from (value.fget, value.fset)
    elif isinstance(value, weakref.ref):
        yield value()
    elif isinstance(value, Tensor):
        yield vars(value)
    elif isinstance(value, types.GeneratorType):
        yield from value.gi_frame.f_locals.values() if value.gi_frame is not None else ()
    elif isinstance(value, types.ModuleType):
        return  # what of it is named in code is looked up there
    else:
        yield from (other for other in gc.get_referents(value) if not isinstance(other, type))
        yield type(value)


def _cells(function: types.FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not assigned yet
            continue


def _named_globals(function: types.FunctionType) -> Iterator[Any]:
    for name, attributes in _names(function.__code__):
        value = function.__globals__.get(name)
        if not isinstance(value, types.ModuleType):
            yield value
        elif not _is_library(value.__name__):
            yield from (vars(value).get(attribute) for attribute in attributes)


@functools.lru_cache(maxsize=4096)
def _names(code: types.CodeType) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The global variables that the code names, and all names in it, of which some are their attributes."""
    found = {
        instruction.argval for instruction in dis.get_instructions(code) if instruction.opname.startswith("LOAD_GLOBAL")
    }
    inner = [_names(constant) for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return (*((name, code.co_names) for name in found), *(pair for names in inner for pair in names))
