"""Finds and loads the compiled library, which registers the operators ``torch.ops.convt3d.*``."""

from __future__ import annotations

import ctypes
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

LIBRARY_PATH = Path(__file__).resolve().with_name("_C.abi3.so")
MINIMUM_TORCH = (2, 10)
MINIMUM_CAPABILITY = (7, 5)


@dataclass(frozen=True)
class BuildInfo:
    """What the compiled library says about itself.

    Attributes:
        version: the version of convt3d it was built from.
        torch: the version of torch whose headers it was built with; it runs with every torch from 2.10 on.
        cuda: the CUDA toolkit its kernels were built with, such as ``"13.0"``; None for a CPU-only library.
        architectures: the GPU architectures it has kernels for, such as ``("sm_80", "sm_90a", "compute_90")``;
            ``compute_*`` is code that later GPUs compile when they load it.
        release_architectures: the same of a release of this version.
    """

    version: str
    torch: str
    cuda: str | None
    architectures: tuple[str, ...]
    release_architectures: tuple[str, ...] = ()


def load() -> None:
    """Load the library into this process, once.

    Raises:
        ImportError: torch is older than 2.10, the library file is missing, the operators are already registered by
            another copy of the library, or the loader refuses the file.
    """
    _check_torch_version(torch.__version__)
    loaded = {Path(path).resolve() for path in torch.ops.loaded_libraries}
    if LIBRARY_PATH in loaded:
        return
    if not LIBRARY_PATH.exists():
        raise ImportError(
            f"convt3d: the compiled library {LIBRARY_PATH} is missing; install a convt3d wheel or, in a source "
            "checkout, run `python setup.py build_ext --inplace`"
        )
    # A second registration of the same schemas aborts the process from C++, past any exception handler.
    if torch._C._dispatch_has_kernel("convt3d::conv_transpose3d"):
        others = sorted(str(path) for path in loaded if path.name.startswith("_C.") and path.parent.name == "convt3d")
        raise ImportError(
            f"convt3d: cannot load {LIBRARY_PATH}: the operators torch.ops.convt3d.* are already registered by "
            f"another copy of the library ({', '.join(others) or 'of unknown path'}); use one per process"
        )
    load_library: Callable[[str], None] = torch.ops.load_library
    try:
        load_library(str(LIBRARY_PATH))
    except OSError as error:
        raise ImportError(f"convt3d: cannot load {LIBRARY_PATH} with torch {torch.__version__}: {error}") from error


def library_path() -> Path:
    """The compiled library, for programs that load it without Python: opening it registers `torch.ops.convt3d.*`.

    It needs libtorch 2.10 or later and no Python. A C++ program opens it with `dlopen` before it loads a model that
    was saved with these operators.
    """
    return LIBRARY_PATH


def build_info() -> BuildInfo:
    """Ask the loaded library how it was built."""
    read = ctypes.CDLL(str(LIBRARY_PATH)).convt3d_build_info
    read.restype = ctypes.c_char_p
    facts = dict(line.split("=", 1) for line in read().decode().splitlines())
    return BuildInfo(
        version=facts["version"],
        torch=facts["torch"],
        cuda=facts["cuda"] or None,
        architectures=tuple(facts["architectures"].split()),
        release_architectures=tuple(facts["release_architectures"].split()),
    )


def image_for(capability: tuple[int, int], architectures: Iterable[str]) -> str | None:
    """Which of a library's architectures runs on a GPU: ``"sm_90a"``, say, or ``"compute_80"`` where it compiles PTX.

    None where the library has none for it. The rule is that of csrc/core/device_traits.h.
    """
    image = ctypes.create_string_buffer(32)
    library = ctypes.CDLL(str(LIBRARY_PATH))
    library.convt3d_image_for(*capability, " ".join(architectures).encode(), image, len(image))
    return image.value.decode() or None


def why_not_on(capability: tuple[int, int]) -> str:
    """Why this build's kernels do not run on GPUs of a compute capability; empty where they do."""
    info = build_info()
    if info.cuda is None:
        return "this build of convt3d is for the CPU only"
    if tuple(capability) < MINIMUM_CAPABILITY:
        return "no build of convt3d has kernels for GPUs before compute capability {}.{}".format(*MINIMUM_CAPABILITY)
    if image_for(capability, info.architectures) is None:
        return (
            f"this build of convt3d has kernels for {' '.join(info.architectures)}, which do not run there: "
            "set CONVT3D_CUDA_ARCHS and build again"
        )
    return ""


def default_device() -> str:
    """``"cuda"`` where there is a GPU and the library has kernels for it, else ``"cpu"``; warns if it has none."""
    if not torch.cuda.is_available():
        return "cpu"
    major, minor = torch.cuda.get_device_capability()
    if reason := why_not_on((major, minor)):
        warnings.warn(f"there is a GPU of compute capability {major}.{minor}, but {reason}", stacklevel=2)
        return "cpu"
    return "cuda"


def _check_torch_version(version: str) -> None:
    major, minor = version.split(".")[:2]
    if (int(major), int(minor)) < MINIMUM_TORCH:
        minimum = ".".join(map(str, MINIMUM_TORCH))
        raise ImportError(f"convt3d: torch must be {minimum} or later, got {version}")
