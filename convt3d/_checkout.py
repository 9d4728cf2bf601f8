"""The folder `convt3d` of a source checkout, which hides the installed package from a Python that runs beside it."""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

_PACKAGE = Path(__file__).resolve().parent
# Not from `_library`, which imports torch: whose library this is has to be known before anything else is imported.
_LIBRARY_NAME = "_C.abi3.so"


def use_installed_package() -> bool:
    """Load the installed package in place of this folder, where this is a checkout that was not built in place.

    Python finds this folder first wherever it runs in the root of the checkout, as `python -m convt3d.collect_env` does
    there after an installation. Without a library this folder could only fail.

    Returns:
        Whether the installed package has taken the place of this one in `sys.modules`.
    """
    root = _PACKAGE.parent
    is_checkout = (root / "setup.py").is_file() and (root / "csrc").is_dir()
    if not is_checkout or (_PACKAGE / _LIBRARY_NAME).exists():
        return False
    spec = _installed_spec(root)
    if spec is None or spec.loader is None:
        return False
    for name in [name for name in sys.modules if name.startswith("convt3d.")]:
        del sys.modules[name]
    module = module_from_spec(spec)
    sys.modules["convt3d"] = module
    spec.loader.exec_module(module)
    return True


def _installed_spec(root: Path) -> ModuleSpec | None:
    """The package as Python would find it without the checkout, if it has its library."""
    elsewhere = [entry for entry in sys.path if Path(entry).resolve() != root]  # "" is the working directory
    spec = PathFinder.find_spec("convt3d", elsewhere)
    if spec is None or spec.origin is None or not Path(spec.origin).with_name(_LIBRARY_NAME).exists():
        return None
    return spec
