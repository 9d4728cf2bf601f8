"""Checks that a release is what its tag says, and that a wheel has kernels for all architectures of a release.

python scripts/check_release.py --tag v0.1.0   # tag, convt3d/_version.py and the changelog agree
python scripts/check_release.py --installed    # the installed package has this version and all architectures
python scripts/check_release.py --installed --cuda 12.9    # and was built with this release of CUDA

The exit code is 1 where something differs, which is then printed.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from architectures import RELEASE_ARCHS, arch_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from convt3d._library import BuildInfo

ROOT = Path(__file__).resolve().parents[1]


def assigned(path: Path, name: str) -> str:
    """The string that a Python file assigns to `name`, read without running it."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == [name]:
            return str(ast.literal_eval(node.value))
    raise SystemExit(f"{path} does not assign {name}")


def differences_of_tag(root: Path, tag: str) -> Iterator[str]:
    """Where the tag and the sources disagree about the version."""
    version = assigned(root / "convt3d" / "_version.py", "__version__")
    if tag != f"v{version}":
        yield f"the tag must be v{version}, as convt3d/_version.py says, got {tag}"
    headings = [line for line in (root / "CHANGELOG.md").read_text(encoding="utf-8").splitlines() if line[:3] == "## "]
    newest = headings[0] if headings else "nothing"
    if not newest.startswith(f"## [{version}]") or "unreleased" in newest:
        yield f"CHANGELOG.md must begin with version {version} and its date, got {newest!r}"


def differences_of_installation(root: Path, info: BuildInfo, cuda: str | None = None) -> Iterator[str]:
    """Where an installed package that was built so is not what the sources release, or of another CUDA than given."""
    expected_version = assigned(root / "convt3d" / "_version.py", "__version__")
    if info.version != expected_version:
        yield f"the installed version must be {expected_version}, got {info.version}"
    missing = [name for name in arch_names(RELEASE_ARCHS.split(";")).split() if name not in info.architectures]
    if missing:
        built = " ".join(info.architectures) or "none"
        yield f"the library must have kernels for {' '.join(missing)}, too, got {built}"
    if cuda is not None and info.cuda != cuda:
        yield f"the library must be built with CUDA {cuda}, got {info.cuda}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what differs; the exit code of the process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tag", help="of the release, such as v0.1.0")
    parser.add_argument("--installed", action="store_true", help="check the package that this Python imports")
    parser.add_argument("--cuda", help="with --installed: the release of CUDA that it must be built with, such as 13.0")
    options = parser.parse_args(arguments)
    differences: list[str] = []
    if options.tag is not None:
        differences += differences_of_tag(ROOT, options.tag)
    if options.installed:
        info = importlib.import_module("convt3d._library").build_info()
        differences += differences_of_installation(ROOT, info, options.cuda)
    for difference in differences:
        print(difference, file=sys.stderr)
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
