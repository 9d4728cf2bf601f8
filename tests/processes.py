"""Processes that are one group: gloo on the CPU."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from reference import environment

PROGRAM = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import importlib, pathlib, processes
_, module, function, folder, rank, size = sys.argv
processes.member(getattr(importlib.import_module(module), function), pathlib.Path(folder), int(rank), int(size))
"""
RESULT = "result.pt"


def member(function: Callable[[], Any], folder: Path, rank: int, size: int) -> None:
    """One of the processes; what the first one returns is the group's result."""
    # Through a file: a port that was free a moment ago may be taken, and the one process that serves it may go first.
    store = f"file://{folder / 'store'}"
    torch.distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=size)
    try:
        result = function()
        if rank == 0:
            torch.save(result, folder / RESULT)
        torch.distributed.barrier()
    finally:
        torch.distributed.destroy_process_group()


def run_group(function: Callable[[], Any], folder: Path, size: int = 2, timeout: float = 240) -> Any:
    """The result of a test module's `function` in `size` processes, in a `folder` of its own."""
    command = [sys.executable, "-c", PROGRAM, function.__module__, function.__qualname__, str(folder)]
    processes = [
        subprocess.Popen(
            [*command, str(rank), str(size)], env=environment(), cwd=folder, stderr=subprocess.PIPE, text=True
        )
        for rank in range(size)
    ]
    try:
        errors = [process.communicate(timeout=timeout)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0] * size, "\n".join(errors)
    return torch.load(folder / RESULT)
