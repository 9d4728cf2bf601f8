"""No kernel spills registers: what the compiled library says about its machine code, read without a GPU."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from convt3d import _library


@dataclass(frozen=True)
class Resources:
    """One kernel's, on one architecture."""

    architecture: str
    kernel: str  # mangled
    registers: int
    stack_bytes: int  # of a thread: registers that did not fit, and arrays that are indexed at run time
    local_bytes: int


def parse(report: str) -> list[Resources]:
    """The kernels in the output of `cuobjdump --dump-resource-usage`."""
    found = []
    for image in re.split(r"^Fatbin elf code:", report, flags=re.MULTILINE)[1:]:
        architecture = re.search(r"^arch = (\S+)", image, re.MULTILINE)
        assert architecture is not None
        for kernel, usage in re.findall(r"^ *Function (\S+):\s*\n\s*(REG:.*)$", image, re.MULTILINE):
            value = {name: int(number) for name, number in re.findall(r"([A-Z]+):(\d+)", usage)}
            found.append(Resources(architecture[1], kernel, value["REG"], value["STACK"], value["LOCAL"]))
    return found


def spilling(resources: list[Resources]) -> list[str]:
    return [
        f"{kernel.architecture} {kernel.kernel}: {kernel.stack_bytes + kernel.local_bytes} bytes a thread beside "
        f"{kernel.registers} registers"
        for kernel in resources
        if kernel.stack_bytes or kernel.local_bytes
    ]


def cuobjdump() -> str | None:
    """The CUDA toolkit's, or the one that Triton brings along with torch."""
    toolkit = shutil.which("cuobjdump", path="/usr/local/cuda/bin") or shutil.which("cuobjdump")
    triton = importlib.util.find_spec("triton")
    if toolkit is not None or triton is None or triton.origin is None:
        return toolkit
    return shutil.which("cuobjdump", path=str(Path(triton.origin).parent / "backends" / "nvidia" / "bin"))


REPORT = """
Fatbin elf code:
================
arch = sm_90a
code version = [1,8]

Resource usage:
 Common:
  GLOBAL:0
 Function first:
  REG:40 STACK:0 SHARED:0 LOCAL:0 CONSTANT[0]:560 TEXTURE:0 SURFACE:0 SAMPLER:0
 Function second:
  REG:168 STACK:8 SHARED:1024 LOCAL:0 CONSTANT[0]:560 TEXTURE:0 SURFACE:0 SAMPLER:0

Fatbin elf code:
================
arch = sm_80
code version = [1,8]

Resource usage:
 Function first:
  REG:32 STACK:0 SHARED:0 LOCAL:16 CONSTANT[0]:560 TEXTURE:0 SURFACE:0 SAMPLER:0
"""


def test_report_is_understood() -> None:
    resources = parse(REPORT)
    assert resources[:2] == [Resources("sm_90a", "first", 40, 0, 0), Resources("sm_90a", "second", 168, 8, 0)]
    assert spilling(resources) == [
        "sm_90a second: 8 bytes a thread beside 168 registers",
        "sm_80 first: 16 bytes a thread beside 32 registers",
    ]


@pytest.mark.torch_free
def test_no_kernel_spills() -> None:
    architectures = {name for name in _library.build_info().architectures if name.startswith("sm_")}
    if not architectures:
        pytest.skip("needs a build of convt3d with CUDA kernels")
    tool = cuobjdump()
    if tool is None:
        pytest.skip("needs cuobjdump, of the CUDA toolkit or Triton")
    command = [tool, "--dump-resource-usage", str(_library.LIBRARY_PATH)]
    resources = parse(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    # Kernels without instructions of sm_90a alone are compiled for sm_90.
    compiled = {kernel.architecture for kernel in resources if "convt3d_" in kernel.kernel}
    assert architectures <= compiled
    assert {name.rstrip("af") for name in compiled} == {name.rstrip("af") for name in architectures}
    assert not spilling(resources), "\n".join(spilling(resources))
