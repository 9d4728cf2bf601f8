"""Where a record comes from: the machine, the libraries and the source trees."""

from __future__ import annotations

import datetime as dt
import os
import platform
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from convt3d._library import build_info, image_for

if TYPE_CHECKING:
    from .records import HostMeta, Meta


def current_meta() -> Meta:
    """Meta of records measured now on the current CUDA device."""
    return {
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "cudnn": _cudnn_version(),
        "driver": _output_of("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "--id=0")
        or "unknown",
        "date": dt.datetime.now(dt.timezone.utc).date().isoformat(),
        "csrc_tree": source_tree("csrc", "CONVT3D_CSRC_TREE"),
        "python_tree": source_tree("convt3d", "CONVT3D_PYTHON_TREE"),
        "image": image_for(torch.cuda.get_device_capability(), build_info().architectures) or "unknown",
    }


def host_meta() -> HostMeta:
    """Meta of host times that are measured now."""
    return {**current_meta(), "python": platform.python_version(), "processor": _processor()}


def source_tree(folder: str, variable: str) -> str:
    """Git's hash of a source folder: from an environment variable, or from the repository in the working directory.

    ``+changes`` is appended where the folder differs from the commit; ``unknown`` where there is neither.
    """
    if given := os.environ.get(variable):
        return given
    tree = _output_of("git", "rev-parse", "--verify", "--quiet", f"HEAD:{folder}")
    if not tree:
        return "unknown"
    return tree + ("+changes" if _output_of("git", "status", "--porcelain", "--", f":/{folder}") else "")


def _processor() -> str:
    """Its name as Linux tells it, else what Python knows of it."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()


def _cudnn_version() -> str:
    version = torch.backends.cudnn.version()
    if version is None:
        return "none"
    return f"{version // 10000}.{version // 100 % 100}.{version % 100}"


def _output_of(*command: str) -> str:
    """First line that a command prints, or nothing where it is absent or fails."""
    if shutil.which(command[0]) is None:
        return ""
    result = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    lines = result.stdout.splitlines() if result.returncode == 0 else []
    return lines[0].strip() if lines else ""
