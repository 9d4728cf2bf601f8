"""What a planted bug is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Bug:
    """`old`, which a file has once, becomes `new`, where BUG is true while the bug is at work."""

    name: str
    file: str  # of csrc/
    old: str
    new: str
    options: str = "--engine wgmma"  # the emulator's, of the cases that should find it
