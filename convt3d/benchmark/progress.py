"""A progress bar on a terminal where tqdm is installed, plain lines otherwise."""

from __future__ import annotations

import importlib
import sys
import time
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Item = TypeVar("Item")


def progress(items: Sequence[Item]) -> Iterator[Item]:
    """Yield the items, showing on stderr which one is under way."""
    tqdm = _tqdm()
    if tqdm is None:
        yield from _plain(items)
        return
    bar = tqdm(items, unit="case", dynamic_ncols=True)
    for item in bar:
        bar.set_description_str(str(item))
        yield item


def write(text: str) -> None:
    """Print to stdout without breaking a progress bar."""
    tqdm = _tqdm()
    if tqdm is None:
        print(text, flush=True)
    else:
        tqdm.write(text)


def _tqdm() -> Any:
    if not sys.stderr.isatty():
        return None
    try:
        return importlib.import_module("tqdm").tqdm
    except ImportError:
        return None


def _plain(items: Sequence[Item]) -> Iterator[Item]:
    start = time.monotonic()
    for number, item in enumerate(items, 1):
        print(f"[{number}/{len(items)}, {time.monotonic() - start:.0f} s] {item}", file=sys.stderr, flush=True)
        yield item
