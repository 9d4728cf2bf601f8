"""For mkdocstrings: Sphinx roles of docstrings, which editors know, as links of the site."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object


class Roles(Extension):
    """Turns ``:func:`convt3d.convert` `` into a link; what is not of this package becomes plain code."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Rewrite the docstring of any object."""
        if obj.docstring is not None:
            obj.docstring.value = re.sub(r":(?:class|func|meth|mod):`([^`]+)`", _link, obj.docstring.value)


def _link(role: re.Match[str]) -> str:
    name = role[1]
    return f"[`{name}`][{name}]" if name.startswith("convt3d.") else f"`{name}`"
