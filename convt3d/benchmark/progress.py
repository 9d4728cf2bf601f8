"""A progress bar where tqdm is installed, plain lines otherwise."""

from __future__ import annotations

import importlib
import sys
import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Item = TypeVar("Item")


def progress(items: Sequence[Item]) -> Iterator[Item]:
    """Yield the items, showing on stderr which one is under way."""
    try:
        bar = importlib.import_module("tqdm").tqdm(items, unit="case", dynamic_ncols=True)
    except ImportError:
        yield from _plain(items)
        return
    for item in bar:
        bar.set_description_str(str(item))
        yield item


def write(text: str) -> None:
    """Print to stdout without breaking a progress bar."""
    try:
        importlib.import_module("tqdm").tqdm.write(text)
    except ImportError:
        print(text, flush=True)


def _plain(items: Sequence[Item]) -> Iterator[Item]:
    start = time.monotonic()
    for number, item in enumerate(items, 1):
        print(f"[{number}/{len(items)}, {time.monotonic() - start:.0f} s] {item}", file=sys.stderr, flush=True)
        yield item
