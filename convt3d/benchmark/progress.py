"""A progress bar on a terminal where tqdm is installed, plain lines otherwise."""

from __future__ import annotations

import importlib
import sys
import time
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Item = TypeVar("Item")


def progress(items: Sequence[Item], title: str, name: Callable[[Item], str]) -> Iterator[Item]:
    """Yield the items, showing on stderr which one is under way; the bar goes when they are done."""
    tqdm = _tqdm()
    if tqdm is None:
        yield from _plain(items, title, name)
        return
    bar = tqdm(items, unit="case", dynamic_ncols=True, leave=False)
    for item in bar:
        bar.set_description_str(f"{title} {name(item)}")
        yield item


def _tqdm() -> Any:
    if not sys.stderr.isatty():
        return None
    try:
        return importlib.import_module("tqdm").tqdm
    except ImportError:
        return None


def _plain(items: Sequence[Item], title: str, name: Callable[[Item], str]) -> Iterator[Item]:
    start = time.monotonic()
    for number, item in enumerate(items, 1):
        elapsed = time.monotonic() - start
        print(f"{title} [{number}/{len(items)}, {elapsed:.0f} s] {name(item)}", file=sys.stderr, flush=True)
        yield item
