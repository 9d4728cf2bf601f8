"""Files that scripts write, whole or between two marker lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def between(text: str, begin: str, end: str, new: str, *, page: Path) -> str:
    """A page's text with `new` between two of its lines."""
    before, found_begin, rest = text.partition(begin)
    _, found_end, after = rest.partition(end)
    if not (found_begin and found_end):
        raise SystemExit(f"{page} must have the lines {begin!r} and {end!r}")
    return before + begin + new + end + after


def write(root: Path, wanted: Mapping[Path, str], *, check: bool, script: str) -> int:
    """Write the files that differ, or only name them; the exit code of the process."""
    different = [
        path
        for path, text in wanted.items()
        if not (root / path).exists() or (root / path).read_text(encoding="utf-8") != text
    ]
    for path in different:
        print(f"{path} {f'differs from the records: run python scripts/{script}' if check else 'written'}")
        if not check:
            (root / path).write_text(wanted[path], encoding="utf-8")
    return 1 if check and different else 0
