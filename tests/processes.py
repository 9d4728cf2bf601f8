"""Processes that are one group: gloo on the CPU, NCCL with a GPU for each."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from reference import environment

# It ends without the interpreter's own end: what still holds a group of gloo then destroys threads at work, seldom
# (github.com/pytorch/pytorch/pull/179291). A failure has raised before.
PROGRAM = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import importlib, os, pathlib, processes
_, module, function, folder, device, rank, size = sys.argv
processes.member(getattr(importlib.import_module(module), function), pathlib.Path(folder), device, int(rank), int(size))
sys.stdout.flush()
sys.stderr.flush()
os._exit(0)
"""
RESULT = "result.pt"


def member(function: Callable[[str], Any], folder: Path, device: str, rank: int, size: int) -> None:
    """One of the processes; what the first one returns is the group's result."""
    # Through a file: a port that was free a moment ago may be taken, and the one process that serves it may go first.
    store = f"file://{folder / 'store'}"
    if device == "cuda":
        torch.cuda.set_device(rank)
    backend = "nccl" if device == "cuda" else "gloo"
    torch.distributed.init_process_group(backend, init_method=store, rank=rank, world_size=size)
    try:
        result = function(device)
        if rank == 0:
            torch.save(result, folder / RESULT)
        torch.distributed.barrier()
    finally:
        torch.distributed.destroy_process_group()


def run_group(function: Callable[[str], Any], device: str, folder: Path, size: int = 2, timeout: float = 600) -> Any:
    """The result of a test module's `function` in `size` processes, given the device, in a `folder` of its own."""
    if device == "cuda" and torch.cuda.device_count() < size:
        pytest.skip(f"needs {size} GPUs")
    command = [sys.executable, "-c", PROGRAM, function.__module__, function.__qualname__, str(folder), device]
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
    return torch.load(folder / RESULT, map_location="cpu")
