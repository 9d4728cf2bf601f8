"""Plants bugs in the kernels, one for each way of loading and storing, and sees whether the emulator finds each.

    python tests/emulator/planted_bugs.py [--seconds S] [NAME ...]

All bugs are compiled at once, into a copy of csrc/; which one is at work, a run learns from its environment.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import build
from bugs import BUGS

SWITCH = """#pragma once
#include <cstdlib>
inline bool planted(int number) {
  static const char* const chosen = std::getenv("EMULATOR_PLANTED_BUG");
  static const int known = chosen == nullptr ? -1 : std::atoi(chosen);
  return known == number;
}
"""


def copied_tree(folder: Path) -> Path:
    """A copy of the sources with all bugs in it, each behind its switch."""
    root = Path(__file__).resolve().parents[2]
    shutil.copytree(root / "csrc", folder / "csrc")
    shutil.copytree(root / "tests" / "emulator", folder / "tests" / "emulator")
    csrc = folder / "csrc"
    (csrc / "planted.h").write_text(SWITCH, encoding="utf-8")
    for number, bug in enumerate(BUGS):
        path = csrc / bug.file
        text = path.read_text(encoding="utf-8")
        if text.count(bug.old) != 1:
            raise SystemExit(f"{bug.name}: {bug.file} has {text.count(bug.old)} times {bug.old!r}, not once")
        text = text.replace(bug.old, bug.new.replace("BUG", f"planted({number})"))
        include = '#include "planted.h"\n'
        if include not in text:
            once = "#pragma once\n"
            text = text.replace(once, once + include, 1) if once in text else include + text
        path.write_text(text, encoding="utf-8")
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="of bugs; default: all")
    parser.add_argument("--seconds", default="60", help="for each bug")
    parser.add_argument("--folder", type=Path, default=build.cache(), help="where what is compiled is kept")
    arguments = parser.parse_args()
    tree = arguments.folder / "planted"  # always the same: what is compiled is found again
    shutil.rmtree(tree, ignore_errors=True)
    command = [sys.executable, str(copied_tree(tree) / "tests" / "emulator" / "build.py")]
    command += ["--folder", str(arguments.folder)]
    program = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    missed = []
    for number, bug in enumerate(BUGS):
        if arguments.names and bug.name not in arguments.names:
            continue
        begin = time.monotonic()
        options = [*bug.options.split(), "--seconds", arguments.seconds, "--failures", "1"]
        run = subprocess.run(
            [program, *options],
            capture_output=True,
            text=True,
            env={**os.environ, "EMULATOR_PLANTED_BUG": str(number)},
        )
        found = run.returncode == 1
        report = next((line for line in run.stdout.splitlines() if line.startswith("FAILED")), "not found")
        print(f"{bug.name} ({bug.file}): {time.monotonic() - begin:.1f} s, {report}", flush=True)
        if not found:
            missed.append(bug.name)
    if missed:
        raise SystemExit(f"not found: {', '.join(missed)}")


if __name__ == "__main__":
    main()
