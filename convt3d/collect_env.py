"""What an issue report needs: `python -m convt3d.collect_env`.

Prints versions, GPUs, the library that was loaded and the result of a small problem on every kind of device. The exit
code is 0 where all is well and 1 where something is wrong, which the last line then says.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import torch

Fact = tuple[str, str]

# Relative norm error that is still right, float32 rounded to TF32 included.
_TOLERANCE = 1e-3


def _package() -> Iterator[Fact]:
    from convt3d import __version__, _library

    yield "convt3d", __version__
    yield "library", str(_library.LIBRARY_PATH)
    _library.load()  # where the import of the package has failed to, this says why
    info = _library.build_info()
    yield "built", f"from version {info.version} with torch {info.torch}, CUDA {info.cuda or 'none (CPU only)'}"
    yield "architectures", " ".join(info.architectures) or "none (CPU only)"


def _system() -> Iterator[Fact]:
    yield "Python", f"{platform.python_version()} ({sys.executable})"
    yield "system", f"{platform.platform()}, {_distribution()}"
    yield "CPU", platform.processor() or platform.machine()


def _torch() -> Iterator[Fact]:
    import torch

    cudnn = torch.backends.cudnn.version()
    yield "torch", f"{torch.__version__} ({Path(torch.__file__).parent})"
    yield "torch's CUDA", f"{torch.version.cuda or 'none'}, cuDNN {cudnn or 'none'}"
    yield "driver", _first_line("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "--id=0")
    for index in range(torch.cuda.device_count()):
        gpu = torch.cuda.get_device_properties(index)
        yield (
            f"GPU {index}",
            f"{gpu.name}, compute capability {gpu.major}.{gpu.minor}, {gpu.total_memory / 2**30:.0f} GiB",
        )
    if torch.cuda.device_count() == 0:
        yield "GPU", "none seen by torch"


def _self_tests() -> Iterator[Fact]:
    """One problem, whose parameters differ in every dimension, on each kind of device, forward and backward."""
    import torch

    from convt3d import _library

    yield "self-test, cpu", _error_on("cpu", torch.float32)
    if torch.cuda.is_available() and _library.build_info().cuda is not None:
        for dtype in (torch.float32, torch.float16):
            yield f"self-test, cuda, {str(dtype).removeprefix('torch.')}", _error_on("cuda", dtype)


def _error_on(device: str, dtype: torch.dtype) -> str:
    import torch
    import torch.nn.functional as F

    import convt3d

    generator = torch.Generator().manual_seed(0)
    shapes = ((2, 4, 3, 4, 5), (4, 3, 3, 2, 4), (6,))
    parameters: dict[str, Any] = {"stride": (2, 1, 3), "padding": (1, 0, 2), "output_padding": (1, 0, 2), "groups": 2}
    exact = [torch.randn(shape, generator=generator).to(dtype).double().requires_grad_() for shape in shapes]
    tensors = [tensor.detach().to(device, dtype).requires_grad_() for tensor in exact]
    results = []
    for function, (input, weight, bias) in ((convt3d.conv_transpose3d, tensors), (F.conv_transpose3d, exact)):
        output = function(input, weight, bias, **parameters)
        output.square().sum().backward()
        results.append([output.detach(), *(tensor.grad for tensor in (input, weight, bias))])
    worst = 0.0
    for name, ours, expected in zip(("output", "input", "weight", "bias"), *results, strict=True):
        error = float((ours.cpu().double() - expected).norm() / expected.norm())
        # not written as `error > tolerance`, which is false for NaN
        limit = _TOLERANCE if dtype == torch.float32 else 10 * _TOLERANCE
        if not error <= limit:
            what = name if name == "output" else f"gradient of {name}"
            raise RuntimeError(
                f"{what} on {device} in {dtype} is wrong: relative error {error:.1e}, at most {limit:.0e}"
            )
        worst = max(worst, error)
    return f"passed (relative error {worst:.0e})"


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "unknown distribution")
    except OSError:
        return "unknown distribution"


def _first_line(*command: str) -> str:
    if shutil.which(command[0]) is None:
        return f"no {command[0]}"
    result = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    lines = (result.stdout + result.stderr).splitlines() or [f"{command[0]} says nothing"]
    return lines[0].strip()


def _warnings() -> Iterator[Fact]:
    """What is no error and yet explains many."""
    import torch

    from convt3d import _library

    info = _library.build_info()
    if not torch.cuda.is_available():
        return
    if info.cuda is None:
        text = "torch sees a GPU, but this build of convt3d is for the CPU only: tensors on the GPU raise an error"
        yield "warning", text
        return
    for index in range(torch.cuda.device_count()):
        major, minor = torch.cuda.get_device_capability(index)
        if reason := _library.why_not_on((major, minor)):
            yield "warning", f"GPU {index} has compute capability {major}.{minor}; {reason}"


def main() -> int:
    """Print everything that works, and what does not; the exit code of the process."""
    failure = ""
    sections: tuple[Callable[[], Iterator[Fact]], ...] = (_system, _torch, _package, _warnings, _self_tests)
    for section in sections:
        try:
            for name, value in section():
                print(f"{name + ':':26}{value}")
        except Exception as error:  # a broken installation fails in any way
            failure = f"{type(error).__name__}: {error}"
            traceback.print_exc()
            break
    if failure:
        print(f"{'FAILED:':26}{failure}")
    return 1 if failure else 0


if __name__ == "__main__":
    sys.exit(main())
