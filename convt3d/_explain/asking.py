"""Calls that ask for what the costs would not choose: for tests and measurements."""

from __future__ import annotations

import contextlib
import ctypes
from typing import TYPE_CHECKING

from convt3d._explain.plan import ENGINES
from convt3d._library import LIBRARY_PATH

if TYPE_CHECKING:
    from collections.abc import Iterator

NORM_WAYS = ("passes", "epilogue", "twice")  # csrc/planning/norm_task.h


@contextlib.contextmanager
def only_engine(engine: str | None, candidate: int = 0) -> Iterator[None]:
    """Calls on a GPU, of every thread, ask this one of `ENGINES` alone; a call for which it has no plan fails.

    They run its plan with that number (`candidate_costs`). None: all engines are asked, and a backward runs that one of
    its own plans. For tests and measurements. Needs a library with CUDA kernels.
    """
    ask = ctypes.CDLL(str(LIBRARY_PATH)).convt3d_ask_engine
    ask(-1 if engine is None else ENGINES.index(engine), candidate)
    try:
        yield
    finally:
        ask(-1, 0)


@contextlib.contextmanager
def only_norm_way(way: str) -> Iterator[None]:
    """Norms behind forwards on a GPU, of every thread, are computed in this one of `NORM_WAYS`, where their plans can.

    For tests and measurements. Needs a library with CUDA kernels.
    """
    ask = ctypes.CDLL(str(LIBRARY_PATH)).convt3d_ask_norm_way
    ask(NORM_WAYS.index(way))
    try:
        yield
    finally:
        ask(-1)
