"""What waits for a module of PyTorch that takes long to import, and that importing this package must not load."""

import importlib
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_waiting: dict[str, Callable[[Any], None]] = {}


def when_imported(name: str, function: Callable[[Any], None]) -> None:
    """Calls `function` with the module `name`: at once where somebody has imported it, else as soon as one does."""
    if name in sys.modules:
        function(importlib.import_module(name))  # another thread may still be at it
        return
    _waiting[name] = function
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)


class _Finder:
    """Has the loader that others find for a module call what waits for it.

    It stays in `sys.meta_path`: taken out, it would have a search that another thread is at pass over a finder.
    """

    @classmethod
    def find_spec(cls, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name not in _waiting:
            return None
        others = [finder for finder in sys.meta_path if finder is not cls]
        specs = (finder.find_spec(name, path, target) for finder in others if hasattr(finder, "find_spec"))
        spec = next((spec for spec in specs if spec is not None), None)
        loader: Any = None if spec is None else spec.loader
        if loader is not None:
            execute = loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                function = _waiting.pop(name, None)  # not before: an import that fails may be tried again
                if function is not None:
                    function(module)

            loader.exec_module = exec_module
        return spec
