"""Which machine code a build makes of which file: scripts/architectures.py."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))
import architectures  # noqa: E402  # scripts/architectures.py

CSRC = ROOT / "csrc"
RELEASE = architectures.RELEASE_ARCHS.split(";")


@pytest.mark.parametrize(
    ("archs", "unit", "flags"),
    [
        (
            RELEASE,
            "mma_backward_float16",
            ["75,code=[sm_75]", "80,code=[sm_80,sm_86]", "90,code=[sm_90,sm_100,sm_120,compute_90]"],
        ),
        (
            RELEASE,
            "mma_correlation_float16",
            ["75,code=[sm_75]", "80,code=[sm_80,sm_86]", "90,code=[sm_90,sm_100,compute_90]", "120,code=[sm_120]"],
        ),
        (
            RELEASE,
            "simt_correlation_float32",
            [
                "75,code=[sm_75]",
                "80,code=[sm_80]",
                "86,code=[sm_86]",
                "90,code=[sm_90,compute_90]",
                "100,code=[sm_100]",
                "120,code=[sm_120]",
            ],
        ),
        (
            RELEASE,
            "wgmma_forward_float16",
            ["75,code=[sm_75,sm_80,sm_86,sm_100,sm_120,compute_75]", "90a,code=[sm_90a]"],
        ),
        (["90a"], "wgmma_forward_float16", ["90a,code=[sm_90a]"]),
        (["90a"], "api", ["90,code=[sm_90]"]),
        (["80+PTX"], "wgmma_forward_float16", ["80,code=[sm_80,compute_80]"]),
        (["86+PTX"], "api", ["80,code=[sm_86,compute_80]"]),
        (["100f"], "api", ["90,code=[sm_100]"]),
    ],
)
def test_flags(archs: list[str], unit: str, flags: list[str]) -> None:
    assert architectures.gencode_flags(archs, unit) == [f"-gencode=arch=compute_{flag}" for flag in flags]


@pytest.mark.parametrize(
    ("archs", "names"),
    [
        (RELEASE, "sm_75 sm_80 sm_86 sm_90a sm_100 sm_120 compute_90"),
        (["80+PTX"], "sm_80 compute_80"),
        (["86", "120+PTX", "90a+PTX"], "sm_86 sm_120 sm_90a compute_90"),
    ],
)
def test_names(archs: list[str], names: str) -> None:
    assert architectures.arch_names(archs) == names


@pytest.mark.parametrize("number", ["70", "8.6", "native", ""])
def test_what_is_no_architecture(number: str) -> None:
    with pytest.raises(ValueError, match=f"an architecture must be 75 or later, .* got '{number}'"):
        architectures.gencode_flags(["80", number], "api")


def _included(path: Path, seen: set[Path]) -> set[Path]:
    """The files of csrc that a file includes, with itself."""
    if path not in seen and path.exists():
        seen.add(path)
        for name in re.findall(r'^#include "(\S+)"', path.read_text(encoding="utf-8"), flags=re.MULTILINE):
            _included(CSRC / name, seen)
    return seen


def test_units_that_depend_on_the_very_architecture_have_ptx_of_each() -> None:
    """All other code asks for levels alone: whether it is for at least 8.0, at least 9.0."""
    levels = {10 * level for level in architectures.PTX_LEVELS}
    dependent = set()
    for path in CSRC.rglob("*.cu*"):
        text = path.read_text(encoding="utf-8")
        asked = re.findall(r"__CUDA_ARCH__ *(==|!=|<=|>=|<|>) *(\d+)", text)
        if any(relation not in ("<", ">=") or int(number) not in levels for relation, number in asked):
            dependent.add(path)
    assert dependent
    units = {path.stem for path in CSRC.rglob("*.cu") if _included(path, set()) & dependent}
    numbers = architectures.numbers_of(RELEASE)
    with_each = {
        path.stem
        for path in CSRC.rglob("*.cu")
        if all(architectures.ptx_level(number, path.stem) == number.rstrip("a") for number in numbers)
    }
    assert units == with_each
