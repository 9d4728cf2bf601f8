"""The documentation says what happens: its Python runs on the CPU, and prints what the page shows."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from reference import environment

pytestmark = pytest.mark.one_torch

ROOT = Path(__file__).resolve().parents[1]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMPILES = {"docs/cpp.md"}

# What torchrun sets, for a page that is a script of one process.
ALONE = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "0"}

# Runs the blocks of a page one after another, and prints what each printed.
RUNNER = """
import contextlib, io, json, sys

printed, namespace = [], {"__name__": "page"}
for number, block in enumerate(json.loads(sys.argv[1]), 1):
    with contextlib.redirect_stdout(io.StringIO()) as stdout:
        exec(compile(block, f"block {number}", "exec"), namespace)
    printed.append(stdout.getvalue())
print(json.dumps(printed))
"""


def pages() -> list[str]:
    paths = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [str(path.relative_to(ROOT)) for path in paths if "```python\n" in path.read_text(encoding="utf-8")]


def run(blocks: list[str], folder: Path) -> list[str]:
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", RUNNER, json.dumps(blocks)],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**environment(), **ALONE},
        check=False,
    )
    assert result.returncode == 0, result.stderr
    printed: list[str] = json.loads(result.stdout.splitlines()[-1])
    return printed


def test_there_are_pages() -> None:
    assert {"README.md", "docs/index.md", "docs/convert.md", "docs/precision.md", "docs/cpp.md"} <= set(pages())


@pytest.mark.parametrize("path", sorted((ROOT / "docs").rglob("*.md")), ids=lambda path: str(path.relative_to(ROOT)))
def test_an_index_in_brackets_is_code(path: Path) -> None:
    """The site's strict build takes it for a link to a heading."""
    text = re.sub(r"^(```.*?^```| {4}.*?)$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert re.findall(r"\]\[[^\]]*\]", re.sub(r"`[^`]*`", "", text)) == []


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[pytest.mark.slow] if page in COMPILES else []) for page in pages()]
)
def test_python_of_a_page(page: str, tmp_path: Path) -> None:
    if page in COMPILES and not (shutil.which("g++") or shutil.which("clang++")):
        pytest.skip("AOTInductor needs a C++ compiler")
    fences = FENCE.findall((ROOT / page).read_text(encoding="utf-8"))
    printed = iter(run([text for language, text in fences if language == "python"], tmp_path))
    latest = None
    for language, text in fences:
        if language == "python":
            latest = next(printed)
        elif language == "text" and latest is not None:  # what the block before prints
            assert latest == text
